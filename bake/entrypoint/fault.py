"""Fault: one thing that is wrong with a model, told so that a person can act: expected, found, what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

Kind = Literal[
    "missing",
    "extra",
    "truncated",
    "altered",
    "unreadable",
    "mode",
    "lfs-pointer",
    "json",
    "safetensors",
    "index",
    "config",
    "tokenizer",
    "chat-template",
    "weights",
]

FETCH_AGAIN = "fetch or copy this file again, and mount nothing over it"
"""The hint for bytes that are gone or wrong."""


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class Fault:
    """`path` lies below the model's folder, `.` is the folder itself; faults sort by it."""

    path: str
    kind: Kind
    expected: str
    found: str
    hint: str

    def document(self) -> dict[str, str]:
        """As JSON has it."""
        return {
            "path": self.path,
            "kind": self.kind,
            "expected": self.expected,
            "found": self.found,
            "hint": self.hint,
        }

    def __str__(self) -> str:
        """One line, whatever a file is called."""
        return (
            f"{printable(self.path)}: {self.kind}: expected {printable(self.expected)}, found {printable(self.found)}"
        )


def printable(text: str) -> str:
    """The text itself, or its escaped form where a terminal or a log would not show it as one line."""
    return text if text.isprintable() else ascii(text)


def report(faults: Iterable[Fault], *, folder: str = "") -> tuple[str, ...]:
    """Four lines a fault: where, what was expected, what was found, what to do. `folder` goes before each path."""
    return tuple(line for fault in faults for line in _paragraph(fault, folder=folder))


def _paragraph(fault: Fault, *, folder: str) -> tuple[str, ...]:
    place = folder if folder and fault.path == "." else f"{folder}/{fault.path}" if folder else fault.path
    return (
        f"{printable(place)}: {fault.kind}",
        f"  expected: {printable(fault.expected)}",
        f"  found:    {printable(fault.found)}",
        f"  to do:    {printable(fault.hint)}",
    )
