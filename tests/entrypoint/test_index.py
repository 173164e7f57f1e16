from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from bake.entrypoint.fault import FETCH_AGAIN, Fault
from bake.entrypoint.tree import FolderTree
from bake.entrypoint.verify import verify
from tests.entrypoint.files import FIRST, INDEX, SECOND, index, model_files, safetensors, shard, write

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

ONE_COMMIT = "take the index and all its shards from the same commit"


def check(root: Path, **changes: bytes | None) -> tuple[Fault, ...]:
    """The faults of the right model after some of its files are replaced, or removed by None."""
    files = {**model_files(), **changes}
    write(root, {path: content for path, content in files.items() if content is not None})
    return verify(None, FolderTree(root), level="quick")


def fault(path: str, expected: str, found: str, hint: str = ONE_COMMIT) -> Fault:
    return Fault(path=path, kind="index", expected=expected, found=found, hint=hint)


def test_an_index_that_agrees_with_its_shards_has_no_fault(tmp_path: Path) -> None:
    assert check(tmp_path) == ()


def test_a_shard_that_the_index_names_and_that_is_not_there_is_one_fault(tmp_path: Path) -> None:
    assert check(tmp_path, **{FIRST: None}) == (fault(INDEX, f"{FIRST}, with 2 tensors", "no such file", FETCH_AGAIN),)


def test_a_shard_that_the_index_does_not_name_is_a_fault(tmp_path: Path) -> None:
    third = "model-00003-of-00003.safetensors"

    assert check(tmp_path, **{third: shard("z")}) == (fault(third, "a shard that its index names", "no mention of it"),)


def test_a_tensor_of_the_index_that_no_shard_holds_is_a_fault(tmp_path: Path) -> None:
    assert check(tmp_path, **{FIRST: shard("a")}) == (fault(INDEX, f"tensor 'b' in {FIRST}", "it in no shard"),)


def test_a_tensor_of_a_shard_that_the_index_lacks_is_a_fault(tmp_path: Path) -> None:
    assert check(tmp_path, **{SECOND: shard("c", "d")}) == (fault(INDEX, "tensor 'd' in the index", f"it in {SECOND}"),)


def test_a_tensor_in_another_shard_than_the_index_says_is_a_fault(tmp_path: Path) -> None:
    assert check(tmp_path, **{FIRST: shard("a"), SECOND: shard("b", "c")}) == (
        fault(INDEX, f"tensor 'b' in {FIRST}", f"it in {SECOND}"),
    )


def test_a_tensor_in_two_shards_is_a_fault(tmp_path: Path) -> None:
    assert check(tmp_path, **{SECOND: shard("a", "c")}) == (
        fault(INDEX, f"tensor 'a' in {FIRST}", f"it in {FIRST} and {SECOND}"),
    )


def test_tensors_that_disagree_in_the_same_way_are_one_fault(tmp_path: Path) -> None:
    assert check(tmp_path, **{SECOND: shard("c", "p", "q", "r", "s", "t")}) == (
        fault(INDEX, "tensors 'p', 'q', 'r' and 2 more in the index", f"them in {SECOND}"),
    )


def test_numbered_shards_without_an_index_are_one_fault(tmp_path: Path) -> None:
    expected = "an index, since weights are in numbered shards (2 of them)"

    assert check(tmp_path, **{INDEX: None}) == (fault(INDEX, expected, "no such file", FETCH_AGAIN),)


@pytest.mark.parametrize(
    ("document", "found"),
    [
        ({}, "none"),
        ([], "none"),
        ({"weight_map": {}}, "something else"),
        ({"weight_map": {"a": 1}}, "something else"),
    ],
)
def test_an_index_without_a_map_from_tensors_to_shards_is_one_fault(
    tmp_path: Path, document: object, found: str
) -> None:
    assert check(tmp_path, **{INDEX: json.dumps(document).encode()}) == (
        fault(INDEX, "a weight_map from tensor names to shards", found, FETCH_AGAIN),
    )


def test_an_index_that_places_a_tensor_twice_is_a_fault(tmp_path: Path) -> None:
    text = f'{{"weight_map": {{"a": "{SECOND}", "a": "{FIRST}", "b": "{FIRST}", "c": "{SECOND}"}}}}'

    assert check(tmp_path, **{INDEX: text.encode()}) == (fault(INDEX, "each key once", "'a' twice", FETCH_AGAIN),)


def test_a_broken_shard_or_index_is_told_once(tmp_path: Path) -> None:
    broken_shard = check(tmp_path / "shard", **{FIRST: b"{}"})
    broken_index = check(tmp_path / "index", **{INDEX: b"{"})

    assert [(fault.path, fault.kind) for fault in broken_shard + broken_index] == [
        (FIRST, "safetensors"),
        (INDEX, "json"),
    ]


def families(folder: str, *, index_name: str, stem: str) -> Mapping[str, bytes]:
    return {
        f"{folder}{stem}-00001-of-00001.safetensors": safetensors({"w": ("BF16", [4])}),
        f"{folder}{index_name}": index({"w": f"{stem}-00001-of-00001.safetensors"}),
    }


def test_each_folder_and_each_variant_has_an_index_of_its_own(tmp_path: Path) -> None:
    faults = check(
        tmp_path,
        **families("text_encoder/", index_name="model.safetensors.index.json", stem="model"),
        **families("vae/", index_name="diffusion_pytorch_model.safetensors.index.json", stem="diffusion_pytorch_model"),
        **families("", index_name="model.safetensors.index.fp16.json", stem="model.fp16"),
    )

    assert faults == ()
