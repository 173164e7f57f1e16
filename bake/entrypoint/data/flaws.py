"""Flaws: what is wrong with single rows, counted over all files of a split, so that one cause is told once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from bake.entrypoint.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bake.entrypoint.finding import Severity

_SHOWN = 3
_LONGEST = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One way for a row to be wrong: the words of its finding. `text` goes on after the column's name.

    Some rows of a kind that is `spared` do not end a training, nor of one that is `filtered`, where verl's filter is on
    and drops them: these are a warning, and an error where all rows are so.
    """

    check: str
    severity: Severity
    text: str
    why: str
    todo: str
    spared: bool = False
    filtered: bool = False

    def severity_of(self, *, everywhere: bool, filtering: bool) -> Severity:
        harmless = not everywhere and (self.spared or (self.filtered and filtering))
        return "warning" if harmless else self.severity


class Flaw(NamedTuple):
    """One row that is wrong: `column` of the row at `place`, where `found` is what it holds; empty to show nothing."""

    kind: Kind
    column: str
    place: str
    found: str = ""


def findings_of(
    sampled: Iterable[Flaw], whole: Iterable[Flaw] = (), *, key: str, looked: int, filtering: bool
) -> tuple[Finding, ...]:
    """One finding a kind and column, with the first places. `looked` is how many rows the sample has.

    `whole` are first places in all rows, told where the sample met no row of the kind. `filtering` says that verl
    drops rows whose prompt it cannot render.
    """
    groups = _grouped(sampled)
    beyond = {name: group for name, group in _grouped(whole).items() if name not in groups}
    found = [_finding(group, key=key, looked=looked, filtering=filtering) for group in groups.values()]
    found += [_finding(group, key=key, looked=None, filtering=filtering) for group in beyond.values()]
    return tuple(found)


def _finding(group: Sequence[Flaw], *, key: str, looked: int | None, filtering: bool) -> Finding:
    kind, column, _, _ = group[0]
    share = "some rows, the first of them" if looked is None else _share(len(group), looked)
    return Finding(
        check=kind.check,
        severity=kind.severity_of(everywhere=len(group) == looked, filtering=filtering),
        what=f"{key}: {column} {kind.text}, in {share}: {_places(group)}",
        why=kind.why,
        todo=kind.todo,
    )


def _share(count: int, looked: int) -> str:
    if count == looked:
        return f"all {looked:,} rows looked at" if looked != 1 else "the one row looked at"
    return f"{count:,} of the {looked:,} rows looked at"


def _grouped(flaws: Iterable[Flaw]) -> dict[tuple[Kind, str], list[Flaw]]:
    groups: dict[tuple[Kind, str], list[Flaw]] = {}
    for flaw in flaws:
        groups.setdefault((flaw.kind, flaw.column), []).append(flaw)
    return groups


def _places(group: Sequence[Flaw]) -> str:
    """The first places; of the first, also what is there."""
    first, *others = group[:_SHOWN]
    held = f"{first.place} ({first.found})" if first.found else first.place
    return ", ".join([held, *(flaw.place for flaw in others)]) + (" and so on" if len(group) > _SHOWN else "")


def shown(value: object) -> str:
    """A value in a few words, however much it holds. Raises nothing: a row may hold anything."""
    try:
        text = repr(value[:_LONGEST] if isinstance(value, (str, bytes, list)) else value)
    except (RecursionError, ValueError):  # nested without end, or a number of too many digits
        return f"a {type(value).__name__}"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
