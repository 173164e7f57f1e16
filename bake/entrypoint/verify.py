"""Verify: a record against the files of one model. All faults at once, and where possible one fault for one cause.

A file that one step faults is left out by the next: a truncated shard has no header worth reading.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Literal, TypeVar

from bake.digest import stream_digest
from bake.entrypoint.fault import FETCH_AGAIN, Fault
from bake.entrypoint.listing import check_listing, check_pointer, extras
from bake.entrypoint.shards import READERS
from bake.entrypoint.structure import Content, check_structure, read_content
from bake.errors import ImageError
from bake.record import Record, RecordedFile, RecordedModel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from bake.entrypoint.tree import Entry, Tree

Level = Literal["quick", "full"]

_Answer = TypeVar("_Answer")


def load_record(path: Path) -> Record:
    """Read record.json. Raises ImageError where it is absent or no record."""
    try:
        content = path.read_bytes()
    except OSError as error:
        hint = "name one with --record, or build the image again with `bake build`"
        raise ImageError(f"cannot read the record of baked files {path}: {error.strerror}", hint=hint) from error
    return Record.parse(content, where=str(path))


def verify(
    model: RecordedModel | None,
    tree: Tree,
    *,
    level: Level,
    ignore: frozenset[str] = frozenset(),
    jobs: int | None = None,
    check_modes: bool = False,
    advance: Callable[[int], object] = lambda _: None,
) -> tuple[Fault, ...]:
    """Every fault of one model, sorted by path. Without a record only its structure is checked.

    `quick` reads listings, small files and headers; `full` also hashes every byte. `ignore` are paths that may be there
    unrecorded; `check_modes` asks that any user may read each file. Files are hashed by `jobs` threads, one a core by
    default; `advance` is called from these with each count of bytes hashed.
    """
    recorded = {file.path: file for file in model.files} if model else {}
    entries = {path: entry for path, entry in tree.entries().items() if path in recorded or path not in ignore}
    if not entries.keys() - {"."}:
        return (_nothing(entries.get("."), expected=len(recorded)),)
    files = {path: entry for path, entry in entries.items() if entry.kind == "file" and (path in recorded or not model)}
    faults = _listing_faults(recorded, entries, files, tree=tree, check_modes=check_modes)
    if model:
        faults += extras(recorded, entries)
    if model and level == "full":
        faults += _digest_faults(recorded, _sound(files, faults), tree=tree, jobs=jobs or cores(), advance=advance)
    contents = _each(lambda entry: read_content(entry, tree), _sound(files, faults), jobs=READERS)
    faults += (answer for answer in contents if isinstance(answer, Fault))
    faults += check_structure(
        [answer for answer in contents if isinstance(answer, Content)],
        paths=recorded.keys() or files.keys(),
        present=recorded.keys() | entries.keys(),
    )
    return _sorted(faults)


def _listing_faults(
    recorded: Mapping[str, RecordedFile],
    entries: Mapping[str, Entry],
    files: Mapping[str, Entry],
    *,
    tree: Tree,
    check_modes: bool,
) -> list[Fault]:
    """Names, kinds, sizes and modes. A pointer's size is no fault of its own."""
    answers = _each(lambda entry: check_pointer(entry, tree), files.values(), jobs=READERS)
    faults = [answer for answer in answers if answer is not None]
    told = {fault.path for fault in faults}
    listing = check_listing(recorded, entries, check_modes=check_modes)
    return faults + [fault for fault in listing if fault.kind == "mode" or fault.path not in told]


def _digest_faults(
    recorded: Mapping[str, RecordedFile],
    entries: Iterable[Entry],
    *,
    tree: Tree,
    jobs: int,
    advance: Callable[[int], object],
) -> list[Fault]:
    """Hash each file whole, by name: a loader reads shards in this order, and finds them in the page cache."""
    ordered = sorted(entries, key=lambda entry: entry.path)
    answers = _each(lambda entry: _check_digest(recorded[entry.path], tree, advance), ordered, jobs=jobs)
    return [answer for answer in answers if answer is not None]


def _each(step: Callable[[Entry], _Answer], entries: Iterable[Entry], *, jobs: int) -> list[_Answer | Fault]:
    """The step's answer for each entry, in order, or a fault where the entry cannot be read."""

    def attempt(entry: Entry) -> _Answer | Fault:
        try:
            return step(entry)
        except OSError as error:
            return _unreadable(entry.path, error.strerror or str(error))

    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(attempt, entries))


def _check_digest(file: RecordedFile, tree: Tree, advance: Callable[[int], object]) -> Fault | None:
    with tree.open(file.path) as stream:
        digest, _ = stream_digest(stream, advance=advance)
    if digest == file.digest:
        return None
    return Fault(path=file.path, kind="altered", expected=str(file.digest), found=str(digest), hint=FETCH_AGAIN)


def _sound(files: Mapping[str, Entry], faults: Iterable[Fault]) -> list[Entry]:
    """The files that no fault is known of, but for their mode."""
    faulty = {fault.path for fault in faults if fault.kind != "mode"}
    return [entry for path, entry in files.items() if path not in faulty]


def _sorted(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    """By path. Where a file's mode is at fault, that it could not be read says nothing more."""
    unique = set(faults)
    modes = {fault.path for fault in unique if fault.kind == "mode"}
    return tuple(sorted(fault for fault in unique if fault.kind != "unreadable" or fault.path not in modes))


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _nothing(folder: Entry | None, *, expected: int) -> Fault:
    return Fault(
        path=".",
        kind="unreadable" if folder else "missing",
        expected=f"{expected} files" if expected else "a model's files",
        found=folder.note if folder else "no file, or no such folder",
        hint="check that the folder is there, and that no empty volume is mounted over it",
    )


def _unreadable(path: str, reason: str) -> Fault:
    return Fault(
        path=path,
        kind="unreadable",
        expected="a file that can be read",
        found=reason,
        hint="check who owns it and its mode, and the disk that it lies on",
    )
