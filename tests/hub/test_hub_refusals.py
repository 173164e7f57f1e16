"""What a person is told when the Hub does not give what was asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bake.digest import Digest
from bake.errors import NetworkError, SourceError, UsageError
from bake.hub import HubSnapshot, resolve
from tests.hub.samples import FILES, REPO, WEIGHTS, Waits, fault_of, read, silent_host
from tests.hub_server import SIGNATURE, FakeHub, Request

if TYPE_CHECKING:
    from pathlib import Path


def test_a_gated_file_tells_where_to_ask_for_access(hub: FakeHub, waits: Waits) -> None:
    hub.add_repo("org/gated", FILES, gated=True)
    snapshot = resolve("org/gated", patience=waits.patience())

    with pytest.raises(SourceError) as caught:
        read(snapshot)

    assert fault_of(caught.value) == (
        SourceError,
        "hf://org/gated is gated, and you have no access to it yet",
        f"ask for access at {hub.endpoint}/org/gated, then `hf auth login` or set HF_TOKEN",
    )
    assert waits.seconds == []


def test_a_gated_file_opens_to_the_token(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.add_repo("org/gated", FILES, gated=True)
    monkeypatch.setenv("HF_TOKEN", hub.token)

    assert read(resolve("org/gated")) == WEIGHTS


def test_a_gated_file_opens_to_who_is_logged_in(hub: FakeHub, tmp_path: Path) -> None:
    hub.add_repo("org/gated", FILES, gated=True)
    (tmp_path / "hf-home").mkdir()
    (tmp_path / "hf-home" / "token").write_text(f"{hub.token}\n")

    assert read(resolve("org/gated")) == WEIGHTS


def test_the_token_does_not_follow_a_redirect_to_another_host(
    hub: FakeHub, snapshot: HubSnapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", hub.token)

    read(snapshot)

    path = f"/org/name/resolve/{snapshot.commit}/model.safetensors"
    assert hub.requests == [
        Request(host="hub", method="GET", path=path, authorized=True, range=None),
        Request(host="cdn", method="GET", path="/" + Digest.of(WEIGHTS).hex, authorized=False, range=None),
    ]


def test_a_refused_account_is_told_the_same_as_a_stranger(hub: FakeHub, snapshot: HubSnapshot) -> None:
    hub.fault("hub/*", status=403, headers={"X-Error-Code": "GatedRepo", "X-Error-Message": "Your request is pending"})

    with pytest.raises(SourceError) as caught:
        read(snapshot)

    assert caught.value.message == "hf://org/name is gated, and you have no access to it yet"


@pytest.mark.parametrize("token", [None, "hf_opensesame"])
def test_a_missing_model_may_be_a_private_one(hub: FakeHub, monkeypatch: pytest.MonkeyPatch, token: str | None) -> None:
    monkeypatch.setenv("HF_TOKEN", token or "")

    with pytest.raises(SourceError) as caught:
        resolve("org/missing")

    assert fault_of(caught.value) == (
        SourceError,
        "no such model: hf://org/missing, or it is private",
        f"look for it at {hub.endpoint}/org/missing; if it is private, `hf auth login` or set HF_TOKEN",
    )


def test_a_missing_revision_is_named(hub: FakeHub) -> None:
    with pytest.raises(SourceError) as caught:
        resolve(REPO, "v2")

    assert fault_of(caught.value) == (
        SourceError,
        "hf://org/name has no revision 'v2'",
        f"see its branches and tags at {hub.endpoint}/org/name/tree/main",
    )


def test_a_commit_that_was_rewritten_away_points_to_other_sources(hub: FakeHub, snapshot: HubSnapshot) -> None:
    hub.forget(REPO, snapshot.commit)

    with pytest.raises(SourceError) as caught:
        read(snapshot)

    assert caught.value.message == (
        f"hf://org/name@{snapshot.commit[:12]}/model.safetensors is not on the Hub:"
        " there is no such file or commit, or its history was rewritten"
    )
    assert caught.value.hint == (
        "the same bytes from anywhere else will do: the store, a mirror, an image, a local folder"
    )


def test_a_file_that_the_commit_does_not_hold_is_named(snapshot: HubSnapshot) -> None:
    with pytest.raises(SourceError) as caught:
        list(snapshot.stream("gone.json", size=1))

    assert caught.value.message.startswith(f"hf://org/name@{snapshot.commit[:12]}/gone.json is not on the Hub")


def test_a_token_that_the_hub_refuses_is_not_shown(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")

    with pytest.raises(SourceError) as caught:
        resolve(REPO)

    host = hub.endpoint.removeprefix("http://")
    assert fault_of(caught.value) == (
        SourceError,
        f"cannot use your Hugging Face token: {host} says 'Invalid credentials in Authorization header'",
        "`hf auth login`, or set HF_TOKEN",
    )


@pytest.mark.parametrize("token", ["hf_with space", "hf_é", "hf_\x01"])
@pytest.mark.usefixtures("hub")
def test_a_token_that_no_header_can_hold_is_not_shown(monkeypatch: pytest.MonkeyPatch, token: str) -> None:
    monkeypatch.setenv("HF_TOKEN", token)

    with pytest.raises(SourceError) as caught:
        resolve(REPO)

    assert caught.value.message == "cannot use your Hugging Face token: it holds a character that no token has"


def test_a_forbidden_file_passes_on_the_hubs_reason_without_secrets(hub: FakeHub, snapshot: HubSnapshot) -> None:
    said = "Enable it for hf_abcDEF at https://huggingface.co/settings?token=abc, Bearer xyz"
    hub.fault("hub/*", status=403, headers={"X-Error-Message": said})

    with pytest.raises(SourceError) as caught:
        read(snapshot, "config.json")

    assert caught.value.message == (
        f"hf://org/name@{snapshot.commit[:12]}/config.json: {hub.endpoint.removeprefix('http://')} forbids it:"
        " Enable it for … at https://huggingface.co/settings?… Bearer …"
    )


def test_a_rate_limit_that_does_not_end_is_told_with_what_helps(
    hub: FakeHub, snapshot: HubSnapshot, waits: Waits
) -> None:
    hub.fault("hub/*", times=9, status=429, headers={"Retry-After": "7"})

    with pytest.raises(NetworkError) as caught:
        read(snapshot)

    host = hub.endpoint.removeprefix("http://")
    assert fault_of(caught.value) == (
        NetworkError,
        f"hf://org/name@{snapshot.commit[:12]}/model.safetensors: {host} answered 429 (too many requests) (3 tries)",
        "wait a while; a user may ask more often than a stranger: `hf auth login`, or set HF_TOKEN",
    )
    assert waits.seconds == [7.0, 7.0]


def test_a_wait_longer_than_patience_is_not_waited(hub: FakeHub, snapshot: HubSnapshot, waits: Waits) -> None:
    hub.fault("hub/*", status=429, headers={"Retry-After": "3600"})

    with pytest.raises(NetworkError) as caught:
        read(snapshot)

    assert caught.value.message.endswith("answered 429 (too many requests), and asks to wait 3600 s")
    assert waits.seconds == []


def test_no_message_shows_a_signed_url(hub: FakeHub, snapshot: HubSnapshot) -> None:
    hub.fault("cdn/*", times=9, status=403)

    with pytest.raises(NetworkError) as caught:
        read(snapshot)

    assert caught.value.message.endswith(f"{hub.cdn_endpoint.removeprefix('http://')} answered 403 (3 tries)")
    assert SIGNATURE not in f"{caught.value.message} {caught.value.hint} {caught.value.__cause__!r}"


def test_bodies_that_never_gain_a_byte_are_given_up(hub: FakeHub, snapshot: HubSnapshot) -> None:
    hub.fault("cdn/*", times=9, cut=0)

    with pytest.raises(NetworkError) as caught:
        read(snapshot)

    assert caught.value.message.endswith("(3 tries)")
    assert len(hub.requested("cdn/*")) == 3


def test_a_content_host_that_does_not_answer_is_named_without_its_signed_url(
    hub: FakeHub, snapshot: HubSnapshot
) -> None:
    host = silent_host()
    hub.fault("hub/*", times=9, status=302, headers={"Location": f"http://{host}/x?Signature={SIGNATURE}"})

    with pytest.raises(NetworkError) as caught:
        read(snapshot)

    assert caught.value.message == (
        f"hf://org/name@{snapshot.commit[:12]}/model.safetensors: {host}: [Errno 111] Connection refused (3 tries)"
    )


@pytest.mark.usefixtures("hub")
def test_a_host_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch, waits: Waits) -> None:
    host = silent_host()
    monkeypatch.setenv("HF_ENDPOINT", f"http://{host}")

    with pytest.raises(NetworkError) as caught:
        resolve(REPO, patience=waits.patience())

    assert fault_of(caught.value) == (
        NetworkError,
        f"hf://org/name@main: {host}: [Errno 111] Connection refused (3 tries)",
        "check the network, the proxy settings and HF_ENDPOINT",
    )


@pytest.mark.parametrize("name", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
def test_offline_asks_for_nothing(hub: FakeHub, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "1")

    with pytest.raises(NetworkError) as caught:
        resolve(REPO)

    assert caught.value.message == "hf://org/name@main: not asked for, as HF_HUB_OFFLINE is set"
    assert hub.requests == []


@pytest.mark.parametrize("endpoint", ["huggingface.co", "ftp://mirror", "http://", "http://host:port"])
@pytest.mark.usefixtures("hub")
def test_a_malformed_endpoint_is_a_mistake_of_use(monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    monkeypatch.setenv("HF_ENDPOINT", endpoint)

    with pytest.raises(UsageError) as caught:
        resolve(REPO)

    assert caught.value.message == "HF_ENDPOINT is not an http or https address"


@pytest.mark.parametrize("body", [b"<html>sign in</html>", b"[]", b'{"sha": "main"}', b'{"sha": null}'])
def test_a_login_page_in_the_hubs_place_is_told_so(hub: FakeHub, body: bytes) -> None:
    hub.fault("hub/*/revision/*", body=body)

    with pytest.raises(NetworkError) as caught:
        resolve(REPO)

    host = hub.endpoint.removeprefix("http://")
    assert caught.value.message == f"hf://org/name@main: {host} answered with something other than the Hub's JSON"
