"""Ray's start: what in the environment, or left by an earlier run, keeps Ray from starting or joins the wrong one."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from bake.entrypoint.finding import Finding
from bake.entrypoint.preflight.asked import joins_cluster, ray_option

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bake.entrypoint.preflight.situation import Situation

_SECONDS = 0.3


def session_folder(environ: Mapping[str, str]) -> Path:
    """Where Ray keeps its sessions (get_default_ray_temp_dir, ray/_common/utils.py)."""
    return Path(environ.get("RAY_TMPDIR", environ.get("TMPDIR", "/tmp"))) / "ray"  # noqa: S108 - Ray's own default


def check_ray(situation: Situation) -> Iterator[Finding]:
    if joins_cluster(situation):
        yield from _counts_in_cluster(situation)
    elif not situation.environ.get("RAY_ADDRESS"):
        yield from _left_behind(situation)
    yield from _authentication(situation)


def _counts_in_cluster(situation: Situation) -> Iterator[Finding]:
    given = [name for name in ("num_cpus", "num_gpus") if ray_option(situation.settings, name) is not None]
    if given:
        yield Finding(
            check="ray",
            severity="error",
            what=f"RAY_ADDRESS={situation.environ['RAY_ADDRESS']} joins a cluster, and {' and '.join(given)} "
            "would be given to ray.init",
            why="Ray refuses: When connecting to an existing cluster, num_cpus and num_gpus must not be provided",
            todo=" ".join(f"leave out ray_kwargs.ray_init.{name};" for name in given)
            + " RAY_ADDRESS=local starts a Ray of its own",
        )


def _left_behind(situation: Situation) -> Iterator[Finding]:
    """Without an address Ray joins the one that this file names; a `ray start` that was killed leaves it behind."""
    note = session_folder(situation.environ) / "ray_current_cluster"
    try:
        address = note.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return
    if not _answers(address):
        yield Finding(
            check="ray",
            severity="error",
            what=f"{note} names a Ray at {address[:80] or 'nowhere'}, and none answers there",
            why="Ray would try to join it, and stop after minutes",
            todo=f"docker run -e RAY_ADDRESS=local, or rm {note}",
        )


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or len(port) > 5 or int(port) > 65535:
        return False
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_SECONDS):
            return True
    except (OSError, UnicodeError):
        return False


def _authentication(situation: Situation) -> Iterator[Finding]:
    """Ray 2.60: without RAY_AUTH_MODE a local Ray makes a token in HOME, and its nodes do not look for it there."""
    environ, mode = situation.environ, situation.environ.get("RAY_AUTH_MODE", "")
    token = Path(environ.get("RAY_AUTH_TOKEN_PATH") or Path(environ.get("HOME") or "/") / ".ray/auth_token")
    if mode == "token" and not environ.get("RAY_AUTH_TOKEN") and not os.access(token, os.R_OK):
        yield Finding(
            check="ray",
            severity="error",
            what=f"RAY_AUTH_MODE=token, RAY_AUTH_TOKEN is not set and {token} cannot be read",
            why="Ray does not start, or its nodes refuse each other: InvalidAuthToken",
            todo="the same RAY_AUTH_TOKEN on every node, or RAY_AUTH_MODE=disabled on every node",
        )
    elif not mode and joins_cluster(situation):
        yield Finding(
            check="ray",
            severity="warning",
            what="RAY_AUTH_MODE is not set, and a cluster is joined",
            why="if the head has made a token, this node does not know it: InvalidAuthToken",
            todo="RAY_AUTH_MODE=disabled on every node, or token and the same RAY_AUTH_TOKEN on every node",
        )
