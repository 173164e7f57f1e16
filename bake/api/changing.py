"""Changing: whose images are others than at a git revision. What `bake matrix` and `--changed-since` ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bake.api.program import find_program
from bake.changes import Changes, compare, is_nothing, take_all
from bake.errors import LockError
from bake.git import Repository
from bake.lock import Lock
from bake.lock.parse import parse

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from bake.api.workspace import Workspace


def changed_models(workspace: Workspace, since: str | None, *, pins: Sequence[Path] = ()) -> Changes:
    """The models whose images are others than at a git revision; without one, every model.

    `pins` are files that say which bake is installed. Raises LockError; and UsageError where git cannot tell.

    A revision of zeros alone, or an empty one, is what CI says where there was none before: then all is new.
    """
    now = workspace.load()
    if since is None:
        return take_all(now)
    if is_nothing(since):
        return compare(now, Lock())
    path = workspace.path.resolve()
    repository = Repository.around(path.parent)
    commit = repository.commit(since)
    text = repository.read(commit, path)
    program = find_program(repository, commit, now=now, pins=pins)
    then = Lock() if text is None else _parse(text, where=f"{workspace.path.name} at {since}")
    return compare(now, then, program=program)


def _parse(text: bytes, *, where: str) -> Lock:
    try:
        return parse(text.decode(), where=where)
    except UnicodeDecodeError as error:
        raise _unreadable(f"{where}: expected UTF-8, found byte {error.object[error.start]:#x}") from error
    except LockError as error:
        raise _unreadable(error.message) from error


def _unreadable(message: str) -> LockError:
    return LockError(
        message,
        hint="compare with an older revision, or with none: bake matrix without --since, bake build --all",
    )
