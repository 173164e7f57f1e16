"""Situations written by hand: each test says only what it is about; what is not said is unknown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bake.entrypoint.machine import Gpu, Machine
from bake.entrypoint.preflight.situation import Situation
from bake.entrypoint.settings import Settings
from tests.entrypoint.files import frame, header, recorded, write, write_sparse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bake.record import RecordedModel

GB, GIB = 10**9, 1 << 30

ACTOR = "actor_rollout_ref.actor"
ROLLOUT = "actor_rollout_ref.rollout"
MODEL = "actor_rollout_ref.model"


def nested(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted keys as the tree that Hydra composes."""
    tree: dict[str, Any] = {}
    for key, value in settings.items():
        *path, last = key.split(".")
        node = tree
        for part in path:
            node = node.setdefault(part, {})
        node[last] = value
    return tree


def situation(
    settings: Mapping[str, Any] | None = None,
    *,
    machine: Machine | None = None,
    models: tuple[RecordedModel, ...] = (),
    environ: Mapping[str, str] | None = None,
    release: tuple[int, int] | None = (0, 9),
    root: Path = Path("/nowhere"),
    given: frozenset[str] = frozenset(),
    is_head: bool = False,
) -> Situation:
    return Situation(
        settings=Settings(nested(settings or {}), given),
        models=models,
        machine=machine or Machine(),
        environ=environ or {},
        release=release,
        is_head=is_head,
        root=root,
    )


def gpus(count: int, *, name: str = "H100", memory: int = 80 * GIB, **more: Any) -> tuple[Gpu, ...]:
    """All of their memory is free, unless said otherwise."""
    return tuple(Gpu(**{"index": at, "name": name, "memory": memory, "free": memory, **more}) for at in range(count))


LLAMA_8B = {
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "vocab_size": 128256,
    "tie_word_embeddings": False,
}
"""Llama-3.1-8B: 8,030,261,248 parameters, 525,336,576 of them the head."""

QWEN_HALF_B = {
    "hidden_size": 896,
    "num_hidden_layers": 24,
    "num_attention_heads": 14,
    "vocab_size": 151936,
    "tie_word_embeddings": True,
}
"""Qwen2.5-0.5B: 494,032,768 parameters; its embedding serves as head too."""


def bake(root: Path, config: Mapping[str, Any], tensors: Mapping[str, tuple[str, list[int]]]) -> RecordedModel:
    """A model's folder below `root`, its tensors without the room that they take."""
    document = header(tensors)
    size = max(entry["data_offsets"][1] for entry in document.values() if isinstance(entry, dict))
    folder = root / "opt/models/tiny"
    write(folder, {"config.json": json.dumps(config).encode()})
    write_sparse(folder, ["model.safetensors"], head=frame(json.dumps(document).encode()), size=size)
    return recorded({"config.json": b"{}"})


def llama_tensors() -> dict[str, tuple[str, list[int]]]:
    layer = {
        "self_attn.q_proj": [4096, 4096],
        "self_attn.k_proj": [1024, 4096],
        "self_attn.v_proj": [1024, 4096],
        "self_attn.o_proj": [4096, 4096],
        "mlp.gate_proj": [14336, 4096],
        "mlp.up_proj": [14336, 4096],
        "mlp.down_proj": [4096, 14336],
        "input_layernorm": [4096],
        "post_attention_layernorm": [4096],
    }
    layers = {f"model.layers.{at}.{name}.weight": shape for at in range(32) for name, shape in layer.items()}
    rest = {"model.embed_tokens.weight": [128256, 4096], "model.norm.weight": [4096], "lm_head.weight": [128256, 4096]}
    return {name: ("BF16", shape) for name, shape in {**layers, **rest}.items()}


def qwen_tensors() -> dict[str, tuple[str, list[int]]]:
    layer = {
        "self_attn.q_proj.weight": [896, 896],
        "self_attn.q_proj.bias": [896],
        "self_attn.k_proj.weight": [128, 896],
        "self_attn.k_proj.bias": [128],
        "self_attn.v_proj.weight": [128, 896],
        "self_attn.v_proj.bias": [128],
        "self_attn.o_proj.weight": [896, 896],
        "mlp.gate_proj.weight": [4864, 896],
        "mlp.up_proj.weight": [4864, 896],
        "mlp.down_proj.weight": [896, 4864],
        "input_layernorm.weight": [896],
        "post_attention_layernorm.weight": [896],
    }
    layers = {f"model.layers.{at}.{name}": shape for at in range(24) for name, shape in layer.items()}
    rest = {"model.embed_tokens.weight": [151936, 896], "model.norm.weight": [896]}
    return {name: ("BF16", shape) for name, shape in {**layers, **rest}.items()}


FSDP = {
    f"{ACTOR}.strategy": "fsdp",
    f"{ACTOR}.fsdp_config.fsdp_size": -1,
    f"{ACTOR}.fsdp_config.model_dtype": "fp32",
    "critic.strategy": "fsdp",
    "critic.fsdp.model_dtype": "fp32",
    "algorithm.adv_estimator": "grpo",
    f"{ROLLOUT}.name": "vllm",
    f"{ROLLOUT}.tensor_model_parallel_size": 2,
    f"{ROLLOUT}.gpu_memory_utilization": 0.5,
    "trainer.n_gpus_per_node": 8,
    "trainer.nnodes": 1,
}
"""What verl 0.9 does by default, but for the critic."""
