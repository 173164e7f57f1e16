"""Table: one data file, whatever its format, as the checks see it: columns, rows, a sample, and all of it in batches.

What a file is, its first bytes say; its name does not. Whatever is wrong with a file becomes `UnreadableError`.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

MOST_BYTES = 64 * 2**20
"""A sample ends early once its batches took this many bytes: a cell may hold a book."""


class UnreadableError(ValueError):
    """A file that no row can be read from. The message says what it is instead, and reads on from the file's name."""


class Row(NamedTuple):
    """One row of a sample. `place` names it within its file: rows count from 0, as in pandas, lines of text from 1."""

    place: str
    values: Mapping[str, Any]


class Table(Protocol):
    """One data file. Every method raises UnreadableError where the file turns out to be damaged."""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns; where rows may differ, those of the rows looked at."""
        ...

    @property
    def rows(self) -> int: ...

    def kinds(self) -> Mapping[str, Any]:
        """The pyarrow type of each column; empty where the format has no types."""
        ...

    def sample(self, columns: Collection[str], count: int) -> list[Row]:
        """About `count` rows, spread over the file where that is cheap. A column that is not there is left out."""
        ...

    def batches(self) -> Iterator[Any]:
        """The whole file as pyarrow record batches of one schema, as a stream."""
        ...


@contextlib.contextmanager
def reading() -> Iterator[None]:
    """Turn what pyarrow raises over a damaged file into UnreadableError, in one line.

    Its own exceptions are many, and it also lets those of the operating system and of text decoding through.
    """
    import pyarrow

    try:
        yield
    except UnreadableError:
        raise
    except (pyarrow.ArrowException, OSError, ValueError, KeyError, OverflowError, MemoryError) as error:
        raise UnreadableError(f"cannot be read: {one_line(error)}") from error


def one_line(error: BaseException) -> str:
    """The first line of an exception's message, not too long."""
    if isinstance(error, RecursionError):
        return "nested without end"
    lines = str(error).strip().splitlines()
    text = lines[0] if lines else type(error).__name__
    return text if len(text) <= 200 else f"{text[:199]}…"


def mapped(path: str) -> Any:
    """A pyarrow file that is mapped into memory, whatever bytes its name holds."""
    import pyarrow

    return pyarrow.memory_map(os.fsencode(path))


def unique_names(names: Collection[str]) -> tuple[str, ...]:
    """Raise UnreadableError where two columns have one name: no reader can tell them apart."""
    twice = sorted({name for name in names if list(names).count(name) > 1})
    if twice:
        raise UnreadableError(f"has two columns named {twice[0]!r}")
    return tuple(names)


def take(batches: Iterator[Any], count: int, *, first: int = 0) -> list[Row]:
    """The first `count` rows of some batches, as Python values; fewer where these are huge."""
    rows: list[Row] = []
    size = 0
    for batch in batches:
        some = batch.slice(0, count - len(rows))
        size += some.nbytes
        start = first + len(rows)
        rows += [Row(f"row {start + index}", values) for index, values in enumerate(some.to_pylist())]
        if len(rows) >= count or size > MOST_BYTES:
            break
    return rows


def spread(total: int, count: int) -> list[int]:
    """At most `count` of the numbers below `total`, evenly spread, the first among them."""
    return list(range(0, total, max(1, -(-total // count))))
