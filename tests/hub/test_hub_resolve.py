"""A revision becomes a commit and a listing; the user's cache; start-up; and the fake Hub itself."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from huggingface_hub import HfApi

from bake.digest import Digest
from bake.errors import SourceError
from bake.hub import HubSnapshot, resolve
from bake.snapshot import SourceFile
from tests.hub.samples import CONFIG, FILES, REPO, WEIGHTS
from tests.hub_server import FakeHub

if TYPE_CHECKING:
    from pathlib import Path


def test_a_revision_is_resolved_to_a_commit_its_licence_and_its_files(hub: FakeHub) -> None:
    commit = hub.add_repo(REPO, FILES, card={"license": "llama3.1"})

    assert resolve(REPO) == HubSnapshot(
        repo_id=REPO,
        commit=commit,
        license="llama3.1",
        gated=False,
        listing=(
            SourceFile(path="config.json", size=39),
            SourceFile(path="model.safetensors", size=3_000_000, digest=Digest.of(WEIGHTS)),
            SourceFile(path="sub/été #1.txt", size=4),
        ),
    )


def test_a_branch_with_a_slash_and_a_commit_are_revisions_too(hub: FakeHub) -> None:
    commit = hub.add_repo(REPO, {"config.json": b"{}"}, branch="refs/pr/1")

    assert resolve(REPO, "refs/pr/1").commit == commit
    assert resolve(REPO, commit).commit == commit


def test_a_listing_of_many_pages_is_complete_and_sorted(monkeypatch: pytest.MonkeyPatch, hub: FakeHub) -> None:
    with FakeHub(page_size=2) as paged:
        paged.add_repo(REPO, {f"{number}.json": b"" for number in range(5)})
        monkeypatch.setenv("HF_ENDPOINT", paged.endpoint)

        assert [file.path for file in resolve(REPO).listing] == ["0.json", "1.json", "2.json", "3.json", "4.json"]
        assert len(paged.requested("hub/*/tree/*")) == 3
    assert hub.requests == []


@pytest.mark.parametrize(
    ("card", "expected"),
    [
        ({"license": "apache-2.0"}, "apache-2.0"),
        ({"license": "other", "license_name": "qwen-research"}, "qwen-research"),
        ({"license": "other"}, "other"),
        ({"license": ["mit", "apache-2.0"]}, "mit, apache-2.0"),
        ({"language": "en"}, None),
    ],
)
def test_the_licence_is_the_model_cards(hub: FakeHub, card: dict[str, object], expected: str | None) -> None:
    hub.add_repo("org/other", {"config.json": b""}, card=card)

    assert resolve("org/other").license == expected


def test_a_gated_model_says_so_without_a_token(hub: FakeHub) -> None:
    hub.add_repo("org/gated", {"config.json": b""}, gated=True)

    assert resolve("org/gated").gated is True


def test_a_pinned_commit_asks_the_hub_nothing(hub: FakeHub) -> None:
    snapshot = HubSnapshot.at(REPO, "a" * 40)

    assert (snapshot.repo_id, snapshot.commit, snapshot.listing, hub.requests) == (REPO, "a" * 40, (), [])


@pytest.mark.parametrize(
    "repo_id", ["", "a/b/c", "org/", "/name", "org/na me", "org/a--b", "org/..", "org/x.git", "o\n/n"]
)
def test_a_malformed_name_is_refused_before_the_hub_is_asked(hub: FakeHub, repo_id: str) -> None:
    with pytest.raises(SourceError) as caught:
        resolve(repo_id)

    assert caught.value.message == f"not the name of a model on the Hub: {repo_id!r}"
    assert hub.requests == []


def test_a_pin_that_is_no_commit_is_refused() -> None:
    with pytest.raises(SourceError) as caught:
        HubSnapshot.at(REPO, "main")

    assert caught.value.message == "hf://org/name: expected a commit of 40 lower-case hex digits, found 'main'"


def test_a_path_that_no_image_can_hold_is_refused_if_it_is_kept(snapshot: HubSnapshot) -> None:
    snapshot.check(snapshot.listing)
    with pytest.raises(SourceError) as caught:
        snapshot.check([SourceFile(path="../x", size=1), SourceFile(path="a\\b", size=1)])

    assert caught.value.message == (
        "hf://org/name: 2 files cannot be used:\n  '../x' has the component '..'\n  'a\\\\b' holds a backslash"
    )


def test_a_file_in_the_users_cache_is_found(hub: FakeHub, snapshot: HubSnapshot, tmp_path: Path) -> None:
    cached = tmp_path / "hf-home" / "hub" / "models--org--name" / "snapshots" / snapshot.commit / "config.json"
    cached.parent.mkdir(parents=True)
    cached.write_bytes(CONFIG)

    assert snapshot.cached("config.json") == cached
    assert snapshot.cached("model.safetensors") is None
    assert hub.requests == []


def test_the_cache_of_another_commit_is_not_used(snapshot: HubSnapshot, tmp_path: Path) -> None:
    other = tmp_path / "hf-home" / "hub" / "models--org--name" / "snapshots" / ("a" * 40) / "config.json"
    other.parent.mkdir(parents=True)
    other.write_bytes(CONFIG)

    assert snapshot.cached("config.json") is None


def test_importing_the_hub_does_not_import_its_library() -> None:
    script = "import sys, bake.hub; print([name for name in sys.modules if name.split('.')[0] == 'huggingface_hub'])"

    assert subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout == "[]\n"


def test_huggingface_hubs_own_client_works_against_the_fake(hub: FakeHub, tmp_path: Path) -> None:
    api = HfApi(endpoint=hub.endpoint, token=hub.token)
    commit = str(api.model_info(REPO).sha)

    folder = api.snapshot_download(REPO, revision=commit, cache_dir=tmp_path / "cache")

    assert sorted(str(entry.path) for entry in api.list_repo_tree(REPO, recursive=True)) == sorted([*FILES, "sub"])
    assert {path: (tmp_path / folder / path).read_bytes() for path in FILES} == FILES
    assert HubSnapshot.at(REPO, commit).cached("config.json") is None
