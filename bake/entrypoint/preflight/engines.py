"""Engines: how FSDP, which shards all, and Megatron, which cuts, hold a model. Others say nothing.

FSDP keeps weights in fp32, and so gradients and both of Adam's moments: 16 bytes a parameter, and no copy beside them
(fsdp_config.model_dtype; workers/fsdp_workers.py 0.5.0, workers/engine/fsdp/transformer_impl.py 0.9.1). Megatron keeps
weights in bf16, gradients in fp32 (grad_reduce_in_fp32, utils/megatron_utils.py), and an fp32 copy with both moments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bake.entrypoint.preflight.asked import (
    MODELS,
    SECTIONS,
    Role,
    gpus_per_node,
    lora_rank,
    mapping,
    positive,
    shards_freely,
    strategy,
    text,
    uses_reference,
    world,
)
from bake.entrypoint.preflight.config import Shape, read_shape
from bake.entrypoint.preflight.part import Part
from bake.entrypoint.preflight.trained import Piece, TrainedModel, offloaded
from bake.entrypoint.preflight.weights import Weights, read_weights

if TYPE_CHECKING:
    from bake.entrypoint.preflight.situation import Situation
    from bake.entrypoint.settings import Settings

BYTES = {"fp32": 4, "float32": 4, "bf16": 2, "bfloat16": 2, "fp16": 2, "float16": 2, "half": 2}
_MEGATRON_OPTIMIZER = 12
_REFERENCE = "actor_rollout_ref.ref"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    """A model and the GPUs that it is spread over: all of them, and those of one node."""

    role: Role
    weights: Weights
    shape: Shape
    everything: int
    local: int

    @property
    def count(self) -> int:
        """A critic has a value in place of the language model's head."""
        return self.weights.count - (self.weights.head if self.role == "critic" else 0)


def read_trained(situation: Situation, role: Role) -> TrainedModel | None:
    """None where the model is not baked, cannot be counted, or is held by an engine that bake does not know."""
    model, settings = situation.model(role), situation.settings
    everything, local = world(settings), gpus_per_node(settings)
    if model is None or everything is None or local is None:
        return None
    folder = situation.folder(model)
    weights = read_weights(folder)
    if weights is None:
        return None
    given = _Given(role=role, weights=weights, shape=read_shape(folder), everything=everything, local=local)
    if shards_freely(settings, role):
        return _sharded(settings, given)
    if strategy(settings, role) == "megatron" and not lora_rank(settings, role):
        return _cut(settings, given)
    return None


def engine_section(settings: Settings, role: Role) -> str:
    """Where the engine's settings are: those of the critic's FSDP moved with 0.8."""
    if strategy(settings, role) == "megatron":
        return f"{SECTIONS[role]}.megatron"
    if role == "actor":
        return "actor_rollout_ref.actor.fsdp_config"
    return "critic.fsdp" if settings.has("critic.fsdp") else "critic.model.fsdp_config"


def reference_parts(situation: Situation, actor: TrainedModel) -> tuple[tuple[Part, ...], tuple[Part, ...]]:
    """On each GPU, and in a node's memory. FSDP always offloads the reference; with LoRA the actor without its adapters
    serves as one (ref_in_actor, trainer/ppo/ray_trainer.py).
    """
    settings = situation.settings
    if not uses_reference(settings) or actor.adapters:
        return (), ()
    if shards_freely(settings):
        return (), (_sharded_reference(situation, actor),)
    if settings.flag(f"{_REFERENCE}.megatron.param_offload"):
        return (), (offloaded("reference weights, offloaded", actor.weights, actor.gpus_per_node),)
    return (Part(name="reference weights", size=actor.weights.size, how=actor.weights.how),), ()


def _sharded_reference(situation: Situation, actor: TrainedModel) -> Part:
    """0.5 reads it in bf16 unless told otherwise, the later ones as model_dtype says."""
    settings, old = situation.settings, situation.release is not None and situation.release < (0, 6)
    dtype = text(settings, f"{_REFERENCE}.fsdp_config.model_dtype") or ("bf16" if old else "fp32")
    shards = _shards(settings, f"{_REFERENCE}.fsdp_config", world(settings) or 1)
    piece = _shared(actor.weights.count, BYTES.get(dtype, 4), shards)
    return offloaded("reference weights, which FSDP always offloads", piece, actor.gpus_per_node)


def _shards(settings: Settings, engine: str, everything: int) -> int:
    """FSDP's parts of a model: all GPUs, or `fsdp_size` of them (create_device_mesh, workers/engine/fsdp/utils.py)."""
    return min(positive(settings, f"{engine}.fsdp_size") or everything, everything)


def _shared(count: int, element: int, parts: int) -> Piece:
    split = f"/ {parts} GPUs" if parts > 1 else "on one GPU"
    return Piece(count=count, element=element, held=-(-count // parts), split=split)


def _sharded(settings: Settings, given: _Given) -> TrainedModel | None:
    """Where the embedding serves as head too, every process reads the whole model, else one does (fsdp_utils.py)."""
    role, engine = given.role, engine_section(settings, given.role)
    element = BYTES.get(text(settings, f"{engine}.model_dtype") or "fp32")
    if element is None:
        return None
    shards, rank = _shards(settings, engine, given.everything), lora_rank(settings, role)
    adapters = given.weights.adapters(rank=rank, targets=settings.get(f"{MODELS[role]}.target_modules"))
    trained = adapters if rank else given.count
    moments = _moments(settings, role, element)
    tied = given.shape.tied if given.shape.tied is not None else not given.weights.head
    return TrainedModel(
        role=role,
        shape=given.shape,
        weights=_shared(given.count + adapters, element, shards),
        gradients=_shared(trained, element, shards),
        optimizer=_shared(trained, moments or 0, shards),
        optimizer_certain=moments is not None,
        param_offload=settings.flag(f"{engine}.param_offload"),
        optimizer_offload=settings.flag(f"{engine}.optimizer_offload"),
        away=strategy(settings, role) == "fsdp2" and settings.flag(f"{engine}.offload_policy"),
        readers=given.local if tied else 1,
        adapters=adapters,
        gpus_per_node=given.local,
    )


def _moments(settings: Settings, role: Role, element: int) -> int | None:
    """Bytes of Adam's two moments for one parameter; None for an optimizer of another kind."""
    name = (text(settings, f"{SECTIONS[role]}.optim.optimizer") or "AdamW").lower()
    if "8bit" in name:
        return 2
    return 2 * element if name in {"adam", "adamw"} else None


def _cut(settings: Settings, given: _Given) -> TrainedModel | None:
    """Experts are cut by expert parallelism, and by a tensor parallelism of their own."""
    engine = engine_section(settings, given.role)
    tensor = positive(settings, f"{engine}.tensor_model_parallel_size")
    pipeline = positive(settings, f"{engine}.pipeline_model_parallel_size")
    if tensor is None or pipeline is None:
        return None
    experts = positive(settings, f"{engine}.expert_model_parallel_size") or 1
    inside = positive(settings, f"{engine}.expert_tensor_parallel_size") or tensor
    count, expert = given.count, given.weights.expert
    held = -(-(count - expert) // (tensor * pipeline)) + -(-expert // (experts * inside * pipeline))
    split = f"/ tensor {tensor} / pipeline {pipeline}" + (f", experts / {experts}" if expert else "")
    element = BYTES.get(text(settings, f"{engine}.dtype") or "bf16", 2)
    optimizer = Piece(count=count, element=_MEGATRON_OPTIMIZER, held=held, split=split)
    if settings.get(f"{engine}.use_distributed_optimizer") is not False:
        optimizer = _shared(count, _MEGATRON_OPTIMIZER, given.everything)
    return TrainedModel(
        role=given.role,
        shape=given.shape,
        weights=Piece(count=count, element=element, held=held, split=split),
        gradients=Piece(count=count, element=4, held=held, split=split),
        optimizer=optimizer,
        optimizer_certain=not _tuned(settings, given.role),
        param_offload=settings.flag(f"{engine}.param_offload"),
        optimizer_offload=settings.flag(f"{engine}.optimizer_offload"),
        gpus_per_node=given.local,
    )


def _tuned(settings: Settings, role: Role) -> bool:
    """Megatron's optimizer may keep less, or keep it elsewhere; then 12 bytes are no more than a guess."""
    section = f"{SECTIONS[role]}.optim"
    return settings.flag(f"{section}.use_precision_aware_optimizer") or bool(
        mapping(settings, f"{section}.override_optimizer_config")
    )
