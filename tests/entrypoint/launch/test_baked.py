"""The baked models: their paths are verl's, nothing contradicts them, and only trusted code runs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from bake.errors import LaunchError
from bake.record import Record
from tests.entrypoint.files import write

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.entrypoint.launch.stage import Stage

ALL = ("actor", "critic", "reward_model")
CODE = b'{"auto_map": {"AutoModelForCausalLM": "modeling_own.Own"}}'
ACTOR_TRUST, CRITIC_TRUST = "actor_rollout_ref.model.trust_remote_code", "critic.model.trust_remote_code"


def refused(stage: Stage, *words: str) -> str:
    with pytest.raises(LaunchError) as caught:
        stage.plan(*words)
    return caught.value.message


def test_the_critic_is_the_actor_s_model_where_no_other_was_baked(stage: Stage) -> None:
    overrides = stage.overrides()

    assert overrides["critic.model.path"] == overrides["actor_rollout_ref.model.path"] == f"'{stage.model('actor')}'"


def test_each_model_is_in_its_own_key(baking: Callable[..., Stage]) -> None:
    stage = baking(roles=ALL).having("vllm")

    overrides = stage.overrides()

    assert [
        overrides["actor_rollout_ref.model.path"],
        overrides["critic.model.path"],
        overrides["reward.reward_model.model_path"],
    ] == [f"'{stage.model(role)}'" for role in ALL]


def test_a_critic_of_its_own_reads_the_actor_s_tokens(baking: Callable[..., Stage]) -> None:
    stage = baking(roles=("actor", "critic")).having("vllm")

    assert stage.overrides()["critic.model.tokenizer_path"] == f"'{stage.model('actor')}'"


def test_a_reward_model_is_enabled_and_served(baking: Callable[..., Stage]) -> None:
    settings = baking(roles=ALL).having("sglang").plan().settings

    assert settings.tree["reward"]["reward_model"] == {
        "enable": True,
        "model_path": baking(roles=ALL).model("reward_model"),
        "rollout": {"name": "sglang", "tensor_model_parallel_size": 2},
    }


def test_a_reward_model_may_be_left_out_of_a_training(baking: Callable[..., Stage]) -> None:
    stage = baking(roles=ALL).having("vllm")

    assert stage.plan("reward.reward_model.enable=false").settings.flag("reward.reward_model.enable") is False


@pytest.mark.parametrize(
    ("override", "key"),
    [
        ("actor_rollout_ref.model.path=/other", "actor_rollout_ref.model.path"),
        ("+actor_rollout_ref.model.path=/other", "actor_rollout_ref.model.path"),
        ("++actor_rollout_ref.model.path='/other'", "actor_rollout_ref.model.path"),
        ("critic.model.path=Qwen/Qwen3-8B", "critic.model.path"),
        ("critic.model.path=null", "critic.model.path"),
        ("critic.model.path=${trainer.project_name}", "critic.model.path"),
        ("~actor_rollout_ref.model.path", "actor_rollout_ref.model.path"),
        ("~critic.model", "critic.model.path"),
        ("actor_rollout_ref.model={path: /other}", "actor_rollout_ref.model.path"),
        ("actor_rollout_ref={model: {path: /other}}", "actor_rollout_ref.model.path"),
    ],
)
def test_an_override_that_contradicts_the_baked_path_is_refused(stage: Stage, override: str, key: str) -> None:
    assert refused(stage, override) == (
        "verl was not started: 1 setting is refused\n"
        f"the command line: {override}\n"
        f"  why:   it contradicts the model that this image carries, {key}={stage.model('actor')!r}\n"
        "  to do: leave this out; to train another model, bake it"
    )


def test_so_is_one_of_the_lock(baking: Callable[..., Stage]) -> None:
    stage = baking(overrides=["critic.model.path=/other"]).having("vllm")

    assert "the lock: critic.model.path=/other\n  why:   it contradicts" in refused(stage)


def test_so_is_one_of_the_profile(stage: Stage) -> None:
    write(stage.profile.parent, {"train.yaml": b"critic: {model: {path: /other}}\n"})

    assert f"{stage.profile}: critic.model.path='/other'\n  why:   it contradicts" in refused(stage)


def test_so_is_a_configuration_file_of_the_user_s(stage: Stage) -> None:
    conf = write(
        stage.packages / "conf", {"mine.yaml": b"defaults: [ppo_trainer, _self_]\ncritic: {model: {path: /other}}\n"}
    )

    message = refused(stage, "--config-dir", str(conf), "--config-name", "mine")

    assert "the configuration file: critic.model.path: /other\n  why:   it contradicts" in message


def test_so_is_another_reward_model(baking: Callable[..., Stage]) -> None:
    message = refused(baking(roles=ALL).having("vllm"), "reward.reward_model.model_path=/other")

    assert "the command line: reward.reward_model.model_path=/other\n  why:   it contradicts" in message


def test_a_configuration_file_without_a_place_for_the_model_is_refused(stage: Stage) -> None:
    conf = write(stage.packages / "conf", {"mine.yaml": b"trainer: {nnodes: 1}\n"})

    assert refused(stage, "-cp", str(conf), "-cn", "mine") == (
        "verl was not started: 1 setting is refused\n"
        "the configuration file: defaults:\n"
        "  why:   it has no actor_rollout_ref.model.path, where the model of this image goes\n"
        "  to do: begin it with `defaults: [ppo_trainer, _self_]`"
    )


def test_a_configuration_file_without_a_critic_is_not_given_one(stage: Stage) -> None:
    conf = write(stage.packages / "conf", {"mine.yaml": b"actor_rollout_ref: {model: {path: null}}\n"})

    overrides = stage.overrides("-cp", str(conf), "-cn", "mine")

    assert list(overrides) == ["actor_rollout_ref.model.path"]


@pytest.mark.parametrize("quoted", ["{}", "'{}'", '"{}"'])
def test_an_override_that_repeats_the_baked_path_passes(stage: Stage, quoted: str) -> None:
    override = f"critic.model.path={quoted.format(stage.model('actor'))}"

    assert stage.plan(override).command[-1] == override


def test_so_does_one_that_leads_there(stage: Stage) -> None:
    settings = stage.plan("critic.model.path=${actor_rollout_ref.model.path}").settings

    assert settings.get("critic.model.path") == stage.model("actor")


def test_other_keys_of_a_model_stay_the_user_s(stage: Stage) -> None:
    settings = stage.plan("actor_rollout_ref.model={use_remove_padding: false}").settings

    assert settings.get("actor_rollout_ref.model.path") == stage.model("actor")


def test_a_variable_that_names_another_model_is_refused(stage: Stage) -> None:
    other = replace(stage, environ={**stage.environ, "VERL_CRITIC_MODEL_PATH": "/other"})

    assert refused(other) == (
        "verl was not started: 1 setting is refused\n"
        "the environment: VERL_CRITIC_MODEL_PATH=/other\n"
        f"  why:   this image was baked with {stage.model('actor')}\n"
        "  to do: leave VERL_CRITIC_MODEL_PATH as the image sets it; to train another model, bake it"
    )


def test_code_of_a_model_runs_where_its_lock_says_so(baking: Callable[..., Stage]) -> None:
    overrides = baking(trusted=True).having("vllm").overrides()

    assert {key for key in overrides if key.endswith("trust_remote_code")} == {
        ACTOR_TRUST,
        CRITIC_TRUST,
        "data.trust_remote_code",
    }


def test_and_nowhere_else(stage: Stage) -> None:
    assert not [key for key in stage.overrides() if key.endswith("trust_remote_code")]


@pytest.mark.parametrize(
    "override",
    [
        f"{ACTOR_TRUST}=True",
        f"++{ACTOR_TRUST}=1",
        "data.trust_remote_code=${trainer.val_before_train}",
        "critic.model={trust_remote_code: true}",
        "+actor_rollout_ref.rollout.engine_kwargs.vllm.trust_remote_code=true",
    ],
)
def test_code_that_the_lock_does_not_trust_is_refused(baking: Callable[..., Stage], override: str) -> None:
    stage = baking(config=CODE).having("vllm")

    assert refused(stage, override) == (
        "verl was not started: 1 setting is refused\n"
        f"the command line: {override}\n"
        "  why:   models.lock does not say that the code of actor@v1 may run\n"
        "  to do: leave it out; if you read and trust that code, say trust_remote_code = true in models.lock and bake"
    )


def test_so_is_code_that_the_record_lists(stage: Stage) -> None:
    (model,) = stage.record.models
    code = replace(model.files[0], path="modeling_own.py")
    listed = replace(stage, record=Record(models=(replace(model, files=(*model.files, code)),)))

    assert "does not say that the code of actor@v1 may run" in refused(listed, f"{ACTOR_TRUST}=true")


def test_trust_in_a_model_without_code_is_a_note(stage: Stage) -> None:
    notes = stage.plan(f"{ACTOR_TRUST}=True").notes

    assert notes[-1] == f"{ACTOR_TRUST} changes nothing: actor@v1 has no code of its own"


def test_trust_in_a_reward_model_that_was_not_baked_is_refused(stage: Stage) -> None:
    assert "why:   no reward model was baked\n" in refused(stage, "+reward.reward_model.trust_remote_code=true")


def test_a_user_may_trust_what_the_lock_trusts(baking: Callable[..., Stage]) -> None:
    stage = baking(trusted=True).having("vllm")

    assert stage.plan(f"{ACTOR_TRUST}=True").settings.flag(ACTOR_TRUST)


def test_a_user_may_trust_less_than_the_lock(baking: Callable[..., Stage]) -> None:
    stage = baking(trusted=True).having("vllm")

    assert stage.plan(f"{ACTOR_TRUST}=False").settings.get(ACTOR_TRUST) is False
