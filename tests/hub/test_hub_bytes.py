"""Bytes arrive whole whatever breaks meanwhile, and other bytes are caught."""

from __future__ import annotations

import pytest

from bake.errors import DigestError
from bake.hub import HubSnapshot, Patience, resolve, usual_patience
from tests.hub.samples import CONFIG, FILES, REPO, WEIGHTS, Waits, read
from tests.hub_server import FakeHub, git_oid


@pytest.mark.parametrize("path", list(FILES))
def test_a_file_is_streamed_whole(snapshot: HubSnapshot, path: str) -> None:
    assert read(snapshot, path) == FILES[path]


def test_chunks_are_about_a_mebibyte(snapshot: HubSnapshot) -> None:
    sizes = [len(chunk) for chunk in snapshot.stream("model.safetensors", size=len(WEIGHTS))]

    assert len(sizes) == 3
    assert max(sizes) < (1 << 20) + (1 << 17)


def test_a_pinned_snapshot_needs_path_and_size_only(hub: FakeHub, snapshot: HubSnapshot) -> None:
    assert read(HubSnapshot.at(REPO, snapshot.commit)) == WEIGHTS
    assert hub.requested("hub/api/*") == []


def test_an_empty_file_needs_no_request(hub: FakeHub, snapshot: HubSnapshot) -> None:
    assert list(snapshot.stream("empty.txt", size=0)) == []
    assert hub.requests == []


def test_an_offset_is_asked_for_as_a_range(hub: FakeHub, snapshot: HubSnapshot) -> None:
    assert read(snapshot, offset=2_999_000) == WEIGHTS[2_999_000:]
    assert [request.range for request in hub.requests] == ["bytes=2999000-", "bytes=2999000-"]


@pytest.mark.parametrize("path", ["config.json", "model.safetensors"])
def test_a_server_that_ignores_range_is_read_from_its_start(hub: FakeHub, snapshot: HubSnapshot, path: str) -> None:
    hub.fault("*", times=9, ignore_range=True)

    assert read(snapshot, path, offset=20) == FILES[path][20:]


def test_a_part_is_asked_for_as_a_range_with_its_last_byte(hub: FakeHub, snapshot: HubSnapshot) -> None:
    pieces = list(snapshot.stream("model.safetensors", size=len(WEIGHTS), offset=100, stop=200))

    assert b"".join(pieces) == WEIGHTS[100:200]
    assert [request.range for request in hub.requested("cdn/*")] == ["bytes=100-199"]


@pytest.mark.parametrize("path", ["config.json", "model.safetensors"])
def test_a_part_of_what_a_server_sends_whole_is_no_more_than_was_asked_for(
    hub: FakeHub, snapshot: HubSnapshot, path: str
) -> None:
    hub.fault("*", times=9, ignore_range=True)

    assert b"".join(snapshot.stream(path, size=len(FILES[path]), offset=2, stop=9)) == FILES[path][2:9]


def test_a_part_that_breaks_is_continued(hub: FakeHub, snapshot: HubSnapshot) -> None:
    hub.fault("cdn/*", cut=60)

    assert b"".join(snapshot.stream("model.safetensors", size=len(WEIGHTS), stop=200)) == WEIGHTS[:200]
    assert [request.range for request in hub.requested("cdn/*")] == ["bytes=0-199", "bytes=60-199"]


def test_a_cut_body_is_continued_at_the_byte_where_it_broke(hub: FakeHub, snapshot: HubSnapshot, waits: Waits) -> None:
    hub.fault("cdn/*", times=3, cut=900_000)

    assert read(snapshot) == WEIGHTS
    assert [request.range for request in hub.requested("cdn/*")] == [
        None,
        "bytes=900000-",
        "bytes=1800000-",
        "bytes=2700000-",
    ]
    assert waits.seconds == [1.0, 1.0, 1.0]


def test_failures_that_pass_are_waited_out_ever_longer(hub: FakeHub, snapshot: HubSnapshot, waits: Waits) -> None:
    hub.fault("cdn/*", status=500)
    hub.fault("hub/*", status=503)

    assert read(snapshot) == WEIGHTS
    assert waits.seconds == [1.0, 2.0]


def test_the_api_is_asked_again_too(hub: FakeHub, waits: Waits) -> None:
    hub.fault("hub/*/revision/*", times=2, status=502)
    hub.fault("hub/*/tree/*", times=2, cut=5)

    assert len(resolve(REPO, patience=waits.patience()).listing) == 3
    assert waits.seconds == [1.0, 2.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, [7.0]),
        ({"RateLimit": '"resolvers";r=0;t=55', "RateLimit-Policy": '"fixed window";"resolvers";q=3000;w=300'}, [55.0]),
        ({"RateLimit": '"resolvers";r=9;t=55'}, [1.0]),
        ({"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}, [1.0]),
    ],
)
def test_a_rate_limit_is_waited_for_as_the_server_asks(
    hub: FakeHub, snapshot: HubSnapshot, waits: Waits, headers: dict[str, str], seconds: list[float]
) -> None:
    hub.fault("hub/*", status=429, headers=headers)

    assert read(snapshot) == WEIGHTS
    assert waits.seconds == seconds


def test_a_signed_url_that_ran_out_is_signed_again(hub: FakeHub, snapshot: HubSnapshot) -> None:
    hub.fault("cdn/*", status=403)

    assert read(snapshot) == WEIGHTS
    assert len(hub.requested("hub/*")) == 2


def test_a_stalled_body_is_given_up_and_continued(
    hub: FakeHub, snapshot: HubSnapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_DOWNLOAD_TIMEOUT", "0.05")
    hub.fault("cdn/*", slow=0.15)

    assert read(snapshot) == WEIGHTS


def test_the_environment_sets_the_first_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAKE_HUB_BACKOFF", "0.01")

    assert usual_patience() == Patience(base=0.01)


def test_a_git_file_with_other_bytes_is_caught(hub: FakeHub, snapshot: HubSnapshot) -> None:
    spoilt = CONFIG.replace(b"Llama", b"Lhama")
    hub.fault("hub/*/config.json", body=spoilt)

    with pytest.raises(DigestError) as caught:
        read(snapshot, "config.json")

    assert caught.value.message == (
        f"hf://org/name/config.json: expected git blob {git_oid(CONFIG)}, found {git_oid(spoilt)}"
    )


@pytest.mark.parametrize(("body", "found"), [(WEIGHTS + b"x", "3000001"), (WEIGHTS[:-1], "2999999")])
def test_a_file_of_another_size_is_caught_at_once(hub: FakeHub, snapshot: HubSnapshot, body: bytes, found: str) -> None:
    hub.fault("cdn/*", body=body)

    with pytest.raises(DigestError) as caught:
        read(snapshot)

    assert caught.value.message == (
        f"hf://org/name@{snapshot.commit[:12]}/model.safetensors: expected 3000000 bytes, found {found}"
    )


def test_a_body_without_a_length_that_goes_on_is_caught(hub: FakeHub, snapshot: HubSnapshot) -> None:
    hub.fault("cdn/*", body=WEIGHTS + b"x", unsized=True)

    with pytest.raises(DigestError) as caught:
        read(snapshot)

    assert caught.value.message.endswith("/model.safetensors: expected 3000000 bytes, found more")


def test_a_body_without_a_length_that_ends_short_is_caught(hub: FakeHub, snapshot: HubSnapshot) -> None:
    hub.fault("cdn/*", times=2, body=WEIGHTS[:-1], unsized=True)

    with pytest.raises(DigestError) as caught:
        read(snapshot)

    assert caught.value.message.endswith("expected more bytes than the Hub has, found the end of its file")
