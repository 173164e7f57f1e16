"""Pace: how much of a blob is sent at once, and whether a registry's word for how much it has is believed. No I/O."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bake.registry.profiles import Profile

_RANGE = re.compile(r"(?:bytes=)?0-(\d+)")

_SMALLEST = 1 << 20
"""Bytes of a chunk below which it is not made smaller."""


@dataclass(slots=True)
class Pace:
    """A blob goes whole at first, unless it is too large for that: one request is fastest, and every registry takes it.

    `least` is the registry's OCI-Chunk-Min-Length. `resumable` turns False where the registry's word cannot be right.
    """

    size: int
    whole: bool
    fits_whole: bool
    chunk: int
    resumable: bool
    may_chunk: bool = True
    least: int = 0

    @classmethod
    def of(cls, profile: Profile, size: int) -> Pace:
        fits = profile.put_bytes is None or size <= profile.put_bytes
        return cls(size=size, whole=fits, fits_whole=fits, chunk=profile.chunk_bytes, resumable=profile.resumable)

    @property
    def at_once(self) -> int:
        """Bytes of the next chunk, unless the blob ends before."""
        return max(self.chunk, self.least)

    def after_break(self) -> None:
        """What broke goes in smaller pieces, so that less is lost should it break again."""
        if not self.whole or (self.may_chunk and self.resumable):
            self.smaller()

    def smaller(self) -> bool:
        """Send less at once; returns whether that is possible."""
        if self.whole:
            self.whole = not self.may_chunk
            return self.may_chunk
        floor = max(self.least, _SMALLEST)
        if self.chunk <= floor:
            return False
        self.chunk = max(self.chunk // 4, floor)
        return True

    def without_chunks(self) -> None:
        self.may_chunk, self.whole = False, True

    def distrust(self) -> None:
        """Believe no position any more: whole if it may be, for then there is none to be wrong about."""
        self.resumable, self.whole = False, self.fits_whole or not self.may_chunk


def position_in(header: str) -> int | None:
    """How many bytes a Range says there are. `0-0` stands for none: registries answer so before the first byte."""
    found = _RANGE.fullmatch(header.strip())
    if found is None:
        return None
    return int(found[1]) + 1 if int(found[1]) else 0
