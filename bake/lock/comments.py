"""The comments of a lock, and the record that each belongs to. A person's words are never lost when bake rewrites a
lock.

A comment above a record belongs to that record, one inside a record moves above it, one above `version` stays at the
top, and one after the last record stays at the end.
"""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"^[ \t]*(?P<own>\#[^\n]*)"
    r"|^[ \t]*\[\[?(?P<table>[^\[\]\n]+)\]"
    r"|^[ \t]*(?=(?P<line>[^\s\#]))"
    r'|"""(?:\\.|[^\\])*?"{3,5}'
    r"|'''.*?'{3,5}"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
    r"|(?P<trailing>\#[^\n]*)",
    re.MULTILINE | re.DOTALL,
)
_KEY = re.compile(r"\"([^\"]*)\"|'([^']*)'|([\w-]+)")


def collect(text: str) -> dict[str, tuple[str, ...]]:
    """Comments by place, of a text that is valid TOML.

    "" is the top of the file, `base.NAME` and `model[N]` (in file order) are records, "end" the end.
    """
    found: dict[str, list[str]] = {}
    waiting: list[str] = []
    place = ""
    models = 0
    last = text.rfind("#")
    for token in _TOKEN.finditer(text):
        if token.start() > last and not waiting:
            break  # a large lock has few comments, most of them at its top
        if own := token["own"]:
            waiting.append(own.rstrip())
        elif trailing := token["trailing"]:
            found.setdefault(place, []).append(trailing.rstrip())
        elif token["table"] or token["line"]:
            match _keys(token["table"] or ""):
                case ["model"]:
                    place, models = f"model[{models}]", models + 1
                case ["base", name, *_]:
                    place = f"base.{name}"
            found.setdefault(place, []).extend(waiting)
            waiting = []
    found["end"] = waiting
    return {place: tuple(lines) for place, lines in found.items() if lines}


def _keys(table: str) -> list[str]:
    return [next(filter(None, part.groups()), "") for part in _KEY.finditer(table)]
