"""The store as people and programs read of it: `cache`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bake.units import size_text
from bake.views.table import columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bake.store import Usage


def cache_lines(usage: Sequence[Usage], *, root: str) -> Iterator[str]:
    yield root
    rows = [
        (
            item.kind,
            f"{item.count:,}",
            size_text(item.size),
            f"{size_text(item.shared)} of it also in an image layout" if item.shared else "",
        )
        for item in usage
    ]
    yield from (f"  {line}" for line in columns(rows, right=frozenset({1, 2})))


def cache_document(usage: Sequence[Usage], *, root: str) -> dict[str, Any]:
    return {
        "path": root,
        "kinds": {item.kind: {"count": item.count, "size": item.size, "shared": item.shared} for item in usage},
    }
