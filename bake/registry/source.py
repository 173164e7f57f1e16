"""Source: where a blob's bytes are read from when it is pushed. It can be opened again at any byte."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, Protocol

from bake.digest import CHUNK, Digest

Source = Callable[[int], Iterator[bytes]]
"""The blob's bytes from an offset to its end, in pieces of any size. Called anew each time that an upload goes on."""


class Unnamed(Protocol):
    """A source of `size` bytes whose digest is known once it was read from its start to its end, and then for good.

    What it gives after an offset must belong to what it gave before: the digest is that of the two together.
    """

    @property
    def size(self) -> int: ...

    @property
    def digest(self) -> Digest | None: ...

    def __call__(self, offset: int, /) -> Iterator[bytes]: ...


@dataclass(frozen=True, slots=True)
class Named:
    """A source whose digest is known beforehand."""

    source: Source
    size: int
    digest: Digest

    def __call__(self, offset: int, /) -> Iterator[bytes]:
        return self.source(offset)


def reopened(opened: Callable[[], BinaryIO]) -> Source:
    """The source of a file that can be sought in: `reopened(lambda: layout.open(digest))`."""

    def read(offset: int) -> Iterator[bytes]:
        with opened() as stream:
            stream.seek(offset)
            while piece := stream.read(CHUNK):
                yield piece

    return read


def in_memory(content: bytes) -> Source:
    """The source of a small blob, such as an image's config."""
    return lambda offset: iter((content[offset:],) if offset < len(content) else ())
