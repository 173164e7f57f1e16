"""Servers and a project for the CI files: nothing of whoever runs the tests reaches a job.

What most tests begin with is made once, and copied: a project of two models, and all that its first push leaves.
"""

from __future__ import annotations

import shutil
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest

from tests.ci.api import DEPLOYMENTS, RUNS, Api
from tests.ci.github import GitHub
from tests.ci.gitlab import GitLab
from tests.ci.project import Project
from tests.needs import without
from tests.registry.server import FakeRegistry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.ci.github import Job as GitHubJob
    from tests.ci.gitlab import Job as GitLabJob


@dataclass(frozen=True, slots=True)
class Left:
    """What a first push left: the project, what its registry holds, the CI system's past, and the jobs that ran."""

    project: Project
    blobs: dict[str, dict[str, bytes]]
    manifests: dict[str, dict[str, tuple[str, bytes]]]
    past: list[dict[str, Any]]
    jobs: dict[str, Any]

    def restore(self, registry: FakeRegistry, api: Api) -> None:
        registry.blobs |= deepcopy(self.blobs)
        registry.manifests |= deepcopy(self.manifests)
        api.items += self.past


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with TemporaryDirectory(prefix="bake-test-") as name:
        yield Path(name).resolve()


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    """An empty registry in which nothing is read or written without a login."""
    with open_registry() as fake:
        yield fake


def open_registry() -> FakeRegistry:
    fake = FakeRegistry()
    fake.auth = "token"
    return fake


def begin(root: Path, system: str) -> Project:
    """A project with two models, alpha@v1 and beta@v1, of which nothing has run yet."""
    project = Project.begin(root, system)
    project.add_model("alpha")
    project.add_model("beta")
    project.commit()
    return project


@pytest.fixture(scope="session")
def at_github(tmp_path_factory: pytest.TempPathFactory) -> Project:
    for program in ("curl", "jq"):
        if not shutil.which(program):
            without(f"{program} is not there, as it is on GitHub's runners", required="TOOLS")
    return begin(tmp_path_factory.mktemp("github").resolve(), "github")


@pytest.fixture(scope="session")
def at_gitlab(tmp_path_factory: pytest.TempPathFactory) -> Project:
    if not shutil.which("curl"):
        without("curl is not there, as it is in the image of the jobs", required="TOOLS")
    return begin(tmp_path_factory.mktemp("gitlab").resolve(), "gitlab")


@pytest.fixture
def github(at_github: Project, tmp_path: Path, registry: FakeRegistry) -> Iterator[GitHub]:
    """A project with two models, alpha@v1 and beta@v1, of which nothing has run yet."""
    with Api(RUNS) as runs:
        yield GitHub(at_github.copy(tmp_path / "project"), registry, runs)


@pytest.fixture
def gitlab(at_gitlab: Project, tmp_path: Path, registry: FakeRegistry) -> Iterator[GitLab]:
    """The same project at GitLab."""
    with Api(DEPLOYMENTS) as deployments:
        yield GitLab(at_gitlab.copy(tmp_path / "project"), registry, deployments)


@pytest.fixture(scope="session")
def left_at_github(at_github: Project, tmp_path_factory: pytest.TempPathFactory) -> Left:
    with open_registry() as registry, Api(RUNS) as runs:
        project = at_github.copy(tmp_path_factory.mktemp("pushed") / "project")
        jobs: dict[str, GitHubJob] | None = GitHub(project, registry, runs).push(base=None)
        return Left(project, registry.blobs, registry.manifests, runs.items, jobs or {})


@pytest.fixture(scope="session")
def left_at_gitlab(at_gitlab: Project, tmp_path_factory: pytest.TempPathFactory) -> Left:
    with open_registry() as registry, Api(DEPLOYMENTS) as deployments:
        project = at_gitlab.copy(tmp_path_factory.mktemp("pushed") / "project")
        jobs: dict[str, GitLabJob] = GitLab(project, registry, deployments).push(base=None)
        return Left(project, registry.blobs, registry.manifests, deployments.items, jobs)
