from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bake.entrypoint.finding import Finding
from bake.entrypoint.machine import Machine
from bake.entrypoint.preflight.memory import check_memory
from tests.entrypoint.preflight.situations import (
    ACTOR,
    FSDP,
    GIB,
    LLAMA_8B,
    MODEL,
    QWEN_HALF_B,
    ROLLOUT,
    bake,
    gpus,
    llama_tensors,
    qwen_tensors,
    situation,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

ONE = {"trainer.n_gpus_per_node": 1, f"{ROLLOUT}.tensor_model_parallel_size": 1}
SHARE = f"{ROLLOUT}.gpu_memory_utilization"


def of_llama(root: Path, settings: Mapping[str, Any], machine: Machine, **environ: str) -> list[Finding]:
    model = bake(root, LLAMA_8B, llama_tensors())
    return list(
        check_memory(situation({**FSDP, **settings}, models=(model,), machine=machine, root=root, environ=environ))
    )


def test_llama_8b_fits_on_eight_gpus_of_80_gib(tmp_path: Path) -> None:
    assert of_llama(tmp_path, {}, Machine(gpus=gpus(8), memory=1000 * GIB)) == []


def test_llama_8b_does_not_fit_on_one_gpu_of_24_gib(tmp_path: Path) -> None:
    engine, update = of_llama(tmp_path, ONE, Machine(gpus=gpus(1, memory=24 * GIB), memory=1000 * GIB))

    assert engine == Finding(
        check="memory",
        severity="error",
        what=f"rollout weights 15.0 GiB (8.03 B x 2 bytes / 1), and {SHARE}=0.5 gives the rollout 12.0 GiB of each GPU",
        why="the rollout engine stops while it starts, since no memory is left for its KV cache",
        todo=f"a higher {SHARE}, or a higher {ROLLOUT}.tensor_model_parallel_size",
    )
    assert update == Finding(
        check="memory",
        severity="error",
        what="the actor's update takes at least 119.7 GiB of each GPU, which has 24.0 GiB",
        why="CUDA out of memory, after the models are loaded; actor optimizer 59.8 GiB (8.03 B x 8 bytes on one GPU); "
        "actor weights 29.9 GiB (8.03 B x 4 bytes on one GPU); actor gradients 29.9 GiB (8.03 B x 4 bytes on one GPU)",
        todo="more GPUs (trainer.n_gpus_per_node, trainer.nnodes); or LoRA (actor_rollout_ref.model.lora_rank=32); or "
        "actor_rollout_ref.actor.strategy=fsdp2 actor_rollout_ref.actor.fsdp_config.offload_policy=True, which is slow",
    )


def test_half_a_billion_fits_on_one_gpu_of_24_gib(tmp_path: Path) -> None:
    model = bake(tmp_path, QWEN_HALF_B, qwen_tensors())
    machine = Machine(gpus=gpus(1, memory=24 * GIB), memory=64 * GIB)

    assert list(check_memory(situation({**FSDP, **ONE}, models=(model,), machine=machine, root=tmp_path))) == []


def test_what_fits_but_for_rough_shares_is_a_warning(tmp_path: Path) -> None:
    """15.0 GiB of the model, and 131,072 tokens x (4096 x (2 x 32 + 34) + 8 x 128,256) bytes: 174.3 GiB."""
    long = {
        f"{ACTOR}.use_dynamic_bsz": True,
        f"{ACTOR}.ppo_max_token_len_per_gpu": 131072,
        f"{MODEL}.enable_gradient_checkpointing": True,
    }

    (finding,) = of_llama(tmp_path, long, Machine(gpus=gpus(8)))

    assert (finding.severity, finding.what) == (
        "warning",
        "the actor's update takes about 189.2 GiB of each GPU, which has 80.0 GiB",
    )
    assert finding.todo == f"a lower {ACTOR}.ppo_max_token_len_per_gpu (at least one prompt with its answer)"


def test_a_rollout_that_finds_too_little_room_is_a_warning_that_names_what_to_offload(tmp_path: Path) -> None:
    (finding,) = of_llama(tmp_path, {SHARE: 0.9}, Machine(gpus=gpus(8)))

    assert (finding.severity, finding.what) == (
        "warning",
        "generating takes about 83.2 GiB of each GPU, which has 80.0 GiB",
    )
    assert finding.todo == (
        f"{ACTOR}.fsdp_config.param_offload=True {ACTOR}.fsdp_config.optimizer_offload=True; or a lower {SHARE}"
    )


def test_with_lora_there_is_less_to_say(tmp_path: Path) -> None:
    lora = {**ONE, f"{MODEL}.lora_rank": 32, SHARE: 0.9}

    (finding,) = of_llama(tmp_path, lora, Machine(gpus=gpus(1, memory=24 * GIB)))

    assert finding.todo == (
        "more GPUs (trainer.n_gpus_per_node, trainer.nnodes); or actor_rollout_ref.actor.fsdp_config.model_dtype=bf16, "
        "in which the frozen weights lose nothing; or actor_rollout_ref.actor.strategy=fsdp2 "
        "actor_rollout_ref.actor.fsdp_config.offload_policy=True, which is slow"
    )


@pytest.mark.parametrize(("release", "told"), [((0, 7), False), ((0, 8), True)])
def test_an_adapter_s_folder_alone_is_lora_up_to_0_7(tmp_path: Path, release: tuple[int, int], *, told: bool) -> None:
    model = bake(tmp_path, LLAMA_8B, llama_tensors())
    tree = {**FSDP, **ONE, f"{MODEL}.lora_adapter_path": "/adapter"}
    machine = Machine(gpus=gpus(1, memory=24 * GIB), memory=1000 * GIB)

    here = situation(tree, models=(model,), machine=machine, root=tmp_path, release=release)

    assert bool(list(check_memory(here))) is told


def test_offload_that_a_node_cannot_hold_is_an_error(tmp_path: Path) -> None:
    offload = {f"{ACTOR}.fsdp_config.optimizer_offload": True}

    assert of_llama(tmp_path, offload, Machine(gpus=gpus(8), memory=50 * GIB)) == [
        Finding(
            check="memory",
            severity="error",
            what="training takes at least 59.8 GiB of this node's memory, of which the container may use 50.0 GiB",
            why="the kernel ends the container (OOMKilled, exit code 137); actor while it is read 29.9 GiB (8.03 B x 4 "
            "bytes, in 1 of 8 processes); actor optimizer, offloaded 59.8 GiB (8.03 B x 8 bytes / 8 GPUs, x 8 of this "
            "node)",
            todo="more memory (docker run --memory, or resources.limits.memory in Kubernetes), less offload, or more "
            "nodes",
        )
    ]


def test_a_node_that_cannot_hold_the_models_while_they_are_read_is_a_warning(tmp_path: Path) -> None:
    (finding,) = of_llama(tmp_path, {}, Machine(gpus=gpus(8), memory=16 * GIB))

    assert (finding.severity, finding.what) == (
        "warning",
        "loading the models takes at least 29.9 GiB of this node's memory, of which the container may use 16.0 GiB",
    )


def test_nothing_is_said_of_gpus_that_do_not_tell_their_memory(tmp_path: Path) -> None:
    assert of_llama(tmp_path, ONE, Machine(gpus=gpus(1, memory=0))) == []


def test_nothing_is_said_of_gpus_that_are_none(tmp_path: Path) -> None:
    assert of_llama(tmp_path, ONE, Machine(gpus=gpus(1, memory=GIB)), VERL_PLATFORM="cpu") == []
