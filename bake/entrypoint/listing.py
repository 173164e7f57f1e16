"""Listing: names, kinds, sizes and modes of a model's files against its record.

Opens no file but those small enough to be a git-lfs pointer.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from bake.entrypoint.fault import FETCH_AGAIN, Fault

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bake.entrypoint.tree import Entry, Tree
    from bake.record import RecordedFile

_POINTER = b"version https://git-lfs.github.com/spec/v1"
_POINTER_MAX = 1024
"""A pointer is smaller than this many bytes: https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md."""

_ANY_UID = 0o444


def check_listing(
    recorded: Mapping[str, RecordedFile], entries: Mapping[str, Entry], *, check_modes: bool
) -> Iterator[Fault]:
    """One fault for each file that is missing, no file or of another size; beside these, one for its mode."""
    closed = tuple("" if path == "." else f"{path}/" for path, entry in entries.items() if entry.kind == "other")
    for path, file in recorded.items():
        entry = entries.get(path)
        if entry is None:
            if not path.startswith(closed):  # else its folder is told
                yield Fault(
                    path=path, kind="missing", expected=_bytes(file.size), found="no such file", hint=FETCH_AGAIN
                )
        elif entry.kind == "file" and entry.size != file.size:
            yield _wrong_size(entry, file)
    for path, entry in entries.items():
        if entry.kind != "file":
            yield _no_file(entry)
        elif check_modes and (path in recorded or not recorded) and entry.mode & _ANY_UID != _ANY_UID:
            yield _unreadable_mode(entry)


def extras(recorded: Mapping[str, RecordedFile], entries: Mapping[str, Entry]) -> Iterator[Fault]:
    """The files that the record does not name."""
    for path, entry in entries.items():
        if path not in recorded and entry.kind == "file":
            yield Fault(
                path=path,
                kind="extra",
                expected="no such file in the record",
                found=_bytes(entry.size),
                hint="delete it, or lock the model again if the file belongs to it",
            )


def check_pointer(entry: Entry, tree: Tree) -> Fault | None:
    """A fault when the file is what git-lfs leaves in place of the bytes. Raises OSError where reading fails."""
    if entry.size >= _POINTER_MAX:
        return None
    with tree.open(entry.path) as stream:
        content = stream.read(_POINTER_MAX)
    if not content.startswith(_POINTER):
        return None
    size = re.search(rb"^size (\d{1,19})$", content, re.MULTILINE)
    return Fault(
        path=entry.path,
        kind="lfs-pointer",
        expected=_bytes(int(size[1])) if size else "the file's own bytes",
        found=f"a git-lfs pointer to them, {_bytes(entry.size)}",
        hint="run `git lfs pull` where this was cloned",
    )


def _wrong_size(entry: Entry, file: RecordedFile) -> Fault:
    return Fault(
        path=entry.path,
        kind="truncated" if entry.size < file.size else "altered",
        expected=_bytes(file.size),
        found=_bytes(entry.size),
        hint=FETCH_AGAIN,
    )


def _no_file(entry: Entry) -> Fault:
    link = "put the file itself here; in a container, mount also the folder that the link leads to"
    other = "remove it; if it is a folder of the model, run `chmod a+rx` on it"
    return Fault(
        path=entry.path,
        kind="unreadable",
        expected="a file",
        found=entry.note or f"a {entry.kind}",
        hint=link if entry.kind == "link" else other,
    )


def _unreadable_mode(entry: Entry) -> Fault:
    return Fault(
        path=entry.path,
        kind="mode",
        expected="a file that every user may read, such as 0444",
        found=f"mode {entry.mode:04o}",
        hint="run `chmod a+r` on it; a container may run as any user",
    )


def _bytes(count: int) -> str:
    return "1 byte" if count == 1 else f"{count:,} bytes"
