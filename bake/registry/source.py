"""Source: where a blob's bytes are read from when it is pushed. It can be opened again at any byte."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import BinaryIO

from bake.digest import CHUNK

Source = Callable[[int], Iterator[bytes]]
"""The blob's bytes from an offset to its end, in pieces of any size. Called anew each time that an upload goes on."""


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
