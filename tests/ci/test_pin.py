"""Which line installs the bake that runs: from what an installer wrote down, and from a checkout, as git knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from bake.api.pin import parse_requirement, public_url, requirement_of
from bake.errors import UsageError
from tests.history import History

if TYPE_CHECKING:
    from pathlib import Path

COMMIT = "0e9e39f249a16976918f6564b8830bc894c89659"
DIGEST = "2b1879f356aed350030bb40eb45ad362c89d9891096f79a3ab323d3ba5607668"
HINT = "--install 'bake @ git+https://HOST/ORG/bake@COMMIT' says how CI installs it"
SECRET = "https://user:s3cret@git.example/org/bake.git"  # noqa: S105 - it opens nothing


def from_git(url: str, **more: str) -> dict[str, Any]:
    return {"url": url, "vcs_info": {"vcs": "git", "commit_id": COMMIT}} | more


def from_folder(folder: Path) -> dict[str, Any]:
    return {"url": folder.as_uri(), "dir_info": {"editable": True}}


@pytest.fixture
def checkout(tmp_path: Path) -> History:
    """A clone whose commit its remote has; the remote's URL has a password in it."""
    here, there = History.begin(tmp_path / "here"), History.begin(tmp_path / "there", "--bare")
    here.write("pyproject.toml", "[project]\n")
    here.commit()
    here.run("remote", "add", "origin", str(there.top))
    here.run("push", "-q", "origin", "main")
    here.run("remote", "set-url", "origin", SECRET)
    return here


@pytest.mark.parametrize(
    ("document", "line"),
    [
        (from_git("https://git.example/org/bake.git"), f"bake @ git+https://git.example/org/bake.git@{COMMIT}"),
        (from_git(SECRET), f"bake @ git+https://git.example/org/bake.git@{COMMIT}"),
        (from_git("ssh://git@git.example:2222/org/bake"), f"bake @ git+https://git.example/org/bake@{COMMIT}"),
        (
            from_git("https://git.example/mono", subdirectory="tools/bake"),
            f"bake @ git+https://git.example/mono@{COMMIT}#subdirectory=tools/bake",
        ),
        (
            {"url": "https://host.example:8443/bake.whl?t=s3cret", "archive_info": {"hashes": {"sha256": DIGEST}}},
            f"bake @ https://host.example:8443/bake.whl#sha256={DIGEST}",
        ),
        (
            {"url": "https://host.example/bake.whl", "archive_info": {"hash": f"sha256={DIGEST}"}},
            f"bake @ https://host.example/bake.whl#sha256={DIGEST}",
        ),
    ],
    ids=["git", "git-password", "git-ssh", "git-folder", "archive", "archive-old"],
)
def test_what_an_installer_wrote_down_is_the_line_without_any_secret(document: dict[str, Any], line: str) -> None:
    assert requirement_of(document) == (line, None)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (
            from_git("file:///srv/bake"),
            "this bake was installed from file:///srv/bake, which no other machine can reach",
        ),
        (from_git("/srv/bake"), "this bake was installed from /srv/bake, which no other machine can reach"),
        (
            from_git("ftp://user:s3cret@git.example/bake"),
            "this bake was installed from ftp://git.example/bake, which no other machine can reach",
        ),
        (
            {"url": "https://host.example/bake.whl", "archive_info": {}},
            "this bake was installed from https://host.example/bake.whl, and no sha256 of it is known",
        ),
        (
            {"url": "https://host.example/bake", "vcs_info": {"vcs": "hg", "commit_id": "1"}},
            "this bake was installed in a way that CI cannot repeat",
        ),
    ],
    ids=["file", "path", "ftp", "no-digest", "hg"],
)
def test_what_no_other_machine_could_install_is_refused(document: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as raised:
        requirement_of(document)

    assert (raised.value.message, raised.value.hint) == (message, HINT)


def test_a_checkout_is_its_commit_at_its_remote(checkout: History) -> None:
    commit = checkout.run("rev-parse", "HEAD")

    assert requirement_of(from_folder(checkout.top)) == (f"bake @ git+https://git.example/org/bake.git@{commit}", None)


def test_a_checkout_in_a_folder_of_its_repository_says_which(checkout: History) -> None:
    checkout.write("tools/bake/pyproject.toml", "[project]\n")
    commit = checkout.commit()
    checkout.run("update-ref", "refs/remotes/origin/main", commit)

    line = f"bake @ git+https://git.example/org/bake.git@{commit}#subdirectory=tools/bake"
    assert requirement_of(from_folder(checkout.top / "tools" / "bake")) == (line, None)


def test_changes_that_are_in_no_commit_are_told(checkout: History) -> None:
    checkout.write("pyproject.toml", "[project]\nname = 'other'\n")

    assert requirement_of(from_folder(checkout.top))[1] == (
        f"{checkout.top} has changes that are in no commit: CI will not have them"
    )


def test_a_commit_that_was_not_pushed_is_refused(checkout: History) -> None:
    checkout.commit()

    with pytest.raises(UsageError) as raised:
        requirement_of(from_folder(checkout.top))

    assert raised.value.message == (
        f"this bake is installed from {checkout.top}, and the commit there is on no remote of it"
    )
    assert raised.value.hint == f"push it; or: {HINT}"


def test_a_repository_without_a_commit_is_refused(tmp_path: Path) -> None:
    empty = History.begin(tmp_path.resolve() / "empty").top

    with pytest.raises(UsageError) as raised:
        requirement_of(from_folder(empty))

    message = f"this bake is installed from {empty}, and nothing is committed there"
    assert (raised.value.message, raised.value.hint) == (message, f"push it; or: {HINT}")


def test_a_folder_that_is_no_repository_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))

    with pytest.raises(UsageError) as raised:
        requirement_of(from_folder(tmp_path))

    message = f"this bake is installed from {tmp_path}: expected a git repository around {tmp_path}, found none"
    assert (raised.value.message, raised.value.hint) == (message, HINT)


@pytest.mark.parametrize(
    ("url", "public"),
    [
        ("git@git.example:org/bake.git", "https://git.example/org/bake.git"),
        ("https://git.example:8443/org/bake", "https://git.example:8443/org/bake"),
        ("https://token@git.example/org/bake?x=1#y", "https://git.example/org/bake"),
    ],
)
def test_a_url_is_made_one_that_anyone_may_read(url: str, public: str) -> None:
    assert public_url(url) == public


@pytest.mark.parametrize("text", ["", " ", "bake\n-r other.txt", "-e .", "# nothing", "bake\x00"])
def test_a_requirement_that_pip_would_not_take_as_one_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_requirement(text)

    assert raised.value.message == f"--install: expected one requirement, as pip takes it, found {text!r}"


@pytest.mark.parametrize("text", ["bake", "bake==0.1.0", "bake [x] >= 1", "Bake; python_version > '3'"])
def test_a_requirement_by_name_alone_is_taken_with_a_warning(text: str) -> None:
    assert parse_requirement(text) == (
        text,
        "bake is another project's name on PyPI: CI must find it in an index of yours",
    )


@pytest.mark.parametrize("text", [".", "bake @ https://host.example/bake.whl", "bake@https://host.example/b", "./bake"])
def test_a_requirement_that_says_where_from_needs_none(text: str) -> None:
    assert parse_requirement(text) == (text, None)
