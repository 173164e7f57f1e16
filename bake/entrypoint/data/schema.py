"""Schema: the columns of a split's files: those that verl reads must be there, and files must agree on types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bake.entrypoint.data.columns import REWARD, near_names
from bake.entrypoint.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bake.entrypoint.data.columns import Columns
    from bake.entrypoint.data.listing import Listing
    from bake.entrypoint.data.table import Table

_CHECK = "data-columns"

_OFTEN = {
    "prompt": ("question", "problem", "instruction", "query", "messages", "conversations"),
    "ground_truth": ("answer", "solution", "target", "label"),
}
"""What published data sets call these, so that what to type can be said in full."""


def absent(table: Table, columns: Columns, *, scored: bool) -> list[str]:
    """The columns that verl reads and this file neither has nor gets by --map. `scored`: the reward's are read."""
    filled = {columns.prompt: "prompt", columns.source: "data_source", REWARD: "ground_truth"}
    read = filled if scored else {columns.prompt: "prompt"}
    return [name for name, field in read.items() if field not in columns.mapped and name not in table.names]


def column_findings(tables: Mapping[str, Table], columns: Columns, *, scored: bool, key: str) -> Iterator[Finding]:
    """One finding a column, whatever the number of files that lack it."""
    lacking: dict[str, list[str]] = {}
    missing: dict[str, list[str]] = {}
    for path, table in tables.items():
        for name in columns.lacking(table.names):
            lacking.setdefault(name, []).append(path)
        for name in absent(table, columns, scored=scored):
            missing.setdefault(name, []).append(path)
    for name, paths in lacking.items():
        yield _mapped(name, paths, tables[paths[0]].names, key=key)
    for name, paths in missing.items():
        yield _missing(name, paths, tables[paths[0]].names, columns, key=key)


def type_findings(listing: Listing, tables: Mapping[str, Table], columns: Columns) -> Iterator[Finding]:
    """verl joins files with datasets.concatenate_datasets, which takes a column of one type only, but for null.

    Files of one glob are not joined so: `datasets` casts them to the first.
    """
    heads = [file for named in listing.named for file in (named.files[:1] if named.direct else named.files)]
    opened = [file for file in dict.fromkeys(heads) if file in tables]
    replaced = {columns.prompt: "prompt", columns.source: "data_source", REWARD: "ground_truth"}
    seen: dict[str, tuple[str, Any]] = {}
    told: set[str] = set()
    for path in opened:
        for name, kind in tables[path].kinds().items():
            first, other = seen.setdefault(name, (path, kind))
            clash = None if replaced.get(name) in columns.mapped else _clash(other, kind, name)
            if clash is not None and name not in told:
                told.add(name)
                yield _types(*clash, first, path, key=listing.key)


def _clash(one: Any, other: Any, name: str) -> tuple[str, str, str] | None:
    """The place within a column where two types differ, and both of them; None where the files can be joined."""
    from pyarrow import types

    one, other = (kind.value_type if types.is_dictionary(kind) else kind for kind in (one, other))
    if one.equals(other) or types.is_null(one) or types.is_null(other):
        return None
    if types.is_struct(one) and types.is_struct(other):
        fields = {field.name: field.type for field in other}
        inner = (
            _clash(field.type, fields[field.name], f"{name}.{field.name}") for field in one if field.name in fields
        )
        return next(filter(None, inner), None)
    if types.is_list(one) and types.is_list(other):
        return _clash(one.value_type, other.value_type, name)
    return name, str(one), str(other)


def _mapped(name: str, paths: Sequence[str], names: Sequence[str], *, key: str) -> Finding:
    return Finding(
        check=_CHECK,
        severity="error",
        what=f"{key}: {_files(paths)} no column {name!r}, which --map names; {near_names(name, names)}",
        why="--map takes the column from every file of the training and the validation data",
        todo="name the column as the file spells it: --map FIELD=COLUMN",
    )


def _missing(name: str, paths: Sequence[str], names: Sequence[str], columns: Columns, *, key: str) -> Finding:
    prompt, truth = _candidate("prompt", names), _candidate("ground_truth", names)
    field, example = {
        columns.prompt: ("prompt", f"prompt={prompt}, or where it holds messages: data.prompt_key={prompt}"),
        columns.source: ("data_source", "data_source=openai/gsm8k, which all rows then have"),
        REWARD: ("ground_truth", f"ground_truth={truth}"),
    }[name]
    return Finding(
        check=_CHECK,
        severity="error",
        what=f"{key}: {_files(paths)} no column {name!r}; {near_names(name, names)}",
        why=f"verl reads it in every row and fails with KeyError: {name!r}"
        + ("" if field == "prompt" else " in a worker, after the models are loaded"),
        todo=f"let it be made: --map {example}",
    )


def _candidate(field: str, names: Sequence[str]) -> str:
    return next((name for name in _OFTEN[field] if name in names), "COLUMN")


def _types(name: str, one: str, other: str, first: str, second: str, *, key: str) -> Finding:
    return Finding(
        check=_CHECK,
        severity="error",
        what=f"{key}: {name} is {one} in {first} and {other} in {second}",
        why="verl joins the files, which `datasets` refuses where a column has two types",
        todo="write both files with the same type",
    )


def _files(paths: Sequence[str]) -> str:
    shown = ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
    return f"{shown} {'has' if len(paths) == 1 else 'have'}"
