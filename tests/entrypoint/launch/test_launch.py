"""The whole of a launch: what verl is told, in which order, and what is said about it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from bake.entrypoint.override import Override
from bake.errors import ImageError, LaunchError
from tests.entrypoint.files import write
from tests.entrypoint.launch.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Callable

NO_FLASH_ATTN = "this image has no flash-attn"
MICRO = "no micro batch was given; 8 x 1024 tokens at a time on each GPU"
WANDB = "wandb would stop the training without a key; set WANDB_API_KEY, or WANDB_MODE=offline, to have it"
FOLDER = "/outputs/actor-v1/${trainer.project_name}/${trainer.experiment_name}"
OWN = "where a volume can be mounted; the model's own, since verl goes on from any checkpoint that it finds"
KEEP = "the newest 2, so that the disk does not fill; give trainer.save_freq to keep all"


def test_the_whole_command(stage: Stage) -> None:
    model = stage.model("actor")

    launch = stage.plan("trainer.total_epochs=1", "--config-name", "ppo_trainer", "algorithm.gamma=0.9")

    assert launch.command == (
        sys.executable,
        "-m",
        "verl.trainer.main_ppo",
        "--config-name",
        "ppo_trainer",
        "trainer.n_gpus_per_node=8",
        "actor_rollout_ref.rollout.name='vllm'",
        "actor_rollout_ref.rollout.tensor_model_parallel_size=2",
        "actor_rollout_ref.model.use_remove_padding=false",
        "++actor_rollout_ref.model.override_config.attn_implementation='sdpa'",
        "critic.model.use_remove_padding=false",
        "++critic.model.override_config.attn_implementation='sdpa'",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8",
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=8",
        "critic.ppo_micro_batch_size_per_gpu=8",
        "trainer.logger=['console']",
        f"trainer.default_local_dir='{FOLDER}'",
        "trainer.save_freq=50",
        "trainer.max_actor_ckpt_to_keep=2",
        "trainer.max_critic_ckpt_to_keep=2",
        f"actor_rollout_ref.model.path='{model}'",
        f"critic.model.path='{model}'",
        "trainer.total_epochs=1",
        "algorithm.gamma=0.9",
    )


def test_notes_say_what_was_decided_and_why(stage: Stage) -> None:
    assert stage.plan().notes == (
        "trainer.n_gpus_per_node=8 (as many GPUs as this container sees)",
        "actor_rollout_ref.rollout.name='vllm' (the engine that this image has)",
        "actor_rollout_ref.rollout.tensor_model_parallel_size=2 (it divides 8 GPUs a node and 32 attention heads)",
        f"actor_rollout_ref.model.use_remove_padding=false ({NO_FLASH_ATTN})",
        f"++actor_rollout_ref.model.override_config.attn_implementation='sdpa' ({NO_FLASH_ATTN})",
        f"critic.model.use_remove_padding=false ({NO_FLASH_ATTN})",
        f"++critic.model.override_config.attn_implementation='sdpa' ({NO_FLASH_ATTN})",
        f"actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8 ({MICRO})",
        f"actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=8 ({MICRO})",
        f"critic.ppo_micro_batch_size_per_gpu=8 ({MICRO})",
        f"trainer.logger=['console'] ({WANDB})",
        f"trainer.default_local_dir='{FOLDER}' ({OWN})",
        "trainer.save_freq=50 (verl saves nothing by itself; every 50 steps and the last)",
        f"trainer.max_actor_ckpt_to_keep=2 ({KEEP})",
        f"trainer.max_critic_ckpt_to_keep=2 ({KEEP})",
        "RAY_ADDRESS=local (a Ray of this training's own, whatever /tmp/ray names)",
        "RAY_AUTH_MODE=disabled (Ray turns tokens on for some of its commands and not for others)",
    )


def test_lock_profile_and_command_line_follow_each_other_and_the_last_wins(baking: Callable[..., Stage]) -> None:
    stage = baking(overrides=["trainer.total_epochs=1", "algorithm.gamma=0.1"]).having("vllm")
    write(stage.profile.parent, {"train.yaml": b"trainer: {total_epochs: 2}\nalgorithm.gamma: 0.2\n"})

    launch = stage.plan("trainer.total_epochs=3")

    assert launch.command[-5:] == (
        "trainer.total_epochs=1",
        "algorithm.gamma=0.1",
        "trainer.total_epochs=2",
        "algorithm.gamma=0.2",
        "trainer.total_epochs=3",
    )
    assert launch.settings.get("trainer.total_epochs") == 3
    assert launch.settings.get("algorithm.gamma") == 0.2


def test_settings_know_what_was_given(baking: Callable[..., Stage]) -> None:
    stage = baking(overrides=["trainer.total_epochs=1"]).having("vllm")

    settings = stage.plan("algorithm={gamma: 0.5}", "++data.mine.too=1").settings

    assert settings.given == {"trainer.total_epochs", "algorithm.gamma", "data.mine.too"}


def test_settings_hold_plain_values_and_the_text_of_what_leads_nowhere(stage: Stage) -> None:
    rollout = stage.plan("data.max_prompt_length=64").settings.tree["actor_rollout_ref"]["rollout"]

    assert rollout == {
        "name": "vllm",
        "n": 1,
        "tensor_model_parallel_size": 2,
        "log_prob_micro_batch_size": None,
        "log_prob_micro_batch_size_per_gpu": 8,
        "log_prob_use_dynamic_bsz": False,
        "prompt_length": 64,
        "lost": "${nowhere.at.all}",
        "engine_kwargs": {"vllm": {}},
    }


def test_settings_leave_hydra_s_own_node_out(stage: Stage) -> None:
    assert not stage.plan("hydra.run.dir=/outputs/run").settings.has("hydra")


def test_the_release_is_verl_s(stage: Stage) -> None:
    assert stage.plan().release == (0, 9)


def test_later_overrides_go_behind_the_user_s_own(stage: Stage) -> None:
    launch = stage.plan("data.train_files=/data/a.jsonl")

    prepared = launch.with_overrides([Override("data.train_files", ["/outputs/a.parquet"])])

    assert prepared.command == (*launch.command, "data.train_files=['/outputs/a.parquet']")
    assert prepared.settings.get("data.train_files") == ["/outputs/a.parquet"]
    assert prepared.settings.get("data.val_files") == ["/outputs/a.parquet"]
    assert launch.settings.get("data.train_files") == "/data/a.jsonl"


def test_a_later_override_of_a_key_that_is_not_there_is_an_error(stage: Stage) -> None:
    launch = stage.plan()

    with pytest.raises(LaunchError, match=r"the entrypoint: data\.no_such=1"):
        launch.with_overrides([Override("data.no_such", 1)])


def test_everything_wrong_is_told_at_once(baking: Callable[..., Stage]) -> None:
    stage = baking(overrides=["trainer.n_gpu_per_node=4"])
    write(stage.profile.parent, {"train.yaml": b"trainer: [\n"})

    with pytest.raises(LaunchError) as caught:
        stage.plan("foo", "ppo.gamma=1", "critic.model.path=/other", "trainer.save_freq=often")

    assert caught.value.message == (
        "verl was not started: 7 settings are refused\n"
        f"{stage.profile}: line 2, column 1: expected the node content, but found '<stream end>'\n"
        "  why:   it is no profile\n"
        "  to do: write a mapping such as `trainer: {total_epochs: 1}`, or a list such as `- trainer.total_epochs=1`\n"
        "the command line: foo\n"
        "  why:   no `=` in it\n"
        "  to do: write key=value, as in trainer.total_epochs=1\n"
        "the command line: critic.model.path=/other\n"
        f"  why:   it contradicts the model that this image carries, critic.model.path={stage.model('actor')!r}\n"
        "  to do: leave this out; to train another model, bake it\n"
        "the lock: trainer.n_gpu_per_node=4\n"
        "  why:   verl 0.9 has no key trainer.n_gpu_per_node\n"
        "  to do: did you mean trainer.n_gpus_per_node=4?\n"
        "the command line: ppo.gamma=1\n"
        "  why:   verl has no such key\n"
        "  to do: write algorithm.gamma=1\n"
        "the command line: trainer.save_freq=often\n"
        "  why:   trainer.save_freq: expected a number, found 'often'\n"
        "  to do: write a number, as verl's own trainer.save_freq=-1\n"
        "not given: actor_rollout_ref.rollout.name\n"
        "  why:   verl generates with vllm or sglang, and this image has neither\n"
        "  to do: give actor_rollout_ref.rollout.name=…"
    )
    assert caught.value.hint == "`train --dry-run` checks again without starting anything"
    assert caught.value.code == 12


def test_who_only_asks_is_refused_nothing_that_is_missing(baking: Callable[..., Stage]) -> None:
    launch = baking().plan("--cfg", "job")

    assert (launch.inspects, launch.command[3:5]) == (True, ("--cfg", "job"))


def test_a_training_is_no_question(stage: Stage) -> None:
    assert stage.plan().inspects is False


def test_an_image_that_does_not_say_where_its_model_is_is_not_whole(stage: Stage) -> None:
    with pytest.raises(ImageError) as caught:
        Stage(packages=stage.packages, record=stage.record, environ={}, profile=stage.profile).plan()

    assert caught.value.message == "VERL_MODEL_PATH is not set"
