"""Models of the Hub, from `bake add` to the image, against a real Hub on the loopback and its faults."""

from __future__ import annotations

import hashlib
import shutil
from typing import TYPE_CHECKING

import pytest

from bake.lock.parse import parse
from tests.cli.place import EMPTY_LOCK, Bake, Place, Ran, error, files_below, weight_layers, whole
from tests.entrypoint.files import FIRST, INDEX, SECOND, index, model_files, shard

if TYPE_CHECKING:
    from pathlib import Path

    from tests.hub_server import FakeHub

TOKEN = "hf_opensesame"  # noqa: S105 - it opens a server in this process
SOURCE = "hf://org/name"


@pytest.fixture
def added(hub: FakeHub, place: Place, bake: Bake) -> Place:
    """`tiny@v1` in the lock, of `org/name`; the Hub's log begins after it."""
    assert bake("-q", "add", "tiny@v1", SOURCE).code == 0
    hub.requests.clear()
    return place


def test_a_model_of_the_hub_is_pinned_by_commit_and_built(hub: FakeHub, place: Place, bake: Bake) -> None:
    commit = hub.add_repo("org/name", model_files(), card={"license": "llama3.1"})

    assert bake("-q", "add", "tiny@v1", SOURCE, "--revision", "main").code == 0
    assert bake("-q", "build", "tiny@v1").code == 0

    (model,) = parse(place.lock.read_text()).models
    assert (model.commit, model.revision, model.license) == (commit, "main", "llama3.1")
    assert whole(place.root / "dist" / "tiny-v1") == ()
    assert bake("-q", "verify", "tiny@v1", "--level", "full").code == 0


@pytest.mark.usefixtures("added")
def test_adding_fetches_no_weights(hub: FakeHub, bake: Bake) -> None:
    assert hub.requested("cdn/*") == []
    assert bake("--json", "plan", "tiny@v1").document["fetch"] == sum(
        len(model_files()[path]) for path in (FIRST, SECOND)
    )
    assert hub.requests == []


def test_a_second_build_asks_the_hub_nothing(hub: FakeHub, added: Place, bake: Bake) -> None:
    first = bake("-q", "build", "tiny@v1")
    hub.requests.clear()
    shutil.rmtree(added.root / "dist")

    assert bake("-q", "--offline", "build", "tiny@v1") == first
    assert hub.requests == []


def test_hub_and_folder_give_the_same_weight_layers(added: Place, bake: Bake) -> None:
    added.add_model()
    bake("-q", "add", "tiny@v2", "dir://m")

    bake("-q", "build", "tiny@v1")
    bake("-q", "build", "tiny@v2")

    layers = weight_layers(added.root / "dist" / "tiny-v1")
    assert layers == weight_layers(added.root / "dist" / "tiny-v2")


def test_a_gated_model_without_a_token_says_what_to_do(hub: FakeHub, place: Place, bake: Bake) -> None:
    hub.add_repo("meta/gated", model_files(), gated=True)

    ran = bake("add", "tiny@v1", "hf://meta/gated")

    assert (ran.code, ran.out) == (4, "")
    assert ran.err.splitlines()[-2:] == [
        "error: hf://meta/gated is gated, and you have no access to it yet",
        f"hint: ask for access at {hub.endpoint}/meta/gated, then `hf auth login` or set HF_TOKEN",
    ]
    assert place.lock.read_text() == EMPTY_LOCK


def test_a_gated_model_is_built_with_a_token_that_leaves_no_trace(
    hub: FakeHub, place: Place, bake: Bake, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add_repo("meta/gated", model_files(), gated=True)
    monkeypatch.setenv("HF_TOKEN", TOKEN)

    ran = [
        bake("add", "tiny@v1", "hf://meta/gated"),
        bake("build", "tiny@v1"),
        bake("--json", "show", "tiny@v1"),
        bake("--debug", "verify", "tiny@v1", "--level", "full"),
    ]

    assert [one.code for one in ran] == [0, 0, 0, 0]
    assert ran[2].document["gated"] is True
    told = "".join(one.out + one.err for one in ran).encode()
    written = b"".join([*files_below(place.root).values(), *files_below(place.store).values()])
    assert TOKEN.encode() not in told + written


@pytest.mark.usefixtures("hub")
def test_a_refused_token_is_not_shown(bake: Bake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_wrongwrongwrong")

    ran = bake("--debug", "add", "tiny@v1", SOURCE)

    assert ran.code == 4
    assert "hf_wrongwrongwrong" not in ran.out + ran.err


def test_the_login_file_is_honoured(hub: FakeHub, bake: Bake, tmp_path: Path) -> None:
    hub.add_repo("meta/gated", model_files(), gated=True)
    (tmp_path / "hf-home").mkdir()
    (tmp_path / "hf-home" / "token").write_text(TOKEN)

    assert bake("-q", "add", "tiny@v1", "hf://meta/gated").code == 0


@pytest.mark.usefixtures("added")
def test_the_token_does_not_follow_a_redirect_to_another_host(
    hub: FakeHub, bake: Bake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)

    bake("-q", "build", "tiny@v1")

    assert {request.authorized for request in hub.requested("hub/*")} == {True}
    assert {request.authorized for request in hub.requested("cdn/*")} == {False}


@pytest.mark.parametrize("repo", ["org/private", "org/nothing"])
def test_a_private_model_and_one_that_is_not_there_look_the_same(
    hub: FakeHub, place: Place, bake: Bake, repo: str
) -> None:
    hub.add_repo("org/private", model_files(), private=True)

    ran = bake("add", "tiny@v1", f"hf://{repo}")

    assert (ran.code, ran.out) == (4, "")
    assert ran.err.splitlines()[0] == f"error: no such model: hf://{repo}, or it is private"
    assert place.lock.read_text() == EMPTY_LOCK


@pytest.mark.usefixtures("hub")
def test_a_revision_that_is_not_there(place: Place, bake: Bake) -> None:
    ran = bake("add", "tiny@v1", SOURCE, "--revision", "v9")

    assert (ran.code, ran.out) == (4, "")
    assert "v9" in ran.err.splitlines()[0]
    assert place.lock.read_text() == EMPTY_LOCK


def test_a_commit_that_is_gone_still_builds_from_the_store(hub: FakeHub, added: Place, bake: Bake) -> None:
    first = bake("-q", "build", "tiny@v1")
    (model,) = parse(added.lock.read_text()).models
    hub.forget("org/name", str(model.commit))
    shutil.rmtree(added.root / "dist")
    shutil.rmtree(added.store / "layers")

    assert bake("-q", "build", "tiny@v1") == first


def test_a_commit_that_is_gone_everywhere_is_told(hub: FakeHub, added: Place, bake: Bake) -> None:
    (model,) = parse(added.lock.read_text()).models
    hub.forget("org/name", str(model.commit))

    ran = bake("-q", "build", "tiny@v1")

    assert (ran.code, ran.out) == (4, "")
    assert str(model.commit)[:12] in ran.err


def test_a_branch_that_moved_changes_nothing_that_is_locked(hub: FakeHub, added: Place, bake: Bake) -> None:
    hub.add_repo("org/name", model_files() | {"config.json": b"{}"})
    before = added.lock.read_bytes()

    assert bake("-q", "lock", "tiny@v1").code == 0
    assert added.lock.read_bytes() == before
    assert bake("-q", "build", "tiny@v1").code == 0


@pytest.mark.parametrize(
    "fault",
    [{"status": 429, "headers": {"Retry-After": "0"}}, {"status": 503}, {"cut": 40}, {"unsized": True}],
    ids=["429", "503", "cut", "unsized"],
)
def test_what_passes_is_waited_out(hub: FakeHub, added: Place, bake: Bake, fault: dict[str, object]) -> None:
    hub.fault("cdn/*", times=2, **fault)

    ran = bake("-q", "build", "tiny@v1")

    assert (ran.code, ran.err) == (0, "")
    assert whole(added.root / "dist" / "tiny-v1") == ()


def test_a_host_that_goes_on_failing_is_told(hub: FakeHub, added: Place, bake: Bake) -> None:
    before = added.lock.read_bytes()
    hub.fault("cdn/*", times=1000, status=503)

    ran = bake("-q", "build", "tiny@v1")

    assert (ran.code, ran.out) == (5, "")
    assert "Signature" not in ran.err
    assert added.lock.read_bytes() == before


def test_wrong_bytes_are_kept_nowhere(hub: FakeHub, added: Place, bake: Bake) -> None:
    wrong = shard("a", "b").replace(b"\x07", b"\x08")
    hub.fault("cdn/" + hashlib.sha256(shard("a", "b")).hexdigest(), times=1000, body=wrong)

    ran = bake("-q", "build", "tiny@v1")

    assert (ran.code, ran.out) == (6, "")
    assert ran.err.startswith(f"error: tiny@v1: {FIRST}: expected sha256:")
    assert wrong not in [*files_below(added.store).values(), *files_below(added.root).values()]
    assert not (added.root / "dist" / "tiny-v1" / "index.json").exists()


@pytest.mark.usefixtures("added")
def test_after_wrong_bytes_a_right_answer_builds(hub: FakeHub, bake: Bake) -> None:
    hub.fault("cdn/*", times=1, body=b"x" * len(shard("c")))
    bake("-q", "build", "tiny@v1")

    assert bake("-q", "build", "tiny@v1").code == 0


@pytest.mark.usefixtures("added")
def test_no_network_where_it_is_forbidden(hub: FakeHub, bake: Bake) -> None:
    ran = bake("--offline", "-q", "build", "tiny@v1")

    assert (ran.code, ran.out) == (4, "")
    assert ran.err.endswith("is not in the store, and --offline allows no network\nhint: run it without --offline\n")
    assert bake("--offline", "-q", "add", "tiny@v2", SOURCE).code == 5
    assert hub.requests == []


def test_nobody_at_the_endpoint(bake: Bake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")

    ran = bake("add", "tiny@v1", SOURCE)

    assert (ran.code, ran.out) == (5, "")
    assert "127.0.0.1:9" in ran.err


def test_an_endpoint_that_is_no_address(bake: Bake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "huggingface.co")

    ran = bake("add", "tiny@v1", SOURCE)

    assert ran.code == 2
    assert ran.err.splitlines()[0] == "error: HF_ENDPOINT is not an http or https address"


def test_an_index_that_names_a_missing_shard_is_told_before_anything_large(hub: FakeHub, bake: Bake) -> None:
    hub.add_repo("org/broken", {FIRST: shard("a"), INDEX: index({"a": FIRST, "b": SECOND}), "config.json": b"{}"})

    ran = bake("-q", "add", "tiny@v1", "hf://org/broken")

    assert ran.code == 4
    assert ran.err.startswith(f"error: tiny@v1: {INDEX} of hf://org/broken names shards that are not there: {SECOND}\n")
    assert hub.requested("cdn/*") == []


def test_pages_of_a_long_listing_are_followed(hub: FakeHub, bake: Bake) -> None:
    hub.page_size = 2

    assert bake("-q", "add", "tiny@v1", SOURCE).code == 0
    assert bake("--json", "show", "tiny@v1").document["files"][-1]["path"] == INDEX


def fill_hf_cache(home: Path, commit: str, files: dict[str, bytes]) -> Path:
    """Put files where huggingface_hub's own download would have."""
    snapshot = home / "hub" / "models--org--name" / "snapshots" / commit
    snapshot.mkdir(parents=True)
    for path, content in files.items():
        (snapshot / path).write_bytes(content)
    return snapshot


def test_the_hugging_face_cache_is_used_instead_of_the_network(
    hub: FakeHub, added: Place, bake: Bake, tmp_path: Path
) -> None:
    (model,) = parse(added.lock.read_text()).models
    fill_hf_cache(tmp_path / "hf-home", str(model.commit), model_files())

    assert bake("--json", "plan", "tiny@v1").document["fetch"] == 0
    assert bake("-q", "--offline", "build", "tiny@v1").code == 0
    assert hub.requests == []


def test_an_altered_copy_in_the_hugging_face_cache_is_not_used(
    hub: FakeHub, added: Place, bake: Bake, tmp_path: Path
) -> None:
    (model,) = parse(added.lock.read_text()).models
    altered = {path: content.replace(b"\x07", b"\x08") for path, content in model_files().items()}
    fill_hf_cache(tmp_path / "hf-home", str(model.commit), altered)

    offline = bake("-q", "--offline", "build", "tiny@v1")
    assert offline.code == 4
    assert "(the copy in the Hugging Face cache is altered)" in offline.err
    assert bake("-q", "build", "tiny@v1").code == 0
    assert whole(added.root / "dist" / "tiny-v1") == ()
    assert len(hub.requested("cdn/*")) == 2


def test_a_file_in_the_store_that_was_damaged_is_dropped_and_fetched_again(
    hub: FakeHub, added: Place, bake: Bake
) -> None:
    first = bake("-q", "build", "tiny@v1")
    digest = hashlib.sha256(shard("a", "b")).hexdigest()
    path = added.store / "files" / digest[:2] / digest[2:]
    path.chmod(0o644)
    path.write_bytes(shard("a", "b").replace(b"\x07", b"\x08"))
    shutil.rmtree(added.root / "dist")
    shutil.rmtree(added.store / "layers")
    hub.requests.clear()

    assert bake("-q", "build", "tiny@v1") == first
    assert path.read_bytes() == shard("a", "b")
    assert [request.path for request in hub.requested("cdn/*")] == [f"/{digest}"]


@pytest.mark.parametrize("words", [("lock", "tiny@v1"), ("lock",)], ids=" ".join)
def test_layer_records_stay_though_the_store_is_lost(added: Place, bake: Bake, words: tuple[str, ...]) -> None:
    assert bake("-q", "build", "tiny@v1").code == 0
    before = added.lock.read_text()
    shutil.rmtree(added.store)

    assert bake("-q", *words).code == 0
    assert "[[model.layer]]" in before
    assert added.lock.read_text() == before


@pytest.mark.parametrize("name", ["BAKE_HUB_BACKOFF", "HF_HUB_DOWNLOAD_TIMEOUT"])
@pytest.mark.usefixtures("hub")
def test_a_time_that_is_no_number_is_a_mistake_of_use(place: Place, name: str) -> None:
    ran = place.run("-q", "add", "tiny@v1", SOURCE, environ={name: "10s"})

    assert ran == Ran(2, "", error(f"{name}: expected a number of seconds, found '10s'"))
    assert place.lock.read_text() == EMPTY_LOCK


def test_a_fetch_that_was_cut_off_goes_on_where_it_stopped(hub: FakeHub, added: Place, bake: Bake) -> None:
    digest = hashlib.sha256(shard("a", "b")).hexdigest()
    (added.store / "partial").mkdir(exist_ok=True)
    (added.store / "partial" / digest).write_bytes(shard("a", "b")[:50])

    assert bake("-q", "build", "tiny@v1").code == 0
    assert [request.range for request in hub.requested(f"cdn/{digest}")] == ["bytes=50-"]
