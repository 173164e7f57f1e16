"""git: files at one revision, and where a checkout comes from. The real program, in real repositories."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from bake.errors import UsageError
from bake.git import Repository, blob_id
from tests.history import SETTINGS, History

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GONE = (
    "git fetch brings a branch that is not here yet; a commit that was pushed away by force is gone: "
    "leave the revision out, and every model is taken"
)


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> History:
    """A repository with one commit, of `a/b.txt`."""
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)
    history = History.begin(tmp_path.resolve() / "work")
    history.write("a/b.txt", "one\n")
    history.commit()
    return history


def refused(call: Callable[[], object]) -> tuple[str, str | None]:
    with pytest.raises(UsageError) as caught:
        call()
    return caught.value.message, caught.value.hint


def test_the_repository_of_a_folder_below_is_found(history: History) -> None:
    assert Repository.around(history.top / "a") == Repository(history.top)


def test_a_file_is_read_as_it_was(history: History) -> None:
    history.write("a/b.txt", "two\n")
    repository = Repository(history.top)

    assert repository.read(repository.commit("HEAD"), history.top / "a" / "b.txt") == b"one\n"


def test_a_file_that_was_not_there_is_none(history: History) -> None:
    repository = Repository(history.top)

    assert repository.read(repository.commit("HEAD"), history.top / "a" / "c.txt") is None


def test_a_folder_and_a_link_are_no_file(history: History) -> None:
    (history.top / "link").symlink_to("a/b.txt")
    repository = Repository(history.top)
    commit = history.commit()

    assert repository.read(commit, history.top / "a") is None
    assert repository.read(commit, history.top / "link") is None


def test_a_name_with_odd_characters_is_read(history: History) -> None:
    path = history.write("a/*[é] 'x'\n.txt", "odd")

    assert Repository(history.top).read(history.commit(), path) == b"odd"


def test_the_files_below_a_folder_have_the_names_that_git_gives_them(history: History) -> None:
    history.write("a/sub/c.txt", "two")
    history.write("d.txt", "three")

    assert Repository(history.top).blobs(history.commit(), history.top / "a") == {
        history.top / "a" / "b.txt": history.run("hash-object", "a/b.txt"),
        history.top / "a" / "sub" / "c.txt": history.run("hash-object", "a/sub/c.txt"),
    }


@pytest.mark.parametrize("form", ["sha1", "sha256"])
def test_bytes_have_the_name_that_git_gives_them(tmp_path: Path, form: str) -> None:
    history = History.begin(tmp_path / form, f"--object-format={form}")
    file = history.write("file", "content\n")

    name = history.run("hash-object", "file")
    assert blob_id(file.read_bytes(), like=name) == name


def test_branches_tags_and_short_names_are_revisions(history: History) -> None:
    commit = history.run("rev-parse", "HEAD")
    history.run("tag", "-a", "-m", "a tag", "v1")
    repository = Repository(history.top)

    assert [repository.commit(name) for name in ("main", "v1", "HEAD", commit[:8], commit)] == [commit] * 5


def test_three_dots_are_where_the_branch_left_the_other(history: History) -> None:
    left = history.run("rev-parse", "HEAD")
    history.run("switch", "-q", "-c", "topic")
    history.commit()
    history.run("switch", "-q", "main")
    history.write("later.txt", "")
    history.commit()
    history.run("switch", "-q", "topic")

    assert Repository(history.top).commit("main...") == left


def test_branches_without_a_common_commit_are_told(history: History) -> None:
    history.run("switch", "-q", "--orphan", "other")
    history.commit()

    assert refused(lambda: Repository(history.top).commit("main...")) == (
        f"no common ancestor of main and HEAD in {history.top}",
        GONE,
    )


@pytest.mark.parametrize("revision", ["nope", "nope...", "...", "f" * 40, "HEAD:a/b.txt", "main..main", "a b\n", "x\0"])
def test_an_unknown_revision_is_told(history: History, revision: str) -> None:
    message = f"unknown revision {revision!r} in {history.top}"

    assert refused(lambda: Repository(history.top).commit(revision)) == (message, GONE)


@pytest.mark.parametrize("revision", ["--output=made", "-h", "--all", "--git-dir..."])
def test_a_revision_is_never_an_option(history: History, revision: str) -> None:
    message = f"unknown revision {revision!r} in {history.top}"

    assert refused(lambda: Repository(history.top).commit(revision)) == (message, GONE)
    assert sorted(path.name for path in history.top.iterdir()) == [".git", "a"]


def test_a_shallow_clone_is_told(history: History, tmp_path: Path) -> None:
    before = history.run("rev-parse", "HEAD")
    history.commit()
    history.run("clone", "-q", "--depth=1", f"file://{history.top}", str(tmp_path / "shallow"))
    repository = Repository.around(tmp_path.resolve() / "shallow")

    assert refused(lambda: repository.commit(before)) == (
        f"unknown revision '{before}': this clone is shallow, and lacks what came before",
        "git fetch --unshallow; in CI: `fetch-depth: 0` (GitHub), `GIT_DEPTH: 0` (GitLab)",
    )


def test_a_folder_outside_any_repository_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))

    assert refused(lambda: Repository.around(tmp_path)) == (
        f"expected a git repository around {tmp_path}, found none",
        "a revision can only be compared with inside one; leave it out, and every model is taken",
    )


def test_a_repository_without_a_working_tree_is_told_in_git_s_own_words(tmp_path: Path) -> None:
    bare = History.begin(tmp_path / "bare", "--bare")

    assert refused(lambda: Repository.around(bare.top)) == ("git: this operation must be run in a work tree", None)


def test_a_repository_of_another_user_is_told_with_what_git_says_to_type(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")  # git's own switch, for its own tests

    assert refused(lambda: Repository.around(history.top)) == (
        f"git: detected dubious ownership in repository at '{history.top}'",
        f"git config --global --add safe.directory {history.top}",
    )


def test_a_machine_without_git_is_told(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.devnull)

    assert refused(lambda: Repository.around(history.top)) == (
        "git cannot be run: Not a directory",
        "install git; or leave the revision out, and every model is taken",
    )


def test_a_path_outside_the_repository_is_told(history: History, tmp_path: Path) -> None:
    outside = tmp_path.resolve() / "outside"

    assert refused(lambda: Repository(history.top).blobs("HEAD", outside)) == (
        f"expected a path in the repository {history.top}, found {outside}",
        None,
    )


def test_git_watches_over_what_is_added_and_not_over_what_is_ignored(history: History) -> None:
    history.write(".gitignore", "ignored\n")
    history.write("ignored", "")
    new = history.write("new", "")
    repository = Repository(history.top)

    assert not repository.is_tracked(history.top / "ignored")
    assert not repository.is_tracked(new)
    history.run("add", "new")
    assert repository.is_tracked(new)


def test_a_submodule_is_a_repository_of_its_own(history: History, tmp_path: Path) -> None:
    other = History.begin(tmp_path / "other")
    other.commit()
    history.run("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(other.top), "sub")

    assert Repository.around(history.top / "sub") == Repository(history.top / "sub")


def test_a_second_working_tree_has_the_same_history(history: History, tmp_path: Path) -> None:
    commit = history.run("rev-parse", "HEAD")
    history.run("worktree", "add", "-q", "--detach", str(tmp_path / "second"))

    assert Repository.around(tmp_path.resolve() / "second").commit("main") == commit


# --- where a checkout comes from


def test_the_head_is_the_commit_that_is_checked_out(history: History) -> None:
    assert Repository(history.top).head() == history.run("rev-parse", "HEAD")


def test_before_the_first_commit_there_is_no_head(tmp_path: Path) -> None:
    empty = Repository(History.begin(tmp_path / "empty").top)

    assert (empty.head(), empty.remote_url()) == (None, None)


def test_the_remote_is_one_that_has_the_commit(history: History) -> None:
    history.run("remote", "add", "fork", "https://git.example/fork")
    history.run("remote", "add", "origin", "https://git.example/origin")
    history.run("update-ref", "refs/remotes/origin/main", "HEAD")

    assert Repository(history.top).remote_url() == "https://git.example/origin"


def test_a_remote_that_has_only_older_commits_is_none(history: History) -> None:
    history.run("remote", "add", "origin", "https://git.example/origin")
    history.run("update-ref", "refs/remotes/origin/main", "HEAD")
    history.commit()

    assert Repository(history.top).remote_url() is None


def test_a_file_that_is_another_is_a_change_and_one_that_nobody_added_is_none(history: History) -> None:
    repository = Repository(history.top)
    history.write("new", "")
    assert not repository.is_changed()

    history.write("a/b.txt", "two\n")
    assert repository.is_changed()


def test_the_default_branch_is_the_one_that_the_remote_says(history: History) -> None:
    history.run("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/release/trunk")

    assert Repository(history.top).default_branch() == "release/trunk"


def test_where_no_remote_says_the_default_branch_is_the_usual_one(history: History) -> None:
    history.run("switch", "-q", "-c", "topic")

    assert Repository(history.top).default_branch() == "main"


def test_where_there_is_no_usual_branch_the_default_one_is_that_which_is_checked_out(history: History) -> None:
    history.run("branch", "-m", "trunk")

    assert Repository(history.top).default_branch() == "trunk"
