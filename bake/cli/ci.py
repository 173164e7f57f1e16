"""The words of CI: matrix."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bake.cli.group import bake, open_workspace, print_result
from bake.cli.words import settings
from bake.errors import UsageError

if TYPE_CHECKING:
    from bake.views.matrix import Size

_SIZES = ("small", "medium", "large")


class RunnerType(click.ParamType):  # type: ignore[type-arg] # not generic before click 8.3
    """SIZE=LABEL: the size of a job, and the labels of the runners that take it."""

    name = "SIZE=LABEL"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Size, tuple[str, ...]]:
        if isinstance(value, tuple):
            return value
        size, _, text = value.partition("=")
        labels = tuple(label.strip() for label in text.split(","))
        if size not in _SIZES or not all(labels):
            self.fail(f"expected small=LABEL, medium=LABEL or large=LABEL, found {value!r}", param, ctx)
        return size, labels


@bake.command()
@click.option("--since", metavar="REV", help="Only models whose images are others than at this git revision.")
@click.option(
    "--pin",
    "pins",
    metavar="FILE",
    type=click.Path(path_type=Path),
    multiple=True,
    help="A file that pins bake itself, such as a requirements file: where it changed, every image may be another. "
    "May be repeated.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "github", "gitlab", "json"]),
    help="github: one line for a matrix. gitlab: a child pipeline. json: all that is known.  [default: text]",
)
@click.option(
    "--runner",
    "runners",
    type=RunnerType(),
    multiple=True,
    help="The runner of small (under 10 GB), medium (under 100 GB) or large jobs: its label, or LABEL,LABEL for one "
    "that has both. May be repeated.  [default: ubuntu-24.04 on GitHub, any on GitLab]",
)
@click.option(
    "--template",
    metavar="FILE",
    help="With --format gitlab: the file of the repository that has the job .bake, which every job extends.  "
    "[default: .gitlab/bake-job.yml]",
)
@click.pass_context
def matrix(
    context: click.Context,
    since: str | None,
    pins: tuple[Path, ...],
    form: str | None,
    *,
    runners: tuple[tuple[Size, tuple[str, ...]], ...],
    template: str | None,
) -> None:
    """Say which images CI must build, and in which jobs.

    Without --since that is every image of the lock. With it, the lock as it lies here is compared with the lock at REV,
    and an image is named where it would be another one: its files, those of its critic or reward model, its base or
    wheels, what it says of itself, or the bake that goes into it. Comments, order and digests of layers count nothing.

    Two revisions are compared, as `git diff REV` does; REV... is what a branch changed since it left REV. In CI, REV is
    what was built before: GitHub's event.before on a push, base.sha for a pull request. One of zeros alone, or an empty
    one, which is what a first push has, names every model. The history must be there: fetch-depth: 0.

    Models that share a layer are one job, so that it is packed and sent once; the biggest comes first. Sizes are those
    of the weights. The exit code is 0 also where nothing changes.

    \b
      bake matrix --since origin/main...
      matrix=$(bake matrix --since "$BEFORE" --format github)
      echo "matrix=$matrix" >> "$GITHUB_OUTPUT"
      bake matrix --since "$CI_COMMIT_BEFORE_SHA" --format gitlab > child.yml
      bake matrix --format github --runner large=big-disk
    """
    from bake import api, views

    said = settings(context)
    form = _form(form, as_json=said.as_json)
    if runners and form not in {"github", "gitlab"}:
        raise UsageError("--runner is for a CI system", hint="add --format github or --format gitlab")
    if template and form != "gitlab":
        raise UsageError("--template names a file for GitLab", hint="add --format gitlab")
    changes = api.changed_models(open_workspace(said), since, pins=pins)
    if form == "github":
        lines = [views.github_matrix(changes, dict(runners))]
    elif form == "gitlab":
        lines = [views.gitlab_pipeline(changes, dict(runners), template=template)]
    else:
        lines = list(views.matrix_lines(changes, since=since))
    print_result(replace(said, as_json=form == "json"), views.matrix_document(changes, since=since), lines)


def _form(form: str | None, *, as_json: bool) -> str:
    if as_json and form not in {None, "json"}:
        raise UsageError(f"--json and --format {form} are two formats", hint="leave one out")
    return form or ("json" if as_json else "text")
