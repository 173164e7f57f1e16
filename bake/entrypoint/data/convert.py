"""Convert: one table to a parquet file that verl reads, with --map done, in batches, so that memory stays flat.

Written beside and renamed: what bears the final name is whole. No column is lost; the three that --map fills are new.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from bake.entrypoint.data.columns import REWARD, messages
from bake.entrypoint.data.lines import JsonTable
from bake.entrypoint.data.scratch import ScratchError, beside
from bake.entrypoint.data.table import UnreadableError, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from bake.entrypoint.data.columns import Columns
    from bake.entrypoint.data.table import Table


def convert(table: Table, *, columns: Columns, target: Path) -> None:
    """Write `table` to `target`. Raises ScratchError, or UnreadableError where no check looked.

    Nothing is left behind where it fails.
    """
    part = beside(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _removed_on_failure(part):
            _write(table, columns, part)
            part.replace(target)
    except UnreadableError:
        raise
    except OSError as error:
        raise ScratchError.of(error) from error


@contextlib.contextmanager
def _removed_on_failure(path: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _write(table: Table, columns: Columns, path: Path) -> None:
    """The schema's metadata are left out: `datasets` keeps its own idea of the columns there, which holds no more."""
    import pyarrow.parquet

    writer: Any = None
    try:
        for batch in _readied(table, columns).batches():
            done = apply(batch, columns)
            writer = writer or pyarrow.parquet.ParquetWriter(str(path), done.schema, compression="zstd")
            writer.write_batch(done)
    except pyarrow.ArrowException as error:
        raise UnreadableError(f"cannot be converted: {one_line(error)}") from error
    finally:
        if writer is not None:
            writer.close()
    if writer is None:
        raise UnreadableError("holds no row")


def _readied(table: Table, columns: Columns) -> Table:
    """Rows of JSON may have a mapped answer as a number here and as text there: all are compared as text."""
    truth = columns.mapped.get("ground_truth")
    return table.spoken(truth) if isinstance(table, JsonTable) and truth and columns.sources else table


def apply(batch: Any, columns: Columns) -> Any:
    """One batch as verl reads it: --map done."""
    import pyarrow

    filled = dict(zip(batch.schema.names, batch.columns, strict=True))
    sources = _sources(batch, columns)
    if column := columns.mapped.get("prompt"):
        filled[columns.prompt] = _messages(batch.column(column))
    if "data_source" in columns.mapped:
        filled[columns.source] = sources
    if column := columns.mapped.get("ground_truth"):
        filled[REWARD] = _rewards(batch.column(column), sources, columns)
    return pyarrow.RecordBatch.from_arrays(list(filled.values()), names=list(filled))


def _rewards(truths: Any, sources: Any, columns: Columns) -> Any:
    """reward_model of one type in all batches: numbers are text where verl's own reward compares them."""
    import pyarrow

    number = pyarrow.types.is_integer(truths.type) or pyarrow.types.is_floating(truths.type)
    kind = pyarrow.string() if number and columns.sources else truths.type
    pairs = zip(truths.to_pylist(), sources.to_pylist(), strict=True)
    rewards = [columns.reward(truth, source) for truth, source in pairs]
    return pyarrow.array(rewards, pyarrow.struct([("style", pyarrow.string()), ("ground_truth", kind)]))


def _sources(batch: Any, columns: Columns) -> Any:
    """Each row's data source: mapped, or the file's own, or null."""
    import pyarrow

    wanted = columns.mapped.get("data_source")
    name = columns.source if wanted is None else wanted
    if name in batch.schema.names:
        return batch.column(name)
    return pyarrow.array([wanted] * batch.num_rows, pyarrow.string())


def _messages(column: Any) -> Any:
    import pyarrow

    kind = column.type.value_type if pyarrow.types.is_dictionary(column.type) else column.type
    if str(kind) not in ("string", "large_string", "string_view"):
        return column
    message = pyarrow.struct([("role", pyarrow.string()), ("content", pyarrow.string())])
    values = [messages(value) for value in column.to_pylist()]
    _require_plain(values)
    return pyarrow.array(values, pyarrow.list_(message))


def _require_plain(prompts: Sequence[Any]) -> None:
    """Only of such messages is it known which type all rows have; what else a message holds would be lost."""
    for message in (message for prompt in prompts for message in prompt or ()):
        others = sorted(message.keys() - {"role", "content"})
        if others or not isinstance(message.get("content"), str):
            held = ", ".join(others) or "a content that is no text"
            raise UnreadableError(f"has JSON text of messages that hold {held}: write that column as a list of objects")
