"""The pipeline for GitLab, run: what it pushes, what the next one mends, and what a merge request is told."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.ci.api import DEPLOYMENTS, Api
from tests.ci.gitlab import GitLab
from tests.ci.pushes import tags, written
from tests.cli.pushed import faults_in, weights_sent

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.ci.conftest import Left
    from tests.ci.gitlab import Job
    from tests.registry.server import FakeRegistry

pytestmark = pytest.mark.slow
PLACE = "group/project"
GOOD = {
    "bake changes": "success",
    "alpha@v1": "success",
    "beta@v1": "success",
    "bake push": "success",
    "bake pushed": "success",
}


def results(jobs: dict[str, Job]) -> dict[str, str]:
    return {name: job.result for name, job in jobs.items()}


@pytest.fixture
def pushed(left_at_gitlab: Left, tmp_path: Path, registry: FakeRegistry) -> Iterator[GitLab]:
    """After main's first push, which went well; the registry's log is empty."""
    with Api(DEPLOYMENTS) as deployments:
        left_at_gitlab.restore(registry, deployments)
        yield GitLab(left_at_gitlab.project.copy(tmp_path / "project"), registry, deployments)


def note(gitlab: GitLab, text: str) -> str:
    """Commit a lock that only a person sees another in; returns the commit before."""
    before = gitlab.project.history.run("rev-parse", "HEAD")
    gitlab.project.lock.write_text(f"# {text}\n{gitlab.project.lock.read_text('utf-8')}", "utf-8")
    gitlab.project.commit()
    return before


@pytest.mark.usefixtures("pushed")
def test_the_first_push_puts_every_image_there_whole(left_at_gitlab: Left, registry: FakeRegistry) -> None:
    assert results(left_at_gitlab.jobs) == GOOD
    assert tags(registry) == {f"{PLACE}/alpha": ["v1"], f"{PLACE}/beta": ["v1"]}
    assert faults_in(registry, name=f"{PLACE}/alpha") == faults_in(registry, name=f"{PLACE}/beta") == ()
    assert left_at_gitlab.project.installed == ["-r .gitlab/bake-requirements.txt"] * 3


def test_a_project_whose_stages_have_no_test_names_another_in_one_file(gitlab: GitLab, registry: FakeRegistry) -> None:
    path = gitlab.project.work / ".gitlab" / "bake.yml"
    path.write_text(path.read_text("utf-8").replace("stage: test", "stage: images"), "utf-8")
    gitlab.project.commit()

    assert results(replace(gitlab, stages=("compile", "images")).push(base=None)) == GOOD
    assert list(tags(registry)) == [f"{PLACE}/alpha", f"{PLACE}/beta"]


def test_where_no_image_is_another_the_registry_is_not_asked(pushed: GitLab, registry: FakeRegistry) -> None:
    jobs = pushed.push(base=note(pushed, "alpha is for the small cluster"))

    assert results(jobs) == {
        "bake changes": "success",
        "no image changes": "success",
        "bake push": "success",
        "bake pushed": "success",
    }
    assert registry.requests == []


def test_a_push_of_other_files_starts_nothing(pushed: GitLab) -> None:
    before = pushed.project.history.run("rev-parse", "HEAD")
    pushed.project.history.write("README.md", "# models\n")
    pushed.project.commit()

    assert pushed.push(base=before) == {}


def test_by_hand_every_image_is_asked_for_and_no_weight_is_sent_again(pushed: GitLab, registry: FakeRegistry) -> None:
    assert results(pushed.by_hand(BAKE_ALL="true")) == GOOD
    assert weights_sent(registry) == 0
    assert written(registry) == []


def test_a_pipeline_by_hand_that_does_not_ask_for_images_has_none_of_these_jobs(pushed: GitLab) -> None:
    assert pushed.by_hand() == {}


def test_what_failed_is_made_up_for_by_the_next_pipeline(pushed: GitLab, registry: FakeRegistry) -> None:
    before = pushed.project.history.run("rev-parse", "HEAD")
    pushed.project.add_model("delta")
    pushed.project.add_model("gamma")
    pushed.project.spoil("gamma-v1")
    pushed.project.commit()
    broken = pushed.push(base=before)
    pushed.project.spoil("gamma-v1")
    mended = pushed.push(base=note(pushed, "gamma is right again"))

    assert results(broken) == {
        "bake changes": "success",
        "delta@v1": "success",
        "gamma@v1": "failed",
        "bake push": "failed",
        "bake pushed": "skipped",
    }
    assert results(mended) == {
        "bake changes": "success",
        "delta@v1": "success",
        "gamma@v1": "success",
        "bake push": "success",
        "bake pushed": "success",
    }
    assert list(tags(registry)) == [f"{PLACE}/alpha", f"{PLACE}/beta", f"{PLACE}/delta", f"{PLACE}/gamma"]


def test_an_environment_that_was_deleted_costs_no_weight(pushed: GitLab, registry: FakeRegistry) -> None:
    pushed.deployments.items.clear()

    assert results(pushed.push(base=note(pushed, "nothing new"))) == GOOD
    assert weights_sent(registry) == 0


def test_a_commit_that_was_pushed_away_by_force_is_no_failure(pushed: GitLab, registry: FakeRegistry) -> None:
    pushed.project.history.run("commit", "-q", "--amend", "-m", "told otherwise")

    assert results(pushed.push(base=None)) == GOOD
    assert weights_sent(registry) == 0


@pytest.fixture
def opened(gitlab: GitLab) -> GitLab:
    """A branch, `more`, off a main that was never pushed from, with one more model."""
    gitlab.project.history.run("checkout", "-q", "-b", "more")
    gitlab.project.add_model("gamma")
    gitlab.project.commit()
    return gitlab


def test_a_merge_request_is_told_what_would_be_sent_and_sends_nothing(opened: GitLab, registry: FakeRegistry) -> None:
    jobs = opened.merge_request("more")

    assert results(jobs) == {"bake check": "success"}
    assert "gamma:v1" in jobs["bake check"].artifacts["summary.md"]
    assert "alpha" not in jobs["bake check"].artifacts["summary.md"]
    assert written(registry) == []


def test_a_merge_request_of_a_model_that_is_not_as_it_was_locked_fails_and_says_so(opened: GitLab) -> None:
    opened.project.spoil("gamma-v1")
    opened.project.commit()

    jobs = opened.merge_request("more")

    assert results(jobs) == {"bake check": "failed"}
    assert "gamma@v1: model.safetensors: expected sha256:" in jobs["bake check"].artifacts["summary.md"]
