"""How a model is cut over GPUs, and how much goes through one at a time."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from bake.entrypoint.launch.sizes import Shape, micro_batch, read_shape, tensor_parallel
from tests.entrypoint.files import model_files, recorded, write

if TYPE_CHECKING:
    from pathlib import Path

    from bake.record import RecordedModel

GIB = 2**30


def shape(*, heads: int | None = 32, kv_heads: int | None = 8, weights: int = 16 * GIB) -> Shape:
    return Shape(heads=heads, kv_heads=kv_heads, weights=weights)


@pytest.mark.parametrize(("gpus", "size"), [(1, 1), (2, 2), (3, 1), (4, 2), (6, 2), (8, 2)])
def test_a_small_model_is_cut_as_verl_does_where_gpus_and_heads_allow_it(gpus: int, size: int) -> None:
    assert tensor_parallel(shape(), gpus=gpus, usual=2) == size


@pytest.mark.parametrize(("heads", "kv_heads", "size"), [(14, 2, 2), (15, 5, 1), (9, 3, 3)])
def test_heads_are_cut_evenly(heads: int | None, kv_heads: int | None, size: int) -> None:
    assert tensor_parallel(shape(heads=heads, kv_heads=kv_heads), gpus=6, usual=2) == size


@pytest.mark.parametrize(("gpus", "usual", "size"), [(1, 2, 1), (3, 2, 1), (6, 2, 2), (6, 4, 3), (8, 2, 2), (8, 1, 1)])
def test_where_heads_are_not_known_verl_s_own_size_stands_or_the_largest_divisor_below(
    gpus: int, usual: int, size: int
) -> None:
    assert tensor_parallel(shape(heads=None, kv_heads=None), gpus=gpus, usual=usual) == size


def test_heads_of_keys_and_values_may_be_repeated() -> None:
    assert tensor_parallel(shape(heads=32, kv_heads=2, weights=140 * GIB), gpus=8, usual=2) == 8


@pytest.mark.parametrize(("weights", "size"), [(16, 2), (41, 4), (140, 8), (1300, 8)])
def test_a_large_model_is_cut_until_a_gpu_holds_at_most_20_gib(weights: int, size: int) -> None:
    assert tensor_parallel(shape(heads=64, weights=weights * GIB), gpus=8, usual=2) == size


@pytest.mark.parametrize(("tokens", "size"), [(1, 256), (1024, 8), (1536, 4), (4096, 2), (8192, 1), (40_000, 1)])
def test_a_micro_batch_holds_8192_tokens(tokens: int, size: int) -> None:
    assert micro_batch(tokens=tokens, batches=(256,)) == size


@pytest.mark.parametrize(("batches", "size"), [((32, 32), 8), ((12, 32), 4), ((7,), 1), ((1,), 1)])
def test_a_micro_batch_divides_every_batch(batches: tuple[int, ...], size: int) -> None:
    assert micro_batch(tokens=1024, batches=batches) == size


def baked(folder: Path, config: bytes) -> RecordedModel:
    files = {**model_files(), "config.json": config}
    return recorded(files, path=str(write(folder, files)))


@pytest.mark.parametrize(
    ("config", "heads", "kv_heads"),
    [
        ({"num_attention_heads": 32, "num_key_value_heads": 8}, 32, 8),
        ({"num_attention_heads": 12}, 12, 12),
        ({"n_head": 12}, 12, 12),
        ({"text_config": {"num_attention_heads": 16, "num_key_value_heads": 4}}, 16, 4),
        ({}, None, None),
        ([], None, None),
    ],
)
def test_heads_come_from_config_json(tmp_path: Path, config: object, heads: int | None, kv_heads: int | None) -> None:
    found = read_shape(baked(tmp_path, json.dumps(config).encode()))

    assert (found.heads, found.kv_heads) == (heads, kv_heads)


def test_weights_are_those_of_the_record(tmp_path: Path) -> None:
    files = model_files()
    shards = sum(len(content) for name, content in files.items() if name.endswith(".safetensors"))

    assert read_shape(baked(tmp_path, b"{}")).weights == shards


@pytest.mark.parametrize("config", [b"{", b"\xff"])
def test_a_config_that_cannot_be_read_says_nothing(tmp_path: Path, config: bytes) -> None:
    assert read_shape(baked(tmp_path, config)).heads is None


def test_a_folder_that_is_not_there_says_nothing(tmp_path: Path) -> None:
    model = baked(tmp_path, b"{}")

    assert read_shape(replace(model, path="/no/such/folder")).heads is None


def test_nothing_is_known_of_a_model_that_was_not_baked() -> None:
    assert read_shape(None) == Shape(heads=None, kv_heads=None, weights=0)
