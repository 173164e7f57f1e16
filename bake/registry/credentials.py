"""Credentials: the login for a registry, where `docker login` left it: config.json, or a program that it names.

Sources: docker/cli (cli/config/configfile/file.go: which helper, then the file) and docker/docker-credential-helpers
(README, "Development": `get` reads the server's address and writes JSON). No secret is in a repr.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bake.errors import UsageError
from bake.registry.reference import DOCKER_HUB

_HUB_KEYS = ("https://index.docker.io/v1/", "index.docker.io", "docker.io", "registry-1.docker.io")
_HELPER_SECONDS = 60
_NOT_FOUND = "credentials not found"
_IDENTITY = "<token>"
"""The user's name that says that the secret is an identity token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """A name and a password, or an identity token to be exchanged, or a token to be sent as it is.

    `origin` says where they are from, in words that fit after "the login in".
    """

    origin: str
    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    identity_token: str = field(default="", repr=False)
    registry_token: str = field(default="", repr=False)

    def secrets(self) -> tuple[str, ...]:
        """What no message may show."""
        told = (self.password, self.identity_token, self.registry_token, self.basic() if self.password else "")
        return tuple(secret for secret in told if secret)

    def basic(self) -> str:
        """The value of a Basic authorization (RFC 7617)."""
        return base64.b64encode(f"{self.username}:{self.password}".encode()).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """What was found for a host. `note` says why nothing was, where something should have been."""

    credentials: Credentials | None = None
    note: str | None = None


def find_login(host: str) -> Login:
    """The login for a registry's host, from DOCKER_CONFIG or ~/.docker. Raises UsageError for a malformed config.json.

    A helper that is not there, or fails, leaves nothing: public images need none.
    """
    path = _config_path()
    config = _read(path)
    keys = _keys(host)
    helpers = config.get("credHelpers") or {}
    named = next((helpers[key] for key in keys if helpers.get(key)), None) or config.get("credsStore")
    asked = _ask_helper(str(named), keys[0], path) if named else Login()
    if asked.credentials is not None:
        return asked
    entry = _entry(config.get("auths") or {}, keys)
    found = _parse_entry(entry, path, host) if entry else None
    return Login(credentials=found, note=None if found else asked.note)


def _config_path() -> Path:
    folder = os.environ.get("DOCKER_CONFIG")
    return (Path(folder) if folder else Path("~/.docker").expanduser()) / "config.json"


def _read(path: Path) -> dict[str, Any]:
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror}", hint="or set DOCKER_CONFIG to another folder"
        ) from error
    try:
        document = json.loads(content)
    except ValueError as error:
        raise UsageError(f"{path} is not JSON: {error}", hint="mend it, or delete it and log in again") from None
    return document if isinstance(document, dict) else {}


def _keys(host: str) -> tuple[str, ...]:
    """The names under which a host's login may stand; the first is the one that helpers know."""
    return _HUB_KEYS if host == DOCKER_HUB else (host,)


def _entry(auths: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any] | None:
    """Exactly the host, or else an address of it, such as `https://HOST/v1/`, as older clients wrote it."""
    for key in keys:
        if auths.get(key):
            return dict(auths[key])
    for address, entry in auths.items():
        if entry and address.partition("://")[2].partition("/")[0] in keys:
            return dict(entry)
    return None


def _parse_entry(entry: dict[str, Any], path: Path, host: str) -> Credentials | None:
    username, password = str(entry.get("username") or ""), str(entry.get("password") or "")
    if entry.get("auth"):
        try:
            decoded = base64.b64decode(str(entry["auth"])).decode()
        except (binascii.Error, UnicodeDecodeError):
            raise UsageError(f"{path}: the login for {host} cannot be read", hint=f"docker login {host}") from None
        username, _, password = decoded.rstrip("\0").partition(":")
    found = Credentials(
        origin=str(path),
        username=username,
        password=password,
        identity_token=str(entry.get("identitytoken") or ""),
        registry_token=str(entry.get("registrytoken") or ""),
    )
    return found if found.secrets() else None


def _ask_helper(name: str, server: str, path: Path) -> Login:
    program = f"docker-credential-{name}"
    found = shutil.which(program)
    if found is None:
        return Login(note=f"{path} names {program} for it, and that is not on the PATH")
    try:
        done = subprocess.run(
            [found, "get"], input=server, capture_output=True, text=True, timeout=_HELPER_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return Login(note=f"{program}, which {path} names for it, does not run or does not end")
    if done.returncode:
        said = " ".join((done.stderr + done.stdout).split())[:200]
        return Login(note=None if _NOT_FOUND in said else f"{program}, which {path} names for it, fails: {said}")
    return _parse_answer(done.stdout, program)


def _parse_answer(text: str, program: str) -> Login:
    try:
        answer = json.loads(text)
        username, secret = str(answer["Username"]), str(answer["Secret"])
    except (ValueError, KeyError, TypeError):
        return Login(note=f"{program} did not answer with a Username and a Secret")
    if username == _IDENTITY:
        return Login(credentials=Credentials(origin=program, identity_token=secret))
    return Login(credentials=Credentials(origin=program, username=username, password=secret))
