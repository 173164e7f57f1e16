"""Summaries: what became of several images, as Markdown for a CI system's page. Foreign text is never markup in it."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from bake.units import size_text
from bake.views.several import foretold_totals, layers_text, moved_bytes, totals_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from bake.api import Foretold, Outcome
    from bake.digest import Digest

_LONGEST = 4000
"""Characters of a message: GitHub drops a step's summary that has more than 1 MiB."""

_PLAIN = frozenset("/:.- ")


def build_summary(outcomes: Sequence[Outcome]) -> str:
    rows = [
        (
            _code(str(item.id)),
            _image(item.output.shown, item.made.digest if item.made else None),
            item.state if item.made or item.error else f"{item.state} ({size_text(item.size)})",
            layers_text([item]) if item.made else "-",
            size_text(moved_bytes(item)) if item.made else "-",
        )
        for item in outcomes
    ]
    failed = [_failure(str(item.id), item.error.message, item.error.hint) for item in outcomes if item.error]
    table = _table(("model", "image", "outcome", "layers", "bytes"), rows)
    return "\n".join(["### bake build", "", *table, "", totals_text(outcomes), *_listed("Failed", failed)])


def plan_summary(foretold: Sequence[Foretold]) -> str:
    rows = [(_code(str(item.id)), *_planned(item)) for item in foretold]
    failed = [_failure(str(item.id), item.error.message, item.error.hint) for item in foretold if item.error]
    pushes = [(item.id, item.forecast.push) for item in foretold if item.forecast and item.forecast.push]
    refused = [f"{model}: {fault}" for model, push in pushes for fault in push.faults]
    notes = [f"{model}: {note}" for model, push in pushes for note in push.notes]
    table = _table(("model", "image", "to do", "layers"), rows)
    lists = [*_listed("Failed", failed), *_listed("The registry would refuse", refused), *_listed("Notes", notes)]
    return "\n".join(["### bake plan", "", *table, "", f"Together {foretold_totals(foretold)}", *lists])


def nothing_summary(word: str) -> str:
    return f"### bake {word}\n\nNo image changes."


def _planned(item: Foretold) -> tuple[str, str, str]:
    """Where an image goes, what is to do for it, and how its layers come there."""
    forecast = item.forecast
    if forecast is None:
        return _image(item.output.shown, None), "failed" if item.error else f"too large ({size_text(item.size)})", "-"
    if forecast.push is None:
        states = [layer.state for layer in forecast.layers]
        return _image(item.output.shown, None), f"write {size_text(forecast.write)}", _counts(states)
    push = forecast.push
    to_do = "nothing: it is there" if push.is_there else f"upload {size_text(push.upload)}"
    return _image(item.output.shown, push.digest), to_do, _counts([layer.arrival for layer in push.layers])


def _counts(words: Sequence[str]) -> str:
    return ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))


def _failure(model: str, message: str, hint: str | None) -> str:
    told = [f"{model}: {message}", *([f"hint: {hint}"] if hint else [])]
    return "\n".join(told)[:_LONGEST]


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(header)} |"
    yield f"|{' --- |' * len(header)}"
    yield from (f"| {' | '.join(row)} |" for row in rows)


def _image(shown: str, digest: Digest | None) -> str:
    return _code(shown) + (f"<br>{_code(str(digest))}" if digest else "")


def _code(text: str) -> str:
    """Text in a table's cell; what Markdown, tables or HTML could take for theirs is written as its number."""
    return f"<code>{''.join(char if char.isalnum() or char in _PLAIN else f'&#{ord(char)};' for char in text)}</code>"


def _listed(title: str, texts: Sequence[str]) -> Iterator[str]:
    """Messages as they are: in `pre`, up to its end, nothing is markup but HTML (CommonMark, "HTML blocks", 1)."""
    if texts:
        content = html.escape("\n\n".join(texts))
        yield from ("", f"**{title}**", "", f"<pre>{content}</pre>")
