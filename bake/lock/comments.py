"""The comments of a lock, and the record that each belongs to. A person's words are never lost when bake rewrites a
lock.

A comment above a record belongs to that record, one inside a record moves above it, one above `version` stays at the
top, and one after the last record stays at the end.
"""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?"""'
    r"|'''.*?'''"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
    r"|(?P<own>^[ \t]*)?(?P<comment>\#[^\n]*)"
    r"|^[ \t]*\[\[?[ \t]*(?P<table>(?:[\w.-]|\"[\w.-]+\")+)[ \t]*\]"
    r"|^(?P<version>version)[ \t]*=",
    re.MULTILINE | re.DOTALL,
)


def collect(text: str) -> dict[str, tuple[str, ...]]:
    """Comments by place:

    "" is the top of the file, `base.NAME` and `model[N]` (in file order) are records, "end" the end.
    """
    found: dict[str, list[str]] = {"": []}
    waiting: list[str] = []
    place = ""
    models = 0
    for token in _TOKEN.finditer(text):
        if comment := token["comment"]:
            target = waiting if token["own"] is not None else found.setdefault(place, [])
            target.append(comment.rstrip())
        elif token["version"] and not place:
            found[""] += waiting
            waiting = []
        elif table := token["table"]:
            if table == "model":
                place, models = f"model[{models}]", models + 1
            elif table.startswith("base."):
                place = "base." + table.removeprefix("base.").strip('"')
            found.setdefault(place, []).extend(waiting)
            waiting = []
    if waiting:
        found["end"] = waiting
    return {place: tuple(lines) for place, lines in found.items() if lines}
