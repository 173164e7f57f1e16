"""ParquetTable: a parquet file through its metadata, whole columns that are small, and a sample of rows.

The metadata knows the rows and, for most writers, how many values of each column are null: nothing is read for these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bake.entrypoint.data.table import Row, mapped, reading, spread, take, unique_names

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

_GROUPS = 16
"""Row groups that a sample is taken from."""

_WHOLE = 256 * 2**20
"""The largest column, in uncompressed bytes, that is read whole for its distinct values."""

_DISTINCT = 1000
"""A column with more distinct values than this does not name data sources."""


@dataclass(frozen=True, slots=True)
class ParquetTable:
    path: str
    file: Any
    names: tuple[str, ...]

    @classmethod
    def open(cls, path: str) -> ParquetTable:
        import pyarrow.parquet

        with reading():
            file = pyarrow.parquet.ParquetFile(mapped(path))
            return cls(path, file, unique_names(file.schema_arrow.names))

    @property
    def rows(self) -> int:
        return int(self.file.metadata.num_rows)

    def kinds(self) -> Mapping[str, Any]:
        return {field.name: field.type for field in self.file.schema_arrow}

    def sample(self, columns: Collection[str], count: int) -> list[Row]:
        """The first rows of up to 16 row groups: within one, pages can only be read from the front."""
        known = [name for name in self.names if name in columns]
        starts = self._starts()
        groups = [group for group in range(len(starts)) if known and self.file.metadata.row_group(group).num_rows]
        chosen = [groups[index] for index in spread(len(groups), _GROUPS)]
        each = -(-count // len(chosen)) if chosen else 0
        rows: list[Row] = []
        with reading():
            for group in chosen:
                rows += take(self._batches(known, group, size=min(each, 16)), each, first=starts[group])
        return rows

    def batches(self) -> Iterator[Any]:
        with reading():
            yield from self.file.iter_batches(batch_size=4096)

    def nulls(self, column: str, leaf: str) -> int:
        """How many values are null, as the metadata of all row groups say; 0 where they do not say.

        `leaf` is the last name of a nested column, as `role` of prompt's messages: there, an empty list counts too.
        """
        index = self._leaf(column, leaf)
        with reading():
            return 0 if index is None else sum(self._nulls(group, index) for group in range(self._groups))

    def first(self, column: str, leaf: str, *, wrong: Callable[[Any], bool]) -> Row | None:
        """The first row that is wrong, sought only in the first row group whose metadata say that one is there."""
        index = self._leaf(column, leaf)
        groups = (group for group in range(self._groups) if index is not None and self._nulls(group, index))
        group = next(groups, None)
        if group is None:
            return None
        start = self._starts()[group]
        with reading():
            for batch in self._batches([self.file.schema.column(index).path], group, size=4096):
                for offset, value in enumerate(batch.column(0).to_pylist()):
                    if wrong(value):
                        return Row(f"row {start + offset}", {column: value})
                start += batch.num_rows
        return None

    def distinct(self, column: str) -> dict[Any, str] | None:
        """Every value of a column of text and the place where it is first met; None where that is too much to read."""
        import pyarrow.parquet

        index = self._leaf(column, column)
        if index is None or self._size(index) > _WHOLE:
            return None
        found: dict[Any, str] = {}
        with reading():
            file = pyarrow.parquet.ParquetFile(mapped(self.path), read_dictionary=[column])
            start = 0
            for batch in file.iter_batches(batch_size=65536, columns=[column]):
                values = batch.column(0)
                for value in values.unique().to_pylist():
                    if value not in found:
                        found[value] = f"row {start + values.to_pylist().index(value)}"
                start += batch.num_rows
                if len(found) > _DISTINCT:
                    return None
        return found

    @property
    def _groups(self) -> int:
        return int(self.file.metadata.num_row_groups)

    def _starts(self) -> list[int]:
        """The number of each row group's first row."""
        starts, row = [], 0
        for group in range(self._groups):
            starts.append(row)
            row += self.file.metadata.row_group(group).num_rows
        return starts

    def _batches(self, columns: list[str], group: int, *, size: int) -> Iterator[Any]:
        return iter(self.file.iter_batches(batch_size=size, row_groups=[group], columns=columns, use_threads=False))

    def _leaf(self, column: str, leaf: str) -> int | None:
        """A leaf's place among the file's columns. What writers call the levels of a list between them differs."""
        schema = self.file.schema
        for index in range(len(schema.names)):
            parts = schema.column(index).path.split(".")
            if parts[0] == column and parts[-1] == leaf:
                return index
        return None

    def _nulls(self, group: int, index: int) -> int:
        statistics = self.file.metadata.row_group(group).column(index).statistics
        return int(statistics.null_count) if statistics is not None and statistics.has_null_count else 0

    def _size(self, index: int) -> int:
        groups = range(self._groups)
        return sum(self.file.metadata.row_group(group).column(index).total_uncompressed_size for group in groups)
