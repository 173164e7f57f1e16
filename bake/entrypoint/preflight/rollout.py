"""Rollout: what generating takes of each GPU, and roughly what an update takes beside the model: activations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bake.entrypoint.amounts import billions, size
from bake.entrypoint.preflight.asked import (
    MODELS,
    SECTIONS,
    fraction,
    positive,
    product,
    sequence_parallel,
    shards_freely,
    text,
)
from bake.entrypoint.preflight.engines import BYTES
from bake.entrypoint.preflight.part import PHASES, Part

if TYPE_CHECKING:
    from bake.entrypoint.preflight.situation import Situation
    from bake.entrypoint.preflight.trained import TrainedModel

ENGINES = ("vllm", "sglang")
_ROLLOUT = "actor_rollout_ref.rollout"

_LAYER = 34
"""Bytes that one layer keeps for each token and hidden unit, in bf16 and with attention that stores no scores
(Korthikanti and others, "Reducing Activation Recomputation in Large Transformer Models", equation 2).
"""

_LOGIT = 8
"""Bytes for each token and word of the vocabulary: the logits and their gradient in bf16, and once in fp32."""


def capacity(situation: Situation) -> int | None:
    """Bytes of the smallest GPU; None where there is none, or one that does not tell."""
    return min((gpu.memory for gpu in situation.machine.gpus), default=0) or None


def engine_weights(situation: Situation, actor: TrainedModel) -> tuple[int, str] | None:
    """Bytes of the engine's own copy on each GPU, and how they were counted. None for an engine of another kind."""
    settings = situation.settings
    cut = product(
        positive(settings, f"{_ROLLOUT}.tensor_model_parallel_size"),
        positive(settings, f"{_ROLLOUT}.pipeline_model_parallel_size") or 1,
    )
    if settings.get(f"{_ROLLOUT}.name") not in ENGINES or cut is None:
        return None
    element = BYTES.get(text(settings, f"{_ROLLOUT}.dtype") or "", 2)
    count = actor.weights.count - actor.adapters
    return -(-count // cut) * element, f"{billions(count)} x {element} bytes / {cut}"


def rollout_parts(situation: Situation, actor: TrainedModel) -> tuple[Part, ...]:
    """The weights, and the rest of what `gpu_memory_utilization` reserves: KV cache and the engine's own workspace.

    Between generations the engine gives both back, unless `free_cache_engine` is off.
    """
    settings, memory = situation.settings, capacity(situation)
    weights, share = engine_weights(situation, actor), fraction(settings, f"{_ROLLOUT}.gpu_memory_utilization")
    if weights is None:
        return ()
    phases = PHASES if settings.get(f"{_ROLLOUT}.free_cache_engine") is False else PHASES[:1]
    copied = Part(name="rollout weights", size=weights[0], how=weights[1], phases=phases, certain=_whole(situation))
    rest = int((share or 0) * (memory or 0)) - weights[0]
    if rest <= 0:
        return (copied,)
    how = f"gpu_memory_utilization {share} of {size(memory or 0)}, less the weights"
    return copied, Part(name="rollout KV cache", size=rest, how=how, phases=phases, certain=False)


def _whole(situation: Situation) -> bool:
    """Where experts or attention are spread in other ways, the engine's share of the weights is not known."""
    keys = (f"{_ROLLOUT}.expert_parallel_size", f"{_ROLLOUT}.data_parallel_size")
    return all((positive(situation.settings, key) or 1) == 1 for key in keys)


def activation_part(situation: Situation, model: TrainedModel) -> Part | None:
    """A rough share: verl's micro batch, as long as it may get. None where a size is not known."""
    tokens, shape = _tokens(situation, model), model.shape
    hidden, layers = shape.hidden, shape.layers
    if tokens is None or hidden is None or layers is None:
        return None
    recomputed = situation.settings.flag(f"{MODELS[model.role]}.enable_gradient_checkpointing")
    each = hidden * (2 * layers + _LAYER if recomputed else _LAYER * layers)
    fused = situation.settings.flag(f"{MODELS[model.role]}.use_fused_kernels")
    if model.role == "actor" and not fused:
        each += (shape.vocabulary or 0) * _LOGIT
    return Part(
        name=f"{model.role} activations",
        size=tokens * each,
        how=f"{tokens:,} tokens in a micro batch x {size(each)}",
        phases=("update actor",) if model.role == "actor" else ("update critic",),
        certain=False,
    )


def _tokens(situation: Situation, model: TrainedModel) -> int | None:
    """Tokens on one GPU in one pass. Not for Megatron, which cuts them in more ways."""
    settings, section = situation.settings, SECTIONS[model.role]
    if not shards_freely(settings, model.role):
        return None
    if settings.flag(f"{section}.use_dynamic_bsz"):
        return positive(settings, f"{section}.ppo_max_token_len_per_gpu")
    prompt, response = positive(settings, "data.max_prompt_length"), positive(settings, "data.max_response_length")
    micro, apart = (
        positive(settings, f"{section}.ppo_micro_batch_size_per_gpu"),
        sequence_parallel(situation, model.role),
    )
    if prompt is None or response is None or micro is None or apart is None:
        return None
    return -(-micro * (prompt + response) // apart)
