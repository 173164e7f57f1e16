"""Snapshot: a repository's files at one commit, wherever they are kept. The role that every source plays.

A source lists paths and sizes at once, and hands out bytes one file at a time; it decides nothing about them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Protocol

if TYPE_CHECKING:
    from bake.digest import Digest


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """One file as its source lists it. `digest` is known without reading where the source publishes a sha256."""

    path: str
    size: int
    digest: Digest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """A local file's identity and age, from one stat: while it stays equal, so do the file's bytes.

    Times are nanoseconds since the epoch. ctime is there because a program can set mtime back, and not ctime.
    """

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int


class Snapshot(Protocol):
    """The files of one model, to be read. The caller closes the stream that `open` returns."""

    def open(self, path: str) -> BinaryIO: ...
