"""Rewriting: which files verl cannot take as they are, their parquet copies in the scratch folder, and the overrides.

A file is written once, however often it is named, and not again where a training before this one wrote it. Where
verl finds the files by itself, nothing is overridden.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bake.entrypoint.data.convert import convert
from bake.entrypoint.data.formats import is_taken
from bake.entrypoint.data.scratch import ScratchError, is_whole, require_room, target_name
from bake.entrypoint.data.table import UnreadableError
from bake.entrypoint.finding import Finding
from bake.entrypoint.override import Override

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bake.entrypoint.data.columns import Columns
    from bake.entrypoint.data.listing import Listing
    from bake.entrypoint.data.table import Table
    from bake.entrypoint.preflight.situation import Situation


_WHY = "verl does not take it as it is"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    findings: tuple[Finding, ...] = ()
    overrides: tuple[Override, ...] = ()
    notes: tuple[str, ...] = ()


def rewrite(
    listings: Sequence[Listing],
    tables: Mapping[str, Table],
    columns: Columns,
    *,
    situation: Situation,
    scratch: Path | None,
    write: bool,
) -> Rewritten:
    """Call it only where no check found an error: no file is written for a training that will not start.

    A file that has no table, or lacks a mapped column, stays as it is: its check was left out. Without `write`, the
    folder and its room are checked and the files named, and none is written.
    """
    release = situation.release
    files = dict.fromkeys(file for listing in listings for file in listing.files)
    needed = [path for path in files if path in tables and _needs(path, tables[path], columns, situation)]
    if scratch is None:
        return Rewritten(findings=(_no_folder(needed),)) if needed else _rewritten(listings, (), situation)
    copies = [_copy(path, tables[path], columns, scratch=scratch, release=release) for path in needed]
    try:
        _write(copies, columns, write=write)
    except _FailedError as failure:
        return Rewritten(findings=(failure.finding,))
    notes = tuple(_note(copy, columns, write=write) for copy in copies)
    return _rewritten(listings, copies, situation, notes=notes)


def _rewritten(
    listings: Sequence[Listing], copies: Sequence[_Copy], situation: Situation, *, notes: tuple[str, ...] = ()
) -> Rewritten:
    written = {copy.path: str(copy.target) for copy in copies}
    overrides = (_overrides(listing, written, release=situation.release) for listing in listings)
    return Rewritten(
        findings=_elsewhere(copies, situation),
        overrides=tuple(override for some in overrides for override in some),
        notes=notes,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Copy:
    """`there`: it was written before, whole, from the same file in the same way."""

    path: str
    table: Table
    target: Path
    there: bool


class _FailedError(Exception):
    """A copy that cannot be made, as a finding."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.what)
        self.finding = finding


def _copy(path: str, table: Table, columns: Columns, *, scratch: Path, release: tuple[int, int] | None) -> _Copy:
    target = scratch / target_name(path, columns, release=release)
    return _Copy(path=path, table=table, target=target, there=is_whole(target, rows=table.rows))


def _write(copies: Sequence[_Copy], columns: Columns, *, write: bool) -> None:
    """The room for all is asked for before the first is begun."""
    wanted = [copy for copy in copies if not copy.there]
    if not wanted:
        return
    folder = wanted[0].target.parent
    try:
        require_room(folder, [copy.path for copy in wanted])
    except ScratchError as error:
        raise _FailedError(_no_place([copy.path for copy in wanted], error, folder)) from error
    for copy in wanted if write else ():
        try:
            convert(copy.table, columns=columns, target=copy.target)
        except ScratchError as error:
            raise _FailedError(_no_place([copy.path], error, folder)) from error
        except UnreadableError as error:
            raise _FailedError(_unreadable(copy.path, error)) from error


def _needs(path: str, table: Table, columns: Columns, situation: Situation) -> bool:
    if columns.lacking(table.names):
        return False
    return bool(columns.mapped) or not is_taken(path, table, release=situation.release)


def _overrides(listing: Listing, written: Mapping[str, str], *, release: tuple[int, int] | None) -> Iterator[Override]:
    """The files by their absolute paths, where verl would not find these very files by what was given."""
    told: list[str] = []
    for named in listing.named:
        found = named.direct and is_taken(named.given, None, release=release)  # a glob, by how it ends
        if not named.files or (found and not any(file in written for file in named.files)):
            told.append(named.given)
        else:
            told += [written.get(file, str(Path(file).absolute())) for file in named.files]
    if told != [named.given for named in listing.named]:
        yield Override(listing.key, tuple(told))


def _note(copy: _Copy, columns: Columns, *, write: bool) -> str:
    names = copy.table.names
    done = ", ".join(f"{field} from {column}" for field, column in columns.mapped.items() if column in names)
    fixed = columns.mapped.get("data_source")
    constant = f"data_source {fixed}" if fixed is not None and fixed not in names else ""
    how = "; ".join(filter(None, (done, constant)))
    verb = "was written before as" if copy.there else "was written as" if write else "would be written as"
    again = ", and is used again" if copy.there else ""
    return f"data: {copy.path} {verb} {copy.target}{again} ({copy.table.rows:,} rows{', ' if how else ''}{how})"


def _no_place(paths: Sequence[str], error: ScratchError, scratch: Path) -> Finding:
    return Finding(
        check="data-files",
        severity="error",
        what=f"{', '.join(paths)} cannot be written as parquet to {scratch}: {error}",
        why=_WHY,
        todo=error.todo,
    )


def _no_folder(paths: Sequence[str]) -> Finding:
    return Finding(
        check="data-files",
        severity="error",
        what=f"{', '.join(paths)} cannot be written as parquet: there is no folder for temporary files",
        why=_WHY,
        todo=f"mount a folder that uid {os.geteuid()} can write, and set BAKE_SCRATCH to it (docker run --tmpfs /tmp, "
        "or an emptyDir at /tmp, serves too where the data fit into memory)",
    )


def _unreadable(path: str, error: UnreadableError) -> Finding:
    return Finding(
        check="data-files",
        severity="error",
        what=f"{path} {error}",
        why=_WHY,
        todo="mend the file, or write it anew",
    )


def _elsewhere(copies: Sequence[_Copy], situation: Situation) -> tuple[Finding, ...]:
    """verl's task runner, which reads the data, may be placed on any node of a cluster."""
    nodes = situation.settings.number("trainer.nnodes")
    if not copies or nodes is None or nodes <= 1:
        return ()
    return (
        Finding(
            check="data-files",
            severity="warning",
            what=f"data is rewritten to {copies[0].target.parent} on this node, and trainer.nnodes={nodes:g}",
            why="Ray may start verl's task runner, which reads the data, on another node, where the files are not",
            todo="let that folder be on storage that all nodes share, or bring the data as parquet with verl's columns",
        ),
    )
