from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bake.entrypoint.finding import Finding
from bake.entrypoint.preflight.batches import check_batches
from tests.entrypoint.preflight.situations import ACTOR, MODEL, ROLLOUT, situation

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

RIGHT = {
    "trainer.n_gpus_per_node": 8,
    "trainer.nnodes": 1,
    "trainer.use_v1": True,
    "data.train_batch_size": 64,
    "algorithm.adv_estimator": "grpo",
    f"{ROLLOUT}.n": 2,
    f"{ROLLOUT}.agent.num_workers": 8,
    f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu": 4,
    f"{ACTOR}.strategy": "fsdp",
    f"{ACTOR}.ppo_mini_batch_size": 32,
    f"{ACTOR}.ppo_micro_batch_size_per_gpu": 4,
    "critic.strategy": "fsdp",
    "critic.ppo_mini_batch_size": 32,
    "critic.ppo_micro_batch_size_per_gpu": 4,
}
RELEASES = [(0, 5), (0, 6), (0, 7), (0, 8), (0, 9)]


def found(settings: Mapping[str, Any], release: tuple[int, int] | None = (0, 9), **environ: str) -> list[Finding]:
    return list(check_batches(situation({**RIGHT, **settings}, release=release, environ=environ)))


def whats(settings: Mapping[str, Any], release: tuple[int, int] = (0, 9)) -> list[str]:
    return [finding.what for finding in found(settings, release)]


@pytest.mark.parametrize("release", RELEASES)
def test_what_every_release_takes_is_right(release: tuple[int, int]) -> None:
    assert found({"algorithm.adv_estimator": "gae"}, release) == []


@pytest.mark.parametrize("release", [None, (0, 4), (0, 10), (1, 0)])
def test_nothing_is_said_of_a_release_that_is_not_known(release: tuple[int, int] | None) -> None:
    assert found({"data.train_batch_size": 7, f"{ACTOR}.ppo_micro_batch_size_per_gpu": None}, release) == []


def test_gpus_must_divide_the_sequences_of_a_step() -> None:
    assert found({"data.train_batch_size": 33}) == [
        Finding(
            check="batches",
            severity="error",
            what="data.train_batch_size x actor_rollout_ref.rollout.n = 66 sequences, which 8 does not divide "
            "(the GPUs)",
            why="verl stops: real_train_batch_size (66) must be divisible by minimal possible batch size (8)",
            todo="data.train_batch_size=36",
        )
    ]


def test_with_dynamic_batches_only_0_5_wants_the_gpus_to_divide_them() -> None:
    dynamic = {"data.train_batch_size": 33, f"{ACTOR}.use_dynamic_bsz": True}

    assert (len(whats(dynamic, (0, 5))), whats(dynamic, (0, 9))) == (1, [])


def test_with_megatron_data_parallel_parts_and_their_micro_batch_divide_them() -> None:
    megatron = {
        f"{ACTOR}.strategy": "megatron",
        f"{ACTOR}.megatron.tensor_model_parallel_size": 2,
        f"{ACTOR}.megatron.pipeline_model_parallel_size": 2,
        f"{ACTOR}.megatron.context_parallel_size": 1,
        f"{ACTOR}.ppo_micro_batch_size_per_gpu": 16,
        "data.train_batch_size": 40,
    }

    assert whats(megatron, (0, 7)) == [
        (
            "data.train_batch_size x actor_rollout_ref.rollout.n = 80 sequences, which 32 does not divide "
            "(data parallel size x micro batch)"
        )
    ]


def test_megatron_s_parallel_sizes_must_divide_the_gpus() -> None:
    megatron = {
        f"{ACTOR}.strategy": "megatron",
        f"{ACTOR}.megatron.tensor_model_parallel_size": 3,
        f"{ACTOR}.megatron.pipeline_model_parallel_size": 1,
        f"{ACTOR}.megatron.context_parallel_size": 1,
    }

    assert whats(megatron) == ["8 GPUs, and one copy of the actor takes 3 (tensor x pipeline x context parallel)"]


def test_a_micro_batch_must_be_given() -> None:
    missing = {f"{ACTOR}.ppo_micro_batch_size_per_gpu": None, f"{ACTOR}.ppo_micro_batch_size": None}

    assert found(missing) == [
        Finding(
            check="batches",
            severity="error",
            what=f"neither {ACTOR}.ppo_micro_batch_size nor {ACTOR}.ppo_micro_batch_size_per_gpu is set",
            why="verl stops: Please set at least one of them",
            todo=f"{ACTOR}.ppo_micro_batch_size_per_gpu=8, or {ACTOR}.use_dynamic_bsz=True",
        )
    ]


def test_both_micro_batches_are_one_too_many() -> None:
    assert found({f"{ROLLOUT}.log_prob_micro_batch_size": 8}) == [
        Finding(
            check="batches",
            severity="error",
            what=f"both {ROLLOUT}.log_prob_micro_batch_size=8 and {ROLLOUT}.log_prob_micro_batch_size_per_gpu=4 "
            "are set",
            why="verl stops: Please remove log_prob_micro_batch_size, which is deprecated",
            todo=f"{ROLLOUT}.log_prob_micro_batch_size=null",
        )
    ]


def test_a_reference_wants_its_micro_batch_when_it_is_used() -> None:
    key = "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu"

    assert whats({key: None}) == []
    assert whats({key: None, f"{ACTOR}.use_kl_loss": True}) == [
        f"neither actor_rollout_ref.ref.log_prob_micro_batch_size nor {key} is set"
    ]


def test_a_reward_model_wants_its_micro_batch_until_0_6() -> None:
    reward = {"reward_model.enable": True, "reward_model.micro_batch_size_per_gpu": None}

    assert whats(reward, (0, 7)) == []
    assert whats(reward, (0, 6)) == [
        "neither reward_model.micro_batch_size nor reward_model.micro_batch_size_per_gpu is set"
    ]


def test_dynamic_batches_want_no_micro_batch() -> None:
    dynamic = {f"{ACTOR}.use_dynamic_bsz": True, f"{ACTOR}.ppo_micro_batch_size_per_gpu": None}

    assert whats({**dynamic, f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu": None}) == []


def test_a_mini_batch_is_no_more_than_the_batch() -> None:
    assert found({f"{ACTOR}.ppo_mini_batch_size": 128}) == [
        Finding(
            check="batches",
            severity="error",
            what=f"data.train_batch_size=64 is less than {ACTOR}.ppo_mini_batch_size=128",
            why="verl stops: train_batch_size (64) must be >= ppo_mini_batch_size (128)",
            todo=f"{ACTOR}.ppo_mini_batch_size=64, or a higher data.train_batch_size",
        )
    ]


def test_a_critic_that_is_not_used_may_have_any_batch() -> None:
    assert whats({"critic.ppo_mini_batch_size": 128}) == []


def test_a_global_micro_batch_must_divide_the_mini_batch_and_reach_every_gpu() -> None:
    old = {f"{ACTOR}.ppo_micro_batch_size_per_gpu": None, f"{ACTOR}.ppo_micro_batch_size": 5}

    assert whats(old) == [
        f"{ACTOR}.ppo_mini_batch_size=32, which ppo_micro_batch_size=5 does not divide",
        f"{ACTOR}.ppo_micro_batch_size=5 is the sum over all GPUs, and there are 8",
    ]


def test_since_0_8_parts_must_divide_a_mini_batch_evenly() -> None:
    uneven = {f"{ACTOR}.ppo_mini_batch_size": 6, f"{ACTOR}.ppo_micro_batch_size_per_gpu": 1}

    assert whats(uneven, (0, 7)) == []
    assert whats(uneven, (0, 8)) == [
        (
            f"{ACTOR}.ppo_mini_batch_size x actor_rollout_ref.rollout.n = 12 sequences, and 8 data parallel parts, "
            "which do not divide them"
        )
    ]


def test_until_0_7_every_part_must_have_some_of_a_mini_batch() -> None:
    few = {f"{ACTOR}.ppo_mini_batch_size": 3, f"{ACTOR}.ppo_micro_batch_size_per_gpu": 1}

    assert whats(few, (0, 7)) == [
        (
            f"{ACTOR}.ppo_mini_batch_size x actor_rollout_ref.rollout.n = 6 sequences, and 8 data parallel parts, "
            "of which some would have none"
        )
    ]


@pytest.mark.parametrize("release", RELEASES)
def test_a_micro_batch_must_divide_what_a_gpu_gets(release: tuple[int, int]) -> None:
    assert found({f"{ACTOR}.ppo_micro_batch_size_per_gpu": 3}, release) == [
        Finding(
            check="batches",
            severity="error",
            what=f"each GPU gets 8 sequences of a mini batch ({ACTOR}.ppo_mini_batch_size x "
            f"actor_rollout_ref.rollout.n / 8), and {ACTOR}.ppo_micro_batch_size_per_gpu=3 does not divide them",
            why="the workers stop, once they have loaded the model",
            todo=f"{ACTOR}.ppo_micro_batch_size_per_gpu=2",
        )
    ]


def test_sequence_parallelism_makes_each_part_larger() -> None:
    split = {f"{ACTOR}.ulysses_sequence_parallel_size": 4, f"{MODEL}.use_remove_padding": True}

    assert whats({**split, f"{ACTOR}.ppo_micro_batch_size_per_gpu": 32}) == []


def test_sequence_parallelism_wants_padding_to_be_removed() -> None:
    split = {f"{ACTOR}.ulysses_sequence_parallel_size": 2, f"{MODEL}.use_remove_padding": False}

    assert whats(split) == [f"{ACTOR} has ulysses_sequence_parallel_size=2, and {MODEL}.use_remove_padding=False"]


LEGACY = {"trainer.use_v1": False, f"{ROLLOUT}.agent.num_workers": 10}


def test_agent_workers_must_divide_the_sequences_of_a_step() -> None:
    assert found(LEGACY, (0, 8)) == [
        Finding(
            check="batches",
            severity="error",
            what="data.train_batch_size x actor_rollout_ref.rollout.n = 128 sequences, and "
            "actor_rollout_ref.rollout.agent.num_workers=10 does not divide them",
            why="verl stops in its first step: only support equal chunk. Got size of DataProto 128 and chunk 10",
            todo="actor_rollout_ref.rollout.agent.num_workers=8, or data.train_batch_size=65",
        )
    ]


def test_agent_workers_of_0_9_s_own_trainer_need_not_divide_them() -> None:
    assert whats({f"{ROLLOUT}.agent.num_workers": 10}) == []


def test_padding_that_was_asked_for_makes_parts_even() -> None:
    assert found(LEGACY, (0, 8), VERL_AUTO_PADDING="true") == []


def test_before_0_7_a_rollout_that_does_not_serve_has_no_agent_workers() -> None:
    assert whats({**LEGACY, f"{ROLLOUT}.mode": "sync"}, (0, 6)) == []


def test_separate_async_training_has_a_fixed_batch() -> None:
    apart = {"trainer.v1.trainer_mode": "separate_async", "trainer.v1.separate_async.parameter_sync_step": 4}

    assert whats(apart) == [
        "data.train_batch_size=64, and parameter_sync_step x actor.ppo_mini_batch_size = 4 x 32 = 128"
    ]
