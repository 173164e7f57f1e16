"""Refusal: one override, variable or file that verl must not be started with, told so that a person can mend it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bake.entrypoint.fault import printable
from bake.entrypoint.launch.shell import masked, without_secrets
from bake.errors import LaunchError

if TYPE_CHECKING:
    from collections.abc import Sequence

ELSEWHERE = "a secret is safer in the environment, as with -e WANDB_API_KEY"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """`text` as it was written, in `source`; `why` it cannot be; `todo`, what to type instead."""

    text: str
    source: str
    why: str
    todo: str

    def __str__(self) -> str:
        """Three lines, without the secrets that the text holds."""
        text = masked(self.text)
        why, todo = (without_secrets(told, of=self.text) for told in (self.why, self.todo))
        if text != self.text:
            todo = f"{todo}; {ELSEWHERE}"
        return f"{printable(self.source)}: {printable(text)}\n  why:   {printable(why)}\n  to do: {printable(todo)}"


def fail(refusals: Sequence[Refusal]) -> LaunchError:
    """All of them in one error, in the order found; what is told twice of one override is told once."""
    told = tuple(dict.fromkeys(refusals))
    count = "1 setting is" if len(told) == 1 else f"{len(told)} settings are"
    return LaunchError(
        "\n".join((f"verl was not started: {count} refused", *map(str, told))),
        hint="`train --dry-run` checks again without starting anything",
    )
