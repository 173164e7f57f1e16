from __future__ import annotations

from typing import TYPE_CHECKING

from bake.entrypoint.finding import Finding
from bake.entrypoint.machine import Machine
from bake.entrypoint.preflight.shm import check_shm
from tests.entrypoint.files import recorded
from tests.entrypoint.preflight.situations import GIB, MODEL, gpus, situation

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

MIB = 1 << 20
TODO = "docker run --shm-size=10g (or --ipc=host); in Kubernetes, a volume of emptyDir with medium: Memory at /dev/shm"


def found(
    total: int, free: int | None = None, *, count: int = 1, settings: Mapping[str, Any] | None = None
) -> list[Finding]:
    machine = Machine(gpus=gpus(count), shm=total, shm_free=total if free is None else free)
    return list(check_shm(situation(settings, machine=machine, models=(recorded({"model.safetensors": b"12345"}),))))


def test_ten_gib_are_enough() -> None:
    assert found(10 * GIB, count=8) == []


def test_docker_s_default_is_an_error_with_several_gpus() -> None:
    assert found(64 * MIB, count=8) == [
        Finding(
            check="shm",
            severity="error",
            what="shared memory (/dev/shm) has 64 MiB, Docker's default",
            why="NCCL, which joins the GPUs, puts its buffers there and fails: unhandled system error",
            todo=TODO,
        )
    ]


def test_docker_s_default_is_a_warning_with_one_gpu() -> None:
    assert found(64 * MIB) == [
        Finding(
            check="shm",
            severity="warning",
            what="shared memory (/dev/shm) has 64 MiB, Docker's default",
            why="Ray then keeps its objects in files, which is slow, and DataLoader workers die of a bus error",
            todo=TODO,
        )
    ]


def test_shared_memory_that_is_nearly_full_is_a_warning() -> None:
    assert [finding.what for finding in found(16 * GIB, GIB)] == [
        "shared memory (/dev/shm) has 1.0 GiB free of 16.0 GiB"
    ]


def test_use_shm_needs_room_for_the_model() -> None:
    assert found(10 * GIB, 4, settings={f"{MODEL}.use_shm": True}) == [
        Finding(
            check="shm",
            severity="error",
            what="use_shm=True copies 0 KiB of model files to /dev/shm, which has 0 KiB free",
            why="verl stops while it copies: No space left on device",
            todo="docker run --shm-size=11g, or use_shm=False: the image's files are local",
        )
    ]


def test_use_shm_of_actor_and_critic_copies_one_model_once() -> None:
    both = {f"{MODEL}.use_shm": True, "critic.model.use_shm": True, "algorithm.adv_estimator": "gae"}

    assert [finding.severity for finding in found(10 * GIB, 5, settings=both)] == ["warning"]


def test_an_object_store_that_does_not_fit_is_an_error() -> None:
    store = {"ray_kwargs.ray_init.object_store_memory": 20 * GIB}

    assert [finding.what for finding in found(10 * GIB, settings=store)] == [
        "Ray is asked for an object store of 20.0 GiB, and /dev/shm has 10.0 GiB free"
    ]


def test_nothing_is_said_where_shared_memory_is_not_known() -> None:
    assert list(check_shm(situation())) == []
