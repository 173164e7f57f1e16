"""Given: one override that a person wrote, as Hydra's own parser reads it, and where it was written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from bake.entrypoint.launch import shell
from bake.entrypoint.launch.refusal import Refusal
from bake.entrypoint.override import Override

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

How = Literal["change", "add", "force", "delete"]
"""`key=`, `+key=`, `++key=`, `~key`."""

TYPED = "the command line"
IN_FILE = "the configuration file"
"""The sources of what is typed, and of what a file of the user's gives that --config-name names."""


_FORM = "write key=value, as in trainer.total_epochs=1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """`source` is what a person would call it: the command line, the lock, a file."""

    text: str
    source: str
    key: str
    value: Any
    how: How = "change"
    package: str | None = None

    @property
    def raw(self) -> str:
        """The value as it was typed."""
        return self.text.partition("=")[2]

    def leaves(self) -> Iterator[tuple[str, Any]]:
        """Every key that gets a value, as one override for each would say it."""
        return leaves(self.value, at=self.key)

    def names(self, key: str) -> bool:
        """Whether this sets the key, a part of it or all that it is part of."""
        return any(overlap(leaf, key) for leaf, _ in self.leaves())

    def refuse(self, why: str, todo: str) -> Refusal:
        return Refusal(text=self.text, source=self.source, why=why, todo=todo)


def last_of(given: Sequence[Given], key: str) -> Given | None:
    """The override that had the last word about a key; None where none names it."""
    return next((choice for choice in reversed(given) if choice.names(key)), None)


def leaves(value: Any, *, at: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for key, below in value.items():
            yield from leaves(below, at=f"{at}.{key}" if at else str(key))
    else:
        yield at, value


def overlap(one: str, other: str) -> bool:
    """Whether two dotted keys are the same, or one holds the other."""
    return one == other or one.startswith(f"{other}.") or other.startswith(f"{one}.")


def parse(texts: Iterable[str], *, source: str) -> Iterator[Given | Refusal]:
    """Each override as Hydra reads it, or why Hydra would not."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.core.override_parser.types import ChoiceSweep
    from hydra.errors import HydraException

    parser = OverridesParser.create()
    for text in texts:
        try:
            parsed = parser.parse_override(text)
            if not parsed.key_or_group:
                yield _keyless(text, source=source)
                continue
            if parsed.is_sweep_override():
                sweep = parsed.value()
                yield _several(text, source=source, bare=isinstance(sweep, ChoiceSweep) and sweep.simple_form)
                continue
            yield Given(
                text=text,
                source=source,
                key=parsed.key_or_group,
                value=parsed.value(),
                how=_how(parsed),
                package=parsed.package,
            )
        except HydraException as error:
            yield _unreadable(text, source=source, said=str(error))


def _how(parsed: Any) -> How:
    if parsed.is_delete():
        return "delete"
    if parsed.is_force_add():
        return "force"
    return "add" if parsed.is_add() else "change"


def _keyless(text: str, *, source: str) -> Refusal:
    return Refusal(text=text, source=source, why="no key before the `=`", todo=_FORM)


def _several(text: str, *, source: str, bare: bool) -> Refusal:
    """`bare`: a comma without brackets; else a function of Hydra's sweeps, as range()."""
    key, _, value = text.partition("=")
    one = shell.word(str(Override(key, value)))
    if bare:
        why = "Hydra takes a bare comma for several trainings, one for each value"
        todo = f"write {shell.word(f'{key}=[{value}]')} for a list, {one} for one text"
    else:
        why = f"Hydra takes {value.partition('(')[0]}(…) for several trainings, one for each value"
        todo = f"start one container for each value; if it is one text, write {one}"
    return Refusal(text=text, source=source, why=why, todo=todo)


def _unreadable(text: str, *, source: str, said: str) -> Refusal:
    key, equals, value = text.partition("=")
    if not equals:
        return Refusal(text=text, source=source, why="no `=` in it", todo=_FORM)
    if not key.strip("+~ "):
        return _keyless(text, source=source)
    if key.split() != [key]:
        close = "".join(key.split()) if len(key.split()) == 1 else ""
        todo = f"write {shell.word(f'{close}={value.strip()}')}" if close else _FORM
        return Refusal(text=text, source=source, why="a key has no spaces in it or around it", todo=todo)
    told = next((line for line in said.splitlines() if line and not line.startswith("Error parsing")), said)
    told = told.split(":")[0] if "Exception" in told else told
    return Refusal(
        text=text,
        source=source,
        why="Hydra cannot read it" if shell.masked(text) != text else f"Hydra cannot read it: {told}",
        todo=f"if the value is one text, write {shell.word(str(Override(key, value)))}",
    )
