"""ArrowTable: what is read batch by batch from the front: Arrow files (feather), Arrow streams (Hugging Face), CSV.

The columns of a CSV file are all text: `007` and `1.50` stay what they are.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bake.entrypoint.data.table import Row, mapped, reading, spread, take, unique_names

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

_TAKEN_FROM = 16
"""Batches that a sample is taken from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrowTable:
    """`opened` gives the batches from the start, each time it is called."""

    opened: Callable[[], Iterator[Any]]
    schema: Any
    sizes: tuple[int, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.schema.names)

    @property
    def rows(self) -> int:
        return sum(self.sizes)

    def kinds(self) -> Mapping[str, Any]:
        return {field.name: field.type for field in self.schema}

    def sample(self, columns: Collection[str], count: int) -> list[Row]:
        known = [name for name in self.names if name in columns]
        chosen = spread(len(self.sizes), _TAKEN_FROM)
        each = -(-count // len(chosen)) if chosen else 0
        rows: list[Row] = []
        first = 0
        with reading():
            for index, batch in enumerate(self.opened()):
                if index in chosen:
                    rows += take(iter([batch.select(known)]), each, first=first)
                first += batch.num_rows
        return rows

    def batches(self) -> Iterator[Any]:
        with reading():
            for batch in self.opened():
                yield from _pieces(batch, 4096)


def open_file(path: str) -> ArrowTable:
    """An Arrow IPC file, which feather's second version is."""
    import pyarrow.ipc

    def batches() -> Iterator[Any]:
        reader = pyarrow.ipc.open_file(mapped(path))
        return (reader.get_batch(index) for index in range(reader.num_record_batches))

    with reading():
        return _table(batches, pyarrow.ipc.open_file(mapped(path)).schema)


def open_stream(path: str) -> ArrowTable:
    """An Arrow IPC stream: what `datasets` writes with save_to_disk and keeps in its cache."""
    import pyarrow.ipc

    def batches() -> Iterator[Any]:
        return iter(pyarrow.ipc.open_stream(mapped(path)))

    with reading():
        return _table(batches, pyarrow.ipc.open_stream(mapped(path)).schema)


def open_csv(path: str) -> ArrowTable:
    """Text with commas, or tabs where the name ends with .tsv; the first line names the columns."""
    import pyarrow
    import pyarrow.csv

    parse = pyarrow.csv.ParseOptions(delimiter="\t" if path.lower().endswith(".tsv") else ",", newlines_in_values=True)

    def names() -> list[str]:
        with pyarrow.csv.open_csv(_stream(path), parse_options=parse) as reader:
            return list(reader.schema.names)

    def batches() -> Iterator[Any]:
        texts = pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(header, pyarrow.string()))
        return iter(pyarrow.csv.open_csv(_stream(path), parse_options=parse, convert_options=texts))

    with reading():
        header = unique_names(names())
        return _table(batches, pyarrow.schema([(name, pyarrow.string()) for name in header]))


def _stream(path: str) -> Any:
    import pyarrow

    return pyarrow.OSFile(os.fsencode(path))


def _table(opened: Callable[[], Iterator[Any]], schema: Any) -> ArrowTable:
    unique_names(schema.names)
    sizes = tuple(batch.num_rows for batch in opened())
    return ArrowTable(opened=opened, schema=schema, sizes=sizes)


def _pieces(batch: Any, size: int) -> Iterator[Any]:
    for start in range(0, batch.num_rows, size):
        yield batch.slice(start, size)
