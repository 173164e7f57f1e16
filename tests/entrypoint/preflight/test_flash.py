from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bake.entrypoint.finding import Finding
from bake.entrypoint.preflight.flash import check_flash, needs_flash
from tests.entrypoint.preflight.image import install, packages
from tests.entrypoint.preflight.situations import ACTOR, MODEL, situation

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

FSDP = {f"{ACTOR}.strategy": "fsdp", "critic.strategy": "fsdp", "algorithm.adv_estimator": "grpo"}
SDPA = {f"{MODEL}.override_config": {"attn_implementation": "sdpa"}}
ACTORS, CRITICS = "the actor's attention", "the critic's attention (hard-coded in verl)"


def test_without_flash_attn_its_users_are_told_and_how_to_do_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, tmp_path)

    assert list(check_flash(situation({**FSDP, "algorithm.adv_estimator": "gae"}))) == [
        Finding(
            check="flash-attn",
            severity="error",
            what="flash-attn is not installed, and is needed by the actor's attention; by the critic's attention "
            "(hard-coded in verl)",
            why="verl loads the data, starts Ray and dies while it builds the models; for the critic it then names trl "
            "as what is missing, which is not the cause",
            todo="an image that has flash-attn (pip install flash-attn --no-build-isolation); or do without: "
            "+actor_rollout_ref.model.override_config.attn_implementation=sdpa and algorithm.adv_estimator=grpo, which "
            "trains without a critic",
        )
    ]


def test_with_flash_attn_nothing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, packages(tmp_path, "flash_attn"))

    assert list(check_flash(situation(FSDP))) == []


def test_0_5_can_only_be_given_flash_attn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, tmp_path)

    assert [finding.todo for finding in check_flash(situation({**FSDP, **SDPA}, release=(0, 5)))] == [
        "an image that has flash-attn (pip install flash-attn --no-build-isolation)"
    ]


@pytest.mark.parametrize(
    ("settings", "release", "needs"),
    [
        ({}, (0, 9), (ACTORS,)),
        (SDPA, (0, 9), ()),
        ({f"{MODEL}.override_config": {"attn_implementation": "flash_attention_2"}}, (0, 7), (ACTORS,)),
        (SDPA, (0, 5), (ACTORS,)),
        ({**SDPA, "algorithm.adv_estimator": "gae"}, (0, 6), (CRITICS,)),
        ({**SDPA, "critic.enable": True}, (0, 9), (CRITICS,)),
        ({**SDPA, f"{MODEL}.use_remove_padding": True}, (0, 8), (f"{MODEL}.use_remove_padding",)),
        ({**SDPA, f"{MODEL}.use_remove_padding": True}, (0, 9), ()),
        ({f"{ACTOR}.strategy": "megatron"}, (0, 9), ()),
        ({}, None, ()),
        ({"trainer.device": "npu"}, (0, 9), ()),
    ],
)
def test_only_what_needs_it_wants_it(
    settings: dict[str, Any], release: tuple[int, int] | None, needs: tuple[str, ...]
) -> None:
    assert needs_flash(situation({**FSDP, **settings}, release=release)) == needs


def test_a_module_that_replaces_parts_of_verl_may_need_none() -> None:
    assert needs_flash(situation(FSDP, environ={"VERL_USE_EXTERNAL_MODULES": "verl_cpu"})) == ()
