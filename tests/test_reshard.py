"""Re-sharding: shards of any file hold every tensor of it once, byte for byte, and load as the file itself does."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load, save

from bake.entrypoint.shards import DTYPE_BITS
from bake.errors import SourceError
from bake.reshard import (
    Shard,
    changed_index,
    divide,
    head_size,
    indexed,
    new_index,
    numbered,
    own_index,
    whole,
)
from tests.entrypoint.files import frame, index, safetensors
from tests.lock.strategies import patient

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MODEL = "model.safetensors"


class Held(NamedTuple):
    """A tensor as a naive reader finds it. `place` is where its bytes begin in the file, modulo 8."""

    dtype: str
    shape: tuple[int, ...]
    content: bytes
    place: int


def read(content: bytes) -> dict[str, Held]:
    """The tensors of a file, read by the format's few words and nothing of bake."""
    size = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:size])
    header.pop("__metadata__", None)
    return {
        name: Held(
            said["dtype"],
            tuple(said["shape"]),
            content[size + said["data_offsets"][0] : size + said["data_offsets"][1]],
            (size + said["data_offsets"][0]) % 8,
        )
        for name, said in header.items()
    }


def metadata(content: bytes) -> object:
    header: dict[str, object] = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    return header.get("__metadata__")


def shards_of(content: bytes, *, limit: int, path: str = MODEL) -> tuple[Shard, ...]:
    return divide(path, content[: head_size(content)], size=len(content), limit=limit)


def made(content: bytes, *, limit: int) -> dict[str, bytes]:
    """The shards' files by path."""
    return {shard.path: shard.head + content[shard.start : shard.end] for shard in shards_of(content, limit=limit)}


NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8).filter(
    lambda name: name != "__metadata__"
)
SHAPES = st.lists(st.integers(0, 5), max_size=3).map(tuple)
METADATA = st.none() | st.dictionaries(NAMES, NAMES, max_size=2)


def whole_bytes(dtype: str, shape: Sequence[int]) -> bool:
    return DTYPE_BITS[dtype] * math.prod(shape) % 8 == 0


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """Any right file: tensors of every dtype, without dimensions, without elements, at odd places, of any name."""
    names = draw(st.lists(NAMES, min_size=1, max_size=8, unique=True))
    kinds = st.tuples(st.sampled_from(sorted(DTYPE_BITS)), SHAPES).filter(lambda kind: whole_bytes(*kind))
    document: dict[str, object] = {}
    position = 0
    for name in names:
        dtype, shape = draw(kinds)
        end = position + DTYPE_BITS[dtype] * math.prod(shape) // 8
        document[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [position, end]}
        position = end
    kept = draw(METADATA)
    text = json.dumps(document if kept is None else {"__metadata__": kept} | document, ensure_ascii=False)
    padded = text.encode() + b" " * draw(st.integers(0, 9))
    return frame(padded, draw(st.binary(min_size=position, max_size=position)))


LIMITS = st.integers(1, 2000)


@patient
@given(files(), LIMITS)
def test_every_tensor_is_in_one_shard_as_it_was(content: bytes, limit: int) -> None:
    found = [read(shard) for shard in made(content, limit=limit).values()]

    assert [name for shard in found for name in shard] == sorted(
        (name for shard in found for name in shard), key=list(read(content)).index
    )
    assert {name: held for shard in found for name, held in shard.items()} == read(content)
    assert sum(map(len, found)) == len(read(content))


@patient
@given(files(), LIMITS)
def test_a_shard_is_within_the_limit_or_holds_one_tensor(content: bytes, limit: int) -> None:
    found = made(content, limit=limit).values()

    assert [len(shard) for shard in found if len(shard) > limit and len(read(shard)) > 1] == []


def least_size(content: bytes, names: Sequence[str]) -> int:
    """The size of the smallest file that holds these tensors, which lie behind each other, and the metadata."""
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    first: int = header[names[0]]["data_offsets"][0]
    entries = {
        name: header[name] | {"data_offsets": [at - first for at in header[name]["data_offsets"]]} for name in names
    }
    kept = {"__metadata__": header["__metadata__"]} if "__metadata__" in header else {}
    text = json.dumps(kept | entries, ensure_ascii=False, separators=(",", ":")).encode()
    end: int = header[names[-1]]["data_offsets"][1]
    return 8 + len(text) + end - first


@patient
@given(files(), LIMITS)
def test_no_shard_had_room_for_the_next_tensor(content: bytes, limit: int) -> None:
    found = shards_of(content, limit=limit)
    longer = [(*shard.tensors, after.tensors[0]) for shard, after in itertools.pairwise(found)]

    padding = 7
    assert [names for names in longer if least_size(content, names) + padding <= limit] == []


@patient
@given(files(), LIMITS)
def test_shards_follow_each_other_in_the_file_and_cover_it(content: bytes, limit: int) -> None:
    found = shards_of(content, limit=limit)

    assert [shard.start for shard in found] == [head_size(content), *(shard.end for shard in found[:-1])]
    assert found[-1].end == len(content)


@patient
@given(files(), LIMITS)
def test_metadata_is_in_each_shard(content: bytes, limit: int) -> None:
    assert {json.dumps(metadata(shard)) for shard in made(content, limit=limit).values()} == {
        json.dumps(metadata(content))
    }


ARRAYS = st.dictionaries(
    NAMES,
    st.builds(
        lambda dtype, shape: np.arange(math.prod(shape)).astype(dtype).reshape(shape),
        st.sampled_from(["<f4", "<f2", "<f8", "<i8", "u1", "?"]),
        SHAPES,
    ),
    min_size=1,
    max_size=6,
)


@patient
@given(ARRAYS, LIMITS)
def test_safetensors_itself_reads_the_same_from_the_shards(arrays: Mapping[str, np.ndarray], limit: int) -> None:
    content = save(dict(arrays))

    found = {name: array for shard in made(content, limit=limit).values() for name, array in load(shard).items()}

    assert {name: (array.dtype, array.shape, array.tobytes()) for name, array in found.items()} == {
        name: (array.dtype, array.shape, array.tobytes()) for name, array in load(content).items()
    }


def test_a_shard_is_the_file_that_safetensors_would_write_of_its_tensors() -> None:
    arrays = {f"layer.{number}": np.arange(64, dtype="<f4") for number in range(4)}
    content = save(arrays, metadata={"format": "pt"})

    first, second = made(content, limit=800).values()

    assert first == save({name: arrays[name] for name in ("layer.0", "layer.1")}, metadata={"format": "pt"})
    assert second == save({name: arrays[name] for name in ("layer.2", "layer.3")}, metadata={"format": "pt"})


def test_shards_are_named_as_transformers_names_them() -> None:
    content = safetensors({name: ("F32", [100]) for name in "abc"})

    assert list(made(content, limit=600)) == [
        "model-00001-of-00003.safetensors",
        "model-00002-of-00003.safetensors",
        "model-00003-of-00003.safetensors",
    ]


def test_where_one_shard_is_divided_all_of_its_family_are_numbered_anew() -> None:
    first, second, third = (f"sub/model-0000{number}-of-00003.safetensors" for number in (1, 2, 3))
    parts = shards_of(safetensors({name: ("F32", [100]) for name in "ab"}), limit=600, path=second)

    found = numbered({second: parts}, {third: 7, first: 5, second: 900, "sub/other-00001-of-00003.safetensors": 9})

    names = [f"sub/model-0000{number}-of-00004.safetensors" for number in (1, 2, 3, 4)]
    assert found == {
        first: (whole(names[0], size=5),),
        second: (replace(parts[0], path=names[1]), replace(parts[1], path=names[2])),
        third: (whole(names[3], size=7),),
    }


def test_a_file_without_a_number_is_a_family_of_its_own() -> None:
    parts = shards_of(safetensors({name: ("F32", [100]) for name in "ab"}), limit=600, path="part.safetensors")

    assert numbered({"part.safetensors": parts}, {"part.safetensors": 900, "part-2.safetensors": 5}) == {
        "part.safetensors": parts
    }


def test_a_tensor_at_an_odd_place_is_not_moved_to_one_that_pytorch_refuses() -> None:
    content = safetensors({"odd": ("BF16", [3]), "even": ("BF16", [1]), "float": ("F32", [2])})

    assert {name: held.place for shard in made(content, limit=1).values() for name, held in read(shard).items()} == {
        name: held.place for name, held in read(content).items()
    }


def test_what_fits_is_one_shard() -> None:
    content = safetensors({"a": ("F32", [100])})

    assert [shard.path for shard in shards_of(content, limit=10_000)] == ["model-00001-of-00001.safetensors"]


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"\x08\x00\x00\x00\x00\x00\x00\x00not json", "expected a header that starts with '{', found b'not json'"),
        (frame(b"{}"), "expected a tensor or more, found none"),
        (
            frame(b'{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}', b"123"),
            "expected 2 bytes of data, as the header says, found 3 bytes",
        ),
        (
            frame(b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}', b"12"),
            "expected tensor 'a' to start at byte 0 of the data, found a hole: 1",
        ),
        (
            (101_000_000).to_bytes(8, "little"),
            "expected a header of at most 100,000,000 bytes, found a header length of 101,000,000 bytes",
        ),
    ],
)
def test_a_file_that_is_not_right_is_refused(content: bytes, fault: str) -> None:
    with pytest.raises(SourceError) as caught:
        shards_of(content, limit=1)

    assert caught.value.message == f"{MODEL}: its header is not that of a whole safetensors file\n  {fault}"


def test_a_name_that_is_no_text_is_refused() -> None:
    content = frame(rb'{"\ud800":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', b"1")

    with pytest.raises(SourceError, match="which is no text"):
        shards_of(content, limit=1)


@pytest.mark.slow
def test_more_shards_than_five_digits_can_count_are_refused() -> None:
    header = {f"t{number}": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]} for number in range(100_000)}

    with pytest.raises(SourceError) as caught:
        shards_of(frame(json.dumps(header).encode()), limit=1)

    assert caught.value.message == f"{MODEL}: shards of so few bytes would be 100,000"


# --- indexes


def test_a_new_index_places_every_tensor_in_its_shard() -> None:
    content = safetensors({"b": ("F32", [100]), "a": ("F32", [100])})

    found = new_index(shards_of(content, limit=600, path="sub/model.safetensors"))

    assert found.decode() == (
        '{\n  "metadata": {\n    "total_size": 800\n  },\n  "weight_map": {\n'
        '    "a": "model-00002-of-00002.safetensors",\n    "b": "model-00001-of-00002.safetensors"\n  }\n}\n'
    )


def test_a_changed_index_moves_the_tensors_of_files_that_were_divided_and_nothing_else() -> None:
    first, second = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
    before = index({"a": first, "b": first, "c": second})
    content = safetensors({name: ("F32", [100]) for name in "ab"})

    placed = numbered({first: shards_of(content, limit=600, path=first)}, {first: 900, second: 50})
    found = changed_index("model.safetensors.index.json", before, placed)

    assert json.loads(found) == {
        "metadata": {"total_size": 0},
        "weight_map": {
            "a": "model-00001-of-00003.safetensors",
            "b": "model-00002-of-00003.safetensors",
            "c": "model-00003-of-00003.safetensors",
        },
    }


def test_an_index_is_read_from_its_own_folder() -> None:
    assert indexed("sub/model.safetensors.index.json", index({"a": "./x.safetensors", "b": "../y.safetensors"})) == {
        "a": "sub/x.safetensors",
        "b": "y.safetensors",
    }


def test_an_index_that_names_a_tensor_which_is_not_there_is_refused() -> None:
    content = safetensors({name: ("F32", [100]) for name in "ab"})

    with pytest.raises(SourceError) as caught:
        changed_index("i.json", index({"z": MODEL}), {MODEL: shards_of(content, limit=600)})

    assert caught.value.message == f"i.json: expected tensor 'z' in {MODEL}, and its header has none"


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"weight_map": []}', b'{"weight_map": {"a": 1}}'])
def test_what_is_no_index_is_refused(content: bytes) -> None:
    with pytest.raises(SourceError, match=r"^i\.json: no index of shards: "):
        indexed("i.json", content)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("model.safetensors", "model.safetensors.index.json"),
        ("unet/diffusion_pytorch_model.safetensors", "unet/diffusion_pytorch_model.safetensors.index.json"),
        ("adapter_model.safetensors", None),
        ("consolidated.safetensors", None),
    ],
)
def test_loaders_look_for_an_index_of_few_names(path: str, expected: str | None) -> None:
    assert own_index(path) == expected
