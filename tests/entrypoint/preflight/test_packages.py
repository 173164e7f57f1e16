from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bake.entrypoint.finding import Finding
from bake.entrypoint.preflight.packages import check_packages, satisfies
from tests.entrypoint.preflight.image import distribution, install, packages, verl
from tests.entrypoint.preflight.situations import ACTOR, ROLLOUT, situation

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

V1 = {"trainer.use_v1": True, f"{ROLLOUT}.name": "vllm", f"{ACTOR}.strategy": "fsdp"}
ALL = ("cachetools", "fastapi", "uvicorn", "transfer_queue", "vllm")


def found(settings: Mapping[str, Any], release: tuple[int, int] | None = (0, 9)) -> list[Finding]:
    return list(check_packages(situation(settings, release=release)))


def test_an_image_that_has_all_is_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, packages(verl(tmp_path), *ALL))

    assert found(V1) == []


def test_no_verl_is_an_error_that_says_where_it_comes_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, tmp_path)

    assert found(V1) == [
        Finding(
            check="verl",
            severity="error",
            what="verl is not installed in this image",
            why="there is nothing to start",
            todo="build the image with a base in models.lock that names a verl version",
        )
    ]


def test_all_missing_packages_are_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, packages(verl(tmp_path), "cachetools", "fastapi"))

    assert found(V1) == [
        Finding(
            check="verl",
            severity="error",
            what="not installed: uvicorn, which verl imports and does not declare; transfer_queue, which verl's "
            "trainer needs unless trainer.use_v1=False; vllm, for actor_rollout_ref.rollout.name=vllm",
            why="verl starts Ray and dies: No module named 'uvicorn'",
            todo="name them in the base's wheels in models.lock, or build on a base that has them; pip: 'uvicorn' "
            "'TransferQueue>=0.1.10' 'vllm'",
        )
    ]


def test_the_trainer_before_0_9_s_needs_no_transfer_queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, packages(verl(tmp_path), "cachetools", "fastapi", "uvicorn", "vllm"))

    assert found({**V1, "trainer.use_v1": False}) == []


def test_a_rollout_that_is_not_known_needs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, packages(verl(tmp_path), *ALL[:4]))

    assert found({**V1, f"{ROLLOUT}.name": "own"}) == []


def test_a_rollout_of_0_5_that_does_not_serve_needs_no_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, packages(verl(tmp_path, "0.5.0"), "vllm"))

    assert found({f"{ROLLOUT}.name": "vllm", f"{ROLLOUT}.mode": "sync"}, (0, 5)) == []


def test_megatron_is_looked_for_and_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, packages(verl(tmp_path), *ALL, "megatron.core"))

    assert found({**V1, f"{ACTOR}.strategy": "megatron"}) == []


def test_megatron_without_its_core_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, packages(verl(tmp_path), *ALL, "megatron.energon"))

    assert [finding.what for finding in found({**V1, f"{ACTOR}.strategy": "megatron"})] == [
        "not installed: megatron.core, for strategy=megatron"
    ]


@pytest.mark.parametrize(
    ("release", "bridge", "missing"),
    [
        ((0, 6), {"use_mbridge": False}, []),
        ((0, 6), {"use_mbridge": True}, ["not installed: mbridge, for megatron.use_mbridge=True"]),
        (
            (0, 8),
            {"use_mbridge": True, "vanilla_mbridge": True},
            ["not installed: mbridge, for megatron.use_mbridge=True"],
        ),
        (
            (0, 9),
            {"use_mbridge": True, "vanilla_mbridge": False},
            ["not installed: megatron.bridge, for megatron.vanilla_mbridge=False"],
        ),
    ],
)
def test_megatron_needs_the_bridge_that_the_settings_name(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    release: tuple[int, int],
    bridge: dict[str, bool],
    missing: list[str],
) -> None:
    install(monkeypatch, packages(verl(tmp_path), *ALL, "megatron.core"))
    settings = {f"{ACTOR}.strategy": "megatron", f"{ACTOR}.megatron": bridge}

    assert [finding.what for finding in found({**V1, **settings}, release)] == missing


def test_an_older_transfer_queue_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, packages(verl(tmp_path), *ALL))
    distribution(tmp_path, "TransferQueue", "0.1.8")

    assert found(V1) == [
        Finding(
            check="verl",
            severity="warning",
            what="TransferQueue 0.1.8 is installed, and verl asks for TransferQueue>=0.1.10",
            why="verl's trainer keeps its samples there, and may call what an older one lacks",
            todo="pip install 'TransferQueue>=0.1.10', in the base or as a wheel in models.lock",
        )
    ]


def test_a_newer_verl_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, packages(verl(tmp_path, "0.10.0"), *ALL))

    assert [(finding.severity, finding.what) for finding in found(V1, (0, 10))] == [
        ("warning", "verl 0.10 is none that bake knows (0.5 to 0.9)")
    ]


def test_a_verl_that_does_not_say_its_release_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, packages(verl(tmp_path), *ALL))

    assert [(finding.severity, finding.what) for finding in found(V1, None)] == [
        ("warning", "this verl does not say which release it is")
    ]


def test_transformers_out_of_verl_s_range_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    requires = "Requires-Dist: transformers!=5.6.0,<5.11,>=5.5.3"
    install(monkeypatch, packages(verl(tmp_path, requires=requires), *ALL))
    distribution(tmp_path, "transformers", "5.3.0")

    assert found(V1) == [
        Finding(
            check="verl",
            severity="warning",
            what="transformers 5.3.0 is installed, and verl asks for transformers!=5.6.0,<5.11,>=5.5.3",
            why="models and tokenizers may load differently, or not at all",
            todo="pip install --no-deps 'transformers!=5.6.0,<5.11,>=5.5.3', in the base or as a wheel in models.lock",
        )
    ]


@pytest.mark.parametrize(
    ("version", "requirement", "fits"),
    [
        ("5.5.3", "transformers!=5.6.0,<5.11,>=5.5.3", True),
        ("5.6.0", "transformers!=5.6.0,<5.11,>=5.5.3", False),
        ("5.11.0", "transformers!=5.6.0,<5.11,>=5.5.3", False),
        ("5.10.4", "transformers!=5.6.0,<5.11,>=5.5.3", True),
        ("4.55.4", "transformers (>=4.51, <5)", True),
        ("5.0", "transformers ~= 5.0", True),
        ("6.0", "transformers ~= 5.0", False),
        ("4.51.9", "transformers~=4.51.3", True),
        ("4.52", "transformers~=4.51.3", False),
        ("4.51.0", "transformers==4.51", True),
        ("4.51.2", "transformers==4.51.*", True),
        ("4.52.2", "transformers!=4.51.*", True),
        ("4.51.1.dev0", "transformers>4.51.1", False),
        ("4.51.1", "transformers<=4.51", False),
        ("4", "transformers", True),
        ("unknown", "transformers>=5", True),
        ("4.0", "transformers>=x", True),
        ("4.0", "transformers; python_version > '3'", True),
    ],
)
def test_ranges_are_read_by_release_numbers(version: str, requirement: str, fits: bool) -> None:
    assert satisfies(version, requirement) is fits
