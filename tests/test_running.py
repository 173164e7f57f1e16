"""`bake run`: the docker command is golden, and each way in which docker cannot start it is told in words."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest

from bake.api.running import Run, run, run_command
from bake.errors import BakeError, DaemonError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

LIMITS = "--ulimit memlock=-1 --ulimit stack=67108864"


def test_the_plain_command() -> None:
    assert shlex.join(run_command(Run(image="tiny:v1"))) == (
        f"docker run --rm --init --pull never --shm-size=10g {LIMITS} --gpus all tiny:v1"
    )


def test_the_whole_command(tmp_path: Path) -> None:
    container = Run(
        image="tiny:v1",
        gpus="device=0",
        data=tmp_path,
        output=tmp_path,
        shm_size="1g",
        name="job",
        words=("train", "a=b c"),
    )

    assert shlex.join(run_command(container)) == (
        f"docker run --rm --init --pull never --shm-size=1g {LIMITS} --gpus device=0 --name job "
        f"--mount type=bind,source={tmp_path},target=/data,readonly "
        f"--mount type=bind,source={tmp_path},target=/outputs tiny:v1 train 'a=b c'"
    )


def test_no_gpus() -> None:
    assert "--gpus" not in run_command(Run(image="tiny:v1", gpus="none"))


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        run_command(Run(image="tiny:v1", data=tmp_path / "no"))

    assert caught.value.message == f"no folder {tmp_path}/no to mount at /data"


@pytest.mark.parametrize("name", ["a,b", 'a"b'])
def test_a_folder_that_docker_would_misread_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()

    with pytest.raises(UsageError, match="docker cannot mount"):
        run_command(Run(image="tiny:v1", output=tmp_path / name))


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A docker whose `run` is what the file `run` holds."""
    script = tmp_path / "docker"
    script.write_text(f'#!/bin/sh\n[ "$1 $2" = "buildx version" ] && exit 0\n. {tmp_path}/run\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def test_the_exit_code_is_the_containers(docker: Path) -> None:
    (docker / "run").write_text("exit 7\n")

    assert run(Run(image="tiny:v1")) == 7


def test_what_the_container_says_is_passed_on(docker: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (docker / "run").write_text("echo result; echo note >&2\n")

    run(Run(image="tiny:v1"))

    assert capfd.readouterr() == ("result\n", "note\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('could not select device driver "" with capabilities: [[gpu]]', "Docker cannot give a container GPUs here"),
        ("nvidia-container-cli: initialization error: nvml error", "Docker cannot give a container GPUs here"),
        ("unresolvable CDI devices nvidia.com/gpu=all", "Docker cannot give a container GPUs here"),
        ("Error response from daemon: No such image: tiny:v1", "the Docker daemon has no such image"),
        ("Cannot connect to the Docker daemon at unix:///x", "no Docker daemon answers"),
    ],
)
def test_a_container_that_cannot_start_is_told_in_words(docker: Path, text: str, message: str) -> None:
    (docker / "run").write_text(f"echo {shlex.quote(text)} >&2; exit 125\n")

    with pytest.raises(BakeError) as caught:
        run(Run(image="tiny:v1"))

    assert isinstance(caught.value, DaemonError)
    assert caught.value.message == message
    assert caught.value.hint


def test_an_unknown_fault_of_docker_keeps_its_exit_code(docker: Path) -> None:
    (docker / "run").write_text("echo what >&2; exit 125\n")

    assert run(Run(image="tiny:v1")) == 125


def test_a_container_that_speaks_of_gpus_is_not_mistaken_for_docker(docker: Path) -> None:
    (docker / "run").write_text("echo 'could not select device driver' >&2; exit 1\n")

    assert run(Run(image="tiny:v1")) == 1


def test_where_docker_may_not_raise_limits_it_is_started_without(
    docker: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (docker / "run").write_text(
        'case "$*" in *memlock*) echo "error setting rlimit type 8: operation not permitted" >&2; exit 125;; esac\n'
    )

    assert run(Run(image="tiny:v1")) == 0
    assert capfd.readouterr().err.endswith(
        "warning: Docker may not raise limits here, as where it is rootless; starting without them\n"
    )
