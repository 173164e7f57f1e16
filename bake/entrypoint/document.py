"""Document: JSON text read strictly, so that every reader in the image reads the same.

Python's own parser guesses UTF-16, keeps the last of two equal keys and recurses without end; here these are told.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed document. `twice` holds the keys that one object names more than once, sorted."""

    value: object
    twice: tuple[str, ...]


def parse(content: bytes) -> object:
    """The value of a JSON text. Raises ValueError that says what was found.

    NaN and Infinity pass: they are no JSON, yet real config.json files hold them and transformers reads them.
    """
    return _load(content, json.JSONDecoder())


def read_object(path: Path) -> dict[str, Any]:
    """A file's JSON object; empty where there is none. What is wrong with a model's files, verify tells."""
    try:
        value = parse(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def parse_keys(content: bytes) -> Document:
    """As `parse`, and tells the keys that are given twice: slower, for files where that changes the meaning."""
    twice: set[str] = set()

    def collect(pairs: list[tuple[str, object]]) -> dict[str, object]:
        value = dict(pairs)
        if len(value) != len(pairs):
            twice.update(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        return value

    value = _load(content, json.JSONDecoder(object_pairs_hook=collect))
    return Document(value, tuple(sorted(twice)))


def _load(content: bytes, decoder: json.JSONDecoder) -> object:
    if not content.strip():
        raise ValueError("an empty file")
    if content.startswith(b"\xef\xbb\xbf"):
        raise ValueError("a byte order mark before the text")
    try:
        value: object = decoder.decode(content.decode())
    except UnicodeDecodeError as error:
        raise ValueError(f"no UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg} at line {error.lineno} column {error.colno}") from error
    except RecursionError as error:
        raise ValueError("brackets nested without end") from error
    return value
