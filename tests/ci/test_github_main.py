"""The workflow for GitHub on main, run: which images are pushed, what is sent for them, and what the next run mends."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.ci.api import RUNS, Api
from tests.ci.github import GitHub
from tests.ci.project import REQUIREMENT, Project
from tests.ci.pushes import OWNER, logs, results, tags, written
from tests.cli.pushed import faults_in, weights_sent

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.ci.conftest import Left
    from tests.registry.server import FakeRegistry

pytestmark = pytest.mark.slow
FIRST = {"check": "skipped", "changes": "success", "push alpha@v1": "success", "push beta@v1": "success"}
ALPHA = 'name = "alpha"\nversion = "v1"\n'
EPOCHS = f'{ALPHA}overrides = ["trainer.total_epochs=1"]\n'
IDLE = {"check": "skipped", "changes": "success", "push": "skipped"}


@pytest.fixture
def pushed(left_at_github: Left, tmp_path: Path, registry: FakeRegistry) -> Iterator[GitHub]:
    """After main's first push, which went well; the registry's log is empty."""
    with Api(RUNS) as runs:
        left_at_github.restore(registry, runs)
        yield GitHub(left_at_github.project.copy(tmp_path / "project"), registry, runs)


def note(github: GitHub, text: str) -> str:
    """Commit a lock that only a person sees another in; returns the commit before."""
    before = github.project.history.run("rev-parse", "HEAD")
    github.project.lock.write_text(f"# {text}\n{github.project.lock.read_text('utf-8')}", "utf-8")
    github.project.commit()
    return before


def add(github: GitHub, *names: str) -> str:
    """Commit models that are new; returns the commit before."""
    before = github.project.history.run("rev-parse", "HEAD")
    for name in names:
        github.project.add_model(name)
    github.project.commit()
    return before


@pytest.mark.usefixtures("pushed")
def test_the_first_push_puts_every_image_there_whole(left_at_github: Left, registry: FakeRegistry) -> None:
    assert results(left_at_github.jobs) == FIRST
    assert tags(registry) == {f"{OWNER}/alpha": ["v1"], f"{OWNER}/beta": ["v1"]}
    assert faults_in(registry, name=f"{OWNER}/alpha") == faults_in(registry, name=f"{OWNER}/beta") == ()
    assert left_at_github.project.installed == ["-r .github/bake-requirements.txt"] * 3
    assert f"{OWNER}/alpha:v1" in left_at_github.jobs["push alpha@v1"].summary


def test_where_the_checkout_s_own_bake_is_installed_there_is_no_pin(github: GitHub, tmp_path: Path) -> None:
    project = Project.begin(tmp_path / "own", "github", requirement=".")
    project.add_model("alpha")
    project.commit()

    jobs = replace(github, project=project).push(base=None)

    assert results(jobs) == {"check": "skipped", "changes": "success", "push alpha@v1": "success"}
    assert project.installed == [".", "."]


def test_where_no_image_is_another_the_push_is_skipped_and_the_registry_is_not_asked(
    pushed: GitHub, registry: FakeRegistry
) -> None:
    before = note(pushed, "alpha is for the small cluster")

    assert results(pushed.push(base=before)) == IDLE
    assert registry.requests == []


def test_a_push_of_other_files_starts_nothing(pushed: GitHub) -> None:
    before = pushed.project.history.run("rev-parse", "HEAD")
    pushed.project.history.write("README.md", "# models\n")
    pushed.project.commit()

    assert pushed.push(base=before) is None


def test_only_what_is_new_is_pushed(pushed: GitHub, registry: FakeRegistry) -> None:
    before = add(pushed, "gamma")

    assert results(pushed.push(base=before)) == {"check": "skipped", "changes": "success", "push gamma@v1": "success"}
    assert {line.split()[1].split("/")[3] for line in registry.lines()} == {"gamma"}
    assert faults_in(registry, name=f"{OWNER}/gamma") == ()


def test_by_hand_every_image_is_asked_for_and_no_weight_is_sent_again(pushed: GitHub, registry: FakeRegistry) -> None:
    assert results(pushed.dispatch()) == FIRST
    assert weights_sent(registry) == 0
    assert written(registry) == []


def test_what_failed_is_made_up_for_by_the_next_run(pushed: GitHub, registry: FakeRegistry) -> None:
    before = add(pushed, "gamma", "delta")
    pushed.project.spoil("gamma-v1")
    pushed.project.commit()
    broken = pushed.push(base=before)
    there = tags(registry)
    registry.requests.clear()
    pushed.project.spoil("gamma-v1")
    mended = pushed.push(base=note(pushed, "gamma is right again"))

    assert results(broken) == {
        "check": "skipped",
        "changes": "success",
        "push delta@v1": "success",
        "push gamma@v1": "failure",
    }
    assert list(there) == [f"{OWNER}/alpha", f"{OWNER}/beta", f"{OWNER}/delta"]
    assert "gamma@v1: model.safetensors: expected sha256:" in (broken or {})["push gamma@v1"].summary
    assert results(mended) == {
        "check": "skipped",
        "changes": "success",
        "push alpha@v1": "success",
        "push beta@v1": "success",
        "push delta@v1": "success",
        "push gamma@v1": "success",
    }
    assert faults_in(registry, name=f"{OWNER}/gamma") == ()
    assert [line for line in written(registry) if "/delta/" in line] == []


def test_what_a_failed_run_pushed_is_taken_back_by_the_next_after_a_revert(
    pushed: GitHub, registry: FakeRegistry
) -> None:
    good = registry.manifests[f"{OWNER}/alpha"]["v1"]
    lock = pushed.project.lock.read_text("utf-8")
    before = add(pushed, "gamma")
    pushed.project.lock.write_text(pushed.project.lock.read_text("utf-8").replace(ALPHA, EPOCHS), "utf-8")
    pushed.project.spoil("gamma-v1")
    pushed.project.commit()
    broken = pushed.push(base=before)
    half, failed = registry.manifests[f"{OWNER}/alpha"]["v1"], pushed.project.history.run("rev-parse", "HEAD")
    pushed.project.lock.write_text(lock, "utf-8")
    pushed.project.commit()
    reverted = pushed.push(base=failed)

    assert (broken or {})["push gamma@v1"].result == "failure"
    assert half != good
    assert results(reverted) == FIRST
    assert registry.manifests[f"{OWNER}/alpha"]["v1"] == good


def test_a_pull_request_that_went_well_is_no_push_though_its_branch_is_called_main(
    pushed: GitHub, registry: FakeRegistry
) -> None:
    before = pushed.project.history.run("rev-parse", "HEAD")
    pushed.project.history.run("checkout", "-q", "-b", "more")
    add(pushed, "gamma")
    assert results(pushed.pull_request("more"))["check"] == "success"
    pushed.project.history.run("merge", "-q", "--ff-only", "more")
    jobs = pushed.push(base=before)

    assert results(jobs) == {"check": "skipped", "changes": "success", "push gamma@v1": "success"}
    assert faults_in(registry, name=f"{OWNER}/gamma") == ()


def test_a_commit_that_was_pushed_away_by_force_is_no_failure(pushed: GitHub, registry: FakeRegistry) -> None:
    pushed.project.history.run("commit", "-q", "--amend", "-m", "told otherwise")
    pushed.project.history.run("reflog", "expire", "--expire=now", "--all")
    jobs = pushed.push(base=None)

    assert results(jobs) == FIRST
    assert written(registry) == []


def test_a_lock_that_does_not_know_its_layers_yet_is_pushed(github: GitHub, registry: FakeRegistry) -> None:
    github.project.forget_layers()
    github.project.commit()

    assert results(github.push(base=None)) == FIRST
    assert faults_in(registry, name=f"{OWNER}/alpha") == faults_in(registry, name=f"{OWNER}/beta") == ()


def test_another_bake_is_another_program_for_every_image(pushed: GitHub, registry: FakeRegistry) -> None:
    before = pushed.project.history.run("rev-parse", "HEAD")
    pushed.project.history.write(".github/bake-requirements.txt", REQUIREMENT.replace("0e9e", "1e9e") + "\n")
    pushed.project.commit()
    jobs = pushed.push(base=before)

    assert results(jobs) == FIRST
    assert "program" in logs(jobs)
    assert weights_sent(registry) == 0
