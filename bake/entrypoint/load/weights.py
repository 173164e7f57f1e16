"""Weights: the name, dtype and shape of each tensor that transformers would read from a folder. No tensor byte is read.

In the form of a state dict whose tensors lie on torch's meta device, so that a model larger than memory will do.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from bake.entrypoint.fault import Fault
from bake.entrypoint.load.storage import BIN, BIN_INDEX, INDEX, SINGLE
from bake.entrypoint.shards import read_shards

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

_DTYPES = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "I16": "int16",
    "I32": "int32",
    "I64": "int64",
    "F16": "float16",
    "BF16": "bfloat16",
    "F32": "float32",
    "F64": "float64",
    "C64": "complex64",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
}
"""torch's names; what it has none for is taken for bytes, whose shape is all that is compared."""

_PACKED = ("uint8", "int8", "int16", "int32", "float8_e4m3fn", "float8_e5m2")
"""Kinds of numbers that stand for weights only together with scales, which quantization_config describes."""


def state_dict(folder: Path) -> dict[str, Any] | None:
    """The tensors on the meta device, by name; None where verify has faults to tell of these files.

    The order is that of transformers, 4 and 5 alike (modeling_utils.py, _get_resolved_checkpoint_files).
    """
    name = next((name for name in (SINGLE, INDEX, BIN, BIN_INDEX) if (folder / name).is_file()), None)
    if name is None:
        return None
    paths = _shards(folder / name) if name in {INDEX, BIN_INDEX} else [folder / name]
    if not all(path.is_file() for path in paths):
        return None
    return _from_headers(paths) if name in {SINGLE, INDEX} else _from_pickles(paths)


def packed_faults(tensors: Mapping[str, Any]) -> tuple[Fault, ...]:
    """Packed weights of a model without quantization_config: transformers would take the bare numbers for weights."""
    kinds = tuple(f"torch.{name}" for name in _PACKED)
    found = [
        name
        for name, tensor in tensors.items()
        if tensor.dim() >= 2 and name.rpartition(".")[2].startswith("weight") and str(tensor.dtype) in kinds
    ]
    if not found:
        return ()
    return (
        Fault(
            path="config.json",
            kind="weights",
            expected="a quantization_config, since weights are in a packed format",
            found=f"none, for {listed(found)} in {str(tensors[found[0]].dtype).removeprefix('torch.')}",
            hint="fetch config.json from the weights' own commit, or take the model in bfloat16",
        ),
    )


def listed(names: Iterable[str]) -> str:
    """The first three, and how many more there are."""
    ordered = sorted(names)
    rest = f" and {len(ordered) - 3:,} more" if len(ordered) > 3 else ""
    return ", ".join(ordered[:3]) + rest


def _shards(index: Path) -> list[Path]:
    """The shards that an index names. Raises ValueError or AttributeError where it is none: `attempt` tells it."""
    return sorted({index.parent / name for name in json.loads(index.read_bytes())["weight_map"].values()})


def _from_headers(paths: list[Path]) -> dict[str, Any] | None:
    import torch

    shards = read_shards(paths)
    if any(shard.faults for shard in shards):
        return None
    return {
        tensor.name: torch.empty(tensor.shape, dtype=getattr(torch, _DTYPES.get(tensor.dtype, "uint8")), device="meta")
        for shard in shards
        for tensor in shard.tensors
    }


def _from_pickles(paths: list[Path]) -> dict[str, Any]:
    """`weights_only` runs no code of the file's, and `mmap` reads no storage that goes to the meta device."""
    import torch

    tensors: dict[str, Any] = {}
    for path in paths:
        tensors.update(torch.load(path, map_location="meta", weights_only=True, mmap=True))
    return tensors
