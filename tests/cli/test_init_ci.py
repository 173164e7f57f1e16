"""`bake init --ci`: what is written, what is told, and what is left alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bake.api.ci_files import render_ci
from tests.cli.place import EMPTY_LOCK, Bake, Place, Ran, error, files_below
from tests.history import History

if TYPE_CHECKING:
    from pathlib import Path

REQUIREMENT = "bake @ git+https://git.example/org/bake@0e9e39f249a16976918f6564b8830bc894c89659"
GITHUB = [".github/workflows/images.yml", ".github/bake-requirements.txt"]
GITLAB = [".gitlab/bake.yml", ".gitlab/bake-job.yml", ".gitlab/bake-requirements.txt"]


@pytest.fixture
def repository(place: Place) -> History:
    """A git repository with an empty lock; it is the working folder."""
    return History.begin(place.root)


def lines(paths: list[str]) -> str:
    return "".join(f"{path}\n" for path in paths)


def texts(folder: Path) -> dict[str, str]:
    """What lies below a folder, but for git's own and the lock."""
    found = {path: content.decode() for path, content in files_below(folder).items()}
    return {path: text for path, text in found.items() if not path.startswith(".git/") and path != "models.lock"}


@pytest.mark.usefixtures("repository")
def test_a_lock_that_is_there_stays_and_the_files_come_beside_it(place: Place, bake: Bake) -> None:
    ran = bake("-q", "init", "--ci", "github", "--install", REQUIREMENT)

    assert ran == Ran(0, lines(GITHUB), "")
    assert place.lock.read_text() == EMPTY_LOCK
    assert texts(place.root) == render_ci("github", lock="models.lock", branch="main", requirement=REQUIREMENT)


@pytest.mark.usefixtures("repository")
def test_where_there_is_no_lock_one_is_written_too(place: Place, bake: Bake) -> None:
    place.lock.unlink()

    assert bake("-q", "init", "--ci", "gitlab", "--install", REQUIREMENT) == Ran(0, lines(["models.lock", *GITLAB]), "")
    assert bake("-q", "lock", "--check") == Ran(0, "", "")


@pytest.mark.usefixtures("repository")
def test_people_at_github_are_told_what_to_do_next(bake: Bake) -> None:
    assert bake("init", "--ci", "github", "--install", REQUIREMENT).err.splitlines() == [
        (
            "next: commit them; main then pushes the images to IMAGES in .github/workflows/images.yml, "
            "with the workflow's own token"
        ),
        "gated models need the repository's secret HF_TOKEN: gh secret set HF_TOKEN",
    ]


@pytest.mark.usefixtures("repository")
def test_people_at_gitlab_are_told_which_line_to_add(bake: Bake) -> None:
    assert bake("init", "--ci", "gitlab", "--install", REQUIREMENT).err.splitlines() == [
        (
            "next: commit them, and write `include: /.gitlab/bake.yml` into .gitlab-ci.yml; "
            "main then pushes to IMAGES in .gitlab/bake-job.yml"
        ),
        "gated models need the CI/CD variable HF_TOKEN, masked and protected (Settings, CI/CD, Variables)",
    ]


@pytest.mark.usefixtures("repository")
def test_json_says_it_to_a_program(place: Place, bake: Bake) -> None:
    ran = bake("-q", "--json", "init", "--ci", "github", "--install", REQUIREMENT)

    assert ran.document == {"lock": str(place.lock), "files": [str(place.root / path) for path in GITHUB]}


@pytest.mark.usefixtures("repository")
def test_a_second_time_there_is_nothing_to_write(bake: Bake) -> None:
    bake("-q", "init", "--ci", "github", "--install", REQUIREMENT)

    assert bake("init", "--ci", "github", "--install", REQUIREMENT) == Ran(
        0, "", "nothing to write: all of it is there already, as it would be written\n"
    )


def test_a_file_that_is_another_is_never_written_over_and_then_nothing_is(
    repository: History, place: Place, bake: Bake
) -> None:
    repository.write(".gitlab/bake-job.yml", "mine\n")
    repository.write(".gitlab/bake-requirements.txt", "mine too\n")
    place.lock.unlink()
    before = files_below(place.root)

    ran = bake("init", "--ci", "gitlab", "--install", REQUIREMENT)

    assert ran == Ran(
        7,
        "",
        error(
            "there already, and never written over: .gitlab/bake-job.yml, .gitlab/bake-requirements.txt",
            hint="move it away, write it anew, and compare the two; nothing was written now",
        ),
    )
    assert files_below(place.root) == before


def test_where_one_file_cannot_be_written_none_is(repository: History, place: Place, bake: Bake) -> None:
    repository.write(".github/workflows", "a file in the place of the folder\n")
    place.lock.unlink()
    before = files_below(place.root)

    ran = bake("init", "--ci", "github", "--install", REQUIREMENT)

    assert (ran.code, ran.out) == (7, "")
    assert files_below(place.root) == before


def test_the_files_go_to_the_top_of_the_repository_and_name_the_lock_below_it(
    repository: History, bake: Bake, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.write("policy/models.lock", EMPTY_LOCK)
    monkeypatch.chdir(repository.top / "policy")

    assert bake("-q", "init", "--ci", "github", "--install", REQUIREMENT) == Ran(
        0, lines([f"../{path}" for path in GITHUB]), ""
    )
    assert "  BAKE_LOCK: policy/models.lock" in texts(repository.top)[GITHUB[0]].splitlines()


def test_the_branch_that_pushes_is_the_default_one_of_the_remote(repository: History, place: Place, bake: Bake) -> None:
    repository.run("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/trunk")

    assert bake("-q", "init", "--ci", "github", "--install", ".").code == 0
    assert texts(place.root) == render_ci("github", lock="models.lock", branch="trunk", requirement=".")


def test_outside_a_repository_nothing_is_written(place: Place, bake: Bake) -> None:
    ran = bake("init", "--ci", "github", "--install", REQUIREMENT)

    assert ran == Ran(2, "", error(f"expected a git repository around {place.root}, found none", hint="git init"))
    assert texts(place.root) == {}


def test_a_lock_whose_path_would_need_quotes_is_refused(
    repository: History, bake: Bake, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.write("my models/models.lock", EMPTY_LOCK)
    monkeypatch.chdir(repository.top / "my models")

    assert bake("init", "--ci", "github", "--install", REQUIREMENT) == Ran(
        2,
        "",
        error(
            "the lock's path: expected letters, digits and ._/- alone, since it is written into a workflow: "
            "my models/models.lock"
        ),
    )


def test_install_without_a_ci_system_is_refused(bake: Bake) -> None:
    assert bake("init", "--install", ".") == Ran(
        2, "", error("--install is how CI installs bake", hint="add --ci github or --ci gitlab")
    )
