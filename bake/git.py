"""git: what files were at one revision, and where a checkout comes from. The `git` program is asked, to read alone.

No revision that a person typed reaches git where an option could stand.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bake.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

_MERGE_BASE = "..."
_USUAL_BRANCHES = ("main", "master")
_REGULAR = (b"100644", b"100755")
_EXCEPTION = re.compile(r"git config --global --add safe\.directory .+")

_ENVIRONMENT = {
    "LC_ALL": "C",  # what it says is read here
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_LITERAL_PATHSPECS": "1",
}


def blob_id(content: bytes, *, like: str) -> str:
    """The name that git has for a file's bytes, in the hash of another name (gitformat-pack, "object-format")."""
    head = b"blob %d\0" % len(content)
    name = "sha1" if len(like) == 40 else "sha256"
    return hashlib.new(name, head + content, usedforsecurity=False).hexdigest()


@dataclass(frozen=True, slots=True)
class Repository:
    """A working tree; `top` is its uppermost folder, without symbolic links. Every path is absolute, and without too.

    Every method raises UsageError, in git's own words, where git refuses.
    """

    top: Path

    @classmethod
    def around(cls, folder: Path) -> Repository:
        """The working tree that a folder lies in. Raises UsageError where there is none, or no git."""
        done = _run(folder, "rev-parse", "--show-toplevel")
        if b"not a git repository" in done.stderr:
            raise UsageError(
                f"expected a git repository around {folder}, found none",
                hint="a revision can only be compared with inside one; leave it out, and every model is taken",
            )
        return cls(Path(os.fsdecode(_said(done).removesuffix(b"\n"))).resolve())

    def commit(self, revision: str) -> str:
        """The commit that a revision names now; `REV...` is where HEAD left REV. Raises UsageError for an unknown one.

        The three dots are those of `git diff REV...`: what a branch changed, whatever REV has got since.
        """
        if not revision.endswith(_MERGE_BASE):
            return self._commit(revision, shown=revision)
        found = self._commit(revision.removesuffix(_MERGE_BASE), shown=revision)
        done = _run(self.top, "merge-base", found, "HEAD")
        if done.returncode == 1:
            raise self._unknown(f"no common ancestor of {revision.removesuffix(_MERGE_BASE)} and HEAD")
        return _said(done).decode().strip()

    def read(self, commit: str, path: Path) -> bytes | None:
        """The bytes of a file at a commit; None where there was no regular file of that name."""
        found = self.blobs(commit, path).get(path)
        return None if found is None else _said(_run(self.top, "cat-file", "blob", found))

    def blobs(self, commit: str, path: Path) -> Mapping[Path, str]:
        """git's names for the bytes of a file, or of every regular file below a folder, at a commit."""
        listed = _said(_run(self.top, "ls-tree", "-r", "-z", "--full-tree", commit, "--", self._below(path)))
        entries = (line.partition(b"\t") for line in listed.split(b"\0") if line)
        return {
            self.top / os.fsdecode(name): entry.split()[2].decode()
            for entry, _, name in entries
            if entry.startswith(_REGULAR)
        }

    def is_tracked(self, path: Path) -> bool:
        """Whether git watches over a file now. It does not over one that it ignores, as a virtual environment's."""
        return bool(_said(_run(self.top, "ls-files", "-z", "--", self._below(path))))

    def head(self) -> str | None:
        """The commit that is checked out; None where nothing was committed yet."""
        return self._answer("rev-parse", "--verify", "--quiet", "HEAD^{commit}")

    def remote_url(self) -> str | None:
        """The URL of a remote that has the commit which is checked out, as far as this clone has heard from it."""
        holders = self._answer("for-each-ref", "--contains=HEAD", "--format=%(refname:lstrip=2)", "refs/remotes")
        remote = (holders or "").partition("/")[0]
        return self._answer("remote", "get-url", "--", remote) if remote else None

    def is_changed(self) -> bool:
        """Whether files that git watches over are others than in the commit that is checked out."""
        return bool(_said(_run(self.top, "status", "--porcelain", "--untracked-files=no")))

    def default_branch(self) -> str:
        """The branch that a clone of the remote checks out; else the one of the usual names that is here, or HEAD's."""
        if head := self._answer("symbolic-ref", "--quiet", "--short", "refs/remotes/origin/HEAD"):
            return head.removeprefix("origin/")
        usual = [f"refs/heads/{name}" for name in _USUAL_BRANCHES]
        here = self._answer("for-each-ref", "--format=%(refname:lstrip=2)", *usual)
        if here:
            return here.splitlines()[0]
        return self._answer("symbolic-ref", "--quiet", "--short", "HEAD") or _USUAL_BRANCHES[0]

    def _answer(self, *words: str) -> str | None:
        """What git says; None where it has nothing to say, or no such thing."""
        done = _run(self.top, *words)
        return os.fsdecode(done.stdout).strip() or None if done.returncode == 0 else None

    def _below(self, path: Path) -> str:
        if not path.is_relative_to(self.top):
            raise UsageError(f"expected a path in the repository {self.top}, found {path}")
        return path.relative_to(self.top).as_posix()

    def _commit(self, revision: str, *, shown: str) -> str:
        if revision.startswith("-") or "\0" in revision:  # no revision does (git-check-ref-format), an option would
            raise self._unknown(f"unknown revision {shown!r}")
        done = _run(self.top, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
        if done.returncode == 1:
            raise self._unknown(f"unknown revision {shown!r}")
        return _said(done).decode().strip()

    def _unknown(self, message: str) -> UsageError:
        shallow = _said(_run(self.top, "rev-parse", "--is-shallow-repository")).strip() == b"true"
        if shallow:
            return UsageError(
                f"{message}: this clone is shallow, and lacks what came before",
                hint="git fetch --unshallow; in CI: `fetch-depth: 0` (GitHub), `GIT_DEPTH: 0` (GitLab)",
            )
        return UsageError(
            f"{message} in {self.top}",
            hint="git fetch brings a branch that is not here yet; a commit that was pushed away by force is gone: "
            "leave the revision out, and every model is taken",
        )


def _run(folder: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            ["git", "-C", str(folder), *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            env=os.environ | _ENVIRONMENT,
        )
    except OSError as error:
        raise UsageError(
            f"git cannot be run: {error.strerror}",
            hint="install git; or leave the revision out, and every model is taken",
        ) from error


def _said(done: subprocess.CompletedProcess[bytes]) -> bytes:
    """stdout of a git that went well. Raises UsageError with what it said otherwise, and with what it says to type."""
    if not done.returncode:
        return done.stdout
    words = done.stderr.decode(errors="replace").strip()
    exception = _EXCEPTION.search(words)
    reason = words.partition("\n")[0].removeprefix("fatal: ").removeprefix("error: ")
    raise UsageError(f"git: {reason or f'exit code {done.returncode}'}", hint=exception and exception.group())
