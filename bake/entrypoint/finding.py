"""Finding: one thing in the machine, the settings or the data that would make a training fail, late or in silence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from bake.entrypoint.fault import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """`check` is the name that --no-preflight takes. An error stops the training, a warning does not.

    `what` was found, with its numbers; `why` it matters; `todo`, what to type or change.
    """

    check: str
    severity: Severity
    what: str
    why: str
    todo: str

    def document(self) -> dict[str, str]:
        """As JSON has it."""
        return {
            "check": self.check,
            "severity": self.severity,
            "what": self.what,
            "why": self.why,
            "todo": self.todo,
        }


def paragraphs(findings: Iterable[Finding]) -> tuple[str, ...]:
    """Three lines a finding: what, why, what to do."""
    return tuple(line for finding in findings for line in _paragraph(finding))


def _paragraph(finding: Finding) -> tuple[str, ...]:
    return (
        f"{finding.severity}: {finding.check}: {printable(finding.what)}",
        f"  why:   {printable(finding.why)}",
        f"  to do: {printable(finding.todo)}",
    )
