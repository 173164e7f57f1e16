"""Weights: how many parameters a baked model has, from the headers of its safetensors files. No tensor is read."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from bake.entrypoint.shards import read_shards

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from bake.entrypoint.shards import Shard, Tensor

_SHARD = re.compile(r"model-\d+-of-\d+\.safetensors")
_NUMBERS = frozenset({"F64", "F32", "F16", "BF16", "F8_E5M2", "F8_E4M3"})
"""Of these dtypes an element is a parameter. Packed integers hold several, so that such a model says nothing here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Counts of parameters. `expert` are those of a mixture's experts, `head` those of the language model's head, 0
    where it shares them with the embedding; `adaptable`, the shapes of linear layers that LoRA can adapt, by the
    layer's own name as `q_proj`.
    """

    count: int
    expert: int = 0
    head: int = 0
    adaptable: tuple[tuple[str, int, int], ...] = ()

    def adapters(self, *, rank: int, targets: object) -> int:
        """Parameters that LoRA adds: a matrix of `rank` on either side. `targets` is a list of names, or else all."""
        named = (
            set(targets) if isinstance(targets, (list, tuple)) and all(isinstance(x, str) for x in targets) else None
        )
        return sum(rank * (out + into) for name, out, into in self.adaptable if named is None or name in named)


@lru_cache(maxsize=4)
def read_weights(folder: Path) -> Weights | None:
    """The files that transformers would load. None where there are none, or one of them cannot be counted.

    Several checks ask for the same model, which does not change while it is baked: its headers are read once.
    """
    shards = _shards(folder)
    tensors = [tensor for shard in shards for tensor in shard.tensors]
    if not tensors or any(shard.faults for shard in shards) or any(t.dtype not in _NUMBERS for t in tensors):
        return None
    return Weights(
        count=_count(tensors),
        expert=_count(tensor for tensor in tensors if ".experts." in tensor.name),
        head=_count(tensor for tensor in tensors if tensor.name == "lm_head.weight"),
        adaptable=tuple(_linear(tensors)),
    )


def _shards(folder: Path) -> Sequence[Shard]:
    """`model.safetensors` comes before shards (transformers' modeling_utils.py), and other files are not loaded."""
    try:
        names = sorted(path.name for path in folder.iterdir())
        chosen = [name for name in names if name == "model.safetensors"] or [n for n in names if _SHARD.fullmatch(n)]
        return read_shards(folder / name for name in chosen)
    except OSError:
        return []


def _count(tensors: Iterable[Tensor]) -> int:
    return sum(math.prod(tensor.shape) for tensor in tensors)


def _linear(tensors: Iterable[Tensor]) -> Iterable[tuple[str, int, int]]:
    """peft's "all-linear" leaves out the head; embeddings are no linear layers."""
    for tensor in tensors:
        *path, last = tensor.name.split(".")
        name = path[-1] if path else ""
        if (
            last == "weight"
            and len(tensor.shape) == 2
            and "embed" not in name
            and name not in {"lm_head", "wte", "wpe"}
        ):
            yield name, tensor.shape[0], tensor.shape[1]
