"""JsonTable: a file of JSON, one object a line, or one array of objects. Rows may differ, so columns are those seen.

Lines are counted all and parsed few; an array is parsed whole, as nothing less finds its rows.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bake.entrypoint.data.scores import as_compared
from bake.entrypoint.data.table import Row, UnreadableError, one_line, reading

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

MOST_ARRAY = 256 * 2**20
"""The longest array that is read, in bytes."""

_SAMPLED = 256
_BATCH = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonTable:
    """`array` holds the rows of a file that is one array, `text` is a column whose numbers are read as text."""

    path: str
    rows: int
    looked_at: tuple[Row, ...] = field(repr=False)
    array: Sequence[Mapping[str, Any]] | None = field(default=None, repr=False)
    text: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for row in self.looked_at for name in row.values))

    def kinds(self) -> Mapping[str, Any]:
        return {}

    def sample(self, columns: Collection[str], count: int) -> list[Row]:
        known = [name for name in self.names if name in columns]
        step = max(1, -(-len(self.looked_at) // count))
        chosen = islice(self.looked_at, 0, None, step)
        return [Row(row.place, {name: row.values.get(name) for name in known}) for row in chosen]

    def spoken(self, column: str) -> JsonTable:
        """The same rows, in whose `column` numbers are written out."""
        return replace(self, text=column)

    def batches(self) -> Iterator[Any]:
        """Two passes: what one line lacks or leaves null, another may give a type to."""
        import pyarrow

        schema = self._schema()
        with reading():
            for rows in self._chunks():
                yield pyarrow.RecordBatch.from_pylist([row.values for row in rows], schema=schema)

    def _schema(self) -> Any:
        import pyarrow

        kinds: dict[str, Any] = {}
        with reading():
            for rows in self._chunks():
                for name in dict.fromkeys(name for row in rows for name in row.values):
                    values = [row.values.get(name) for row in rows]
                    try:
                        kinds[name] = _joined(kinds.get(name, pyarrow.null()), pyarrow.array(values).type)
                    except pyarrow.ArrowException as error:
                        raise UnreadableError(self._clash(name, rows, error)) from error
        return pyarrow.schema(list(kinds.items()))

    def _clash(self, name: str, rows: Sequence[Row], error: Exception) -> str:
        """Where a column first holds a value of another type than before; else whereabouts it fails, and how."""
        first: Row | None = None
        for row in (row for chunk in self._chunks() for row in chunk if row.values.get(name) is not None):
            first = first or row
            kinds = [_kind(each.values[name], spoken=name == self.text) for each in (first, row)]
            if kinds[0] != kinds[1]:
                told = [f"{kind} in {each.place}" for kind, each in zip(kinds, (first, row), strict=True)]
                return f"cannot be made a table: {name!r} is {told[0]} and {told[1]}"
        return f"cannot be made a table: {name!r} between {rows[0].place} and {rows[-1].place}: {one_line(error)}"

    def _chunks(self) -> Iterator[list[Row]]:
        array = (Row(f"item {index}", values) for index, values in enumerate(self.array or ()))
        rows = array if self.array is not None else _lines(self.path)
        said = (_said(row, self.text) for row in rows) if self.text else rows
        while chunk := list(islice(said, _BATCH)):
            yield chunk


def _said(row: Row, column: str) -> Row:
    value = row.values.get(column)
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return Row(row.place, {**row.values, column: as_compared(value, None)}) if number else row


def _joined(one: Any, other: Any) -> Any:
    import pyarrow

    schemas = [pyarrow.schema([("x", kind)]) for kind in (one, other)]
    return pyarrow.unify_schemas(schemas, promote_options="permissive").field("x").type


def _kind(value: object, *, spoken: bool) -> str:
    """What JSON calls it; where numbers are `spoken`, a text may have been one."""
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, (int, float)):
        return "a number"
    text = "a number or text" if spoken else "a text"
    return text if isinstance(value, str) else "a list" if isinstance(value, list) else "an object"


def open_json(path: str) -> JsonTable:
    """Raises UnreadableError where the first lines looked at are no objects."""
    with reading():
        with Path(path).open("rb") as stream:
            start = stream.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip()
        return _array(path) if start.startswith(b"[") else _objects(path)


def _array(path: str) -> JsonTable:
    size = Path(path).stat().st_size
    if size > MOST_ARRAY:
        raise UnreadableError(f"is one JSON array of {size:,} bytes (one object a line can be of any size)")
    try:
        values = json.loads(Path(path).read_bytes().decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"is not JSON: {one_line(error)}") from error
    for index, value in enumerate(values):
        if not isinstance(value, dict):
            raise UnreadableError(f"holds no object as item {index} of its array")
    step = max(1, len(values) // _SAMPLED)
    looked_at = tuple(Row(f"item {index}", values[index]) for index in range(0, len(values), step))
    return JsonTable(path=path, rows=len(values), looked_at=looked_at, array=values)


def _objects(path: str) -> JsonTable:
    step = _step(path)
    count = 0
    looked_at: list[Row] = []
    for number, line in _numbered(path):
        if count % step == 0:
            looked_at.append(_row(number, line))
        count += 1
    return JsonTable(path=path, rows=count, looked_at=tuple(looked_at))


def _step(path: str) -> int:
    """Parse every n-th line, so that about 256 are, going by the length of the first lines."""
    with Path(path).open("rb") as stream:
        lines = stream.readlines(2**16)
    length = sum(map(len, lines)) / max(1, len(lines))
    return max(1, int(Path(path).stat().st_size / max(1, length) / _SAMPLED))


def _lines(path: str) -> Iterator[Row]:
    return (_row(number, line) for number, line in _numbered(path))


def _numbered(path: str) -> Iterator[tuple[int, bytes]]:
    """The lines that are not blank, with their numbers."""
    with Path(path).open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            text = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
            if not text.isspace():
                yield number, text


def _row(number: int, line: bytes) -> Row:
    try:
        value = json.loads(line)
    except UnicodeDecodeError as error:
        raise UnreadableError(f"is not UTF-8 in line {number}") from error
    except json.JSONDecodeError as error:
        raise UnreadableError(f"is not JSON in line {number}: {error.msg} at column {error.colno}") from error
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"is not JSON in line {number}: {one_line(error)}") from error
    if not isinstance(value, dict):
        raise UnreadableError(f"holds no object in line {number}")
    return Row(f"line {number}", value)
