"""Weights: model folders of any size, with real safetensors headers around bytes that mean nothing."""

from __future__ import annotations

import json
import os
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

CHUNK = 8 << 20
TENSORS = 16
"""Tensors in a shard."""


def write_model(folder: Path, *, shards: int, shard_size: int, sparse: bool = False) -> tuple[Path, ...]:
    """Write config, tokenizer, index and `shards` files of exactly `shard_size` bytes; returns the shards' paths.

    The bytes are random, or a hole in the file where `sparse`.
    """
    folder.mkdir(parents=True)
    paths = [folder / f"model-{number:05}-of-{shards:05}.safetensors" for number in range(1, shards + 1)]
    for number, path in enumerate(paths):
        _write_shard(path, number, size=shard_size, sparse=sparse)
    weight_map = {name: path.name for number, path in enumerate(paths) for name in _tensors(number)}
    _write_json(folder / "model.safetensors.index.json", {"metadata": {}, "weight_map": weight_map})
    _write_json(folder / "config.json", {"architectures": ["LlamaForCausalLM"], "model_type": "llama"})
    _write_json(folder / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast"})
    _write_json(folder / "tokenizer.json", {"version": "1.0", "model": {"type": "BPE", "vocab": {}, "merges": []}})
    return tuple(paths)


def _tensors(shard: int) -> tuple[str, ...]:
    return tuple(f"model.layers.{shard}.mlp.{number}.weight" for number in range(TENSORS))


def _write_shard(path: Path, shard: int, *, size: int, sparse: bool) -> None:
    """A header of 4 KiB (padded with spaces, as the format allows) and tensors that fill the rest exactly."""
    body = size - 4096
    bounds = [body * number // TENSORS // 2 * 2 for number in range(TENSORS)] + [body]
    header = {
        name: {"dtype": "BF16", "shape": [(end - start) // 2], "data_offsets": [start, end]}
        for name, (start, end) in zip(_tensors(shard), pairwise(bounds), strict=True)
    }
    with path.open("wb") as file:
        file.write((4096 - 8).to_bytes(8, "little") + json.dumps(header).encode().ljust(4096 - 8))
        if sparse:
            file.truncate(size)
            return
        while (left := size - file.tell()) > 0:
            file.write(os.urandom(min(CHUNK, left)))


def _write_json(path: Path, document: object) -> None:
    path.write_text(json.dumps(document, indent=2) + "\n", "utf-8")
