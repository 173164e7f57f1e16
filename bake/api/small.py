"""Small: what an image holds beside weights, kept in memory on its way to a registry, where no layout is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from bake.digest import Digest
from bake.errors import ImageError
from bake.image import Descriptor

if TYPE_CHECKING:
    from collections.abc import Iterable


class Adds(Protocol):
    """Where small layers are put: a `Layout`, or `SmallBlobs`."""

    def add_all(self, chunks: Iterable[bytes], *, media_type: str) -> Descriptor: ...


class SmallBlobs:
    """Contents by digest."""

    def __init__(self) -> None:
        self._contents: dict[Digest, bytes] = {}

    def add_all(self, chunks: Iterable[bytes], *, media_type: str) -> Descriptor:
        return self.add(b"".join(chunks), media_type=media_type)

    def add(self, content: bytes, *, media_type: str) -> Descriptor:
        digest = Digest.of(content)
        self._contents[digest] = content
        return Descriptor(media_type=media_type, digest=digest, size=len(content))

    def read(self, digest: Digest) -> bytes:
        """Raises ImageError where there is no such blob."""
        if digest not in self._contents:
            raise ImageError(f"blob {digest}: missing")
        return self._contents[digest]
