"""The workflow for GitHub on a pull request, run: it tells what would be pushed, builds what is small, no more."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.ci.pushes import logs, results, written
from tests.entrypoint.files import model_files
from tests.hub_server import FakeHub

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.ci.github import GitHub, Job
    from tests.registry.server import FakeRegistry

pytestmark = pytest.mark.slow
DENIED = b'{"errors": [{"code": "DENIED", "message": "denied"}]}'
GOOD = {"check": "success", "changes": "skipped", "push": "skipped"}
BAD = GOOD | {"check": "failure"}


@pytest.fixture
def opened(github: GitHub) -> GitHub:
    """A branch, `more`, off a main that was never pushed from."""
    github.project.push()
    github.project.history.run("checkout", "-q", "-b", "more")
    return github


def propose(github: GitHub) -> dict[str, Job]:
    github.project.commit()
    jobs = github.pull_request("more")
    assert jobs is not None
    return jobs


def test_it_tells_what_would_be_sent_and_sends_nothing(opened: GitHub, registry: FakeRegistry) -> None:
    opened.project.add_model("gamma")

    jobs = propose(opened)

    assert results(jobs) == GOOD
    assert "to do    upload 14.3 kB, fetch 0 B" in jobs["check"].log.splitlines()
    assert "gamma:v1" in jobs["check"].summary
    assert "alpha" not in jobs["check"].summary
    assert written(registry) == []


def test_main_having_moved_on_counts_for_nothing(opened: GitHub) -> None:
    opened.project.history.write("README.md", "# models\n")
    opened.project.commit()
    opened.project.history.run("checkout", "-q", "main")
    opened.project.add_model("aardvark")
    opened.project.commit()
    opened.project.push()
    opened.project.history.run("checkout", "-q", "more")
    opened.project.add_model("gamma")

    summary = propose(opened)["check"].summary

    assert "gamma" in summary
    assert "aardvark" not in summary


def test_where_no_image_is_another_there_is_nothing_to_do(opened: GitHub, registry: FakeRegistry) -> None:
    opened.project.lock.write_text("# more to come\n" + opened.project.lock.read_text("utf-8"), "utf-8")

    jobs = propose(opened)

    assert results(jobs) == GOOD
    assert registry.requests == []


def test_a_lock_that_is_not_complete_fails_before_anything_else(opened: GitHub, registry: FakeRegistry) -> None:
    asked = '[[model]]\nname = "gamma"\nversion = "v1"\nsource = "hf://org/gamma"\n'
    opened.project.lock.write_text(f"{opened.project.lock.read_text('utf-8')}\n{asked}", "utf-8")

    jobs = propose(opened)

    assert results(jobs) == BAD
    assert jobs["check"].log.splitlines()[-2:] == [
        "error: models.lock is not complete",
        "hint: bake lock",
    ]
    assert registry.requests == []


def test_a_model_that_is_not_as_it_was_locked_fails(opened: GitHub) -> None:
    opened.project.add_model("gamma")
    opened.project.spoil("gamma-v1")

    jobs = propose(opened)

    assert results(jobs) == BAD
    assert "gamma@v1: model.safetensors: expected sha256:" in jobs["check"].summary


@pytest.fixture
def gated(opened: GitHub) -> Iterator[GitHub]:
    """A pull request that adds a model which its source gives to nobody without a token."""
    with FakeHub() as hub:
        hub.add_repo("org/gated", model_files(), gated=True)
        environ = {"HF_ENDPOINT": hub.endpoint, "HF_TOKEN": hub.token}
        opened.project.bake("add", "gated@v1", "hf://org/gated", "--base", "scratch", **environ)
        yield replace(opened, hub=hub.endpoint, hub_token=hub.token)


def test_a_gated_model_is_built_with_the_secret(gated: GitHub) -> None:
    jobs = propose(gated)

    assert results(jobs) == GOOD
    assert "::warning::" not in jobs["check"].log


def test_a_gated_model_in_a_fork_which_has_no_secrets_is_a_warning(gated: GitHub) -> None:
    jobs = propose(replace(gated, hub_token=""))

    assert results(jobs) == GOOD
    assert (
        "::warning::A model's source could not be read, and there is no HF_TOKEN here. The push will prove it."
        in logs(jobs).splitlines()
    )


def test_a_build_that_cannot_be_written_on_the_runner_is_a_warning(opened: GitHub) -> None:
    opened.project.history.write("dist", "a file in the place of the folder\n")
    opened.project.add_model("gamma")

    jobs = propose(opened)

    assert results(jobs) == GOOD
    assert (
        "::warning::The build could not be written here, as told above. The push needs no disk, and will prove it."
        in jobs["check"].log.splitlines()
    )


def test_where_ghcr_takes_no_login_what_it_holds_counts_as_absent(opened: GitHub, registry: FakeRegistry) -> None:
    registry.fault("GET /token", times=99, status=403, body=DENIED)  # so it speaks to strangers
    opened.project.add_model("gamma")

    jobs = propose(replace(opened, takes_login=False))

    assert results(jobs) == GOOD
    assert "not there yet, or not to be read: taken as empty" in jobs["check"].log


def test_a_push_without_a_login_fails(opened: GitHub) -> None:
    opened.project.history.run("checkout", "-q", "main")

    jobs = replace(opened, takes_login=False).push(base=None)

    assert results(jobs) == {
        "check": "skipped",
        "changes": "success",
        "push alpha@v1": "failure",
        "push beta@v1": "failure",
    }


def test_a_wrong_secret_is_a_failure(gated: GitHub) -> None:
    assert results(propose(replace(gated, hub_token="hf_wrong"))) == BAD  # noqa: S106 - it opens nothing
