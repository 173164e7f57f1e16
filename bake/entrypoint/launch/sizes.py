"""Sizes: how many GPUs hold one copy of a model, and how many sequences go through one at a time. Arithmetic alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bake.entrypoint.document import read_object

if TYPE_CHECKING:
    from bake.record import RecordedModel

WEIGHTS_A_GPU = 20 * 2**30
"""Bytes of weights that one GPU should hold beside its KV cache: half of what verl gives the rollout of 80 GB."""

TOKENS_A_PASS = 8192
"""Tokens in a micro batch: at a vocabulary of 128k their logits take 4 GiB in float32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What decides how a model may be cut: its attention heads, those of keys and values, its weights in bytes."""

    heads: int | None
    kv_heads: int | None
    weights: int


def read_shape(model: RecordedModel | None) -> Shape:
    """From the model's config.json; a file that cannot be read says nothing here, and verify tells it.

    None is a model that was not baked, of which nothing is known.
    """
    if model is None:
        return Shape(heads=None, kv_heads=None, weights=0)
    config = read_object(Path(model.path) / "config.json")
    text = config.get("text_config")
    config = text if isinstance(text, dict) else config  # of a model that also sees
    heads = _count(config, "num_attention_heads", "n_head", "num_heads")
    return Shape(
        heads=heads,
        kv_heads=_count(config, "num_key_value_heads", "num_kv_heads") or heads,
        weights=sum(file.size for file in model.files if file.path.endswith((".safetensors", ".bin"))),
    )


def tensor_parallel(shape: Shape, *, gpus: int, usual: int) -> int:
    """GPUs that share one copy in the rollout: a divisor of `gpus` that also cuts the heads evenly.

    The smallest from `usual` (verl's default) up that leaves each GPU at most WEIGHTS_A_GPU; else the largest. Of heads
    that are not known nothing can be said, so that it is `usual`, or the largest divisor below.
    vLLM wants heads to be a multiple, and heads of keys and values a multiple or a divisor (vllm/config).
    """
    divisors = [size for size in range(1, gpus + 1) if gpus % size == 0]
    if shape.heads is None or shape.kv_heads is None:
        return max(size for size in divisors if size <= usual)
    heads, kv_heads = shape.heads, shape.kv_heads
    possible = [size for size in divisors if _cuts(size, heads=heads, kv_heads=kv_heads)]
    wanted = max(usual, math.ceil(shape.weights / WEIGHTS_A_GPU))
    return next((size for size in possible if size >= wanted), possible[-1])


def micro_batch(*, tokens: int, batches: tuple[int, ...]) -> int:
    """Sequences of `tokens` at a time: a power of two that divides every batch, at most TOKENS_A_PASS together."""
    most = max(1, TOKENS_A_PASS // max(1, tokens))
    common = math.gcd(*batches)
    size = 1
    while size * 2 <= most and common % (size * 2) == 0:
        size *= 2
    return size


def _cuts(size: int, *, heads: int, kv_heads: int) -> bool:
    return heads % size == 0 and (kv_heads % size == 0 or size % kv_heads == 0)


def _count(config: dict[str, Any], *names: str) -> int | None:
    return next((value for name in names if isinstance(value := config.get(name), int) and value > 0), None)
