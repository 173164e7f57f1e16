"""Cluster: several nodes that train as one, each with the same models, proven before Ray starts.

Every worker reports what it holds to the head, over a connection that stays open: its end is how each side learns that
the other has gone. A peer is trusted no more and no less than Ray's own port trusts one: run both in a private network.
"""

from __future__ import annotations

import socket
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import bake
from bake.entrypoint.fault import printable
from bake.entrypoint.installed import version_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import TypeAlias

    from bake.record import RecordedModel

    Tell: TypeAlias = Callable[[str], None]
    """Takes one line for a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a node says of itself. `models` are pairs of NAME@VERSION and set digest.

    `faults` are lines that say what is wrong with the models there. `software` are pairs of a name and a version, or a
    variable and its value: what must be the same everywhere, or Ray does not come up.
    """

    host: str
    models: tuple[tuple[str, str], ...]
    faults: tuple[str, ...] = ()
    bake: str = bake.__version__
    software: tuple[tuple[str, str], ...] = ()


def report_of(models: Iterable[RecordedModel], *, faults: Iterable[str], environ: Mapping[str, str]) -> Report:
    """This node's report. Its models were verified by whoever calls, with these lines of faults."""
    return Report(
        host=socket.gethostname(),
        models=tuple((f"{model.name}@{model.version}", str(model.set_digest)) for model in models),
        faults=tuple(faults),
        software=_software(environ),
    )


def _software(environ: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return (
        ("Python", f"{sys.version_info.major}.{sys.version_info.minor}"),
        *((name, version_of(name) or "absent") for name in ("ray", "verl")),
        ("RAY_AUTH_MODE", environ.get("RAY_AUTH_MODE", "disabled")),
    )


def differences(expected: Report, found: Report) -> tuple[str, ...]:
    """One line for everything in which a node is not as the head, or is at fault by itself; none where all is well."""
    theirs, ours = dict(found.models), dict(expected.models)
    return (
        *(_model_difference(name, digest, theirs) for name, digest in ours.items() if theirs.get(name) != digest),
        *(f"{printable(name)} is not on the head" for name in theirs if name not in ours),
        *(printable(fault) for fault in found.faults),
        *_software_differences(dict(expected.software), dict(found.software)),
    )


def _model_difference(name: str, digest: str, theirs: Mapping[str, str]) -> str:
    if name not in theirs:
        return f"{name} is not there (expected {digest})"
    return f"{name} is {printable(theirs[name])} (expected {digest})"


def _software_differences(ours: Mapping[str, str], theirs: Mapping[str, str]) -> Iterable[str]:
    for name, value in ours.items():
        if (other := theirs.get(name, "unknown")) != value:
            yield f"{name} is {printable(other)} (expected {value})"
