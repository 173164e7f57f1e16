"""A token server without a network: what it was asked, and the answers that it gives in turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bake.registry.answer import Answer

if TYPE_CHECKING:
    from collections.abc import Mapping


class TokenServer:
    def __init__(self, *bodies: bytes) -> None:
        self.asked: list[tuple[str, str]] = []
        self._bodies = list(bodies)

    def __call__(self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None = None) -> Answer:
        self.asked.append((method, url))
        return Answer(status=200, headers={}, body=self._bodies.pop(0), url=url)
