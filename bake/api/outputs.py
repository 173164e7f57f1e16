"""Outputs: `--to` as it is typed, and where an image goes when nothing is."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from bake.api.workspace import shown_path
from bake.daemon import Daemon, may_answer
from bake.errors import DaemonError, UsageError

if TYPE_CHECKING:
    from bake.api.workspace import Workspace
    from bake.lock import ModelId

_NAME = re.compile(r"[a-z0-9][a-zA-Z0-9._:/-]*:[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Where an image goes: `oci` and a folder, or `docker` and a name with a tag."""

    kind: Literal["oci", "docker"]
    place: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.place}"

    @property
    def shown(self) -> str:
        """As a person would type it here."""
        return f"oci:{shown_path(Path(self.place))}" if self.kind == "oci" else str(self)


def choose_output(workspace: Workspace, model: ModelId, text: str | None) -> Output:
    """What `--to` says; without it, the daemon if one answers, else `dist/NAME-VERSION`. Raises UsageError."""
    name = f"{model.name}:{model.version}"
    if text is not None and not text.isprintable():
        raise UsageError(f"--to: expected a path of printable characters, found {text!r}")
    if text is None:
        return Output(kind="docker", place=name) if _daemon_answers() else _default(workspace, model)
    kind, colon, place = text.partition(":")
    if kind == "oci" and place:
        return Output(kind="oci", place=place)
    if text in {"docker", "oci"}:
        return Output(kind="docker", place=name) if text == "docker" else _default(workspace, model)
    if kind == "docker" and colon:
        if not _NAME.fullmatch(place):
            raise UsageError(f"--to: expected docker:REPOSITORY:TAG, found {text!r}", hint=f"--to docker:{name}")
        return Output(kind="docker", place=place)
    raise UsageError(
        f"--to: expected oci:PATH, docker or docker:REPOSITORY:TAG, found {text!r}",
        hint=f"--to oci:{place or text or 'dist/image'}",
    )


def _default(workspace: Workspace, model: ModelId) -> Output:
    return Output(kind="oci", place=str(workspace.default_output(model)))


def _daemon_answers() -> bool:
    if not may_answer():
        return False
    try:
        with contextlib.closing(Daemon.connect()):
            return True
    except DaemonError:
        return False
