"""An image that bake built, as it runs: the entrypoint's words and exit codes, users, signals, and broken models."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.integration.engine import DOCKER, Shop, run_container, start_container

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = DOCKER

NO_VERL = (
    "error: verl is not installed in this image\n"
    "hint: build the image with a base in models.lock that names a verl version\n"
)


@pytest.mark.parametrize("level", ["quick", "full"])
def test_a_container_verifies_the_model(baked: Shop, level: str) -> None:
    ran = run_container(baked.engine, baked.image, "verify", "--level", level)

    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"{baked.model}: 4 files are as recorded ({level}, ")


def test_any_user_may_verify_with_a_read_only_root_and_no_network(baked: Shop) -> None:
    ran = run_container(baked.engine, baked.image, "verify", "--level", "full", user="12345:12345", read_only=True)

    assert (ran.code, ran.err) == (0, "")


def test_any_user_may_write_into_the_working_folder(baked: Shop) -> None:
    ran = run_container(baked.engine, baked.image, "exec", "sh", "-c", "pwd; touch x && id -u", user="12345:12345")

    assert (ran.code, ran.out) == (0, "/outputs\n12345\n")


def test_nobody_but_root_may_write_into_the_model(baked: Shop) -> None:
    script = f"touch /opt/models/{baked.name}/x || echo x >> /opt/models/{baked.name}/config.json"
    ran = run_container(baked.engine, baked.image, "exec", "sh", "-c", script, user="12345:12345")

    assert ran.code != 0


def test_a_model_that_is_mounted_over_is_refused(baked: Shop, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")

    ran = run_container(baked.engine, baked.image, "verify", mounts={f"/opt/models/{baked.name}": tmp_path})

    assert ran.code == 10
    assert ran.err == f"error: faults: 4 in {baked.model}\nhint: each fault says what to do\n"


def test_an_altered_byte_is_found_by_the_full_level(baked: Shop) -> None:
    altered = f"{baked.name}-altered:v2"
    shard = f"/opt/models/{baked.name}/model-00001-of-00002.safetensors"
    script = f"python3 -c \"f = open('{shard}', 'r+b'); f.seek(-1, 2); f.write(b'x')\""
    baked.engine.docker(
        "build", "-q", "--network", "none", "-t", altered, "-", stdin=f"FROM {baked.image}\nRUN {script}\n".encode()
    )

    ran = run_container(baked.engine, altered, "verify", "--level", "full")

    assert ran.code == 10
    assert shard in ran.out


def test_an_image_without_verl_does_not_train(baked: Shop) -> None:
    ran = run_container(baked.engine, baked.image)

    assert (ran.code, ran.err) == (8, NO_VERL)


@pytest.mark.parametrize(
    ("words", "code"),
    [(("help",), 0), (("bild",), 2), (("exec", "sh", "-c", "exit 7"), 7), (("verify", "--level", "none"), 2)],
)
def test_the_exit_code_says_what_happened(baked: Shop, words: tuple[str, ...], code: int) -> None:
    assert run_container(baked.engine, baked.image, *words).code == code


def test_the_command_that_exec_starts_gets_the_signals(baked: Shop) -> None:
    script = "trap 'echo stopped; exit 3' TERM; echo ready; while :; do sleep 0.1; done"
    with start_container(baked.engine, baked.image, "exec", "sh", "-c", script, until="ready") as container:
        since = time.monotonic()
        container.get_wrapped_container().stop(timeout=20)

        assert container.wait() == 3
        assert time.monotonic() - since < 10


def test_docker_stop_ends_the_entrypoint_itself(baked: Shop) -> None:
    """Verify is held up by a named pipe in the record's place, which nobody writes to."""
    command = ["sh", "-c", "mkfifo /tmp/record; echo ready; exec python3 /opt/bake verify --record /tmp/record"]
    with start_container(baked.engine, baked.image, *command, entrypoint=[], until="ready") as container:
        time.sleep(1)
        since = time.monotonic()
        container.get_wrapped_container().stop(timeout=20)

        assert container.wait() == 143
        assert time.monotonic() - since < 10


def test_the_environment_is_what_verl_and_the_hub_client_need(baked: Shop) -> None:
    config = baked.engine.config(baked.image)

    assert config["Entrypoint"] == ["python3", "/opt/bake"]
    assert config["Cmd"] == ["train"]
    assert config["WorkingDir"] == "/outputs"
    assert {key: value for key, value in config["Env"].items() if key != "PATH"} == {
        "VERL_MODEL_PATH": f"/opt/models/{baked.name}",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HOME": "/tmp/huggingface",  # noqa: S108 - in the image
        "RAY_AUTH_MODE": "disabled",
    }
