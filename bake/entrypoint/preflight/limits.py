"""Limits: open files, which Ray needs many of, and locked memory, which InfiniBand needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bake.entrypoint.amounts import size
from bake.entrypoint.finding import Finding
from bake.entrypoint.preflight.asked import nodes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bake.entrypoint.preflight.situation import Situation

_FILES = 4096
"""Ray warns below it (ray/_private/worker.py, 2.60), once it has raised its own limit as far as it may."""


def check_limits(situation: Situation) -> Iterator[Finding]:
    files, locked = situation.machine.nofile, situation.machine.memlock
    if files is not None and files < _FILES:
        yield Finding(
            check="limits",
            severity="warning",
            what=f"a process may open {files:,} files",
            why=f"Ray wants at least {_FILES:,}: below, connections break under load, as Too many open files",
            todo="docker run --ulimit nofile=65536:65536",
        )
    if locked is not None and _has_infiniband(situation):
        yield Finding(
            check="limits",
            severity="warning",
            what=f"a process may lock {size(locked)} of memory, and this machine has InfiniBand or RoCE",
            why="NCCL registers its buffers with the network card, and fails: ibv_reg_mr … Cannot allocate memory",
            todo="docker run --ulimit memlock=-1 --cap-add=IPC_LOCK",
        )


def _has_infiniband(situation: Situation) -> bool:
    """Devices alone, or several nodes that would use them, since a single node needs no network."""
    return (nodes(situation.settings) or 1) > 1 and (situation.root / "dev/infiniband").is_dir()
