from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bake.entrypoint.machine import Machine
from bake.entrypoint.preflight import CHECKS, preflight
from bake.errors import UsageError
from tests.entrypoint.preflight.situations import (
    ACTOR,
    FSDP,
    GIB,
    LLAMA_8B,
    MODEL,
    ROLLOUT,
    bake,
    gpus,
    llama_tensors,
    situation,
)

if TYPE_CHECKING:
    from pathlib import Path

SMALL = {"trainer.n_gpus_per_node": 8}
FEW = Machine(gpus=gpus(4))
CHECKED = tuple(CHECKS)


def others(*names: str) -> set[str]:
    """All checks but these, to be skipped."""
    return set(CHECKED) - set(names)


def test_checks_are_told_in_order() -> None:
    assert CHECKED == (
        "gpus",
        "driver",
        "verl",
        "flash-attn",
        "choices",
        "lora",
        "batches",
        "memory",
        "cpus",
        "shm",
        "limits",
        "disk",
        "resume",
        "folders",
        "ray",
        "wandb",
    )


def test_every_finding_carries_the_name_that_skips_its_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    bad = {**FSDP, "data.train_batch_size": 3, f"{ROLLOUT}.n": 1, "trainer.logger": ["nosuch"], "trainer.save_freq": 0}
    bad |= {"trainer.resume_mode": "resume_path", "data.truncation": 1, "algorithm.adv_estimator": "gpro"}
    bad |= {f"{MODEL}.lora_adapter_path": "/adapter"}
    machine = Machine(gpus=gpus(2), cuda=(11, 8), nofile=1, shm=1, shm_free=1, memory=1, ray_cpus=1)
    model = bake(tmp_path, LLAMA_8B, llama_tensors())
    found = preflight(
        situation(
            {**bad, "trainer.default_local_dir": "x"},
            machine=machine,
            models=(model,),
            environ={"CUDA_VERSION": "12.8", "RAY_AUTH_MODE": "token", "HOME": "/dev/null"},
            root=tmp_path,
        )
    )

    assert {finding.check for finding in found} == set(CHECKED)


def test_a_check_that_is_skipped_says_nothing() -> None:
    assert preflight(situation(SMALL, machine=FEW), skip=CHECKED) == ()


def test_all_findings_of_a_check_are_told() -> None:
    tree = {**SMALL, f"{ROLLOUT}.tensor_model_parallel_size": 3, "trainer.nnodes": 1}

    found = preflight(situation(tree, machine=FEW, given=frozenset(SMALL)), skip=others("gpus"))

    assert [finding.what for finding in found] == [
        "4 GPUs visible (4 x H100), 8 asked for",
        f"8 GPUs in all, and one rollout engine takes 3 ({ROLLOUT}.tensor_model_parallel_size)",
    ]


def test_an_unknown_name_is_refused_with_near_ones() -> None:
    with pytest.raises(UsageError) as caught:
        preflight(situation(), skip=["memroy", "gpus"], also=["columns"])

    assert caught.value.message == "no preflight check is called 'memroy'"
    assert caught.value.hint == (
        "did you mean memory? the checks are gpus, driver, verl, flash-attn, choices, lora, batches, memory, cpus, "
        "shm, limits, disk, resume, folders, ray, wandb, columns"
    )


def test_a_name_that_is_known_elsewhere_is_no_error() -> None:
    assert preflight(situation(), skip=[*CHECKED, "columns"], also=["columns"]) == ()


KEYS = (
    "trainer.n_gpus_per_node",
    "trainer.nnodes",
    "trainer.device",
    "trainer.logger",
    "trainer.default_local_dir",
    "trainer.save_freq",
    "trainer.resume_mode",
    "trainer.resume_from_path",
    "trainer.use_v1",
    "trainer.v1.trainer_mode",
    "trainer.v1.separate_async.parameter_sync_step",
    "trainer.max_actor_ckpt_to_keep",
    "algorithm.adv_estimator",
    "critic.enable",
    "critic.strategy",
    "critic.fsdp",
    "critic.ppo_mini_batch_size",
    "critic.ppo_micro_batch_size_per_gpu",
    "critic.model.lora_rank",
    "data.train_batch_size",
    "data.max_prompt_length",
    "data.max_response_length",
    "reward_model.enable",
    "reward.reward_model.enable_resource_pool",
    "ray_kwargs.ray_init.num_cpus",
    "ray_kwargs.ray_init.num_gpus",
    "ray_kwargs.ray_init.object_store_memory",
    "transfer_queue.backend.SimpleStorage.num_data_storage_units",
    "transfer_queue.backend.storage_backend",
    f"{ACTOR}.strategy",
    f"{ACTOR}.use_dynamic_bsz",
    f"{ACTOR}.use_kl_loss",
    f"{ACTOR}.ppo_mini_batch_size",
    f"{ACTOR}.ppo_micro_batch_size",
    f"{ACTOR}.ppo_micro_batch_size_per_gpu",
    f"{ACTOR}.ulysses_sequence_parallel_size",
    f"{ACTOR}.checkpoint.save_contents",
    f"{ACTOR}.optim.optimizer",
    f"{ACTOR}.optim.override_optimizer_config",
    f"{ACTOR}.fsdp_config.fsdp_size",
    f"{ACTOR}.fsdp_config.model_dtype",
    f"{ACTOR}.fsdp_config.param_offload",
    f"{ACTOR}.megatron.tensor_model_parallel_size",
    f"{ACTOR}.megatron.pipeline_model_parallel_size",
    f"{ACTOR}.megatron.context_parallel_size",
    f"{ACTOR}.megatron.expert_model_parallel_size",
    f"{MODEL}.lora_rank",
    f"{MODEL}.lora.rank",
    f"{MODEL}.lora_adapter_path",
    f"{MODEL}.external_lib",
    f"{ACTOR}.loss_agg_mode",
    f"{ACTOR}.optim.lr_scheduler_type",
    f"{ACTOR}.megatron.use_mbridge",
    f"{ACTOR}.megatron.vanilla_mbridge",
    f"{MODEL}.target_modules",
    f"{MODEL}.use_shm",
    f"{MODEL}.use_remove_padding",
    f"{MODEL}.override_config",
    f"{ROLLOUT}.name",
    f"{ROLLOUT}.mode",
    f"{ROLLOUT}.n",
    f"{ROLLOUT}.dtype",
    f"{ROLLOUT}.tensor_model_parallel_size",
    f"{ROLLOUT}.gpu_memory_utilization",
    f"{ROLLOUT}.agent.num_workers",
)
"""Keys that checks read. Nothing else of a tree is ever looked at."""

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=0, max_value=64)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(
        [
            "???",
            "fsdp",
            "fsdp2",
            "megatron",
            "vllm",
            "gae",
            "auto",
            "resume_path",
            "SimpleStorage",
            "separate_async",
            "bf16",
        ]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=4,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=300)
@given(
    changes=st.dictionaries(st.sampled_from(KEYS), PLAIN, max_size=25),
    release=st.none() | st.tuples(st.integers(0, 1), st.integers(0, 12)),
    count=st.integers(0, 9),
)
def test_no_settings_make_a_check_raise(
    shared_model: tuple[Path, Any], changes: dict[str, Any], release: tuple[int, int] | None, count: int
) -> None:
    root, model = shared_model
    machine = Machine(
        gpus=gpus(count), cuda=(12, 4), shm=GIB, shm_free=GIB, memory=GIB, ray_cpus=8, nofile=1, memlock=1
    )
    # `critic.fsdp` may be set to a number, under which no other key can lie
    tree = {key: value for key, value in {**FSDP, **changes}.items() if not key.startswith("critic.fsdp.")}

    found = preflight(situation(tree, machine=machine, models=(model,), release=release, root=root))

    assert {finding.check for finding in found} <= set(CHECKED)


@pytest.fixture(scope="module")
def shared_model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    root = tmp_path_factory.mktemp("root")
    return root, bake(root, LLAMA_8B, llama_tensors())


@given(tree=PLAIN)
@settings(deadline=None, max_examples=50)
def test_no_tree_at_all_makes_a_check_raise(tree: Any) -> None:
    everything = {"trainer": tree, "actor_rollout_ref": tree, "critic": tree, "data": tree, "algorithm": tree}

    assert isinstance(preflight(situation(everything)), tuple)
