from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from bake.entrypoint.finding import Finding
from bake.entrypoint.preflight.ray_start import check_ray
from tests.entrypoint.files import write
from tests.entrypoint.preflight.situations import situation

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

OFF = {"RAY_AUTH_MODE": "disabled"}


def found(environ: Mapping[str, str], settings: Mapping[str, Any] | None = None) -> list[Finding]:
    return list(check_ray(situation(settings, environ=environ)))


def test_a_ray_of_its_own_is_right() -> None:
    assert found({**OFF, "RAY_ADDRESS": "local"}) == []


def test_counts_cannot_be_given_to_a_cluster() -> None:
    counts = {"ray_kwargs.ray_init.num_cpus": 16, "ray_kwargs.ray_init.num_gpus": 1}

    assert found({**OFF, "RAY_ADDRESS": "auto"}, counts) == [
        Finding(
            check="ray",
            severity="error",
            what="RAY_ADDRESS=auto joins a cluster, and num_cpus and num_gpus would be given to ray.init",
            why="Ray refuses: When connecting to an existing cluster, they must not be provided",
            todo="leave out ray_kwargs.ray_init.num_cpus; leave out ray_kwargs.ray_init.num_gpus; RAY_ADDRESS=local "
            "starts a Ray of its own",
        )
    ]


def test_counts_can_be_given_to_a_ray_of_its_own() -> None:
    assert found({**OFF, "RAY_ADDRESS": "local"}, {"ray_init.num_cpus": 16}) == []


@pytest.mark.parametrize("name", ["resources", "labels", "object_store_memory", "_system_config"])
def test_what_ray_refuses_in_a_cluster_is_told(name: str) -> None:
    findings = found({**OFF, "RAY_ADDRESS": "auto"}, {f"ray_kwargs.ray_init.{name}": {"a": 1}})

    assert [finding.what for finding in findings] == [
        f"RAY_ADDRESS=auto joins a cluster, and {name} would be given to ray.init"
    ]


def test_a_cluster_that_does_not_answer_yet_is_a_warning() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody answers
        address = f"127.0.0.1:{taken.getsockname()[1]}"

        findings = found({**OFF, "RAY_ADDRESS": address})

    assert findings == [
        Finding(
            check="ray",
            severity="warning",
            what=f"RAY_ADDRESS={address}, and nothing answers there yet: [Errno 111] Connection refused",
            why="Ray goes on trying for minutes, and verl with it",
            todo="start the head, and open that port; or RAY_ADDRESS=local for a Ray of this training's own",
        )
    ]


@pytest.mark.parametrize("before", ["", "ray://"])
def test_a_cluster_that_answers_is_right(before: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert found({**OFF, "RAY_ADDRESS": f"{before}127.0.0.1:{server.getsockname()[1]}"}) == []


@pytest.mark.parametrize("address", ["nonsense", "host:port", "127.0.0.1:99999", ":1", "https://there:1"])
def test_an_address_of_another_form_is_left_to_ray(address: str) -> None:
    assert found({**OFF, "RAY_ADDRESS": address}) == []


def test_a_name_that_cannot_be_one_does_not_answer() -> None:
    assert len(found({**OFF, "RAY_ADDRESS": "é" * 300 + ":1"})) == 1


def test_token_authentication_wants_a_token(tmp_path: Path) -> None:
    environ = {"RAY_AUTH_MODE": "token", "HOME": str(tmp_path), "RAY_ADDRESS": "local"}

    assert found(environ) == [
        Finding(
            check="ray",
            severity="error",
            what=f"RAY_AUTH_MODE=token, RAY_AUTH_TOKEN is not set and {tmp_path}/.ray/auth_token cannot be read",
            why="Ray does not start, or its nodes refuse each other: InvalidAuthToken",
            todo="the same RAY_AUTH_TOKEN on every node, or RAY_AUTH_MODE=disabled on every node",
        )
    ]


def test_a_token_may_be_given_or_kept(tmp_path: Path) -> None:
    environ = {"RAY_AUTH_MODE": "token", "HOME": str(tmp_path), "RAY_ADDRESS": "local"}
    write(tmp_path, {".ray/auth_token": b"secret"})

    assert found(environ) == []
    assert found({**environ, "HOME": "/nowhere", "RAY_AUTH_TOKEN": "secret"}) == []
