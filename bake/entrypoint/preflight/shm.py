"""Shared memory: /dev/shm, through which Ray hands over data, NCCL messages, and DataLoader workers batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bake.entrypoint.amounts import GIB, size
from bake.entrypoint.finding import Finding
from bake.entrypoint.preflight.asked import MODELS, Role, joins_cluster, ray_option, uses_critic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bake.entrypoint.preflight.situation import Situation

_ENOUGH = 8 * GIB
"""verl's own documents start containers with --shm-size=10g."""

_DOCKER = 64 << 20
"""What Docker gives when nothing is said."""

_RAY_REFUSES = 10**10
"""REQUIRE_SHM_SIZE_THRESHOLD of Ray: an object store above it that does not fit into /dev/shm is refused."""

_TODO = "docker run --shm-size=10g (or --ipc=host); in Kubernetes, a volume of emptyDir with medium: Memory at /dev/shm"


def check_shm(situation: Situation) -> Iterator[Finding]:
    total, free = situation.machine.shm, situation.machine.shm_free
    if total is None or free is None:
        return
    copied = _copied(situation)
    store = ray_option(situation.settings, "object_store_memory")
    if copied > free:
        yield _no_room_for_model(copied, free)
    elif _is_count(store) and store > max(_RAY_REFUSES, free) and not joins_cluster(situation):
        yield _no_room_for_store(store, free)
    elif total < _ENOUGH:
        yield _small(situation, total)
    elif free < _ENOUGH // 4:
        yield _full(total, free)


def _small(situation: Situation, total: int) -> Finding:
    several = len(situation.machine.gpus) > 1 and total <= _DOCKER
    default = ", Docker's default" if total == _DOCKER else ""
    return Finding(
        check="shm",
        severity="error" if several else "warning",
        what=f"shared memory (/dev/shm) has {size(total)}{default}",
        why="NCCL, which joins the GPUs, puts its buffers there and fails: unhandled system error"
        if several
        else "Ray then keeps its objects in files, which is slow, and DataLoader workers die of a bus error",
        todo=_TODO,
    )


def _full(total: int, free: int) -> Finding:
    return Finding(
        check="shm",
        severity="warning",
        what=f"shared memory (/dev/shm) has {size(free)} free of {size(total)}",
        why="Ray, NCCL and DataLoader workers share it, and what an ended run left there stays",
        todo="ls -l /dev/shm, and remove what no running program uses",
    )


def _copied(situation: Situation) -> int:
    """Bytes that use_shm copies there, once a model and node (copy_to_shm, utils/fs.py 0.5.0 to 0.9.1)."""
    roles: tuple[Role, ...] = ("actor", "critic") if uses_critic(situation.settings) else ("actor",)
    models = {situation.model(role) for role in roles if situation.settings.flag(f"{MODELS[role]}.use_shm")}
    return sum(file.size for model in models if model is not None for file in model.files)


def _no_room_for_model(copied: int, free: int) -> Finding:
    return Finding(
        check="shm",
        severity="error",
        what=f"use_shm=True copies {size(copied)} of model files to /dev/shm, which has {size(free)} free",
        why="verl stops while it copies: No space left on device",
        todo=f"docker run --shm-size={-(-copied // GIB) + 10}g, or use_shm=False: the image's files are local",
    )


def _no_room_for_store(store: int, free: int) -> Finding:
    return Finding(
        check="shm",
        severity="error",
        what=f"Ray is asked for an object store of {size(store)}, and /dev/shm has {size(free)} free",
        why="Ray does not start: The configured object store size exceeds /dev/shm size",
        todo=f"docker run --shm-size={-(-store // GIB) + 1}g, or a lower ray_kwargs.ray_init.object_store_memory",
    )


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
