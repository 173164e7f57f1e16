"""Folder: a model that lies on this machine, named `dir://path`.

What a folder lists and what it hands out are two questions. Listing never fails for one file's sake, because that file
may be one that is left out; `check` and `open` refuse whatever is not a plain, readable file inside the folder. A link
to a file inside the folder is followed, and is a plain file from there on.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, BinaryIO

from bake.errors import SourceError
from bake.select import Excluded, check_path
from bake.snapshot import Fingerprint, SourceFile

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_HUB_CACHE = re.compile(r"/(?:models--(?P<repo_id>[^/]+)/)?blobs/[^/]+$")
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # not blocking: a pipe must not hold us
_KINDS = (
    (stat.S_ISDIR, "a folder, where a file is expected"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISBLK, "a block device"),
    (stat.S_ISCHR, "a character device"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fault:
    """Why one file cannot be used: `what` is read after its path, `hint` says what to do where that is known."""

    path: str
    what: str
    hint: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Walk:
    files: tuple[SourceFile, ...]
    skipped: tuple[Excluded, ...]


@dataclass(frozen=True)
class FolderSnapshot:
    """The files below `root`. The folder is walked once, when its files are first asked for."""

    root: Path

    def files(self) -> tuple[SourceFile, ...]:
        """Every file outside hidden folders, sorted by path; the size of one that cannot be used is 0.

        Raises SourceError if the root is missing, is no folder, cannot be listed or holds no file.
        """
        return self._walk.files

    def skipped(self) -> tuple[Excluded, ...]:
        """The hidden folders, which are not looked into."""
        return self._walk.skipped

    def check(self, kept: Iterable[SourceFile]) -> None:
        """Open each of the files once. Raises one SourceError that names every file that cannot be used, and why."""
        faults: list[_Fault] = []
        for file in kept:
            opened = self._open(file.path)
            if isinstance(opened, _Fault):
                faults.append(opened)
            else:
                os.close(opened)
        if faults:
            raise _error(self.root, faults)

    def open(self, path: str) -> BinaryIO:
        """The file's bytes, unbuffered. Raises SourceError if it is not a plain, readable file inside the folder."""
        opened = self._open(path)
        if isinstance(opened, _Fault):
            raise _error(self.root, [opened])
        os.set_blocking(opened, True)
        return os.fdopen(opened, "rb", buffering=0)

    def fingerprint(self, path: str) -> Fingerprint:
        """The identity and age of the file that `open` would hand out; raises as `open` does."""
        with self.open(path) as stream:
            found = os.fstat(stream.fileno())
        return Fingerprint(
            device=found.st_dev,
            inode=found.st_ino,
            size=found.st_size,
            mtime_ns=found.st_mtime_ns,
            ctime_ns=found.st_ctime_ns,
        )

    @cached_property
    def _walk(self) -> _Walk:
        walk = _walk(self.root)
        if not walk.files:
            raise SourceError(
                f"{self.root} holds no files", hint="name the folder that holds config.json and the weights"
            )
        return walk

    def _open(self, path: str) -> int | _Fault:
        """A descriptor of the regular file at `path`, opened for reading; or why there is none."""
        if what := check_path(path):
            return _Fault(path=path, what=what)
        try:
            root = os.path.realpath(self.root, strict=True)
            real = os.path.realpath(os.path.join(root, path), strict=True)  # noqa: PTH118 - a str, for speed
            return _fault_of(path, root=root, real=real) or _open_below(root, os.path.relpath(real, root))
        except OSError as error:
            return _fault_of_error(path, error)


def _walk(root: Path) -> _Walk:
    """List the tree with one directory open at a time."""
    files: list[SourceFile] = []
    skipped: list[Excluded] = []
    folders = [""]
    while folders:
        folder = folders.pop()
        try:
            entries = _entries(root, folder)
        except OSError as error:
            if not folder:
                raise _unlistable(root, error) from error
            files.append(SourceFile(path=folder.removesuffix("/"), size=0))  # open() says what is wrong, if it is kept
            continue
        for entry in entries:
            path = folder + entry.name
            if not entry.is_dir(follow_symlinks=False):
                files.append(SourceFile(path=path, size=_size(entry)))
            elif entry.name.startswith("."):
                skipped.append(Excluded(path=f"{path}/", size=None, reason="a hidden folder"))
            else:
                folders.append(f"{path}/")
    files.sort(key=lambda file: file.path)
    skipped.sort(key=lambda folder: folder.path)
    return _Walk(files=tuple(files), skipped=tuple(skipped))


def _entries(root: Path, folder: str) -> list[os.DirEntry[str]]:
    with os.scandir(root / folder) as listing:
        return list(listing)


def _size(entry: os.DirEntry[str]) -> int:
    try:
        found = entry.stat()
    except OSError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


def _fault_of(path: str, *, root: str, real: str) -> _Fault | None:
    """Why the file that `path` leads to is not one of the model's; None if it is."""
    if os.path.commonpath([root, real]) != root:
        return _Fault(path=path, what=f"is a link out of the folder, to {real}", hint=_hint_for_target(real))
    mode = os.stat(real).st_mode
    if stat.S_ISREG(mode):
        return None
    if stat.S_ISDIR(mode) and not os.access(real, os.R_OK | os.X_OK, effective_ids=True):
        return _Fault(path=path, what="is a folder that cannot be listed: permission denied")
    kind = next((name for test, name in _KINDS if test(mode)), "no regular file")
    linked = real != os.path.normpath(os.path.join(root, path))  # noqa: PTH118
    return _Fault(path=path, what=f"is a link to {kind}" if linked else f"is {kind}")


def _hint_for_target(real: str) -> str:
    found = _HUB_CACHE.search(real)
    if found is None:
        return "copy the file into the folder"
    repo_id = found["repo_id"].replace("--", "/") if found["repo_id"] else "ORG/NAME"
    return f"this is a Hugging Face cache: name the source hf://{repo_id}, and bake takes the files from the cache"


def _open_below(root: str, relative: str) -> int:
    """Open a path that holds no link, component by component, so that one swapped for a link meanwhile is refused."""
    *folders, name = relative.split("/")
    parent = os.open(root, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        for folder in folders:
            child = os.open(folder, _READ | os.O_DIRECTORY, dir_fd=parent)
            os.close(parent)
            parent = child
        return os.open(name, _READ, dir_fd=parent)
    finally:
        os.close(parent)


def _fault_of_error(path: str, error: OSError) -> _Fault:
    match error:
        case FileNotFoundError():
            return _Fault(path=path, what="is missing, or a link to a file that is missing")
        case PermissionError():
            return _Fault(path=path, what="cannot be read: permission denied", hint="make it readable for your user")
        case OSError(errno=errno.ELOOP):
            return _Fault(path=path, what="is a link in a loop, or became a link while it was read")
        case _:
            return _Fault(path=path, what=f"cannot be read: {error.strerror}")


def _unlistable(folder: Path, error: OSError) -> SourceError:
    match error:
        case FileNotFoundError():
            return SourceError(f"no such folder: {folder}", hint="check the path after dir://")
        case NotADirectoryError():
            return SourceError(f"not a folder: {folder}", hint="dir:// takes the folder that holds the model's files")
        case PermissionError():
            return SourceError(f"cannot list {folder}: permission denied", hint="make it readable for your user")
        case _:
            return SourceError(f"cannot list {folder}: {error.strerror}")


def _error(root: Path, faults: list[_Fault]) -> SourceError:
    lines = [f"{_printable(fault.path)} {fault.what}" for fault in faults]
    hints = dict.fromkeys(fault.hint for fault in faults if fault.hint)
    if len(lines) == 1:
        message = f"{root}: {lines[0]}"
    else:
        message = "\n  ".join([f"{root}: {len(lines)} files cannot be used:", *lines])
    return SourceError(message, hint="; ".join(hints) or "mend it, or leave it out with an exclude glob")


def _printable(path: str) -> str:
    """The path on one line, in characters that any terminal takes."""
    return path if path.isprintable() else repr(path)
