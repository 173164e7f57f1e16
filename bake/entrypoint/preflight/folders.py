"""Folders: HOME, the current folder and the temporary folder, in which verl's parts write before they are asked."""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from typing import TYPE_CHECKING

from bake.entrypoint.finding import Finding
from bake.entrypoint.preflight.asked import on_cuda
from bake.entrypoint.preflight.disk import current_folder, existing
from bake.entrypoint.preflight.ray_start import session_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bake.entrypoint.preflight.situation import Situation

_LONGEST = 107
"""Bytes that the path of a Unix socket may have (unix(7))."""

_SOCKET = "/ray/session_2026-01-01_00-00-00_000000_1/sockets/plasma_store"
"""The longest that Ray makes, below its temporary folder, as process 1 (ray/_private/node.py)."""


def check_folders(situation: Situation) -> Iterator[Finding]:
    yield from _home(situation)
    if "hydra.run.dir" not in situation.settings.given:
        yield from _current()
    yield from _temporary(situation)


def _home(situation: Situation) -> Iterator[Finding]:
    """A HOME that is not there yet may still be made. Without the variable, programs ask the system for the user's."""
    home = situation.environ.get("HOME") or _home_of_user()
    if home and _writable(existing(Path(home))):
        return
    yield Finding(
        check="folders",
        severity="error" if on_cuda(situation) else "warning",
        what=f"HOME={home} is no folder that user {os.getuid()} may write to"
        if home
        else f"HOME is not set, and user {os.getuid()} has no home folder",
        why="Triton, vLLM, wandb and Ray keep caches, settings and keys there, and die of Permission denied",
        todo="docker run -e HOME=/tmp, or mount a folder there; with --user, one that this user owns",
    )


def _home_of_user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:  # docker run --user with a number that /etc/passwd does not have
        return ""


def _current() -> Iterator[Finding]:
    here = current_folder()
    if not _writable(here):
        yield Finding(
            check="folders",
            severity="error",
            what=f"the current folder {here} cannot be written to by user {os.getuid()}",
            why="Hydra makes outputs/ in it before anything else, and verl does not start",
            todo="hydra.run.dir=/tmp/hydra, or docker run --workdir with a folder that may be written to",
        )


def _temporary(situation: Situation) -> Iterator[Finding]:
    folder = session_folder(situation.environ).parent
    if not _writable(existing(folder)):
        yield Finding(
            check="folders",
            severity="error",
            what=f"the temporary folder {folder} cannot be written to by user {os.getuid()}",
            why="Ray keeps its sockets and logs there, and does not start",
            todo="docker run --tmpfs /tmp, or -e TMPDIR=… with a folder that may be written to",
        )
    elif len(os.fsencode(folder)) + len(_SOCKET) > _LONGEST:
        yield Finding(
            check="folders",
            severity="error",
            what=f"the path of the temporary folder {folder} has {len(os.fsencode(folder))} bytes, at most "
            f"{_LONGEST - len(_SOCKET)} will do",
            why="Ray does not start: AF_UNIX path length cannot exceed 107 bytes",
            todo="docker run -e RAY_TMPDIR=/tmp, or a shorter TMPDIR",
        )


def _writable(folder: Path) -> bool:
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
