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


def left_behind(tmp_path: Path, address: str) -> dict[str, str]:
    write(tmp_path, {"ray/ray_current_cluster": address.encode()})
    return {**OFF, "RAY_TMPDIR": str(tmp_path)}


def test_a_clean_machine_is_right(tmp_path: Path) -> None:
    assert found({**OFF, "RAY_TMPDIR": str(tmp_path)}) == []


def test_counts_cannot_be_given_to_a_cluster() -> None:
    counts = {"ray_kwargs.ray_init.num_cpus": 16, "ray_kwargs.ray_init.num_gpus": 1}

    assert found({**OFF, "RAY_ADDRESS": "auto"}, counts) == [
        Finding(
            check="ray",
            severity="error",
            what="RAY_ADDRESS=auto joins a cluster, and num_cpus and num_gpus would be given to ray.init",
            why="Ray refuses: When connecting to an existing cluster, num_cpus and num_gpus must not be provided",
            todo="leave out ray_kwargs.ray_init.num_cpus; leave out ray_kwargs.ray_init.num_gpus; RAY_ADDRESS=local "
            "starts a Ray of its own",
        )
    ]


def test_counts_can_be_given_to_a_ray_of_its_own() -> None:
    assert found({**OFF, "RAY_ADDRESS": "local"}, {"ray_init.num_cpus": 16}) == []


def test_a_cluster_that_an_ended_run_left_behind_is_an_error(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody answers
        address = f"127.0.0.1:{taken.getsockname()[1]}"

        findings = found(left_behind(tmp_path, address))

    assert findings == [
        Finding(
            check="ray",
            severity="error",
            what=f"{tmp_path}/ray/ray_current_cluster names a Ray at {address}, and none answers there",
            why="Ray would try to join it, and stop after minutes",
            todo=f"docker run -e RAY_ADDRESS=local, or rm {tmp_path}/ray/ray_current_cluster",
        )
    ]


def test_a_cluster_that_answers_is_right(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert found(left_behind(tmp_path, f"127.0.0.1:{server.getsockname()[1]}\n")) == []


@pytest.mark.parametrize("address", ["", "nonsense", "host:port", "127.0.0.1:99999", ":1", "é" * 300 + ":1"])
def test_a_note_that_names_no_address_is_left_behind_too(tmp_path: Path, address: str) -> None:
    assert len(found(left_behind(tmp_path, address))) == 1


def test_a_note_does_not_matter_where_an_address_is_given(tmp_path: Path) -> None:
    assert found({**left_behind(tmp_path, "nonsense"), "RAY_ADDRESS": "local"}) == []


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


def test_a_cluster_that_is_joined_wants_the_mode_said() -> None:
    assert [(finding.severity, finding.what) for finding in found({"RAY_ADDRESS": "head:6379"})] == [
        ("warning", "RAY_AUTH_MODE is not set, and a cluster is joined")
    ]
