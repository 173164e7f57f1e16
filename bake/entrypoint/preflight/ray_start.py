"""Ray's start: what in the environment keeps Ray from starting, or from joining the cluster that it names."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from bake.entrypoint.finding import Finding
from bake.entrypoint.preflight.asked import joins_cluster, joins_other_cluster, ray_option

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bake.entrypoint.preflight.situation import Situation

_SECONDS = 1

_SIZES = ("num_cpus", "num_gpus", "resources", "labels", "object_store_memory", "_system_config")
"""What ray.init refuses beside an address (ray/_private/worker.py, 2.60)."""


def session_folder(environ: Mapping[str, str]) -> Path:
    """Where Ray keeps its sessions (get_default_ray_temp_dir, ray/_common/utils.py)."""
    return Path(environ.get("RAY_TMPDIR", environ.get("TMPDIR", "/tmp"))) / "ray"  # noqa: S108 - Ray's own default


def check_ray(situation: Situation) -> Iterator[Finding]:
    """RAY_ADDRESS and RAY_AUTH_MODE are always set here (launch/ray.py)."""
    if joins_cluster(situation):
        yield from _size_in_cluster(situation)
    if joins_other_cluster(situation):
        yield from _silent(situation.environ["RAY_ADDRESS"])
    yield from _authentication(situation)


def _size_in_cluster(situation: Situation) -> Iterator[Finding]:
    given = [name for name in _SIZES if ray_option(situation.settings, name) not in (None, {})]
    if given:
        section = "ray_kwargs.ray_init" if situation.settings.has("ray_kwargs") else "ray_init"
        yield Finding(
            check="ray",
            severity="error",
            what=f"RAY_ADDRESS={situation.environ['RAY_ADDRESS']} joins a cluster, and {' and '.join(given)} "
            "would be given to ray.init",
            why="Ray refuses: When connecting to an existing cluster, they must not be provided",
            todo=" ".join(f"leave out {section}.{name};" for name in given)
            + " RAY_ADDRESS=local starts a Ray of its own",
        )


def _silent(address: str) -> Iterator[Finding]:
    """An address of another form than HOST:PORT is left to Ray. No error: a head that starts later is joined then."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or "/" in host or not port.isdecimal() or len(port) > 5 or int(port) > 65535:
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_SECONDS).close()
    except (OSError, UnicodeError) as error:
        yield Finding(
            check="ray",
            severity="warning",
            what=f"RAY_ADDRESS={address}, and nothing answers there yet: {error}",
            why="Ray goes on trying for minutes, and verl with it",
            todo="start the head, and open that port; or RAY_ADDRESS=local for a Ray of this training's own",
        )


def _authentication(situation: Situation) -> Iterator[Finding]:
    environ = situation.environ
    token = Path(environ.get("RAY_AUTH_TOKEN_PATH") or Path(environ.get("HOME") or "/") / ".ray/auth_token")
    if environ.get("RAY_AUTH_MODE") != "token" or environ.get("RAY_AUTH_TOKEN") or os.access(token, os.R_OK):
        return
    yield Finding(
        check="ray",
        severity="error",
        what=f"RAY_AUTH_MODE=token, RAY_AUTH_TOKEN is not set and {token} cannot be read",
        why="Ray does not start, or its nodes refuse each other: InvalidAuthToken",
        todo="the same RAY_AUTH_TOKEN on every node, or RAY_AUTH_MODE=disabled on every node",
    )
