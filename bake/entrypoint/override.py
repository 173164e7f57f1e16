"""Override: one `key=value` of Hydra's command line, quoted so that Hydra reads back the very value.

The grammar: https://hydra.cc/docs/advanced/override_grammar/basic/. A bare value may be a number, a sweep or a
function call where a string was meant, so that strings are always quoted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

Value: TypeAlias = "str | int | float | bool | Sequence[Value] | Mapping[str, Value] | None"


@dataclass(frozen=True, slots=True)
class Override:
    """`key` may begin with `+` or `++`, as Hydra has it for keys that its configuration does not have yet."""

    key: str
    value: Value

    def __str__(self) -> str:
        return f"{self.key}={text_of(self.value)}"


def text_of(value: Value) -> str:
    """A value as Hydra's grammar has it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, Mapping):
        return f"{{{','.join(f'{key}:{text_of(item)}' for key, item in value.items())}}}"
    return f"[{','.join(text_of(item) for item in value)}]"


def _quoted(text: str) -> str:
    doubled = re.sub(r"(\\+)(?='|$)", r"\1\1", text)  # a backslash counts only before a quote
    quoted = doubled.replace("'", r"\'")
    return f"'{quoted}'"
