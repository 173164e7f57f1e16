"""JsonTable: a file of JSON, one object a line, or one array of objects. Rows may differ, so columns are those seen.

Lines are counted all and parsed few; an array is parsed whole, as nothing less finds its rows.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bake.entrypoint.data.table import Row, UnreadableError, one_line, reading

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

MOST_ARRAY = 256 * 2**20
"""The longest array that is read, in bytes."""

_SAMPLED = 256
_BATCH = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonTable:
    """`array` holds the rows of a file that is one array."""

    path: str
    rows: int
    looked_at: tuple[Row, ...] = field(repr=False)
    array: Sequence[Mapping[str, Any]] | None = field(default=None, repr=False)

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

    def batches(self) -> Iterator[Any]:
        """Two passes: what one line lacks or leaves null, another may give a type to."""
        import pyarrow

        schema = self._schema()
        with reading():
            for rows in self._chunks():
                yield pyarrow.RecordBatch.from_pylist(rows, schema=schema)

    def _schema(self) -> Any:
        import pyarrow

        schema = pyarrow.schema([])
        with reading():
            for rows in self._chunks():
                schema = pyarrow.unify_schemas([schema, _schema_of(rows)], promote_options="permissive")
        return schema

    def _chunks(self) -> Iterator[list[Mapping[str, Any]]]:
        rows = iter(self.array) if self.array is not None else (row.values for row in _lines(self.path))
        while chunk := list(islice(rows, _BATCH)):
            yield chunk


def _schema_of(rows: Sequence[Mapping[str, Any]]) -> Any:
    """from_pylist takes its columns from the first row alone, so that the names of all rows are said."""
    import pyarrow

    names = dict.fromkeys(name for row in rows for name in row)
    arrays = [pyarrow.array([row.get(name) for row in rows]) for name in names]
    return pyarrow.schema([(name, array.type) for name, array in zip(names, arrays, strict=True)])


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
