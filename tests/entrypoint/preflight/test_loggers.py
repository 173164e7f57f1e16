from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from bake.entrypoint.finding import Finding
from bake.entrypoint.preflight.loggers import check_loggers
from tests.entrypoint.files import write
from tests.entrypoint.preflight.image import install, packages
from tests.entrypoint.preflight.situations import situation

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@pytest.fixture(autouse=True)
def image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, packages(tmp_path, "wandb", "swanlab", "clearml", "volcengine_ml_platform", "mlflow"))


def found(logger: Any, environ: Mapping[str, str], release: tuple[int, int] | None = (0, 9)) -> list[Finding]:
    return list(check_loggers(situation({"trainer.logger": logger}, environ=environ, release=release)))


def test_the_console_wants_nothing() -> None:
    assert found(["console"], {}) == []


def test_wandb_without_a_key_is_an_error(tmp_path: Path) -> None:
    assert found(["console", "wandb"], {"HOME": str(tmp_path)}) == [
        Finding(
            check="wandb",
            severity="error",
            what="trainer.logger names 'wandb', and there is no key for api.wandb.ai: no WANDB_API_KEY, and none in "
            f"{tmp_path}/.netrc",
            why="after all models are loaded, verl stops for want of it",
            todo="docker run -e WANDB_API_KEY=…, or -e WANDB_MODE=offline; or trainer.logger=['console']",
        )
    ]


@pytest.mark.parametrize(
    "environ",
    [
        {"WANDB_API_KEY": "x"},
        {"WANDB_MODE": "offline"},
        {"WANDB_MODE": "disabled"},
        {"WANDB_IDENTITY_TOKEN_FILE": "/token"},
    ],
)
def test_wandb_is_content_with_a_key_or_with_no_server(environ: dict[str, str]) -> None:
    assert found("wandb", environ) == []


def test_wandb_finds_its_key_in_netrc(tmp_path: Path) -> None:
    write(tmp_path, {".netrc": b"machine api.wandb.ai login user password secret\n"})

    assert found("wandb", {"HOME": str(tmp_path)}) == []


def test_a_key_for_another_server_is_none(tmp_path: Path) -> None:
    write(tmp_path, {"keys": b"machine api.wandb.ai login user password secret\n"})
    environ = {"NETRC": str(tmp_path / "keys"), "WANDB_BASE_URL": "https://wandb.corp.example"}

    assert [finding.what for finding in found("wandb", environ)] == [
        (
            "trainer.logger names 'wandb', and there is no key for wandb.corp.example: no WANDB_API_KEY, and none in "
            f"{tmp_path}/keys"
        )
    ]


def test_a_netrc_that_cannot_be_read_holds_no_key(tmp_path: Path) -> None:
    write(tmp_path, {".netrc": b"machine\xff"})

    assert len(found("wandb", {"HOME": str(tmp_path)})) == 1


@pytest.mark.parametrize(
    ("logger", "lacks"),
    [
        ("swanlab", "SWANLAB_API_KEY is not set"),
        ("vemlp_wandb", "VOLC_ACCESS_KEY_ID, VOLC_SECRET_ACCESS_KEY, MLP_TRACKING_REGION are not set"),
        (
            "clearml",
            "there is neither /nowhere/clearml.conf nor CLEARML_API_ACCESS_KEY and CLEARML_API_SECRET_KEY",
        ),
    ],
)
def test_other_loggers_want_their_keys(logger: str, lacks: str) -> None:
    assert [finding.what for finding in found(logger, {"HOME": "/nowhere"})] == [
        f"trainer.logger names {logger!r}, and {lacks}"
    ]


@pytest.mark.parametrize(
    ("logger", "environ"),
    [
        ("swanlab", {"SWANLAB_API_KEY": "x"}),
        ("swanlab", {"SWANLAB_MODE": "local"}),
        ("clearml", {"CLEARML_OFFLINE_MODE": "1"}),
        ("clearml", {"CLEARML_API_ACCESS_KEY": "x", "CLEARML_API_SECRET_KEY": "x"}),
        ("vemlp_wandb", {"VOLC_ACCESS_KEY_ID": "", "VOLC_SECRET_ACCESS_KEY": "", "MLP_TRACKING_REGION": ""}),
        ("mlflow", {}),
    ],
)
def test_other_loggers_are_content_with_theirs(logger: str, environ: dict[str, str]) -> None:
    assert found(logger, {"HOME": "/nowhere", **environ}) == []


def test_a_logger_s_package_must_be_there() -> None:
    assert found("trackio", {}) == [
        Finding(
            check="wandb",
            severity="error",
            what="trainer.logger names 'trackio', and trackio is not installed",
            why="after all models are loaded, verl stops: No module named 'trackio'",
            todo="trainer.logger=['console'], or an image that has it (pip install trackio)",
        )
    ]


def test_a_logger_that_the_release_does_not_know_is_an_error() -> None:
    assert [finding.todo for finding in found(["file"], {}, (0, 5))] == [
        "trainer.logger=['console'], or of wandb, mlflow, swanlab, vemlp_wandb, tensorboard, console, clearml"
    ]


def test_a_logger_of_a_newer_verl_is_left_alone() -> None:
    assert found(["newest"], {}, (0, 10)) == []
    assert found(["newest"], {}, None) == []
