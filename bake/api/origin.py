"""Origin: where a checkout comes from, as git knows it: its commit, its remote, and the branch that others build on.

Where git has no answer there is none: nothing here is a failure.
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_BRANCHES = ("main", "master")


def commit(folder: Path) -> str | None:
    return _git(folder, "rev-parse", "HEAD")


def remote_url(folder: Path) -> str | None:
    """The URL of a remote that has the commit which is checked out, as far as this clone has heard from it."""
    holders = _git(folder, "branch", "--remotes", "--contains", "HEAD", "--format=%(refname:lstrip=2)")
    remote = (holders or "").partition("/")[0]
    return _git(folder, "remote", "get-url", remote) if remote else None


def place(folder: Path) -> str | None:
    """Where a folder is in its repository; None at the top."""
    prefix = _git(folder, "rev-parse", "--show-prefix")
    return prefix.rstrip("/") if prefix else None


def is_changed(folder: Path) -> bool:
    """Whether files that git watches over are others than in the commit."""
    return _git(folder, "status", "--porcelain", "--untracked-files=no") is not None


def default_branch(folder: Path) -> str:
    """The branch of the remote that is cloned by default; else the one of the usual names that is here."""
    if head := _git(folder, "symbolic-ref", "--short", "refs/remotes/origin/HEAD"):
        return head.removeprefix("origin/")
    here = _git(folder, "branch", "--format=%(refname:short)", "--list", *_BRANCHES)
    return here.splitlines()[0] if here else _BRANCHES[0]


def _git(folder: Path, *words: str) -> str | None:
    """What git says of a folder; None where it has nothing to say, or is not there."""
    try:
        done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None
