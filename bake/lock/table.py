"""Table: one TOML table being read, which knows its own place in the document. `Any` ends here."""

from __future__ import annotations

import difflib
import re
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from bake.errors import LockError
from bake.lock.dump import key_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_T = TypeVar("_T")

_TYPES = {str: "a string", int: "a whole number", bool: "true or false", list: "an array", dict: "a table"}
_INDEX = re.compile(r"\[\d+\]")
_LARGEST = (1 << 53) - 1
_SHOWN = 80
_SHOWN_BITS = 256


class Table:
    """Reads the keys of a table one by one; every error names the file, the key's place and what was found there.

    `lenient` lets keys pass that bake does not know: a newer minor version of the format may have some.
    """

    def __init__(self, document: dict[str, Any], *, file: str, place: str = "", lenient: bool = False) -> None:
        self._document = document
        self._file = file
        self._place = place
        self.lenient = lenient

    def error(self, key: str, message: str, *, hint: str | None = None) -> LockError:
        """A LockError at a key of this table; an empty key is the table itself."""
        return LockError(f"{self._file}: {self._at(key)}: {message}", hint=hint)

    def guard(self, key: str, read: Callable[[], _T]) -> _T:
        """Run a parser that raises ValueError, and give its error a place."""
        try:
            return read()
        except ValueError as error:
            raise self.error(key, str(error)) from error

    def only(self, *known: str) -> None:
        """Refuse keys other than these, so that a typing error is seen."""
        unknown = sorted(self._document.keys() - set(known))
        if unknown and not self.lenient:
            near = difflib.get_close_matches(unknown[0], known, n=1)
            raise self.error(key_text(unknown[0]), "unknown key", hint=f"did you mean {near[0]!r}?" if near else None)

    def value(self, key: str, *, hint: str | None = None) -> Any:
        if key not in self._document:
            raise self.error(key, "missing", hint=hint)
        return self._document[key]

    def text(self, key: str) -> str:
        return self._typed(key, str)

    def parsed(self, key: str, parser: Callable[[str], _T]) -> _T:
        text = self.text(key)
        return self.guard(key, lambda: parser(text))

    def optional(self, key: str, parser: Callable[[str], _T]) -> _T | None:
        return self.parsed(key, parser) if key in self._document else None

    def size(self, key: str) -> int:
        """A number of bytes, below 2^53 (what every JSON reader can carry)."""
        value = self._typed(key, int)
        if not 0 <= value <= _LARGEST:
            raise self.error(key, f"expected a number of bytes from 0 to 2^53 - 1, found {shown(value)}")
        return value

    def optional_size(self, key: str) -> int | None:
        return self.size(key) if key in self._document else None

    def optional_count(self, key: str) -> int | None:
        """A whole number from 1."""
        if key not in self._document:
            return None
        value = self._typed(key, int)
        if not 1 <= value <= _LARGEST:
            raise self.error(key, f"expected a whole number from 1, found {shown(value)}")
        return value

    def flag(self, key: str) -> bool:
        return self._typed(key, bool) if key in self._document else False

    def texts(self, key: str, parser: Callable[[str], str] = str) -> tuple[str, ...]:
        values = self._typed(key, list) if key in self._document else []
        for number, value in enumerate(values):
            if not isinstance(value, str):
                raise self.error(f"{key}[{number}]", f"expected a string, found {shown(value)}")
        return tuple(self.guard(f"{key}[{number}]", partial(parser, text)) for number, text in enumerate(values))

    def tables(self, key: str) -> Iterator[Table]:
        if isinstance(self._document.get(key), dict):
            raise self.error(
                key,
                "expected an array of tables, found a table",
                hint=f"write [[{_INDEX.sub('', self._at(key))}]], in two brackets, above each record",
            )
        values = self._typed(key, list) if key in self._document else []
        for number, value in enumerate(values):
            yield self._child(f"{key}[{number}]", value)

    def named_tables(self, key: str) -> Iterator[tuple[str, Table]]:
        values = self._typed(key, dict) if key in self._document else {}
        for name, value in values.items():
            yield name, self._child(f"{key}.{key_text(name)}", value)

    def _at(self, key: str) -> str:
        return f"{self._place}.{key}" if self._place and key else self._place or key

    def _typed(self, key: str, kind: type[_T]) -> _T:
        value = self.value(key)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise self.error(key, f"expected {_TYPES[kind]}, found {shown(value)}")
        return value

    def _child(self, key: str, value: Any) -> Table:
        if not isinstance(value, dict):
            raise self.error(key, f"expected a table, found {shown(value)}")
        return Table(value, file=self._file, place=self._at(key), lenient=self.lenient)


def shown(value: Any) -> str:
    """A TOML value in an error: short, on one line, in TOML's words and not in Python's."""
    match value:
        case bool():
            return "true" if value else "false"
        case dict():
            return "a table"
        case list():
            return "an array"
        case str():
            return repr(value if len(value) <= _SHOWN else value[:_SHOWN] + "…")
        case int() if value.bit_length() > _SHOWN_BITS:
            return f"a number of {value.bit_length()} bits"
        case _:
            return str(value)
