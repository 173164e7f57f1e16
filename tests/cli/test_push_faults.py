"""`bake push` while things break: it goes on, or says what is wrong and what to type; no tag ever leads to a part."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.place import Bake, Place, Ran, error
from tests.cli.pushed import NAME, broken_tags, faults_in, image_in, reference, tags_in, weights_sent
from tests.registry.faults import PASSWORD, USER, digest_of
from tests.registry.samples import encoded

if TYPE_CHECKING:
    from pathlib import Path

    from tests.hub_server import FakeHub
    from tests.registry.server import FakeRegistry

SIZE = 3 << 20
PASSING: dict[str, dict[str, Any]] = {
    "cut": {"cut": 1_000_000},
    "cut at once": {"cut": 0},
    "answer lost": {"lost": True},
    "busy": {"status": 429, "headers": {"Retry-After": "0"}},
    "server error": {"status": 500},
    "bad gateway": {"status": 502, "body": b"<html>nginx</html>"},
    "upload unknown": {"status": 404, "body": json.dumps({"errors": [{"code": "BLOB_UPLOAD_UNKNOWN"}]}).encode()},
    "token ran out": {"expire": True},
    "too large at once": {"status": 413},
    "refused early": {"status": 413, "early": True},
}


@pytest.fixture
def large(place: Place, bake: Bake) -> Place:
    """`tiny@v1` in the lock, from a folder; its digests are known."""
    place.add_large_model(SIZE, SIZE // 2)
    assert bake("-q", "add", "tiny@v1", "dir://m").code == 0
    return place


@pytest.fixture
def from_hub(hub: FakeHub, place: Place, bake: Bake) -> Place:
    """The same from the Hub; its digests are not known."""
    folder = place.add_large_model(SIZE, SIZE // 2)
    hub.add_repo("org/large", {path.name: path.read_bytes() for path in folder.iterdir()})
    assert bake("-q", "add", "tiny@v1", "hf://org/large").code == 0
    return place


@pytest.fixture(params=["large", "from_hub"])
def sources(request: pytest.FixtureRequest) -> Place:
    """Each in turn."""
    found: Place = request.getfixturevalue(request.param)
    return found


def log_in(registry: FakeRegistry, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"auths": {registry.host: encoded(USER, PASSWORD)}}))


def break_sending(registry: FakeRegistry, **what: Any) -> None:
    """Let the first upload go wrong: a PUT where a layer's digest is known, a PATCH where it comes from the Hub."""
    registry.fault("PUT */blobs/uploads/*", **what)
    registry.fault("PATCH */blobs/uploads/*", **what)


# --- what passes


@pytest.mark.parametrize("what", PASSING)
@pytest.mark.usefixtures("sources")
def test_what_breaks_is_gone_on_with(bake: Bake, registry: FakeRegistry, docker_config: Path, what: str) -> None:
    registry.auth = "token"
    log_in(registry, docker_config)
    break_sending(registry, **PASSING[what])

    ran = bake("-q", "push", "tiny@v1", reference(registry))

    assert (ran.code, ran.err) == (0, "")
    assert faults_in(registry) == ()


@pytest.mark.parametrize(
    "manner",
    [
        {"relative": True},
        {"mounts": False},
        {"stuck_range": True},
        {"forgets": True},
        {"chunks": False},
        {"largest_body": 1 << 20},
        {"largest_body": 1 << 20, "too_large": 416},
        {"least_chunk": 2 << 20},
        {"auth": "basic"},
        {"auth": "token", "token_life": 1},
        {"auth": "token", "token_life": None},
    ],
    ids=str,
)
@pytest.mark.usefixtures("sources")
def test_a_registry_of_its_own_manners_is_pushed_to(
    bake: Bake, registry: FakeRegistry, docker_config: Path, manner: dict[str, Any]
) -> None:
    log_in(registry, docker_config)
    vars(registry).update(manner)
    break_sending(registry, cut=500_000)

    ran = bake("-q", "push", "tiny@v1", reference(registry))

    assert (ran.code, ran.err) == (0, "")
    assert faults_in(registry) == ()


@pytest.mark.usefixtures("large")
def test_a_manifest_whose_answer_was_lost_is_put_again(bake: Bake, registry: FakeRegistry) -> None:
    registry.fault("PUT */manifests/*", lost=True)
    registry.fault("PUT */manifests/*", status=503)

    assert bake("-q", "push", "tiny@v1", reference(registry)).code == 0
    assert broken_tags(registry) == []


# --- what does not pass


def fail_after_the_first(registry: FakeRegistry) -> None:
    """One layer arrives, and no other."""
    registry.fault("PUT */blobs/uploads/*", skip=1, times=99, status=503)
    registry.fault("PATCH */blobs/uploads/*", times=99, status=503)


@pytest.mark.usefixtures("large")
def test_a_registry_that_goes_on_failing_is_told_with_how_far_it_came(bake: Bake, registry: FakeRegistry) -> None:
    fail_after_the_first(registry)

    ran = bake("-q", "push", "tiny@v1", reference(registry))

    assert (ran.code, ran.out) == (5, "")
    assert re.fullmatch(
        rf"error: {registry.host}/{NAME}: tiny@v1: [\w. -]+: {registry.host} answered 503 \(6 tries\); "
        r"there so far: 1 layer\n"
        r"hint: wait a while; then run the same command again: what is there is not sent again\n",
        ran.err,
    )
    assert tags_in(registry) == []


@pytest.mark.usefixtures("large")
def test_the_next_push_sends_only_what_is_missing(bake: Bake, registry: FakeRegistry) -> None:
    fail_after_the_first(registry)
    assert bake("-q", "push", "tiny@v1", reference(registry)).code == 5
    (there,) = map(len, registry.blobs[NAME].values())
    registry.mend()
    registry.requests.clear()

    assert bake("-q", "push", "tiny@v1", reference(registry)).code == 0
    assert weights_sent(registry) == sum(map(len, registry.blobs[NAME].values())) - there
    assert faults_in(registry) == ()


@pytest.mark.usefixtures("large")
def test_nobody_at_the_address(bake: Bake, registry: FakeRegistry) -> None:
    host = registry.host
    registry.__exit__()

    ran = bake("-q", "push", "tiny@v1", f"{host}/{NAME}")

    assert (ran.code, ran.out) == (5, "")
    assert ran.err == error(
        f"the registry cannot be reached: {host}: Connection refused (6 tries)",
        hint="check the network and the proxy settings (HTTPS_PROXY, NO_PROXY)",
    )


@pytest.mark.usefixtures("large")
def test_a_stranger_is_told_to_log_in(bake: Bake, registry: FakeRegistry) -> None:
    registry.auth = "basic"

    assert bake("-q", "push", "tiny@v1", reference(registry)) == Ran(
        7,
        "",
        error(
            f"{registry.host} lets no stranger push to {NAME}",
            hint=f"docker login {registry.host}",
        ),
    )


@pytest.mark.usefixtures("sources")
def test_a_registry_that_refuses_every_size_says_so(bake: Bake, registry: FakeRegistry) -> None:
    registry.largest_body = 100

    ran = bake("-q", "push", "tiny@v1", reference(registry))

    assert (ran.code, ran.out) == (7, "")
    assert "too large" in ran.err
    assert "hint: raise the limit of the registry, or of the proxy in front of it" in ran.err
    assert tags_in(registry) == []


@pytest.mark.usefixtures("sources")
def test_a_blob_that_was_taken_and_is_not_there_is_found_before_a_tag_leads_to_it(
    bake: Bake, registry: FakeRegistry
) -> None:
    """It loses what it has just taken: the first upload is answered well and kept nowhere."""
    registry.fault("PUT */blobs/uploads/*", status=201)

    ran = bake("-q", "push", "tiny@v1", reference(registry))

    assert (ran.code, ran.out) == (1, "")
    assert re.fullmatch(r"error: tiny@v1: 1 fault\nblob sha256:[0-9a-f]{64}: missing\n", ran.err)
    assert tags_in(registry) == []


@pytest.mark.usefixtures("sources")
def test_a_registry_that_takes_a_layer_for_another_is_told(bake: Bake, registry: FakeRegistry) -> None:
    registry.fault("PUT */blobs/uploads/*", claim=digest_of(b"another"))

    ran = bake("-q", "push", "tiny@v1", reference(registry))

    assert (ran.code, ran.out) == (6, "")
    assert f"the registry took it for {digest_of(b'another')}" in ran.err
    assert tags_in(registry) == []


@pytest.mark.usefixtures("large")
def test_a_blob_of_the_right_name_and_another_size_is_told(bake: Bake, registry: FakeRegistry) -> None:
    registry.fault("HEAD */blobs/*", status=200, headers={"Content-Length": "7"})

    ran = bake("-q", "push", "tiny@v1", reference(registry))

    assert (ran.code, ran.out) == (6, "")
    assert "found 7 in the registry" in ran.err


@pytest.mark.usefixtures("large")
def test_a_manifest_that_is_refused_leaves_no_tag_and_the_older_image(bake: Bake, registry: FakeRegistry) -> None:
    bake("-q", "push", "tiny@v1", reference(registry))
    before = image_in(registry).descriptor.digest
    registry.fault("HEAD */manifests/*", times=9, status=404)
    registry.fault("PUT */manifests/*", times=9, status=400)

    ran = bake("-q", "push", "tiny@v1", reference(registry))

    assert (ran.code, ran.out) == (7, "")
    assert image_in(registry).descriptor.digest == before


@pytest.mark.usefixtures("large")
def test_no_credential_is_shown(bake: Bake, registry: FakeRegistry, docker_config: Path) -> None:
    log_in(registry, docker_config)
    registry.auth = "basic"
    registry.fault("PUT */blobs/uploads/*", times=99, status=400, body=f"{USER} {PASSWORD}".encode())

    ran = bake("--debug", "push", "tiny@v1", reference(registry))

    assert ran.code == 7
    assert PASSWORD not in ran.err + ran.out
