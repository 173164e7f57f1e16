"""The login that `docker login` left, wherever it left it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bake.errors import UsageError
from bake.registry import Credentials, Login
from bake.registry.credentials import find_login
from tests.registry.faults import IDENTITY_TOKEN, PASSWORD, USER
from tests.registry.samples import encoded, fault_of, write_config

if TYPE_CHECKING:
    from pathlib import Path

HOST = "ghcr.io"


@pytest.fixture
def helpers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the PATH, for programs."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


def write_helper(folder: Path, name: str, script: str) -> None:
    path = folder / f"docker-credential-{name}"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def answer_for(server: str, user: str, secret: str) -> str:
    """A helper that knows one server, as the protocol has it: asked on stdin, answered on stdout."""
    return (
        "read server; "
        f'[ "$1 $server" = "get {server}" ] || {{ echo "credentials not found in native keychain"; exit 1; }}; '
        f'echo \'{{"ServerURL": "{server}", "Username": "{user}", "Secret": "{secret}"}}\''
    )


def test_without_a_config_there_is_no_login() -> None:
    assert find_login(HOST) == Login()


def test_a_login_stands_in_auths(docker_config: Path) -> None:
    write_config(docker_config, auths={HOST: encoded(USER, PASSWORD)})

    origin = str(docker_config / "config.json")
    assert find_login(HOST) == Login(credentials=Credentials(origin=origin, username=USER, password=PASSWORD))


@pytest.mark.parametrize("key", ["https://ghcr.io", "https://ghcr.io/v1/", "http://ghcr.io/v2/"])
def test_a_login_stands_under_an_address_too(docker_config: Path, key: str) -> None:
    write_config(docker_config, auths={key: encoded(USER, PASSWORD)})

    found = find_login(HOST).credentials

    assert found is not None
    assert found.password == PASSWORD


@pytest.mark.parametrize("key", ["https://index.docker.io/v1/", "docker.io", "index.docker.io"])
def test_docker_hub_has_names_of_its_own(docker_config: Path, key: str) -> None:
    write_config(docker_config, auths={key: encoded(USER, PASSWORD)})

    assert find_login("docker.io").credentials is not None


def test_the_login_of_another_host_is_not_used(docker_config: Path) -> None:
    write_config(docker_config, auths={"ghcr.io.evil.com": encoded(USER, PASSWORD), "gh": encoded(USER, PASSWORD)})

    assert find_login(HOST) == Login()


def test_an_identity_token_stands_in_auths(docker_config: Path) -> None:
    write_config(docker_config, auths={HOST: {"identitytoken": IDENTITY_TOKEN}})

    found = find_login(HOST).credentials

    assert found is not None
    assert found.identity_token == IDENTITY_TOKEN


def test_a_helper_is_asked_for_its_host(docker_config: Path, helpers: Path) -> None:
    write_helper(helpers, "mine", answer_for(HOST, USER, PASSWORD))
    write_config(docker_config, credHelpers={HOST: "mine"}, auths={HOST: encoded("other", "other")})

    assert find_login(HOST) == Login(
        credentials=Credentials(origin="docker-credential-mine", username=USER, password=PASSWORD)
    )


def test_a_store_is_asked_for_every_host_and_docker_hub_by_its_old_name(docker_config: Path, helpers: Path) -> None:
    write_helper(helpers, "store", answer_for("https://index.docker.io/v1/", USER, PASSWORD))
    write_config(docker_config, credsStore="store")

    found = find_login("docker.io").credentials

    assert found is not None
    assert found.password == PASSWORD


def test_a_helper_that_answers_with_the_user_token_has_an_identity_token(docker_config: Path, helpers: Path) -> None:
    write_helper(helpers, "mine", answer_for(HOST, "<token>", IDENTITY_TOKEN))
    write_config(docker_config, credHelpers={HOST: "mine"})

    assert find_login(HOST) == Login(
        credentials=Credentials(origin="docker-credential-mine", identity_token=IDENTITY_TOKEN)
    )


def test_a_store_that_knows_nothing_of_a_host_leaves_it_to_auths(docker_config: Path, helpers: Path) -> None:
    write_helper(helpers, "store", answer_for("other.io", USER, PASSWORD))
    write_config(docker_config, credsStore="store", auths={HOST: encoded(USER, PASSWORD)})

    assert find_login(HOST).credentials is not None


def test_a_store_that_knows_nothing_is_no_fault(docker_config: Path, helpers: Path) -> None:
    write_helper(helpers, "store", answer_for("other.io", USER, PASSWORD))
    write_config(docker_config, credsStore="store")

    assert find_login(HOST) == Login()


@pytest.mark.parametrize(
    ("script", "note"),
    [
        (None, "{config} names docker-credential-mine for it, and that is not on the PATH"),
        ("echo no session >&2; exit 3", "docker-credential-mine, which {config} names for it, fails: no session"),
        ("echo hello", "docker-credential-mine did not answer with a Username and a Secret"),
    ],
)
def test_a_helper_that_does_not_help_is_noted(
    docker_config: Path, helpers: Path, script: str | None, note: str
) -> None:
    write_helper(helpers, "mine" if script else "another", script or "exit 0")
    write_config(docker_config, credHelpers={HOST: "mine"})

    assert find_login(HOST) == Login(note=note.format(config=docker_config / "config.json"))


def test_a_config_that_is_not_json_is_named(docker_config: Path) -> None:
    docker_config.mkdir()
    (docker_config / "config.json").write_text("{auths")

    with pytest.raises(UsageError) as caught:
        find_login(HOST)

    assert fault_of(caught.value) == (
        UsageError,
        (
            f"{docker_config / 'config.json'} is not JSON: Expecting property name enclosed in double quotes: "
            "line 1 column 2 (char 1)"
        ),
        "mend it, or delete it and log in again",
    )


def test_a_login_that_cannot_be_read_is_told_without_showing_it(docker_config: Path) -> None:
    write_config(docker_config, auths={HOST: {"auth": "not base64!"}})

    with pytest.raises(UsageError) as caught:
        find_login(HOST)

    assert fault_of(caught.value) == (
        UsageError,
        f"{docker_config / 'config.json'}: the login for {HOST} cannot be read",
        f"docker login {HOST}",
    )


def test_no_secret_is_in_a_repr() -> None:
    secrets = {name: f"s3cret {name}" for name in ("username", "password", "identity_token", "registry_token")}
    login = Login(credentials=Credentials(origin="x", **secrets))

    assert repr(login) == "Login(credentials=Credentials(origin='x'), note=None)"
