"""Pin: the one line that installs the bake that runs, for pip on a machine that has none.

It is never guessed: the name `bake` belongs to another project on PyPI, so that a pin says where from (PEP 508, `@`).
"""

from __future__ import annotations

import json
import re
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit, urlunsplit

from bake.errors import UsageError
from bake.git import Repository

if TYPE_CHECKING:
    from collections.abc import Mapping

HERE = "."
"""The requirement of bake's own repository: what is checked out there is what is installed."""

_HINT = "--install 'bake @ git+https://HOST/ORG/bake@COMMIT' says how CI installs it"
_BY_NAME = re.compile(r"bake(?![\w./-])[^@]*", re.IGNORECASE)
_SCP = re.compile(r"(?:[\w.-]+@)?(?P<host>[\w.-]+\.[\w-]+):(?P<path>(?!/)[^:]+)")
"""`git@HOST:PATH`, which git takes for a URL of ssh (git-clone, "GIT URLS")."""


def parse_requirement(text: str) -> tuple[str, str | None]:
    """What `--install` says, and what is to be known of it. Raises UsageError where pip would not take it as one."""
    if not text.strip() or not text.isprintable() or text.strip().startswith(("-", "#")):
        raise UsageError(f"--install: expected one requirement, as pip takes it, found {text!r}", hint=_HINT)
    by_name = _BY_NAME.fullmatch(text.strip())
    return (
        text.strip(),
        "bake is another project's name on PyPI: CI must find it in an index of yours" if by_name else None,
    )


def installed_requirement() -> tuple[str, str | None]:
    """The line, and what is to be known of it. Raises UsageError where the bake that runs is nowhere to be had."""
    try:
        text = metadata.distribution("bake").read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        text = None
    if text is None:
        raise UsageError("how this bake was installed is not known, so CI cannot be told to do the same", hint=_HINT)
    return requirement_of(json.loads(text))


def requirement_of(document: Mapping[str, Any]) -> tuple[str, str | None]:
    """The line for what an installer wrote down (PEP 610, direct_url.json), and what is to be known of it.

    Raises UsageError where a machine elsewhere could not install the same.
    """
    match document:
        case {"url": str(url), "vcs_info": {"vcs": "git", "commit_id": str(commit)}}:
            return _from_git(url, commit, folder=document.get("subdirectory")), None
        case {"url": str(url), "archive_info": {}}:
            return _from_archive(url, document["archive_info"]), None
        case {"url": str(url), "dir_info": {}}:
            return _from_checkout(Path(unquote(urlsplit(url).path)))
    raise UsageError("this bake was installed in a way that CI cannot repeat", hint=_HINT)


def _from_git(url: str, commit: str, *, folder: str | None = None) -> str:
    inside = f"#subdirectory={folder}" if folder else ""
    return f"bake @ git+{public_url(url)}@{commit}{inside}"


def _from_archive(url: str, archive: Mapping[str, Any]) -> str:
    """`hashes` came after `hash`, which is `NAME=HEX`, and both may be there."""
    old = dict([str(archive.get("hash") or "").split("=", 1)]) if "=" in str(archive.get("hash")) else {}
    digest = (archive.get("hashes") or old).get("sha256")
    if digest is None:
        raise UsageError(f"this bake was installed from {public_url(url)}, and no sha256 of it is known", hint=_HINT)
    return f"bake @ {public_url(url)}#sha256={digest}"


def _from_checkout(folder: Path) -> tuple[str, str | None]:
    """A folder's commit, if a remote has it; a note where what lies in the folder is not that."""
    try:
        repository = Repository.around(folder)
    except UsageError as error:
        raise UsageError(f"this bake is installed from {folder}: {error.message}", hint=_HINT) from error
    commit, url = repository.head(), repository.remote_url()
    if commit is None or url is None:
        why = "the commit there is on no remote of it" if commit else "nothing is committed there"
        raise UsageError(f"this bake is installed from {folder}, and {why}", hint=f"push it; or: {_HINT}")
    note = f"{folder} has changes that are in no commit: CI will not have them" if repository.is_changed() else None
    inside = folder.resolve().relative_to(repository.top).as_posix()
    return _from_git(url, commit, folder=inside if inside != "." else None), note


def public_url(url: str) -> str:
    """A URL as anyone may read it: without credentials, and of HTTPS where it was of ssh, for which CI has no key.

    Raises UsageError for one that leads to a place on this machine.
    """
    if scp := _SCP.fullmatch(url):
        url = f"ssh://{scp['host']}/{scp['path']}"
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme not in {"http", "https", "ssh"} or not host:
        shown = urlunsplit((parts.scheme, host, parts.path, "", ""))  # whatever it is, it may hold a password
        raise UsageError(f"this bake was installed from {shown}, which no other machine can reach", hint=_HINT)
    if parts.scheme == "ssh":
        return urlunsplit(("https", host, parts.path, "", ""))
    place = host if parts.port is None else f"{host}:{parts.port}"
    return urlunsplit((parts.scheme, place, parts.path, "", ""))
