"""Groups and Hydra's own settings: put where Hydra composes, since no later override could do it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bake.errors import LaunchError
from tests.entrypoint.files import write

if TYPE_CHECKING:
    from tests.entrypoint.launch.stage import Stage


def refused(stage: Stage, *words: str) -> list[str]:
    with pytest.raises(LaunchError) as caught:
        stage.plan(*words)
    return caught.value.message.split("\n")[1:]


def test_groups_are_found_where_the_search_path_leads(stage: Stage) -> None:
    engine = b"# @package trainer\nmine: 4\n"
    actor = b"strategy: fsdp\n"
    conf = write(stage.packages / "conf", {"model_engine/mine.yaml": engine, "engine/mine.yaml": actor})
    text = f"hydra.searchpath=[file://{conf}]"

    launch = stage.plan(text, "model_engine=mine")

    assert launch.command[-2:] == (text, "model_engine=mine")
    assert launch.settings.get("trainer.mine") == 4


def test_a_setting_of_hydra_s_own_that_is_not_there_is_refused(stage: Stage) -> None:
    assert refused(stage, "hydra.no_such=1") == [
        "the command line: hydra.no_such=1",
        "  why:   Could not override 'hydra.no_such'. To append to your config use +hydra.no_such=1",
        "  to do: mend or leave out what it names; `train --cfg hydra` shows what Hydra has by itself",
    ]


@pytest.mark.parametrize("plus", ["+", "++"])
def test_an_engine_is_chosen_and_not_added(stage: Stage, plus: str) -> None:
    assert refused(stage, f"{plus}model_engine=megatron") == [
        f"the command line: {plus}model_engine=megatron",
        "  why:   model_engine is a group of which one is chosen, and + adds one more",
        "  to do: write model_engine=megatron",
    ]


def test_an_engine_is_not_taken_away(stage: Stage) -> None:
    assert refused(stage, "~model_engine") == [
        "the command line: ~model_engine",
        "  why:   verl's configuration names its parts after it",
        "  to do: leave it out, or choose another: dp, megatron",
    ]


def test_the_critic_of_verl_is_not_taken_away(stage: Stage) -> None:
    write(stage.packages, {"verl/trainer/config/critic/critic.yaml": b"strategy: fsdp\n"})

    assert refused(stage, "~critic") == [
        "the command line: ~critic",
        "  why:   verl reads critic.* in every training, whether it has a critic or not",
        "  to do: leave it out; critic.enable=false (verl 0.6 and newer) trains without one",
    ]
