"""What a run left in the registry, and what became of its jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cli.pushed import tags_in

if TYPE_CHECKING:
    from tests.ci.github import Job
    from tests.registry.server import FakeRegistry

OWNER = "org-with-capitals"


def tags(registry: FakeRegistry) -> dict[str, list[str]]:
    """The tags of each repository that has any, but for those that never move."""
    found = {name: [tag for tag in tags_in(registry, name=name) if "-" not in tag] for name in registry.manifests}
    return {name: held for name, held in sorted(found.items()) if held}


def written(registry: FakeRegistry) -> list[str]:
    """What was asked of the registry that could have changed it, since its log was last cleared."""
    return [line for line in registry.lines() if not line.startswith(("GET ", "HEAD "))]


def results(jobs: dict[str, Job] | None) -> dict[str, str]:
    assert jobs is not None
    return {name: job.result for name, job in jobs.items()}


def logs(jobs: dict[str, Job] | None) -> str:
    assert jobs is not None
    return "\n".join(job.log for job in jobs.values())
