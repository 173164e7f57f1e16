"""Reference: `host/repository:tag@digest`, read as Docker reads it. Pure.

The grammar and the defaults are those of github.com/distribution/reference (reference.go, normalize.go): a name without
a host is Docker Hub's, one without a slash is `library/`, and one without tag and digest is `latest`.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from bake.digest import Digest
from bake.errors import UsageError

DOCKER_HUB = "docker.io"

_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_HOST = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[0-9a-fA-F:]+\])(?::(?P<port>[0-9]+))?")
_PART = re.compile(r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*")
_TAG = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
_HEX = re.compile(r"[0-9a-f]{64}")
_LONGEST = 255
_LAST_PORT = 65535
_FORM = "it is written HOST/REPOSITORY:TAG, as in ghcr.io/org/llama3-8b:v1.0.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A repository in a registry, and by tag or digest (or both: the digest decides) one image in it."""

    host: str
    repository: str
    tag: str | None = None
    digest: Digest | None = None

    @classmethod
    def parse(cls, text: str) -> Reference:
        """Read a reference; what is left out is filled in. Raises UsageError that says what is wrong with it."""
        if "://" in text:
            raise _fault(text, "it is a URL", hint=f"leave out {text.partition('://')[0]}://")
        rest, at, digest = text.partition("@")
        name, tag = _split_tag(rest)
        host, repository = _split_host(name)
        _check_host(text, host)
        _check_repository(text, repository)
        if tag is not None and not _TAG.fullmatch(tag):
            raise _fault(text, f"{tag!r} is no tag", hint="up to 128 letters, digits, `_`, `.` and `-`")
        found = _parse_digest(text, digest) if at else None
        if tag is None and found is None:
            tag = "latest"
        return cls(host=host, repository=repository, tag=tag, digest=found)

    @property
    def name(self) -> str:
        """Host and repository, as people write them."""
        return f"{self.host}/{self.repository}"

    @property
    def identifier(self) -> str:
        """What a registry is asked for: the digest, or else the tag (distribution-spec, "Pulling manifests")."""
        return str(self.digest or self.tag or "latest")

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{self.name}{tag}{digest}"


def is_loopback(host: str) -> bool:
    """Whether a host, with a port or without, is this very machine."""
    name = host.rpartition(":")[0] if re.search(r":\d+$", host) and not host.endswith("]") else host
    if name.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return False


def _split_tag(text: str) -> tuple[str, str | None]:
    head, colon, tag = text.rpartition(":")
    return (head, tag) if colon and "/" not in tag and not tag.endswith("]") else (text, None)


def _split_host(name: str) -> tuple[str, str]:
    """The first part is a host if it could be no repository's: it has a dot, a colon or a capital, or is localhost."""
    first, slash, rest = name.partition("/")
    if not slash or not (set(first) & set(".:") or first == "localhost" or first.lower() != first):
        first, rest = DOCKER_HUB, name
    if first == "index.docker.io":
        first = DOCKER_HUB
    if first == DOCKER_HUB and "/" not in rest:
        rest = f"library/{rest}"
    return first, rest


def _check_host(text: str, host: str) -> None:
    found = _HOST.fullmatch(host)
    if found is None:
        raise _fault(text, f"{host!r} is no host", hint=_FORM)
    port = (found["port"] or "1").lstrip("0")
    if not port or len(port) > 5 or int(port) > _LAST_PORT:
        raise _fault(text, f"{host!r}: expected a port from 1 to {_LAST_PORT}", hint=_FORM)


def _check_repository(text: str, repository: str) -> None:
    parts = repository.removeprefix("library/").split("/")
    if all(_PART.fullmatch(part) for part in parts) and len(repository) <= _LONGEST:
        if _HEX.fullmatch(repository.removeprefix("library/")):
            raise _fault(text, "64 hex digits are no repository", hint=f"a digest follows an @: NAME@sha256:{parts[0]}")
        return
    if repository != repository.lower():
        raise _fault(text, "a repository has no capitals", hint=f"write {repository.lower()}")
    if len(repository) > _LONGEST:
        raise _fault(text, f"a repository has at most {_LONGEST} characters, found {len(repository)}", hint=_FORM)
    raise _fault(text, f"{repository!r} is no repository", hint=_FORM)


def _parse_digest(text: str, digest: str) -> Digest:
    try:
        return Digest.parse(digest)
    except ValueError as error:
        raise _fault(text, str(error), hint=f"{_FORM}@sha256:…") from error


def _fault(text: str, what: str, *, hint: str) -> UsageError:
    return UsageError(f"not a reference: {text!r}: {what}", hint=hint)
