"""Defaults: where verl would fail or train in vain, and never where somebody gave a value."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from bake.errors import LaunchError
from tests.entrypoint.files import write

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.entrypoint.launch.stage import Stage

ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
PADDING = "actor_rollout_ref.model.use_remove_padding"
MICROS = (
    f"{ACTOR}.ppo_micro_batch_size_per_gpu",
    f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu",
    "critic.ppo_micro_batch_size_per_gpu",
)


def micros(stage: Stage, *words: str) -> list[object]:
    settings = stage.plan(*words).settings
    return [settings.get(key) for key in MICROS]


def test_gpus_are_those_that_are_visible(stage: Stage) -> None:
    assert replace(stage, gpus=4).overrides()["trainer.n_gpus_per_node"] == "4"


def test_without_a_visible_gpu_verl_s_own_number_stands(stage: Stage) -> None:
    assert "trainer.n_gpus_per_node" not in replace(stage, gpus=0).overrides()


def test_a_model_is_cut_by_the_gpus_that_are_used(stage: Stage) -> None:
    overrides = stage.overrides("trainer.n_gpus_per_node=3")

    assert overrides[f"{ROLLOUT}.tensor_model_parallel_size"] == "1"


@pytest.mark.parametrize(
    ("installed", "engine"), [(["vllm"], "vllm"), (["sglang"], "sglang"), (["sglang", "vllm"], "vllm")]
)
def test_the_rollout_is_what_the_image_has(baking: Callable[..., Stage], installed: list[str], engine: str) -> None:
    assert baking().having(*installed).overrides()[f"{ROLLOUT}.name"] == f"'{engine}'"


def test_a_rollout_of_the_user_s_is_not_looked_for(baking: Callable[..., Stage]) -> None:
    assert baking().overrides(f"{ROLLOUT}.name=hfcpu")[f"{ROLLOUT}.name"] == "hfcpu"


def test_with_flash_attn_verl_s_own_padding_and_attention_stand(stage: Stage) -> None:
    overrides = stage.having("flash_attn").overrides()

    assert [key for key in overrides if "padding" in key or "attn" in key] == []


def test_megatron_needs_no_flash_attn(stage: Stage) -> None:
    overrides = stage.overrides("model_engine=megatron")

    assert [key for key in overrides if "padding" in key or "attn" in key] == []


@pytest.mark.parametrize(
    "override",
    [
        "+actor_rollout_ref.model.override_config.attn_implementation=eager",
        "+actor_rollout_ref.model.override_config={attn_implementation: eager}",
    ],
)
def test_an_attention_of_the_user_s_stays(stage: Stage, override: str) -> None:
    settings = stage.plan(override).settings

    assert settings.get("actor_rollout_ref.model.override_config") == {"attn_implementation": "eager"}


def test_training_files_alone_stand_for_validation_files_that_are_never_used(stage: Stage) -> None:
    launch = stage.plan("data.train_files=[/data/a.parquet,/data/b.parquet]")

    assert launch.settings.get("data.val_files") == ["/data/a.parquet", "/data/b.parquet"]
    assert launch.settings.get("trainer.val_before_train") is False
    assert launch.notes[7:9] == (
        "data.val_files='${data.train_files}' (no validation file was given, and verl opens one)",
        (
            "trainer.val_before_train=false (no validation file was given; with data.val_files=… verl validates before "
            "the first step)"
        ),
    )


def test_validation_files_that_were_given_are_used(stage: Stage) -> None:
    settings = stage.plan("data.train_files=/data/a.parquet", "data.val_files=/data/b.parquet").settings

    assert (settings.get("data.val_files"), settings.flag("trainer.val_before_train")) == ("/data/b.parquet", True)


def test_a_mini_batch_is_at_most_the_training_batch(stage: Stage) -> None:
    settings = stage.plan("data.train_batch_size=64").settings

    assert settings.get(f"{ACTOR}.ppo_mini_batch_size") == settings.get("critic.ppo_mini_batch_size") == 64


def test_a_mini_batch_that_fits_stays_verl_s(stage: Stage) -> None:
    assert f"{ACTOR}.ppo_mini_batch_size" not in stage.overrides("data.train_batch_size=512")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), [8, 8, 8]),
        (("data.max_response_length=7680",), [1, 1, 1]),
        (("data.train_batch_size=32",), [4, 4, 4]),
        (("data.train_batch_size=32", f"{ROLLOUT}.n=8"), [8, 8, 8]),
        (("data.train_batch_size=32", "trainer.nnodes=4"), [1, 1, 1]),
        (("critic.ppo_mini_batch_size=16",), [2, 2, 2]),
        ((f"{ACTOR}.ppo_micro_batch_size_per_gpu=2",), [2, 8, 8]),
        ((f"{ACTOR}.ppo_micro_batch_size=16",), [None, 8, 8]),
        ((f"{ROLLOUT}.log_prob_use_dynamic_bsz=true",), [8, None, 8]),
        ((f"{ACTOR}.use_dynamic_bsz=true",), [None, None, None]),
    ],
)
def test_micro_batches_fit_where_none_was_given(stage: Stage, words: tuple[str, ...], expected: list[object]) -> None:
    assert micros(stage, *words) == expected


def test_megatron_s_ranks_hold_larger_batches(stage: Stage) -> None:
    words = ("data.train_batch_size=32", "model_engine=megatron")

    assert micros(stage, *words) == [8, 8, 8]


def test_the_clipping_that_the_loss_reads_follows_the_one_that_was_given(stage: Stage) -> None:
    settings = stage.plan(f"{ACTOR}.clip_ratio=0.1", f"{ACTOR}.clip_ratio_high=0.28").settings

    assert [settings.get(f"{ACTOR}.clip_ratio_{side}") for side in ("low", "high")] == [0.1, 0.28]


def test_without_one_verl_s_own_stands(stage: Stage) -> None:
    assert [key for key in stage.overrides() if "clip" in key] == []


@pytest.mark.parametrize(
    ("installed", "environ", "logger"),
    [
        ("wandb", {"WANDB_API_KEY": "k"}, ["console", "wandb"]),
        ("wandb", {"WANDB_MODE": "offline"}, ["console", "wandb"]),
        ("wandb", {}, ["console"]),
        ("other", {"WANDB_API_KEY": "k"}, ["console"]),
    ],
)
def test_wandb_is_used_where_it_can_work(
    stage: Stage, installed: str, environ: dict[str, str], logger: list[str]
) -> None:
    wanted = replace(stage.having(installed), environ={**stage.environ, **environ})

    assert wanted.plan().settings.get("trainer.logger") == logger


def test_checkpoints_lie_below_outputs_by_model_project_and_experiment(stage: Stage) -> None:
    settings = stage.plan("trainer.project_name=math").settings

    assert settings.get("trainer.default_local_dir") == "/outputs/actor-v1/math/gsm8k"


def test_who_says_when_to_save_keeps_all(stage: Stage) -> None:
    settings = stage.plan("trainer.save_freq=10").settings

    assert [settings.get(f"trainer.{key}") for key in ("save_freq", "max_actor_ckpt_to_keep")] == [10, None]


def test_no_default_is_put_where_the_lock_or_the_profile_gave_a_value(baking: Callable[..., Stage]) -> None:
    stage = baking(overrides=["trainer.save_freq=7"]).having("vllm")
    write(stage.profile.parent, {"train.yaml": b"trainer: {logger: [tensorboard]}\n"})

    settings = stage.plan().settings

    assert (settings.get("trainer.save_freq"), settings.get("trainer.logger")) == (7, ["tensorboard"])


def test_nor_where_a_configuration_file_did(stage: Stage) -> None:
    conf = write(stage.packages / "conf", {"mine.yaml": b"defaults: [ppo_trainer, _self_]\ntrainer: {save_freq: 7}\n"})

    launch = stage.plan("--config-dir", str(conf), "--config-name", "mine")

    assert launch.settings.get("trainer.save_freq") == 7
    assert launch.settings.given == {"trainer.save_freq"}


def test_a_default_needs_the_key_to_be_there(stage: Stage) -> None:
    without = {
        "verl/trainer/config/ppo_trainer.yaml": b"actor_rollout_ref: {model: {path: x}}\ncritic: {model: {path: x}}"
    }
    write(stage.packages, without)

    assert list(stage.overrides()) == ["actor_rollout_ref.model.path", "critic.model.path"]


def test_a_reward_model_of_the_user_s_own_is_served_too(stage: Stage) -> None:
    settings = stage.plan("reward.reward_model.enable=true", "reward.reward_model.model_path=/mnt/judge").settings

    assert settings.get("reward.reward_model.rollout") == {"name": "vllm", "tensor_model_parallel_size": 2}


def test_one_that_was_not_baked_is_cut_as_verl_does_where_that_divides_the_gpus(stage: Stage) -> None:
    words = ("reward.reward_model.enable=true", "reward.reward_model.model_path=/mnt/judge")

    assert "reward.reward_model.rollout.tensor_model_parallel_size" not in stage.overrides(*words)


def test_else_by_the_largest_divisor_below(stage: Stage) -> None:
    words = ("reward.reward_model.enable=true", "reward.reward_model.model_path=/mnt/judge")

    notes = replace(stage, gpus=3).plan(*words).notes

    key = "reward.reward_model.rollout.tensor_model_parallel_size"
    assert f"{key}=1 (it divides 3 GPUs a node, and verl's own 2 does not)" in notes


def test_a_model_whose_heads_are_not_known_is_cut_as_verl_does(baking: Callable[..., Stage]) -> None:
    overrides = baking(config=b"{}").having("vllm").overrides()

    assert f"{ROLLOUT}.tensor_model_parallel_size" not in overrides


def test_a_rollout_that_nobody_gives_is_asked_for(baking: Callable[..., Stage]) -> None:
    with pytest.raises(LaunchError, match="verl generates with vllm or sglang, and this image has neither"):
        baking().plan()
