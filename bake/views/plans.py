"""What a build would do, as people and programs read it: `plan`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bake.units import count_text, size_text
from bake.views.pushes import push_document, push_lines
from bake.views.table import DIGEST_SHOWN, columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bake.api import Forecast


def plan_lines(forecast: Forecast) -> Iterator[str]:
    base = forecast.plan.base
    yield f"{forecast.plan.id} -> {forecast.output.shown}"
    if base is None:
        yield "base     scratch: an image of weights alone"
    else:
        size = size_text(forecast.base) if forecast.base is not None else "size not known here"
        yield f"base     {base.image}{f'@{base.digest}' if base.digest else ''} ({size})"
    if forecast.push is not None:
        yield from push_lines(forecast.push)
        return
    yield from (f"  {line}" for line in columns(layer_rows(forecast), right=frozenset({0, 1})))
    total = size_text(forecast.size + (forecast.base or 0))
    layers = count_text(len(forecast.layers), "layer")
    yield f"total    {total} in {layers}{' on the base' if base else ''}, and a small one for record and entrypoint"
    to_do = {"fetch": forecast.fetch, "read": forecast.read, "write": forecast.write}
    yield f"to do    {', '.join(f'{verb} {size_text(size)}' for verb, size in to_do.items())}"


def plan_document(forecast: Forecast) -> dict[str, Any]:
    base = forecast.plan.base
    return {
        "model": str(forecast.plan.id),
        "output": str(forecast.output),
        "base": {"name": base.name, "image": base.image, "digest": str(base.digest) if base.digest else None}
        if base
        else None,
        "base_size": forecast.base,
        "size": forecast.size,
        "fetch": forecast.fetch,
        "read": forecast.read,
        "write": forecast.write,
        "layers": layer_documents(forecast),
        "push": push_document(forecast.push) if forecast.push else None,
    }


def layer_rows(forecast: Forecast) -> list[tuple[str, ...]]:
    return [
        (
            f"{number}",
            size_text(item.plan.size),
            str(item.diff_id)[:DIGEST_SHOWN] if item.diff_id else "(not packed yet)",
            item.state,
            _paths([file.path for file in item.plan.files]),
        )
        for number, item in enumerate(forecast.layers, start=1)
    ]


def layer_documents(forecast: Forecast) -> list[dict[str, Any]]:
    return [
        {
            "diff_id": str(item.diff_id) if item.diff_id else None,
            "size": item.plan.size,
            "files": [item.plan.target(file) for file in item.plan.files],
            "state": item.state,
            "fetch": item.fetch,
        }
        for item in forecast.layers
    ]


def _paths(paths: Sequence[str]) -> str:
    return paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
