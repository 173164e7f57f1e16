"""Part: one thing that takes memory while verl trains, and when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bake.entrypoint.amounts import size

Phase = Literal["generate", "update actor", "update critic"]

PHASES: tuple[Phase, ...] = ("generate", "update actor", "update critic")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """`size` in bytes; `how` it was counted; `certain` unless it is a rough share.

    In a node's memory, `lasts` is False for what is gone once the models are loaded.
    """

    name: str
    size: int
    how: str
    phases: tuple[Phase, ...] = PHASES
    certain: bool = True
    lasts: bool = True

    def __str__(self) -> str:
        rough = "" if self.certain else "about "
        return f"{self.name} {rough}{size(self.size)} ({self.how})"
