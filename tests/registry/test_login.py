"""Who may do what: challenges, tokens and their ends; and that no secret gets where it should not."""

from __future__ import annotations

import json
import logging
import traceback
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest

from bake.errors import NetworkError, OutputError, SourceError
from bake.registry.challenge import Challenge, parse_challenge
from bake.registry.credentials import Credentials
from bake.registry.tokens import Authorizer, LoginRefusedError
from tests.registry.answers import TokenServer
from tests.registry.faults import IDENTITY_TOKEN, PASSWORD, USER, basic
from tests.registry.samples import BLOB, BYTES, NAME, Waits, encoded, fault_of, open_at, push, read, write_config

if TYPE_CHECKING:
    from pathlib import Path

    from tests.registry.server import FakeRegistry

SCOPES = ("repository:org/name:pull",)
CHALLENGE = 'Bearer realm="https://auth.example/token",service="registry.example"'


@pytest.fixture
def logged_in(registry: FakeRegistry, docker_config: Path) -> None:
    write_config(docker_config, auths={registry.host: encoded(USER, PASSWORD)})


def scopes(registry: FakeRegistry) -> list[list[str]]:
    """What each token was asked to be for."""
    asked = [request for request in registry.requests if request.host == "auth"]
    return [parse_qs(urlsplit(request.path).query).get("scope", []) for request in asked]


def test_a_stranger_gets_a_token_too(registry: FakeRegistry, waits: Waits) -> None:
    registry.auth, registry.anonymous = "token", True
    registry.add_blob(NAME, BYTES)

    assert read(registry, waits) == BYTES

    assert registry.sent_to("auth") == [None]
    assert scopes(registry) == [[f"repository:{NAME}:pull"]]


@pytest.mark.usefixtures("logged_in")
def test_a_password_goes_to_the_token_server_and_the_token_to_the_registry(
    registry: FakeRegistry, waits: Waits
) -> None:
    registry.auth = "token"

    push(registry, waits)

    assert registry.sent_to("auth") == [basic()]
    assert registry.sent_to("registry") == [None, *["Bearer t0ken-1"] * 3]
    assert scopes(registry) == [[f"repository:{NAME}:pull,push"]]


@pytest.mark.usefixtures("logged_in")
def test_a_mount_asks_for_a_token_that_opens_both_repositories(registry: FakeRegistry, waits: Waits) -> None:
    registry.auth = "token"
    registry.add_blob("org/base", BYTES)

    push(registry, waits, mount_from="org/base")

    assert scopes(registry)[-1] == [f"repository:{NAME}:pull,push", "repository:org/base:pull"]


def test_an_identity_token_is_exchanged_by_post(registry: FakeRegistry, waits: Waits, docker_config: Path) -> None:
    registry.auth = "token"
    write_config(docker_config, auths={registry.host: {"identitytoken": IDENTITY_TOKEN}})

    push(registry, waits)

    assert registry.lines(host="auth") == ["POST /token"]
    assert registry.sent_to("registry")[-1] == "Bearer t0ken-1"


def test_a_registry_token_is_sent_as_it_is(registry: FakeRegistry, waits: Waits, docker_config: Path) -> None:
    registry.auth = "token"
    registry.tokens["ready-made"] = ("repository:all",)
    write_config(docker_config, auths={registry.host: {"registrytoken": "ready-made"}})

    push(registry, waits)

    assert registry.lines(host="auth") == []


@pytest.mark.usefixtures("logged_in")
def test_a_token_is_asked_for_once(registry: FakeRegistry, waits: Waits) -> None:
    registry.auth = "token"
    with open_at(registry, waits) as opened:
        opened.has_blob(BLOB)
        opened.has_blob(BLOB)

    assert registry.lines(host="auth") == ["GET /token"]


@pytest.mark.usefixtures("logged_in")
def test_a_token_server_that_is_busy_is_waited_for(registry: FakeRegistry, waits: Waits) -> None:
    registry.auth = "token"
    registry.fault("GET /token", status=503, headers={"Retry-After": "5"})

    push(registry, waits)

    assert waits.seconds == [5.0]


def test_pushing_as_a_stranger_says_how_to_log_in(registry: FakeRegistry, waits: Waits) -> None:
    registry.auth = "basic"

    with pytest.raises(OutputError) as caught:
        push(registry, waits)

    assert fault_of(caught.value) == (
        OutputError,
        f"{registry.host} lets no stranger push to {NAME}",
        f"docker login {registry.host}",
    )


def test_a_helper_that_is_missing_is_named_where_a_login_is_needed(
    registry: FakeRegistry, waits: Waits, docker_config: Path
) -> None:
    registry.auth = "basic"
    write_config(docker_config, credHelpers={registry.host: "no-such-helper"})

    with pytest.raises(OutputError) as caught:
        push(registry, waits)

    assert fault_of(caught.value) == (
        OutputError,
        (
            f"{registry.host} lets no stranger push to {NAME}; {docker_config}/config.json names "
            "docker-credential-no-such-helper for it, and that is not on the PATH"
        ),
        f"mend that, or docker login {registry.host}",
    )


@pytest.mark.usefixtures("logged_in")
def test_a_login_that_may_not_push_is_named_with_the_registrys_reason(
    registry: FakeRegistry, waits: Waits, docker_config: Path
) -> None:
    registry.auth = "token"
    registry.fault("POST *", status=403, body=b'{"errors": [{"code": "DENIED", "message": "not a maintainer"}]}')

    with pytest.raises(OutputError) as caught:
        push(registry, waits)

    assert fault_of(caught.value) == (
        OutputError,
        f"{registry.host} does not let the login in {docker_config}/config.json push to {NAME}: not a maintainer",
        f"docker login {registry.host}, with an account or a token that may push to it",
    )
    assert waits.seconds == []


@pytest.mark.parametrize("auth", ["basic", "token"])
def test_a_wrong_password_is_tried_once(registry: FakeRegistry, waits: Waits, docker_config: Path, auth: Any) -> None:
    registry.auth = auth
    write_config(docker_config, auths={registry.host: encoded(USER, "wr0ng")})

    with pytest.raises(SourceError, match=r"does not let the login in \S+ read org/name"):
        read(registry, waits)

    assert [*registry.sent_to("registry"), *registry.sent_to("auth")].count("Basic cm9ib3Q6d3Iwbmc=") == 1


@pytest.mark.usefixtures("logged_in")
def test_no_secret_is_in_a_message_a_traceback_or_a_log(
    registry: FakeRegistry, waits: Waits, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    registry.auth = "token"
    echoed = f"bad login {PASSWORD} {basic()} at https://host/path?X-Signature=s1gned with eyJhbGciOi.eyJzdWIi.sig"
    registry.fault("POST *", status=403, body=json.dumps({"errors": [{"message": echoed}]}).encode())

    with pytest.raises(OutputError) as caught:
        push(registry, waits)

    told = "".join(traceback.format_exception(caught.value)) + caplog.text + "".join(waits.words)
    assert "bad login … Basic … at https://host/path?… with …" in told
    assert [secret for secret in (PASSWORD, basic(), "t0ken-1", "s1gned") if secret in told] == []


def test_a_challenge_is_parsed() -> None:
    header = 'Bearer realm="https://auth.docker.io/token?a=1,2",service="registry.docker.io",scope="repository:a/b:pull,push"'

    assert parse_challenge(header) == Challenge(
        scheme="bearer",
        realm="https://auth.docker.io/token?a=1,2",
        service="registry.docker.io",
        scope="repository:a/b:pull,push",
    )


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("", None),
        ("Negotiate", None),
        ('Basic realm="x"', Challenge(scheme="basic")),
        ("Basic", Challenge(scheme="basic")),
        ('BASIC realm="Bearer realm=no"', Challenge(scheme="basic")),
        ('Basic realm="x", Bearer realm="https://a/t"', Challenge(scheme="bearer", realm="https://a/t")),
        ("Negotiate, bearer realm=https://a/t", Challenge(scheme="bearer", realm="https://a/t")),
        ('Bearer realm="https://a/\\"t"', Challenge(scheme="bearer", realm='https://a/"t')),
        ('Bearer error="invalid_token"', None),
    ],
)
def test_the_challenge_to_answer_is_found(header: str, expected: Challenge | None) -> None:
    assert parse_challenge(header) == expected


def test_a_token_is_renewed_before_it_ends() -> None:
    now = [0.0]
    server = TokenServer(b'{"token": "one", "expires_in": 100}', b'{"token": "two", "expires_in": 100}')
    authorizer = Authorizer(None, server, insecure=False, clock=lambda: now[0])
    authorizer.learn(CHALLENGE, sent=None, scopes=SCOPES)
    first = authorizer.authorization(SCOPES)
    now[0] = 79.0
    second = authorizer.authorization(SCOPES)
    now[0] = 81.0
    third = authorizer.authorization(SCOPES)

    assert [first, second, third] == ["Bearer one", "Bearer one", "Bearer two"]


def test_a_token_without_an_end_lives_for_a_minute() -> None:
    now = [0.0]
    server = TokenServer(b'{"access_token": "one"}', b'{"token": "two"}')
    authorizer = Authorizer(None, server, insecure=False, clock=lambda: now[0])
    authorizer.learn(CHALLENGE, sent=None, scopes=SCOPES)
    authorizer.authorization(SCOPES)
    now[0] = 49.0

    assert authorizer.authorization(SCOPES) == "Bearer two"


def test_a_token_that_another_thread_renewed_is_kept() -> None:
    server = TokenServer(b'{"token": "one"}', b'{"token": "two"}')
    authorizer = Authorizer(None, server, insecure=False)
    authorizer.learn(CHALLENGE, sent=None, scopes=SCOPES)
    authorizer.authorization(SCOPES)
    authorizer.learn(CHALLENGE, sent="Bearer one", scopes=SCOPES)
    authorizer.authorization(SCOPES)
    authorizer.learn(CHALLENGE, sent="Bearer one", scopes=SCOPES)

    assert authorizer.authorization(SCOPES) == "Bearer two"


def test_a_realms_own_query_is_kept() -> None:
    server = TokenServer(b'{"token": "one"}')
    authorizer = Authorizer(None, server, insecure=False)
    authorizer.learn('Bearer realm="https://a/t?account=x",service="s"', sent=None, scopes=SCOPES)
    authorizer.authorization(SCOPES)

    assert server.asked == [("GET", "https://a/t?account=x&service=s&scope=repository%3Aorg%2Fname%3Apull")]


def test_no_login_goes_to_a_token_server_without_tls() -> None:
    server = TokenServer()
    authorizer = Authorizer(Credentials(origin="x", username=USER, password=PASSWORD), server, insecure=False)
    authorizer.learn('Bearer realm="http://auth.example/token"', sent=None, scopes=SCOPES)

    with pytest.raises(LoginRefusedError, match="its token server has no TLS"):
        authorizer.authorization(SCOPES)

    assert server.asked == []


def test_an_answer_that_is_no_token_is_told(registry: FakeRegistry, waits: Waits) -> None:
    registry.auth = "token"
    registry.fault("GET /token", status=200, body=b"<html>")

    with pytest.raises(SourceError, match="answered with something other than a token"):
        read(registry, waits)


def test_a_registry_without_v2_is_no_registry(registry: FakeRegistry, waits: Waits) -> None:
    registry.fault("GET /v2/", status=404)

    with pytest.raises(NetworkError) as caught:
        open_at(registry, waits)

    assert caught.value.message == f"{registry.host} is no registry: it has no /v2/"
