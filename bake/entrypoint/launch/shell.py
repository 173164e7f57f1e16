"""Shell: what a person is told to type, so that it can be pasted, and without the secrets that are in it."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from bake.entrypoint.override import Override

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bake.entrypoint.override import Value

MASK = "***"

_NAMES = r"(?:api_?key|token|secret|password)"
_ASSIGNED = re.compile(rf"^\W*[\w.@/+~-]*{_NAMES}['\"]?=(?P<value>.+)$", re.IGNORECASE | re.DOTALL)
_NESTED = re.compile(
    rf"{_NAMES}['\"]?\s*[:=]\s*(?P<value>'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|[^\s,}}\]]+)", re.IGNORECASE
)
_BARE = re.compile(r"(?!(?:null|true|false|nan|inf)$)[a-z_/][\w/.-]*", re.ASCII | re.IGNORECASE)
"""A text that Hydra's grammar reads as itself: no number, no word of its own, nothing of its punctuation."""


def word(text: str) -> str:
    """One word of a command line, quoted where a shell would read something else into it."""
    if "'" in text and not set(text) & set('"$`\\!'):
        return f'"{text}"'  # Hydra's own quotes stay readable
    return shlex.quote(text)


def override(key: str, value: Value) -> str:
    """`key=value` that a shell and Hydra's grammar hand on as the very value."""
    bare = isinstance(value, str) and _BARE.fullmatch(value)
    return word(f"{key}={value}" if bare else str(Override(key, value)))


def masked(word: str) -> str:
    """An override with *** for each value of a key that names a secret, as `+a.api_key=***`; all else as it is."""
    for start, end in sorted(_secrets(word), reverse=True):
        word = word[:start] + MASK + word[end:]
    return word


def without_secrets(text: str, *, of: str) -> str:
    """`text` with *** for each secret of the override `of`, wherever it stands as a value."""
    for start, end in _secrets(of):
        for secret in {of[start:end], of[start:end].strip("'\"")} - {""}:
            text = re.sub(rf"(?<![\w.]){re.escape(secret)}(?!\w)", MASK, text)
    return text


def _secrets(word: str) -> Iterator[tuple[int, int]]:
    """Where the values of secrets begin and end."""
    if whole := _ASSIGNED.match(word):
        yield whole.span("value")
    else:
        yield from (found.span("value") for found in _NESTED.finditer(word))
