"""Every number here was worked out by hand from the sizes of the model, never by the code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bake.entrypoint.machine import Machine
from bake.entrypoint.preflight.estimate import Estimate, estimate
from bake.entrypoint.preflight.weights import Weights, read_weights
from tests.entrypoint.files import safetensors, write
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

    from bake.entrypoint.preflight.part import Part

LLAMA, HEAD = 8_030_261_248, 525_336_576
EIGHTH = LLAMA // 8
QWEN = 494_032_768


def of_llama(root: Path, settings: Mapping[str, Any], *, machine: Machine | None = None) -> Estimate:
    model = bake(root, LLAMA_8B, llama_tensors())
    found = estimate(situation({**FSDP, **settings}, models=(model,), machine=machine, root=root))
    assert found is not None
    return found


def sizes(parts: tuple[Part, ...]) -> dict[str, int]:
    return {part.name: part.size for part in parts}


def test_llama_8b_on_eight_gpus_of_80_gib_takes_16_bytes_a_parameter_and_an_eighth_of_it(tmp_path: Path) -> None:
    found = of_llama(tmp_path, {}, machine=Machine(gpus=gpus(8)))

    assert sizes(found.gpu) == {
        "actor weights": 4 * EIGHTH,
        "actor gradients": 4 * EIGHTH,
        "actor optimizer": 8 * EIGHTH,
        "rollout weights": LLAMA,  # 2 bytes each, over 2 GPUs
        "rollout KV cache": 40 * GIB - LLAMA,
    }
    assert sizes(found.host) == {"actor while it is read": 4 * LLAMA}
    assert found.on_gpu("update actor") == 16_060_522_496
    assert found.on_gpu("generate") == 12 * EIGHTH + 40 * GIB
    assert found.on_gpu("generate", certain=True) == 12 * EIGHTH + LLAMA


def test_llama_8b_on_one_gpu_of_24_gib_takes_128_gb_to_update(tmp_path: Path) -> None:
    one = {"trainer.n_gpus_per_node": 1, f"{ROLLOUT}.tensor_model_parallel_size": 1}

    found = of_llama(tmp_path, one, machine=Machine(gpus=gpus(1, memory=24 * GIB)))

    assert sizes(found.gpu) == {
        "actor weights": 32_121_044_992,
        "actor gradients": 32_121_044_992,
        "actor optimizer": 64_242_089_984,
        "rollout weights": 16_060_522_496,  # and no KV cache, since these alone exceed half of 24 GiB
    }
    assert found.on_gpu("update actor", certain=True) == 128_484_179_968


def test_a_model_of_half_a_billion_is_read_whole_by_each_process_since_its_head_is_tied(tmp_path: Path) -> None:
    model = bake(tmp_path, QWEN_HALF_B, qwen_tensors())
    one = {**FSDP, "trainer.n_gpus_per_node": 2, f"{ROLLOUT}.tensor_model_parallel_size": 1}

    found = estimate(situation(one, models=(model,), root=tmp_path))

    assert found is not None
    assert sizes(found.gpu) == {
        "actor weights": 4 * QWEN // 2,
        "actor gradients": 4 * QWEN // 2,
        "actor optimizer": 8 * QWEN // 2,
        "rollout weights": 2 * QWEN,
    }
    assert sizes(found.host) == {"actor while it is read": 2 * 4 * QWEN}


def test_a_critic_has_no_head_and_stays_while_the_actor_is_updated(tmp_path: Path) -> None:
    critic = (LLAMA - HEAD) // 8

    found = of_llama(tmp_path, {"algorithm.adv_estimator": "gae"})

    assert sizes(found.gpu)["critic weights"] == 4 * critic
    assert found.on_gpu("update actor") == 16 * EIGHTH + 12 * critic
    assert found.on_gpu("update critic") == 12 * EIGHTH + 16 * critic


def test_what_is_offloaded_leaves_the_gpu_for_generating_and_is_back_for_the_update(tmp_path: Path) -> None:
    offload = {f"{ACTOR}.fsdp_config.param_offload": True, f"{ACTOR}.fsdp_config.optimizer_offload": True}

    found = of_llama(tmp_path, offload)

    assert found.on_gpu("generate") == LLAMA
    assert found.on_gpu("update actor") == 16 * EIGHTH
    assert sizes(found.host) == {
        "actor while it is read": 4 * LLAMA,
        "actor weights, offloaded": 4 * LLAMA,
        "actor optimizer, offloaded": 8 * LLAMA,
    }


def test_fsdp2_s_offload_policy_keeps_all_in_the_node_s_memory(tmp_path: Path) -> None:
    away = {f"{ACTOR}.strategy": "fsdp2", f"{ACTOR}.fsdp_config.offload_policy": True}

    found = of_llama(tmp_path, away)

    assert sizes(found.gpu) == {"rollout weights": LLAMA}
    assert found.in_memory(loading=False) == 16 * LLAMA
    assert found.in_memory(loading=True) == 20 * LLAMA


def test_the_reference_is_in_the_node_s_memory_alone(tmp_path: Path) -> None:
    found = of_llama(tmp_path, {f"{ACTOR}.use_kl_loss": True, "actor_rollout_ref.ref.fsdp_config.model_dtype": "fp32"})

    assert sizes(found.host)["reference weights, which FSDP always offloads"] == 4 * LLAMA


def test_fsdp_size_shards_among_fewer_gpus(tmp_path: Path) -> None:
    assert sizes(of_llama(tmp_path, {f"{ACTOR}.fsdp_config.fsdp_size": 4}).gpu)["actor weights"] == 4 * LLAMA // 4


def test_two_nodes_shard_among_all_of_their_gpus(tmp_path: Path) -> None:
    assert sizes(of_llama(tmp_path, {"trainer.nnodes": 2}).gpu)["actor weights"] == 4 * LLAMA // 16


def test_bf16_weights_take_half_of_everything(tmp_path: Path) -> None:
    assert of_llama(tmp_path, {f"{ACTOR}.fsdp_config.model_dtype": "bf16"}).on_gpu("update actor") == 8 * EIGHTH


def test_lora_of_rank_32_trains_84_million_parameters(tmp_path: Path) -> None:
    """peft counts 83,886,080 for Llama-3.1-8B: 32 for each row and column of every linear layer."""
    adapters = 83_886_080

    found = of_llama(tmp_path, {f"{MODEL}.lora_rank": 32, f"{MODEL}.target_modules": "all-linear"})

    assert sizes(found.gpu) == {
        "actor weights": 4 * (LLAMA + adapters) // 8,
        "actor gradients": 4 * adapters // 8,
        "actor optimizer": 8 * adapters // 8,
        "rollout weights": LLAMA,
    }


def test_lora_of_some_layers_counts_these(tmp_path: Path) -> None:
    found = of_llama(tmp_path, {f"{MODEL}.lora_rank": 8, f"{MODEL}.target_modules": ["q_proj", "v_proj"]})

    assert sizes(found.gpu)["actor gradients"] == 4 * 32 * 8 * (4096 + 4096 + 1024 + 4096) // 8


def test_lora_needs_no_reference_of_its_own(tmp_path: Path) -> None:
    found = of_llama(tmp_path, {f"{MODEL}.lora_rank": 32, f"{ACTOR}.use_kl_loss": True})

    assert list(sizes(found.host)) == ["actor while it is read"]


def test_megatron_cuts_weights_and_gradients_and_spreads_its_optimizer(tmp_path: Path) -> None:
    megatron = {
        f"{ACTOR}.strategy": "megatron",
        f"{ACTOR}.megatron.tensor_model_parallel_size": 2,
        f"{ACTOR}.megatron.pipeline_model_parallel_size": 2,
        f"{ACTOR}.megatron.use_distributed_optimizer": True,
        f"{ACTOR}.use_kl_loss": True,
    }

    found = of_llama(tmp_path, megatron)

    assert sizes(found.gpu) == {
        "actor weights": 2 * LLAMA // 4,
        "actor gradients": 4 * LLAMA // 4,
        "actor optimizer": 12 * EIGHTH,
        "reference weights": 2 * LLAMA // 4,
        "rollout weights": LLAMA,
    }


def test_megatron_cuts_experts_by_a_parallelism_of_their_own(tmp_path: Path) -> None:
    tensors = {"a.weight": ("BF16", [8, 8]), "layers.0.mlp.experts.0.up_proj.weight": ("BF16", [64, 64])}
    model = bake(tmp_path, LLAMA_8B, {**tensors})
    megatron = {
        f"{ACTOR}.strategy": "megatron",
        f"{ACTOR}.megatron.tensor_model_parallel_size": 2,
        f"{ACTOR}.megatron.pipeline_model_parallel_size": 1,
        f"{ACTOR}.megatron.expert_model_parallel_size": 8,
        f"{ACTOR}.megatron.expert_tensor_parallel_size": 1,
    }

    found = estimate(situation({**FSDP, **megatron}, models=(model,), root=tmp_path))

    assert found is not None
    assert sizes(found.gpu)["actor weights"] == 2 * (64 // 2 + 4096 // 8)


def test_activations_are_a_rough_share_by_tokens(tmp_path: Path) -> None:
    """A token: 4096 units x (2 bytes x 32 layers, and 34 for one of them), and 8 bytes a word of 128,256."""
    tokens = {
        f"{ACTOR}.ppo_micro_batch_size_per_gpu": 2,
        "data.max_prompt_length": 512,
        "data.max_response_length": 1024,
        f"{MODEL}.enable_gradient_checkpointing": True,
    }

    part = next(part for part in of_llama(tmp_path, tokens).gpu if part.name == "actor activations")

    assert (part.size, part.certain, part.phases) == (2 * 1536 * (4096 * 98 + 8 * 128256), False, ("update actor",))


def test_dynamic_batches_say_how_many_tokens_there_are(tmp_path: Path) -> None:
    tokens = {
        f"{ACTOR}.use_dynamic_bsz": True,
        f"{ACTOR}.ppo_max_token_len_per_gpu": 100,
        f"{MODEL}.use_fused_kernels": True,
    }

    found = of_llama(tmp_path, tokens)

    assert sizes(found.gpu)["actor activations"] == 100 * 4096 * 34 * 32


def test_an_engine_that_frees_nothing_stays_for_the_update(tmp_path: Path) -> None:
    assert of_llama(tmp_path, {f"{ROLLOUT}.free_cache_engine": False}).on_gpu("update actor") == 16 * EIGHTH + LLAMA


def test_each_part_says_how_it_was_counted(tmp_path: Path) -> None:
    assert of_llama(tmp_path, {}, machine=Machine(gpus=gpus(8))).lines("generate") == (
        "rollout KV cache about 32.5 GiB (gpu_memory_utilization 0.5 of 80.0 GiB, less the weights)",
        "actor optimizer 7.5 GiB (8.03 B x 8 bytes / 8 GPUs)",
        "rollout weights 7.5 GiB (8.03 B x 2 bytes / 2)",
        "actor weights 3.7 GiB (8.03 B x 4 bytes / 8 GPUs)",
    )


def test_nothing_is_said_of_an_engine_that_is_not_known(tmp_path: Path) -> None:
    model = bake(tmp_path, LLAMA_8B, llama_tensors())

    assert estimate(situation({**FSDP, f"{ACTOR}.strategy": "veomni"}, models=(model,), root=tmp_path)) is None


def test_nothing_is_said_without_a_baked_model() -> None:
    assert estimate(situation(FSDP)) is None


def test_nothing_is_said_where_the_rollout_has_gpus_of_its_own(tmp_path: Path) -> None:
    model = bake(tmp_path, LLAMA_8B, llama_tensors())
    apart = {**FSDP, "trainer.v1.trainer_mode": "separate_async"}

    assert estimate(situation(apart, models=(model,), root=tmp_path)) is None


def test_the_files_that_transformers_loads_are_counted_and_no_others(tmp_path: Path) -> None:
    half = safetensors({"a.weight": ("BF16", [2, 3])})
    write(
        tmp_path,
        {
            "model-00001-of-00002.safetensors": half,
            "model-00002-of-00002.safetensors": safetensors({"lm_head.weight": ("F32", [4])}),
            "consolidated.safetensors": half,
        },
    )

    assert read_weights(tmp_path) == Weights(count=10, expert=0, head=4, adaptable=(("a", 2, 3),))


def test_a_model_of_packed_integers_cannot_be_counted(tmp_path: Path) -> None:
    write(tmp_path, {"model.safetensors": safetensors({"a.qweight": ("I32", [2, 3])})})

    assert read_weights(tmp_path) is None


def test_a_broken_shard_leaves_the_count_unknown(tmp_path: Path) -> None:
    write(tmp_path, {"model.safetensors": b"version https://git-lfs"})

    assert read_weights(tmp_path) is None


def test_a_folder_that_is_not_there_leaves_the_count_unknown(tmp_path: Path) -> None:
    assert read_weights(tmp_path / "gone") is None
