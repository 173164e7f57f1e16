"""Tree: the files of one model, wherever they lie, as verify walks them. Here a folder; on the host, also image layers.

A tree never raises while it is listed: what cannot be listed becomes an `Entry` of kind `other` that says why.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

Kind = Literal["file", "link", "other"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One name in a tree: `size` in bytes, `mode` the permission bits alone.

    A `link` is one that leads to no file of this tree; a link that does is a `file`, with its target's size and mode.
    `note` says what a `link` or an `other` is, with its article: "a named pipe".
    """

    path: str
    size: int
    mode: int
    kind: Kind
    note: str = ""


class Tree(Protocol):
    """The files of one model; folders are not entries, unless they cannot be listed."""

    def entries(self) -> Mapping[str, Entry]:
        """Every entry by its path below the model's folder, with forward slashes. Empty when the folder is absent."""
        ...

    def open(self, path: str) -> BinaryIO:
        """A seekable stream that supports `readinto`, for an entry of kind `file`. The caller closes it."""
        ...


@dataclass(frozen=True, slots=True)
class FolderTree:
    """A folder on disk. Links that lead out of it are told, never followed."""

    root: Path

    def entries(self) -> dict[str, Entry]:
        return {entry.path: entry for entry in self._walk()}

    def open(self, path: str) -> BinaryIO:
        return (self.root / path).open("rb", buffering=0)

    def _walk(self) -> Iterator[Entry]:
        folders = [""]
        while folders:
            folder = folders.pop()
            try:
                children = list(os.scandir(self.root / folder))
            except OSError as error:
                if folder or not isinstance(error, FileNotFoundError):
                    yield _unlistable(folder or ".", error)
                continue
            for child in children:
                path = f"{folder}/{child.name}" if folder else child.name
                if child.is_dir(follow_symlinks=False):
                    folders.append(path)
                else:
                    yield self._entry(path, child)

    def _entry(self, path: str, child: os.DirEntry[str]) -> Entry:
        try:
            if child.is_symlink():
                return self._link(path, child)
            return _entry(path, child.stat(follow_symlinks=False))
        except OSError as error:
            return Entry(path=path, size=0, mode=0, kind="other", note=f"a name without a file: {error.strerror}")

    def _link(self, path: str, child: os.DirEntry[str]) -> Entry:
        target = (self.root / path).readlink()
        try:
            entry = _entry(path, child.stat())
        except OSError as error:  # dangling, a loop, or behind a folder that may not be entered
            return _dead_link(path, f"a link to {target}: {error.strerror}")
        if entry.kind != "file":
            return _dead_link(path, f"a link to {target}, {entry.note}")
        if not (self.root / path).resolve().is_relative_to(self.root.resolve()):
            return _dead_link(path, f"a link to {target}, out of the model's folder")
        return entry


def _entry(path: str, status: os.stat_result) -> Entry:
    mode = stat.S_IMODE(status.st_mode)
    if stat.S_ISREG(status.st_mode):
        return Entry(path=path, size=status.st_size, mode=mode, kind="file")
    return Entry(path=path, size=0, mode=mode, kind="other", note=_NOTES.get(stat.S_IFMT(status.st_mode), "a device"))


_NOTES = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket"}


def _dead_link(path: str, note: str) -> Entry:
    return Entry(path=path, size=0, mode=0, kind="link", note=note)


def _unlistable(path: str, error: OSError) -> Entry:
    return Entry(path=path, size=0, mode=0, kind="other", note=f"a folder that cannot be listed: {error.strerror}")
