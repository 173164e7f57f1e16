"""Which images are meant, as `build` and `plan` are told: the options of both, and what they say together."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from bake.cli.group import MODEL
from bake.errors import UsageError
from bake.units import parse_size

if TYPE_CHECKING:
    from collections.abc import Callable

    from bake.api import Selection
    from bake.lock import ModelId

    _Command = TypeVar("_Command", bound=Callable[..., Any])


class SizeType(click.ParamType):  # type: ignore[type-arg] # not generic before click 8.3
    """Bytes as people write them: `4GB`, `500MB`, `16GiB`."""

    name = "SIZE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            return parse_size(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


TO_FORM = "REF|oci:PATH|docker[:NAME:TAG]"
_TO = (
    "Where the image goes: a reference with its registry's host, such as ghcr.io/org/{name}:{version} (registry:REF "
    "for one without), a folder, or the Docker daemon. {name} and {version} stand for the model's.  "
    "[default: docker if a daemon answers, else oci:dist/NAME-VERSION]"
)

to_option = click.option("--to", metavar=TO_FORM, envvar="BAKE_TO", help=_TO)

_OPTIONS = (
    click.argument("models", nargs=-1, type=MODEL, metavar="[NAME@VERSION]..."),
    click.option("--all", "everything", is_flag=True, help="Every model of the lock."),
    click.option(
        "--changed-since", "since", metavar="REV", help="The models whose images are others than at a git revision."
    ),
    click.option(
        "--pin",
        "pins",
        metavar="FILE",
        multiple=True,
        type=click.Path(path_type=Path),
        help="With --changed-since: a file that pins bake; a change of it changes every image. May be repeated.",
    ),
    click.option("--max-size", type=SizeType(), metavar="SIZE", help="Leave out models larger than 4GB, 500MB, …"),
    click.option(
        "--summary",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="Append what became of it as Markdown, as to $GITHUB_STEP_SUMMARY.",
    ),
)


def selection_options(command: _Command) -> _Command:
    """NAME@VERSION or another way to select; and what is done with several."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def select(
    word: str, models: tuple[ModelId, ...], *, everything: bool, since: str | None, pins: tuple[Path, ...]
) -> Selection:
    """What the words select. Raises UsageError unless that is said in exactly one way."""
    from bake import api

    ways = {"NAME@VERSION": bool(models), "--all": everything, "--changed-since": since is not None}
    said = [way for way, is_said in ways.items() if is_said]
    if len(said) != 1:
        found = " and ".join(said) or "none of them"
        raise UsageError(
            f"expected NAME@VERSION, --all or --changed-since REV, found {found}",
            hint=f"bake {word} NAME@VERSION for one, bake {word} --all for every model of the lock",
        )
    if pins and since is None:
        raise UsageError("--pin names a file to compare with a revision", hint="add --changed-since REV")
    return api.Selection(named=models, since=since, pins=pins)
