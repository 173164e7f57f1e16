"""Looking: one split's files, opened, sampled and checked. Whatever a file turns out to be becomes a finding.

What the metadata of parquet tell holds for all rows; everything else for a sample spread over files and row groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bake.entrypoint.data.columns import REWARD
from bake.entrypoint.data.flaws import Flaw, findings_of
from bake.entrypoint.data.formats import open_table
from bake.entrypoint.data.lengths import Prompt
from bake.entrypoint.data.parquet import ParquetTable
from bake.entrypoint.data.prompts import NULL_EXTRA, check_prompt
from bake.entrypoint.data.rewards import check_row, check_source
from bake.entrypoint.data.schema import absent, column_findings, type_findings
from bake.entrypoint.data.table import Row, UnreadableError, spread
from bake.entrypoint.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bake.entrypoint.data.columns import Columns
    from bake.entrypoint.data.listing import Listing
    from bake.entrypoint.data.table import Table

SAMPLE = 256
"""Rows of a split that are looked at one by one, about."""

_SAMPLED_FILES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """`tables` are the files that opened, `prompts` the sound ones of the `looked` rows that were looked at."""

    tables: Mapping[str, Table]
    findings: tuple[Finding, ...]
    prompts: tuple[Prompt, ...]
    looked: int

    @property
    def rows(self) -> int:
        return sum(table.rows for table in self.tables.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Glance:
    """What one file's rows showed: `sampled` of the rows looked at, `whole` of all of them."""

    sampled: tuple[Flaw, ...] = ()
    whole: tuple[Flaw, ...] = ()
    prompts: tuple[Prompt, ...] = ()
    looked: int = 0


def look(listing: Listing, columns: Columns, *, scored: bool, filtering: bool) -> Looked:
    """Open and check every file of a split.

    `scored`: the columns of the reward are read. `filtering`: verl drops rows whose prompt it cannot render.
    """
    key = listing.key
    tables, findings = _open(listing)
    findings += column_findings(tables, columns, scored=scored, key=key)
    findings += type_findings(listing, tables, columns)
    names = list(tables)
    chosen = {names[index] for index in spread(len(names), _SAMPLED_FILES)}
    glances: list[Glance] = []
    for path, table in tables.items():
        count = -(-SAMPLE // len(chosen)) if path in chosen else 0
        try:
            glances.append(_glance(path, table, columns, scored=scored, count=count))
        except UnreadableError as reason:
            findings.append(_unreadable(path, reason, key=key))
    looked = sum(glance.looked for glance in glances)
    sampled = (flaw for glance in glances for flaw in glance.sampled)
    whole = (flaw for glance in glances for flaw in glance.whole)
    findings += findings_of(sampled, whole, key=key, looked=looked, filtering=filtering)
    prompts = tuple(prompt for glance in glances for prompt in glance.prompts)
    return Looked(tables=tables, findings=tuple(findings), prompts=prompts, looked=looked)


def _open(listing: Listing) -> tuple[dict[str, Table], list[Finding]]:
    tables: dict[str, Table] = {}
    findings: list[Finding] = []
    for path in listing.files:
        try:
            tables[path] = open_table(path)
        except UnreadableError as reason:
            findings.append(_unreadable(path, reason, key=listing.key))
    return tables, findings


def _glance(path: str, table: Table, columns: Columns, *, scored: bool, count: int) -> Glance:
    """Columns that are not there were told already, and are not told of each row again."""
    if columns.lacking(table.names):
        return Glance()
    lost = set(absent(table, columns, scored=scored))
    rows = table.sample(columns.read, count) if count else []
    flaws: list[Flaw] = []
    prompts: list[Prompt] = []
    for row in (Row(f"{path} {row.place}", columns.row(row.values)) for row in rows):
        if columns.prompt not in lost:
            found = list(_prompt_flaws(row, columns))
            flaws += found
            prompts += _prompts(row, columns) if not any(flaw.kind.severity == "error" for flaw in found) else ()
        if scored and not lost & {columns.source, REWARD}:
            flaws += check_row(row.values, columns, place=row.place)
    whole = tuple(_whole(path, table, columns)) if isinstance(table, ParquetTable) and not lost else ()
    return Glance(sampled=tuple(flaws), whole=whole, prompts=tuple(prompts), looked=len(rows))


def _prompt_flaws(row: Row, columns: Columns) -> Iterator[Flaw]:
    yield from check_prompt(row.values.get(columns.prompt), column=columns.prompt, place=row.place)
    if columns.extra is not None and row.values.get(columns.extra, {}) is None:
        yield Flaw(NULL_EXTRA, columns.extra, row.place)


def _prompts(row: Row, columns: Columns) -> Iterator[Prompt]:
    """Only the model's processor can count a prompt with images."""
    if not any(row.values.get(name) for name in columns.media):
        yield Prompt(place=row.place, messages=row.values[columns.prompt])


def _whole(path: str, table: ParquetTable, columns: Columns) -> Iterator[Flaw]:
    """What the metadata and one small column tell of all rows: the first row of each fault."""
    if "prompt" not in columns.mapped and table.nulls(columns.prompt, "role"):
        row = table.first(columns.prompt, "role", wrong=_lacks_role)
        yield from _role_flaws(row, columns, path=path) if row else ()
    if not columns.sources:
        return
    if "ground_truth" not in columns.mapped and table.nulls(REWARD, "ground_truth"):
        row = table.first(REWARD, "ground_truth", wrong=_lacks_truth)
        yield from _truth_flaws(row, columns, path=path) if row else ()
    source = columns.mapped.get("data_source", columns.source)
    for value, place in (table.distinct(source) or {}).items():
        yield from check_source(value, columns, place=f"{path} {place}")


def _role_flaws(row: Row, columns: Columns, *, path: str) -> Iterator[Flaw]:
    """Of the messages only the roles were read; any content does for what is missing."""
    prompt = row.values[columns.prompt]
    filled = [{**(message or {}), "content": ""} for message in prompt] if isinstance(prompt, list) else prompt
    return check_prompt(filled, column=columns.prompt, place=f"{path} {row.place}")


def _truth_flaws(row: Row, columns: Columns, *, path: str) -> Iterator[Flaw]:
    """Of the row only the ground truth was read; any data source does for it."""
    filled = {columns.source: columns.sources[0].name, **row.values}
    return check_row(filled, columns, place=f"{path} {row.place}")


def _lacks_role(value: object) -> bool:
    return not isinstance(value, list) or not value or any(not (item or {}).get("role") for item in value)


def _lacks_truth(value: object) -> bool:
    return not isinstance(value, dict) or value.get("ground_truth") is None


def _unreadable(path: str, reason: UnreadableError, *, key: str) -> Finding:
    return Finding(
        check="data-files",
        severity="error",
        what=f"{key}: {path} {reason}",
        why="verl would fail over it once Ray is up and the tokenizer is loaded",
        todo="write or copy the file again; verl's own format is parquet",
    )
