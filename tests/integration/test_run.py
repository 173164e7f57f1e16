"""`bake run`: the container that it starts. The GPU is a stand-in: a hook that does nothing, on the engine's PATH."""

from __future__ import annotations

import pytest

from tests.integration.engine import DOCKER, Shop

pytestmark = DOCKER

NO_GPUS = (
    "error: Docker cannot give a container GPUs here\n"
    "hint: install the NVIDIA Container Toolkit, "
    "see that nvidia-smi works, and restart Docker; or run with --gpus none\n"
)


def has_stand_in(shop: Shop) -> bool:
    """Whether the engine takes `--gpus`: `.ci/engine` gives NVIDIA's hook to the classic one alone."""
    return (
        shop.engine.try_docker("run", "--rm", "--gpus", "all", "--network", "none", shop.engine.base, "true").code == 0
    )


def test_run_verifies_in_a_container_and_passes_its_exit_code_on(baked: Shop) -> None:
    ran = baked.run("run", baked.model, "--gpus", "none", "--", "verify", "--level", "full")

    assert ran.code == 0
    assert ran.out.startswith(f"{baked.model}: 4 files are as recorded (full, ")
    assert baked.run("run", baked.image, "--gpus", "none", "--", "exec", "sh", "-c", "exit 7").code == 7
    assert baked.run("run", baked.image, "--gpus", "none").code == 8


def test_run_mounts_data_and_output_and_gives_shared_memory(baked: Shop) -> None:
    (baked.root / "data").mkdir(exist_ok=True)
    (baked.root / "data" / "train.txt").write_text("rows")
    (baked.root / "runs").mkdir(exist_ok=True)
    script = (
        "cat /data/train.txt; df --output=size /dev/shm | tail -n 1; echo saved > step; "
        "touch /data/x 2>/dev/null || echo fixed"
    )

    ran = baked.run(
        *("run", baked.model, "--gpus", "none", "--data", "data", "--output", "runs", "--shm-size", "1g"),
        *("--", "exec", "sh", "-c", script),
    )

    assert ran.out.split() == ["rows", "1048576", "fixed"]
    assert (baked.root / "runs" / "step").read_text() == "saved\n"


def test_run_names_an_image_that_was_not_built(baked: Shop) -> None:
    ran = baked.run("run", "nobody/nothing:v1", "--gpus", "none")

    assert ran.code == 9
    assert ran.err.endswith("error: the Docker daemon has no such image\nhint: bake build NAME@VERSION --to docker\n")


def test_run_without_the_nvidia_runtime_says_what_is_missing(baked: Shop) -> None:
    if has_stand_in(baked):
        pytest.skip("this engine can give GPUs, or has a stand-in for them")

    ran = baked.run("run", baked.model)

    assert ran.code == 9
    assert ran.err.endswith(NO_GPUS)


def test_the_users_exact_command_runs_where_docker_has_gpus(baked: Shop) -> None:
    if not has_stand_in(baked):
        pytest.skip("this engine has no GPUs, nor a stand-in for them")
    words = ("exec", "sh", "-c", "echo $NVIDIA_VISIBLE_DEVICES")

    plain = baked.engine.docker("run", "--rm", "--gpus", "all", "--shm-size", "10g", baked.image, *words)
    ran = baked.run("run", baked.model, "--", *words)

    assert (plain, ran.out) == ("all\n", "all\n")


def test_run_ends_with_no_daemon(baked: Shop) -> None:
    ran = baked.run("run", baked.model, "--gpus", "none", environ={"DOCKER_HOST": f"unix://{baked.root}/nothing.sock"})

    assert ran.code == 9
    assert ran.err.endswith(
        "error: no Docker daemon answers\nhint: start Docker, and see that you may use it: docker info\n"
    )
