"""Servers and a project for the CI files: nothing of whoever runs the tests reaches a job."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from tests.ci.github import GitHub
from tests.ci.gitlab import GitLab
from tests.ci.project import Project
from tests.ci.runs import Runs
from tests.needs import without
from tests.registry.server import FakeRegistry

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with TemporaryDirectory(prefix="bake-test-") as name:
        yield Path(name).resolve()


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    """An empty registry in which nothing is read or written without a login."""
    with FakeRegistry() as fake:
        fake.auth = "token"
        yield fake


@pytest.fixture
def github(tmp_path: Path, registry: FakeRegistry) -> Iterator[GitHub]:
    """A project with two models, alpha@v1 and beta@v1, of which nothing has run yet."""
    for program in ("curl", "jq"):
        if not shutil.which(program):
            without(f"{program} is not there, as it is on GitHub's runners", required="TOOLS")
    project = Project.begin(tmp_path, "github")
    project.add_model("alpha")
    project.add_model("beta")
    project.commit()
    with Runs() as runs:
        yield GitHub(project, registry, runs)


@pytest.fixture
def gitlab(tmp_path: Path, registry: FakeRegistry) -> GitLab:
    """The same project at GitLab."""
    project = Project.begin(tmp_path, "gitlab")
    project.add_model("alpha")
    project.add_model("beta")
    project.commit()
    return GitLab(project, registry)
