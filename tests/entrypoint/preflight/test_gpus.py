from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bake.entrypoint.finding import Finding
from bake.entrypoint.machine import Machine
from bake.entrypoint.preflight.gpus import check_gpus
from tests.entrypoint.preflight.situations import GIB, LLAMA_8B, QWEN_HALF_B, ROLLOUT, bake, gpus, situation

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

EIGHT = {"trainer.n_gpus_per_node": 8, "trainer.nnodes": 1}
TP = f"{ROLLOUT}.tensor_model_parallel_size"


def found(settings: Mapping[str, Any], machine: Machine, environ: Mapping[str, str] | None = None) -> list[Finding]:
    given = frozenset({"trainer.n_gpus_per_node"})
    return list(check_gpus(situation(settings, machine=machine, environ=environ, given=given)))


def test_as_many_as_are_asked_for_are_right() -> None:
    assert found(EIGHT, Machine(gpus=gpus(8))) == []


def test_none_visible_is_an_error_that_says_where_they_were_looked_for() -> None:
    assert found(EIGHT, Machine(gpu_note="nvidia-smi: No such file or directory")) == [
        Finding(
            check="gpus",
            severity="error",
            what="no GPU is visible, 8 asked for (trainer.n_gpus_per_node): nvidia-smi: No such file or directory",
            why="verl starts Ray, reads the data and then stops: Total available GPUs 0 is less than total desired "
            "GPUs 8",
            todo="docker run --gpus all (the host needs the NVIDIA Container Toolkit); in Kubernetes, resources.limits "
            "nvidia.com/gpu: 8; `nvidia-smi` in this container must list them",
        )
    ]


def test_gpus_that_a_variable_hides_are_told_by_it() -> None:
    machine = Machine(gpu_note="CUDA_VISIBLE_DEVICES='' hides all 8 of them")

    assert [finding.todo for finding in found(EIGHT, machine)] == ["unset CUDA_VISIBLE_DEVICES, or name GPUs in it"]


def test_fewer_than_asked_for_is_an_error() -> None:
    assert found(EIGHT, Machine(gpus=gpus(4))) == [
        Finding(
            check="gpus",
            severity="error",
            what="4 GPUs visible (4 x H100), 8 asked for",
            why="verl starts Ray, reads the data and then stops: Total available GPUs 4 is less than total desired "
            "GPUs 8",
            todo="trainer.n_gpus_per_node=4, or start the container with 8: docker run --gpus all, or "
            "nvidia.com/gpu: 8",
        )
    ]


def test_more_than_asked_for_is_a_warning() -> None:
    assert found({"trainer.n_gpus_per_node": 1}, Machine(gpus=gpus(2))) == [
        Finding(
            check="gpus",
            severity="warning",
            what="2 GPUs visible (2 x H100), 1 asked for",
            why="1 would stay idle",
            todo="trainer.n_gpus_per_node=2, or start the container with fewer GPUs",
        )
    ]


def test_a_reward_model_s_own_pool_counts_too() -> None:
    section = "reward.reward_model"
    pool = {f"{section}.enable_resource_pool": True, f"{section}.n_gpus_per_node": 2, f"{section}.nnodes": 1}

    findings = found({**EIGHT, **pool}, Machine(gpus=gpus(8)))

    assert [(finding.what, finding.todo) for finding in findings] == [
        (
            "8 GPUs visible (8 x H100), 10 asked for, of these 2 for pools of their own",
            "trainer.n_gpus_per_node=6, or start the container with 10: docker run --gpus all, or nvidia.com/gpu: 10",
        )
    ]


@pytest.mark.parametrize(
    ("settings", "environ"),
    [
        ({"trainer.device": "cpu"}, {}),
        ({"trainer.device": "npu"}, {}),
        ({}, {"VERL_USE_EXTERNAL_MODULES": "verl_cpu"}),
        ({}, {"VERL_PLATFORM": "cpu"}),
        ({}, {"VERL_ENGINE_DEVICE": "npu"}),
        ({}, {"RAY_ADDRESS": "head:6379"}),
        ({}, {"RAY_ADDRESS": "auto"}),
        ({"ray_kwargs.ray_init.num_gpus": 1}, {}),
        ({"ray_init.num_gpus": 1}, {}),
    ],
)
def test_gpus_are_not_counted_where_others_decide(settings: dict[str, Any], environ: dict[str, str]) -> None:
    assert found({**EIGHT, **settings}, Machine(), environ) == []


def test_a_ray_of_its_own_counts_the_gpus_here() -> None:
    assert len(found(EIGHT, Machine(), {"RAY_ADDRESS": "local"})) == 1


def test_the_node_of_ray_head_trains_and_counts_its_gpus() -> None:
    head = situation({**EIGHT, "trainer.nnodes": 2}, environ={"RAY_ADDRESS": "auto"}, is_head=True)

    assert [finding.what for finding in check_gpus(head)] == [
        "no GPU is visible, 8 is verl's default (trainer.n_gpus_per_node)"
    ]


def test_a_module_of_rewards_leaves_the_gpus_to_verl() -> None:
    assert len(found(EIGHT, Machine(gpus=gpus(4)), {"VERL_USE_EXTERNAL_MODULES": "my_rewards"})) == 1


def test_a_number_that_nobody_gave_is_told_as_verl_s_own() -> None:
    findings = list(check_gpus(situation(EIGHT, machine=Machine(gpus=gpus(4)))))

    assert [finding.what for finding in findings] == ["4 GPUs visible (4 x H100), 8 is verl's default"]


def mig(count: int) -> Machine:
    return Machine(gpus=gpus(1, name="A100 MIG 1g.10gb", uuid="MIG-1") * count)


def test_instances_of_one_card_must_be_told_to_ray() -> None:
    assert found({"trainer.n_gpus_per_node": 2, "ray_kwargs.ray_init.num_gpus": None}, mig(2)) == [
        Finding(
            check="gpus",
            severity="error",
            what="2 MIG instances of 1 card are visible, 2 asked for",
            why="Ray counts cards: Total available GPUs 1 is less than total desired GPUs 2",
            todo="trainer.n_gpus_per_node=1, one instance a card; or ray_kwargs.ray_init.num_gpus=2, where NCCL can "
            "join instances of one card",
        )
    ]


def test_a_key_that_verl_does_not_list_is_added() -> None:
    settings = {"trainer.n_gpus_per_node": 2, "ray_kwargs.ray_init.num_cpus": None}

    assert [finding.todo for finding in found(settings, mig(2))] == [
        (
            "trainer.n_gpus_per_node=1, one instance a card; or +ray_kwargs.ray_init.num_gpus=2, where NCCL can join "
            "instances of one card"
        )
    ]


def test_one_instance_is_one_card() -> None:
    assert found({"trainer.n_gpus_per_node": 1}, mig(1)) == []


def test_nothing_is_said_where_the_settings_do_not_say_how_many() -> None:
    assert found({}, Machine()) == []


def test_memory_that_others_hold_is_a_warning() -> None:
    free, taken = gpus(2)[0], gpus(2, free=3 * GIB)[1]

    assert found({"trainer.n_gpus_per_node": 2}, Machine(gpus=(free, taken))) == [
        Finding(
            check="gpus",
            severity="warning",
            what="memory is taken already: GPU 1: 3.0 GiB of 80.0 GiB free",
            why="the rollout engine wants its share (rollout.gpu_memory_utilization) of all memory, and finds it taken",
            todo="`nvidia-smi` on the host names the programs that hold it; end them, or pick other GPUs",
        )
    ]


VLLM = {"trainer.n_gpus_per_node": 2, f"{ROLLOUT}.name": "vllm", f"{ROLLOUT}.gpu_memory_utilization": 0.5}


def test_less_memory_than_vllm_will_take_is_told_as_vllm_tells_it() -> None:
    findings = found(VLLM, Machine(gpus=gpus(2, free=39 * GIB)))

    assert [(finding.severity, finding.why) for finding in findings] == [
        ("warning", "vLLM refuses to start: Free memory on device … is less than desired GPU memory utilization")
    ]


def test_memory_that_is_enough_for_vllm_s_share_is_told_otherwise() -> None:
    assert [finding.why for finding in found(VLLM, Machine(gpus=gpus(2, free=41 * GIB)))] == [
        "the rollout engine wants its share (rollout.gpu_memory_utilization) of all memory, and finds it taken"
    ]


def test_an_engine_must_divide_all_gpus() -> None:
    assert found({"trainer.n_gpus_per_node": 6, "trainer.nnodes": 1, TP: 4}, Machine(gpus=gpus(6))) == [
        Finding(
            check="gpus",
            severity="error",
            what=f"6 GPUs in all, and one rollout engine takes 4 ({TP})",
            why="verl loads the actor and then stops: rollout world_size: 6 is not divisible by 4",
            todo=f"{TP}=3 (it must divide 6: 1, 2, 3 or 6)",
        )
    ]


def test_data_parallel_engines_take_more_gpus() -> None:
    more = {**EIGHT, TP: 4, f"{ROLLOUT}.data_parallel_size": 4}

    assert [finding.what for finding in found(more, Machine(gpus=gpus(8)))] == [
        f"8 GPUs in all, and one rollout engine takes 16 ({TP})"
    ]


def heads(tmp_path: Path, config: dict[str, Any], parallel: int, name: str = "vllm") -> list[Finding]:
    model = bake(tmp_path, config, {"a.weight": ("BF16", [2])})
    return list(check_gpus(situation({f"{ROLLOUT}.name": name, TP: parallel}, models=(model,), root=tmp_path)))


def test_an_engine_must_divide_the_attention_heads(tmp_path: Path) -> None:
    assert heads(tmp_path, QWEN_HALF_B, 4) == [
        Finding(
            check="gpus",
            severity="error",
            what=f"the model has 14 attention heads, and {TP}=4 does not divide them",
            why="the rollout engine refuses to start, after verl has loaded the actor",
            todo=f"{TP}=1, 2, 7 or 14, one that also divides the number of GPUs",
        )
    ]


def test_heads_that_are_divided_are_right(tmp_path: Path) -> None:
    assert heads(tmp_path, LLAMA_8B, 8) == []


def test_a_model_that_sees_has_its_heads_in_the_part_that_writes(tmp_path: Path) -> None:
    assert len(heads(tmp_path, {"num_attention_heads": 16, "text_config": QWEN_HALF_B}, 4)) == 1


def test_heads_of_a_rollout_that_is_not_known_are_left_alone(tmp_path: Path) -> None:
    assert heads(tmp_path, QWEN_HALF_B, 4, name="own") == []
