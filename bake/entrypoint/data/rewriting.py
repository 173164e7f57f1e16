"""Rewriting: which files verl cannot take as they are, their parquet copies in the scratch folder, and the overrides.

A file is written once, however often it is named. Where verl finds the files by itself, nothing is overridden.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bake.entrypoint.data.convert import ScratchError, convert, target_name
from bake.entrypoint.data.formats import is_taken
from bake.entrypoint.data.table import UnreadableError
from bake.entrypoint.finding import Finding
from bake.entrypoint.override import Override

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bake.entrypoint.data.columns import Columns
    from bake.entrypoint.data.listing import Listing
    from bake.entrypoint.data.table import Table
    from bake.entrypoint.preflight.situation import Situation


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    findings: tuple[Finding, ...] = ()
    overrides: tuple[Override, ...] = ()
    notes: tuple[str, ...] = ()


def rewrite(
    listings: Sequence[Listing], tables: Mapping[str, Table], columns: Columns, *, situation: Situation, scratch: Path
) -> Rewritten:
    """Call it only where no check found an error: no file is written for a training that will not start.

    A file that has no table, or lacks a mapped column, stays as it is: its check was left out.
    """
    written: dict[str, str] = {}
    notes: list[str] = []
    for listing in listings:
        for number, path in enumerate(listing.files):
            table = tables.get(path)
            if table is None or path in written or not _needs(path, table, columns, situation):
                continue
            target = scratch / target_name(listing.split, number, path)
            try:
                convert(path, table, columns=columns, target=target)
            except (ScratchError, UnreadableError) as error:
                return Rewritten(findings=(_failed(path, error, scratch),))
            written[path] = str(target)
            notes.append(_note(path, table, columns, target))
    return Rewritten(
        findings=_elsewhere(written, situation, scratch),
        overrides=tuple(
            override for listing in listings for override in _overrides(listing, written, release=situation.release)
        ),
        notes=tuple(notes),
    )


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


def _note(path: str, table: Table, columns: Columns, target: Path) -> str:
    done = ", ".join(f"{field} from {column}" for field, column in columns.mapped.items() if column in table.names)
    fixed = columns.mapped.get("data_source")
    constant = f"data_source {fixed}" if fixed is not None and fixed not in table.names else ""
    how = "; ".join(filter(None, (done, constant)))
    return f"data: {path} was written as {target} ({table.rows:,} rows{', ' if how else ''}{how})"


def _failed(path: str, error: Exception, scratch: Path) -> Finding:
    room = isinstance(error, ScratchError)
    return Finding(
        check="data-files",
        severity="error",
        what=f"{path} cannot be written as parquet to {scratch}: {error}" if room else f"{path} {error}",
        why="verl does not take it as it is",
        todo="mount a folder with more room for it, and set BAKE_SCRATCH to it"
        if room
        else "mend the file, or write it anew",
    )


def _elsewhere(written: Mapping[str, str], situation: Situation, scratch: Path) -> tuple[Finding, ...]:
    """verl's task runner, which reads the data, may be placed on any node of a cluster."""
    nodes = situation.settings.number("trainer.nnodes")
    if not written or nodes is None or nodes <= 1:
        return ()
    return (
        Finding(
            check="data-files",
            severity="warning",
            what=f"data was written to {scratch} on this node, and trainer.nnodes={nodes:g}",
            why="Ray may start verl's task runner, which reads the data, on another node, where the files are not",
            todo="let that folder be on storage that all nodes share, or bring the data as parquet with verl's columns",
        ),
    )
