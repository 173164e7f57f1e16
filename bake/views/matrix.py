"""What CI is to build, as people, GitHub, GitLab and other programs read it: `matrix`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

from bake.changes import at_most, is_nothing
from bake.units import count_text, size_text
from bake.views.table import columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bake.changes import Changes, Job

Size = Literal["small", "medium", "large"]

SIZES: dict[Size, int | None] = {"small": 10 * 1000**3, "medium": 100 * 1000**3, "large": None}
"""A job's size by the bytes of its weights: each is for fewer bytes than this."""

GITHUB_JOBS = 256
"""A matrix has no more jobs (GitHub's "Usage limits" of workflows)."""

GITHUB_RUNNER = "ubuntu-24.04"
"""It has 14 GB of free disk, which is enough for any size: layers are made while they are sent."""

GITLAB_TEMPLATE = ".gitlab/bake-job.yml"
GITLAB_JOB = ".bake"
"""The hidden job that each job of a child pipeline extends, and the file that has it."""


def matrix_lines(changes: Changes, *, since: str | None) -> Iterator[str]:
    if changes.work:
        why = ("WHY",) if since is not None else ()
        rows: list[tuple[str, ...]] = [("MODEL", *why, "SIZE", "JOB")]
        rows += [
            (str(model.id), *([", ".join(model.reasons)] if why else []), size_text(model.size), str(number))
            for number, job in enumerate(changes.work, start=1)
            for model in job.models
        ]
        yield from columns(rows, right=frozenset({len(rows[0]) - 2, len(rows[0]) - 1}))
    yield _summary(changes, since=since)


def _summary(changes: Changes, *, since: str | None) -> str:
    count = len(changes.chosen)
    if since is None or is_nothing(since):
        said = count_text(count, "image") if count else "the lock has no models"
    else:
        of = f"{count} of {count_text(count + changes.kept, 'image')}"
        verb = "changes" if count == 1 else "change"
        said = f"{of} {verb} since {since}" if count else f"no image changes since {since}"
    jobs = f": {size_text(changes.size)} in {count_text(len(changes.work), 'job')}" if count else ""
    gone = f"; removed: {', '.join(map(str, changes.removed))}" if changes.removed else ""
    return f"{said}{jobs}{gone}"


def matrix_document(changes: Changes, *, since: str | None) -> dict[str, Any]:
    return {
        "since": since,
        "models": [
            {"model": str(model.id), "reasons": list(model.reasons), "bytes": model.size, "job": number}
            for number, job in enumerate(changes.work, start=1)
            for model in job.models
        ],
        "jobs": [_job(job) | {"models": [str(model.id) for model in job.models]} for job in changes.work],
        "bytes": changes.size,
        "unchanged": changes.kept,
        "removed": [str(model) for model in changes.removed],
    }


def github_matrix(changes: Changes, runners: Mapping[Size, Sequence[str]]) -> str:
    """One line, for `$GITHUB_OUTPUT` and `fromJSON`. The smallest jobs are put together where there are too many."""
    include = [_job(job) | {"runner": _runner(job, runners)} for job in at_most(changes.work, GITHUB_JOBS)]
    return json.dumps({"include": include}, separators=(",", ":"))


def gitlab_pipeline(changes: Changes, runners: Mapping[Size, Sequence[str]], *, template: str | None = None) -> str:
    """A child pipeline, in JSON, which is YAML too; `template` is the file that has the job `.bake`."""
    return json.dumps(_pipeline(changes, runners, template=template or GITLAB_TEMPLATE), indent=2)


def _pipeline(changes: Changes, runners: Mapping[Size, Sequence[str]], *, template: str) -> dict[str, Any]:
    """GitLab refuses a pipeline without a job, so there is always one."""
    if not changes.work:
        idle = {"script": ["echo 'no image changes'"], "variables": {"GIT_STRATEGY": "none"}}
        return {"no image changes": idle | _tags(runners.get("small", ()))}
    jobs = {
        _name(job): {"extends": GITLAB_JOB, "variables": {"MODELS": _models(job)}} | _tags(runners.get(_size(job), ()))
        for job in changes.work
    }
    return {"include": [{"local": f"/{template.lstrip('/')}"}], **jobs}


def _job(job: Job) -> dict[str, Any]:
    return {"name": _name(job), "models": _models(job), "bytes": job.size, "size": _size(job)}


def _name(job: Job) -> str:
    """Short, and of no other job: every model is in one."""
    more = len(job.models) - 1
    return f"{job.models[0].id}{f' and {more} more' if more else ''}"


def _models(job: Job) -> str:
    return " ".join(str(model.id) for model in job.models)


def _size(job: Job) -> Size:
    return next(size for size, limit in SIZES.items() if limit is None or job.size < limit)


def _runner(job: Job, runners: Mapping[Size, Sequence[str]]) -> str | list[str]:
    """What `runs-on` takes: a label, or several that a runner must have."""
    labels = runners.get(_size(job), (GITHUB_RUNNER,))
    return labels[0] if len(labels) == 1 else list(labels)


def _tags(labels: Sequence[str]) -> dict[str, Any]:
    return {"tags": list(labels)} if labels else {}
