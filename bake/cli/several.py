"""What `build` and `plan` say of several images: results on stdout, a table and each failure on stderr, a summary."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from bake.cli.group import print_result
from bake.cli.words import settings
from bake.errors import CheckFailed, OutputError
from bake.units import count_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from bake.api import Selection, Wanted, Way, Workspace
    from bake.errors import BakeError
    from bake.lock import ModelId


def choose(workspace: Workspace, selection: Selection, *, to: str | None, summary: Path | None) -> tuple[Wanted, ...]:
    """The images that are meant. What cannot be is told before any work: the lock, `--to`, the summary's file."""
    from bake import api

    images = api.choose_images(workspace, selection, to=to)
    if summary:
        api.append_summary(summary, "")
    if not images:
        why = "the lock has no models" if selection.since is None else f"no image changes since {selection.since}"
        workspace.progress.note(f"{why}: nothing to do")
    return images


def plan_several(
    context: click.Context,
    workspace: Workspace,
    images: Sequence[Wanted],
    *,
    rate: float | None,
    max_size: int | None,
    summary: Path | None,
) -> None:
    from bake import api
    from bake.views import several, summaries

    foretold = api.foretell(workspace, images, rate=rate, max_size=max_size)
    lines = several.foretold_lines(foretold) if foretold else ()
    print_result(settings(context), several.foretold_documents(foretold), lines)
    _summarise(workspace, summary, summaries.plan_summary(foretold) if foretold else summaries.nothing_summary("plan"))
    errors: dict[ModelId, BakeError] = {item.id: item.error for item in foretold if item.error}
    for item in foretold:
        if item.forecast and item.forecast.faults:
            faults = count_text(len(item.forecast.faults), "fault")
            large = item.forecast.push and item.forecast.push.is_too_large
            hint = api.smaller_shards(item.forecast.plan) if large else None
            errors[item.id] = CheckFailed(f"{item.output.shown} would refuse it: {faults}", hint=hint)
    _end(context, errors, count=len(images), what="cannot be built so")


def build_several(
    context: click.Context,
    workspace: Workspace,
    images: Sequence[Wanted],
    way: Way,
    *,
    jobs: int,
    max_size: int | None,
    summary: Path | None,
) -> None:
    from bake import api
    from bake.views import several, summaries

    since = time.monotonic()
    outcomes = api.build_several(workspace, images, way=way, jobs=jobs, max_size=max_size)
    references = [item.made.reference for item in outcomes if item.made]
    print_result(settings(context), several.outcome_documents(outcomes), references)
    text = summaries.build_summary(outcomes) if outcomes else summaries.nothing_summary("build")
    _summarise(workspace, summary, text)
    for line in several.outcome_lines(outcomes, seconds=time.monotonic() - since) if outcomes else ():
        workspace.progress.note(line)
    if any(item.made and item.made.recorded for item in outcomes):
        workspace.progress.note(f"{workspace.path.name}: layer digests recorded, commit it")
    errors = {item.id: item.error for item in outcomes if item.error}
    _end(context, errors, count=len(images), what="failed")


def _summarise(workspace: Workspace, path: Path | None, text: str) -> None:
    """That it could be written was seen before; what is done by now is not called a failure for it."""
    from bake import api

    if path is None:
        return
    try:
        api.append_summary(path, text)
    except OutputError as error:
        workspace.progress.warn(f"there is no summary: {error.message}")


def _end(context: click.Context, errors: Mapping[ModelId, BakeError], *, count: int, what: str) -> None:
    """Tell each failure once more, and end with the exit code of all of them; stdout has said all that it says."""
    from bake import api
    from bake.views import several

    if not errors:
        return
    for model, error in errors.items():
        click.echo("\n".join(several.failure_lines(model, error)), err=True)
    click.echo(f"error: {len(errors)} of {count_text(count, 'image')} {what}", err=True)
    context.exit(api.exit_code(errors.values()))
