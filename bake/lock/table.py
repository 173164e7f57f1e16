"""Table: one TOML table being read, which knows its own place in the document. `Any` ends here."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, TypeVar

from bake.errors import LockError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_T = TypeVar("_T")

_TYPES = {str: "a string", int: "a whole number", bool: "true or false", list: "an array", dict: "a table"}
_LARGEST = 1 << 53


class Table:
    """Takes keys out of a table one by one; `finish` refuses what nobody took, so that a typing error is seen."""

    def __init__(self, document: dict[str, Any], *, file: str, place: str = "", root: Table | None = None) -> None:
        self._document = document
        self._file = file
        self._place = place
        self._root = root or self
        self._taken: set[str] = set()
        self.lenient = False

    def error(self, key: str, message: str, *, hint: str | None = None) -> LockError:
        """A LockError at a key of this table; an empty key is the table itself."""
        place = f"{self._place}.{key}" if self._place and key else self._place or key
        return LockError(f"{self._file}: {place}: {message}", hint=hint)

    def guard(self, key: str, read: Callable[[], _T]) -> _T:
        """Run a parser that raises ValueError, and give its error a place."""
        try:
            return read()
        except ValueError as error:
            raise self.error(key, str(error)) from error

    def take(self, key: str) -> Any:
        self._taken.add(key)
        if key not in self._document:
            raise self.error(key, "missing")
        return self._document[key]

    def text(self, key: str) -> str:
        return self._typed(key, str)

    def parsed(self, key: str, parser: Callable[[str], _T]) -> _T:
        text = self.text(key)
        return self.guard(key, lambda: parser(text))

    def optional(self, key: str, parser: Callable[[str], _T]) -> _T | None:
        return self.parsed(key, parser) if self._has(key) else None

    def size(self, key: str) -> int:
        """A number of bytes, from 0 to 2^53 (what JSON can carry)."""
        value = self._typed(key, int)
        if not 0 <= value <= _LARGEST:
            raise self.error(key, f"expected a number of bytes, found {value}")
        return value

    def optional_integer(self, key: str) -> int | None:
        return self.size(key) if self._has(key) else None

    def flag(self, key: str) -> bool:
        return self._typed(key, bool) if self._has(key) else False

    def texts(self, key: str) -> tuple[str, ...]:
        values = self._typed(key, list) if self._has(key) else []
        for number, value in enumerate(values):
            if not isinstance(value, str):
                raise self.error(f"{key}[{number}]", f"expected a string, found {value!r}")
        return tuple(values)

    def tables(self, key: str) -> Iterator[Table]:
        values = self._typed(key, list) if self._has(key) else []
        for number, value in enumerate(values):
            yield self._child(f"{key}[{number}]", value)

    def named_tables(self, key: str) -> Iterator[tuple[str, Table]]:
        values = self._typed(key, dict) if self._has(key) else {}
        for name, value in values.items():
            yield name, self._child(f"{key}.{name}", value)

    def finish(self) -> None:
        """Refuse keys that nobody took.

        A newer minor version of the format may have keys that this bake does not know.
        """
        unknown = sorted(set(self._document) - self._taken)
        if unknown and not self._root.lenient:
            near = difflib.get_close_matches(unknown[0], self._taken, n=1)
            raise self.error(unknown[0], "unknown key", hint=f"did you mean {near[0]!r}?" if near else None)

    def _has(self, key: str) -> bool:
        self._taken.add(key)
        return key in self._document

    def _typed(self, key: str, kind: type[_T]) -> _T:
        value = self.take(key)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise self.error(key, f"expected {_TYPES[kind]}, found {value!r}")
        return value

    def _child(self, key: str, value: Any) -> Table:
        if not isinstance(value, dict):
            raise self.error(key, f"expected a table, found {value!r}")
        place = f"{self._place}.{key}" if self._place else key
        return Table(value, file=self._file, place=place, root=self._root)
