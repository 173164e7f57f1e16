"""Which Ray verl joins."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from bake.entrypoint.launch.ray import ray_environ
from bake.errors import LaunchError

if TYPE_CHECKING:
    from tests.entrypoint.launch.stage import Stage


@pytest.mark.parametrize(
    ("environ", "cluster", "address"),
    [
        ({}, False, "local"),
        ({"RAY_ADDRESS": ""}, False, "local"),
        ({"RAY_ADDRESS": "10.0.0.1:6379"}, False, "10.0.0.1:6379"),
        ({}, True, "auto"),
        ({"RAY_ADDRESS": "local"}, True, "auto"),
    ],
)
def test_the_address_is_always_said(environ: dict[str, str], cluster: bool, address: str) -> None:
    found, _ = ray_environ({**environ, "HOME": "/home/me"}, cluster=cluster)

    assert found == {"HOME": "/home/me", "RAY_ADDRESS": address, "RAY_AUTH_MODE": "disabled"}


def test_a_mode_of_authentication_that_was_given_stays() -> None:
    found, _ = ray_environ({"RAY_AUTH_MODE": "token", "RAY_ADDRESS": "auto"}, cluster=False)

    assert found == {"RAY_AUTH_MODE": "token", "RAY_ADDRESS": "auto"}


def test_what_was_decided_is_noted() -> None:
    assert ray_environ({"RAY_AUTH_MODE": "disabled"}, cluster=True)[1] == (
        "RAY_ADDRESS=auto (the cluster that ray-head started here)",
    )


def test_verl_is_started_with_the_whole_environment(stage: Stage) -> None:
    launch = replace(stage, environ={**stage.environ, "NCCL_DEBUG": "INFO"}).plan()

    assert launch.environ == {
        **stage.environ,
        "NCCL_DEBUG": "INFO",
        "RAY_ADDRESS": "local",
        "RAY_AUTH_MODE": "disabled",
    }


def test_a_ray_of_its_own_may_be_given_cpus(stage: Stage) -> None:
    assert stage.plan("ray_kwargs.ray_init.num_cpus=16").settings.get("ray_kwargs.ray_init.num_cpus") == 16


@pytest.mark.parametrize("override", ["ray_kwargs.ray_init.num_cpus=16", "+ray_kwargs.ray_init.num_gpus=8"])
def test_a_cluster_that_runs_may_not(stage: Stage, override: str) -> None:
    with pytest.raises(LaunchError) as caught:
        replace(stage, cluster=True).plan(override)

    assert caught.value.message == (
        "verl was not started: 1 setting is refused\n"
        f"the command line: {override}\n"
        "  why:   Ray runs already (RAY_ADDRESS=auto), and who joins it cannot say how large it is\n"
        "  to do: leave it out, and give --num-cpus or --num-gpus where Ray is started"
    )


def test_neither_may_a_cluster_of_the_user_s(stage: Stage) -> None:
    joining = replace(stage, environ={**stage.environ, "RAY_ADDRESS": "10.0.0.1:6379"})

    with pytest.raises(LaunchError, match=r"Ray runs already \(RAY_ADDRESS=10\.0\.0\.1:6379\)"):
        joining.plan("ray_kwargs.ray_init.num_cpus=16")
