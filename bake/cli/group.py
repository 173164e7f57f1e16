"""The `bake` command itself, and what every word of it uses: NAME@VERSION as a type, the workspace, printing."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from bake import __version__
from bake.cli.words import Group, Settings, completed_settings
from bake.errors import BakeError, OutputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bake.api import Workspace
    from bake.lock import ModelId

_THEMES = {
    "The lock": ("init", "add", "lock", "list", "show"),
    "The image": ("plan", "render", "build", "push", "pull", "rebase", "verify", "run"),
    "CI": ("matrix",),
    "Housekeeping": ("cache", "completion"),
}


class ModelType(click.ParamType):  # type: ignore[type-arg] # not generic before click 8.3
    """NAME@VERSION, completed from the lock."""

    name = "NAME@VERSION"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> ModelId:
        from bake.lock import ModelId

        if isinstance(value, ModelId):
            return value
        try:
            return ModelId.parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        try:
            models = open_workspace(completed_settings(ctx)).load().models
        except BakeError:
            return []
        return [CompletionItem(str(model.id)) for model in models if str(model.id).startswith(incomplete)]


MODEL = ModelType()


@click.group(
    cls=Group,
    themes=_THEMES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "-V", "--version", message="bake %(version)s")
def bake() -> None:
    """Bake language models into container images that prove themselves before they train.

    models.lock says which models, at which commit, with which bytes. bake makes an image of an entry: the weights in
    /opt/models, VERL_MODEL_PATH set, and an entrypoint that verifies the model and then starts verl PPO training.

    \b
      bake add tiny@v1 hf://ORG/NAME    find the model, pin every file of it
      bake build tiny@v1                make the image
      bake verify tiny@v1               prove it
    """


def open_workspace(said: Settings, *, path: Path | None = None) -> Workspace:
    from bake.api import Workspace
    from bake.api.workspace import find_lock
    from bake.console import make_progress
    from bake.registry import Adjustment
    from bake.store import Store

    here()  # whatever is typed, paths are shown as seen from it
    progress = make_progress(quiet=said.quiet, bars=not said.no_progress)
    store = Store.default()
    store.tell = progress.note
    found = path or said.lock or find_lock(here())
    profile = said.registry_profile
    adjustment = Adjustment.parse(profile, source="--registry-profile") if profile is not None else None
    return Workspace(path=found, store=store, progress=progress, offline=said.offline, adjustment=adjustment)


def here() -> Path:
    """The working folder. Raises UsageError where it was deleted."""
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        raise UsageError("the working folder was deleted", hint="cd to one that exists") from error


def print_result(said: Settings, document: Any, lines: Iterable[str]) -> None:
    text = json.dumps(document, indent=2, ensure_ascii=False) if said.as_json else "\n".join(lines)
    try:
        if text:
            click.echo(text)
        sys.stdout.flush()
    except BrokenPipeError as error:
        raise click.exceptions.Exit(nobody_listens()) from error
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise OutputError(f"cannot write the result to stdout: {error.strerror}") from error


def nobody_listens() -> int:
    """The reader of stdout has gone, as `head` does: 128 + SIGPIPE. Python must not try to flush what is left."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 141
