"""Digest: the sha256 by which every file, layer and image is named, and the reader that checks one.

The text form is that of the OCI image specification (descriptor.md, "Digests"): `sha256:` and 64 lower-case hex digits.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Callable

_HEX = re.compile(r"[0-9a-f]{64}")

CHUNK = 1 << 20
"""Bytes read at a time: enough that hashing releases the GIL for long, few enough to stay in a core's own cache."""


@dataclass(frozen=True, slots=True, order=True)
class Digest:
    """A sha256 digest; `str()` gives the `sha256:…` form."""

    hex: str

    @classmethod
    def parse(cls, text: str) -> Digest:
        """Read `sha256:<64 hex>`. Raises ValueError with what was found."""
        algorithm, colon, value = text.partition(":")
        if not colon or algorithm != "sha256" or not _HEX.fullmatch(value):
            raise ValueError(f"expected sha256:<64 lower-case hex digits>, found {text!r}")
        return cls(value)

    @classmethod
    def parse_hex(cls, text: str) -> Digest:
        """Read the bare 64 hex digits, as sha256sum prints them. Raises ValueError with what was found."""
        if not _HEX.fullmatch(text):
            raise ValueError(f"expected 64 lower-case hex digits, found {text!r}")
        return cls(text)

    @classmethod
    def of(cls, content: bytes) -> Digest:
        return cls(hashlib.sha256(content).hexdigest())

    def __str__(self) -> str:
        return f"sha256:{self.hex}"


def read_into(stream: BinaryIO, buffer: memoryview) -> int:
    """Fill a buffer from a stream; returns the number of bytes read, 0 at the end."""
    return stream.readinto(buffer) or 0  # type: ignore[attr-defined] # typing.BinaryIO leaves readinto out


def stream_digest(stream: BinaryIO, *, advance: Callable[[int], object] = lambda _: None) -> tuple[Digest, int]:
    """Hash a stream to its end; returns its digest and its size in bytes. Memory does not grow with the stream."""
    hasher = hashlib.sha256()
    buffer = memoryview(bytearray(CHUNK))
    size = 0
    while count := read_into(stream, buffer):
        hasher.update(buffer[:count])
        size += count
        advance(count)
    return Digest(hasher.hexdigest()), size
