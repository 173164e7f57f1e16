"""Outputs: `--to` as it is typed, and where an image goes when nothing is.

What begins with `oci` or `docker` says so; anything else is a reference, and must name its registry's host: a path that
somebody forgot to write `oci:` before is never pushed to Docker Hub. `{name}` and `{version}` stand for the model's.
"""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from bake.api.workspace import shown_path
from bake.daemon import Daemon, may_answer
from bake.errors import DaemonError, UsageError
from bake.registry import Reference

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bake.api.workspace import Workspace
    from bake.lock import ModelId

_PLACEHOLDER = re.compile(r"\{(name|version)\}")
_BRACED = re.compile(r"\{[^{}]*\}|[{}]")

_NAME = re.compile(r"[a-z0-9][a-zA-Z0-9._:/-]*:[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")

_HOST_AND_PORT = re.compile(r"(?:[\w.-]+|\[[0-9a-fA-F:]+\]):\d+/")
"""So begins a reference whose host has a port, be it called `registry` or `docker`, as hosts beside a CI job are."""

_EXAMPLE = "ghcr.io/org/llama3-8b:v1.0.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Where an image goes: `oci` and a folder, `docker` and a name with a tag, or `registry` and a reference.

    The reference is whole: host, repository and tag.
    """

    kind: Literal["oci", "docker", "registry"]
    place: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.place}"

    @property
    def shown(self) -> str:
        """As a person would type it here."""
        match self.kind:
            case "oci":
                return f"oci:{shown_path(Path(self.place))}"
            case "docker":
                return str(self)
            case "registry":
                return self.place


def choose_output(workspace: Workspace, model: ModelId, text: str | None) -> Output:
    """What `--to` says; without it, the daemon if one answers, else `dist/NAME-VERSION`. Raises UsageError."""
    output = _choose(workspace, model, text)
    if workspace.adjustment and output.kind != "registry":
        raise UsageError(f"{workspace.adjustment.source} is about a registry that is pushed to", hint="add --to REF")
    return output


def _choose(workspace: Workspace, model: ModelId, text: str | None) -> Output:
    name = f"{model.name}:{model.version}"
    text = text and fill_in(model, text)
    if text is not None and not text.isprintable():
        raise UsageError(f"--to: expected a path of printable characters, found {text!r}")
    if text is None:
        return Output(kind="docker", place=name) if _daemon_answers() else _default(workspace, model)
    kind, colon, place = text.partition(":")
    if kind == "oci" and place:
        return Output(kind="oci", place=place)
    if text in {"docker", "oci"}:
        return Output(kind="docker", place=name) if text == "docker" else _default(workspace, model)
    if kind == "registry" or names_host(text):
        return registry_output(model, text)
    if kind == "docker" and colon:
        if not _NAME.fullmatch(place):
            raise UsageError(f"--to: expected docker:REPOSITORY:TAG, found {text!r}", hint=f"--to docker:{name}")
        return Output(kind="docker", place=place)
    raise UsageError(
        f"--to: expected a reference with its host ({_EXAMPLE}), docker, docker:REPOSITORY:TAG or oci:PATH, "
        f"found {text!r}",
        hint=f"--to oci:{text.removeprefix('oci:') or 'dist/image'} for a folder; "
        "a reference of Docker Hub begins with docker.io/",
    )


def registry_output(model: ModelId, text: str) -> Output:
    """A reference in a registry, `registry:` before it or not; its tag is the model's version, unless it has one.

    Raises UsageError where it is none, or names an image by digest, which nobody can choose.
    """
    text = fill_in(model, text)
    written = text if _HOST_AND_PORT.match(text) else text.removeprefix("registry:")
    reference = Reference.parse(written)
    if reference.digest is not None:
        raise UsageError(
            f"not a place to push to: {written!r}: its digest is that of an image which is there",
            hint=f"give a tag: {reference.name}:{reference.tag or model.version}",
        )
    if not written.endswith(f":{reference.tag}"):
        reference = replace(reference, tag=model.version)
    return Output(kind="registry", place=str(reference))


def choose_outputs(
    workspace: Workspace, models: Sequence[ModelId], text: str | None, *, others: Sequence[ModelId] = ()
) -> tuple[Output, ...]:
    """`choose_output` for several models, each with a place of its own.

    No place may be that of one of the `others` either: those that another run would build with the same `--to`. Raises
    UsageError.
    """
    if text is None:  # asked once: all go to the same kind of place
        text = "docker" if _daemon_answers() else "oci"
    chosen = {model: choose_output(workspace, model, text) for model in dict.fromkeys((*models, *others))}
    held: dict[str, ModelId] = {}
    for model, output in chosen.items():
        if (other := held.setdefault(_place(output), model)) != model:
            raise UsageError(
                f"--to: {other} and {model} would both go to {output.shown}", hint=f"--to '{_apart(output)}'"
            )
    return tuple(chosen[model] for model in models)


def fill_in(model: ModelId, text: str) -> str:
    """A place with the model's name and version where it says `{name}` and `{version}`. Raises UsageError."""
    unknown = [found for found in _BRACED.findall(text) if not _PLACEHOLDER.fullmatch(found)]
    if unknown:
        raise UsageError(
            f"unknown placeholder {unknown[0]!r} in {text!r}",
            hint="{name} and {version} stand for the model's; other braces cannot be in it",
        )
    return _PLACEHOLDER.sub(lambda found: str(getattr(model, found[1])), text)


def _place(output: Output) -> str:
    """What is the same where two outputs are: a folder may be written in many ways."""
    return f"oci:{os.path.abspath(output.place)}" if output.kind == "oci" else str(output)  # noqa: PTH100


def _apart(output: Output) -> str:
    """How to say `--to` so that every model has a place of its own."""
    match output.kind:
        case "oci":
            return "oci:dist/{name}/{version}"
        case "docker":
            return "docker:{name}:{version}"
        case "registry":
            return f"{Reference.parse(output.place).host}/org/{{name}}:{{version}}"


def names_host(text: str) -> bool:
    """Whether a text is a reference that begins with its registry's host; `dist/image` and `./x` may be folders."""
    if _HOST_AND_PORT.match(text) or text.startswith(("http://", "https://")):  # a URL is told to be none
        return True
    first, slash, _ = text.partition("/")
    return bool(slash) and (first == "localhost" or ("." in first.strip(".") and ":" not in first))


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
