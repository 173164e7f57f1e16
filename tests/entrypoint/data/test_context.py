from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from bake.entrypoint.data.context import context_findings
from bake.entrypoint.finding import Finding
from tests.entrypoint.data.samples import situation, write_model

if TYPE_CHECKING:
    from pathlib import Path


def found(model: Path, *, release: Any = (0, 9), length: int | None = None, **other: Any) -> list[Finding]:
    rollout = {"rollout": {"max_model_len": length}, "model": other}
    return list(context_findings(situation({}, release=release, model=model, actor_rollout_ref=rollout)))


def test_what_fits_the_model_is_taken(tmp_path: Path) -> None:
    assert found(write_model(tmp_path / "m", positions=1024)) == []


def test_answers_that_would_be_cut_are_told(tmp_path: Path) -> None:
    assert found(write_model(tmp_path / "m", positions=1000)) == [
        Finding(
            check="data-lengths",
            severity="warning",
            what="data.max_prompt_length=512 + data.max_response_length=512 are 1024 tokens, and the model's context "
            "holds 1000",
            why="verl cuts the answers to long prompts short without a word, and trains on answers that never ended",
            todo="lower one of them, so that both are at most 1000 together",
        )
    ]


def test_before_0_7_what_does_not_fit_is_an_assertion(tmp_path: Path) -> None:
    assert found(write_model(tmp_path / "m", positions=1000), release=(0, 6)) == [
        Finding(
            check="data-lengths",
            severity="error",
            what="data.max_prompt_length=512 + data.max_response_length=512 are 1024 tokens, and the model's context "
            "holds 1000",
            why="verl asserts that the model's context holds both, once the workers are built",
            todo="lower one of them, so that both are at most 1000 together",
        )
    ]


def test_before_0_7_rope_scaling_lengthens_the_context(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m", positions=1000, rope_scaling={"type": "yarn", "factor": 2.0})

    assert [len(found(model, release=release)) for release in ((0, 6), (0, 7))] == [0, 1]


def test_a_rollout_beyond_the_model_is_refused(tmp_path: Path) -> None:
    assert found(write_model(tmp_path / "m", positions=2000), length=4096) == [
        Finding(
            check="data-lengths",
            severity="error",
            what="actor_rollout_ref.rollout.max_model_len=4096, and the model's context holds 2000 tokens",
            why="verl raises ValueError for it when the rollout servers start, after the weights are loaded",
            todo="leave actor_rollout_ref.rollout.max_model_len out, or give at most 2000",
        )
    ]


def test_a_rollout_shorter_than_prompt_and_answer_is_told(tmp_path: Path) -> None:
    [finding] = found(write_model(tmp_path / "m"), length=1000)

    assert finding.what == (
        "data.max_prompt_length=512 + data.max_response_length=512 are 1024 tokens, and "
        "actor_rollout_ref.rollout.max_model_len holds 1000"
    )


def test_a_model_of_several_parts_has_its_context_in_text_config(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m", positions=0, text_config={"max_position_embeddings": 100})

    assert len(found(model)) == 1


def test_override_config_goes_before_the_model_s_own(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m", positions=100)

    assert found(model, override_config={"max_position_embeddings": 4096}) == []


@pytest.mark.parametrize("positions", [None, "many", True, [1], {"a": 1}])
def test_a_context_that_is_not_known_says_nothing(tmp_path: Path, positions: Any) -> None:
    assert found(write_model(tmp_path / "m", positions=positions)) == []
