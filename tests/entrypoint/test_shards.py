from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bake.entrypoint.fault import FETCH_AGAIN, Fault
from bake.entrypoint.shards import DTYPE_BITS, Shard, Tensor, read_shard
from tests.entrypoint.files import frame, header, safetensors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TWO = {"a": ("F32", [2, 2]), "b": ("BF16", [3])}


def read(content: bytes) -> Shard:
    return read_shard("x", io.BytesIO(content), size=len(content))


def fault(expected: str, found: str) -> Fault:
    return Fault(path="x", kind="safetensors", expected=expected, found=found, hint=FETCH_AGAIN)


def faults_of(document: object, *, data: int) -> tuple[Fault, ...]:
    return read(frame(json.dumps(document).encode(), bytes(data))).faults


def tensor(dtype: str, shape: object, start: int, end: int) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


def test_a_right_file_gives_its_tensors_and_no_fault() -> None:
    assert read(safetensors(TWO)) == Shard(
        path="x",
        names=frozenset({"a", "b"}),
        tensors=(Tensor("a", "F32", (2, 2), 0, 16), Tensor("b", "BF16", (3,), 16, 22)),
        faults=(),
    )


def test_a_header_may_be_padded_with_spaces_and_hold_metadata() -> None:
    text = json.dumps({"__metadata__": {"format": "pt"}, **header(TWO)}).encode() + b"   "

    assert read(frame(text, bytes(22))).faults == ()


def test_a_file_without_tensors_is_right() -> None:
    assert faults_of({}, data=0) == ()


@pytest.mark.parametrize(
    ("content", "expected", "found"),
    [
        (b"1234567", "8 bytes of header length", "a file of 7 bytes"),
        ((1000).to_bytes(8, "little") + b"{}", "a header within the file's 10 bytes", "a header length of 1,000 bytes"),
        (
            b"version ",
            "a header of at most 100,000,000 bytes",
            "a header length of 2,336,927,755,350,992,246 bytes",
        ),
        (frame(b" {}"), "a header that starts with '{'", "b' {}'"),
        (frame(b"{]"), "a header of JSON", "Expecting property name enclosed in double quotes at line 1 column 2"),
        (frame(b'{"\xff"}'), "a header of JSON", "no UTF-8 at byte 2"),
        (frame(b'{"a":' * 100_000), "a header of JSON", "brackets nested without end"),
    ],
)
def test_a_header_that_cannot_be_read_is_one_fault(content: bytes, expected: str, found: str) -> None:
    assert read(content) == Shard(path="x", names=None, tensors=(), faults=(fault(expected, found),))


def test_a_stream_that_ends_inside_the_header_is_a_fault() -> None:
    content = safetensors(TWO)

    shard = read_shard("x", io.BytesIO(content[:20]), size=len(content))

    length = int.from_bytes(content[:8], "little")
    assert shard.faults == (fault(f"{length:,} more bytes of header", "the end of the file after 12"),)


def test_a_stream_that_gives_few_bytes_at_a_time_is_read_whole() -> None:
    class Slow(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(min(size or 0, 3))

    content = safetensors(TWO)

    assert read_shard("x", Slow(content), size=len(content)) == read(content)


def test_a_hole_between_tensors_is_a_fault() -> None:
    found = faults_of({"a": tensor("U8", [2], 0, 2), "b": tensor("U8", [2], 3, 5)}, data=5)

    assert found == (fault("tensor 'b' to start at byte 2 of the data", "a hole: 3"),)


def test_an_overlap_of_tensors_is_a_fault() -> None:
    found = faults_of({"a": tensor("U8", [2], 0, 2), "b": tensor("U8", [2], 1, 3)}, data=3)

    assert found == (fault("tensor 'b' to start at byte 2 of the data", "an overlap: 1"),)


@pytest.mark.parametrize(("data", "found"), [(21, "21 bytes"), (23, "23 bytes")])
def test_data_that_ends_elsewhere_than_its_tensors_is_a_fault(data: int, found: str) -> None:
    assert faults_of(header(TWO), data=data) == (fault("22 bytes of data, as the header says", found),)


def test_a_dtype_that_safetensors_does_not_know_is_a_fault() -> None:
    found = faults_of({"a": tensor("F128", [1], 0, 16)}, data=16)

    assert found == (fault("tensor 'a' to have a dtype of safetensors", "'F128'"),)


def test_a_shape_that_takes_other_than_its_bytes_is_a_fault() -> None:
    found = faults_of({"a": tensor("F32", [2, 2], 0, 12)}, data=12)

    assert found == (fault("tensor 'a' of F32 [2, 2] to take 16 bytes", "12 bytes"),)


def test_elements_of_less_than_a_byte_must_fill_whole_bytes() -> None:
    found = faults_of({"a": tensor("F4", [3], 0, 2), "b": tensor("F6_E2M3", [4], 2, 5)}, data=5)

    assert found == (fault("tensor 'a' of F4 [3] to take 12 bits", "2 bytes"),)


def test_a_shape_beyond_all_integers_is_a_fault() -> None:
    found = faults_of({"a": tensor("F32", [1 << 63] * 2, 0, 4)}, data=4)

    shape = [1 << 63] * 2
    assert found == (fault(f"tensor 'a' of F32 {shape} to take 2^64 bytes or more", "4 bytes"),)


@pytest.mark.parametrize(
    "value",
    [
        1,
        {"dtype": "U8", "shape": [1]},
        tensor("U8", [-1], 0, 1),
        tensor("U8", [True], 0, 1),
        tensor("U8", "1", 0, 1),
        tensor("U8", [1], 1, 0),
        {"dtype": 8, "shape": [1], "data_offsets": [0, 1]},
        {"dtype": "U8", "shape": [1], "data_offsets": [0, 1, 2]},
    ],
)
def test_a_malformed_tensor_is_one_fault(value: object) -> None:
    found = faults_of({"a": value}, data=1)

    expected = "tensor 'a' to have a dtype, a shape and data_offsets [start, end]"
    assert found == (fault(expected, repr(value)),)


def test_a_tensor_twice_in_one_header_is_a_fault() -> None:
    one = json.dumps(tensor("U8", [1], 0, 1))

    found = read(frame(f'{{"a": {one}, "a": {one}}}'.encode(), b"1")).faults

    assert found == (fault("each key once in the header", "'a' twice"),)


def test_metadata_of_other_than_strings_is_a_fault() -> None:
    found = faults_of({"__metadata__": {"step": 3}}, data=0)

    assert found == (fault("__metadata__ to map strings to strings", "{'step': 3}"),)


def test_all_faults_of_a_header_are_told_at_once() -> None:
    found = faults_of({"a": tensor("F128", [1], 1, 2), "b": tensor("F32", [2], 4, 8)}, data=9)

    assert found == (
        fault("tensor 'a' to start at byte 0 of the data", "a hole: 1"),
        fault("tensor 'b' to start at byte 2 of the data", "a hole: 4"),
        fault("8 bytes of data, as the header says", "9 bytes"),
        fault("tensor 'a' to have a dtype of safetensors", "'F128'"),
        fault("tensor 'b' of F32 [2] to take 8 bytes", "4 bytes"),
    )


def tensor_lists() -> st.SearchStrategy[Mapping[str, tuple[str, Sequence[int]]]]:
    whole = sorted(dtype for dtype, bits in DTYPE_BITS.items() if bits % 8 == 0)
    shapes = st.lists(st.integers(0, 5), max_size=3)
    return st.dictionaries(st.text(min_size=1), st.tuples(st.sampled_from(whole), shapes), max_size=5)


@given(tensors=tensor_lists())
def test_any_list_of_tensors_makes_a_right_file(tensors: Mapping[str, tuple[str, Sequence[int]]]) -> None:
    assume("__metadata__" not in tensors)

    assert read(safetensors(tensors)).faults == ()


@given(tensors=tensor_lists(), cut=st.integers(min_value=1))
def test_any_cut_of_a_right_file_is_a_fault(tensors: Mapping[str, tuple[str, Sequence[int]]], cut: int) -> None:
    content = safetensors(tensors)

    assert read(content[: -(cut % len(content)) or -1]).faults


@given(tensors=tensor_lists(), more=st.binary(min_size=1))
def test_anything_behind_a_right_file_is_a_fault(tensors: Mapping[str, tuple[str, Sequence[int]]], more: bytes) -> None:
    assert read(safetensors(tensors) + more).faults


@given(
    tensors=tensor_lists(), which=st.integers(min_value=0), side=st.integers(0, 1), by=st.integers(-9, 9).filter(bool)
)
def test_any_offset_that_moves_is_a_fault(
    tensors: Mapping[str, tuple[str, Sequence[int]]], which: int, side: int, by: int
) -> None:
    assume(tensors)
    document = header(tensors)
    value = document[sorted(tensors)[which % len(tensors)]]
    assert isinstance(value, dict)
    value["data_offsets"][side] += by
    data = safetensors(tensors)[8 + len(json.dumps(header(tensors)).encode()) :]

    assert read(frame(json.dumps(document).encode(), data)).faults


@given(tensors=tensor_lists(), which=st.integers(min_value=0), place=st.integers(min_value=0), flip=st.integers(1, 255))
def test_any_flipped_byte_in_an_offset_is_a_fault(
    tensors: Mapping[str, tuple[str, Sequence[int]]], which: int, place: int, flip: int
) -> None:
    assume(tensors)
    content = bytearray(safetensors(tensors))
    text = bytes(content)
    starts = [at for at in range(len(text)) if text.startswith(b'"data_offsets": [', at)]
    start = starts[which % len(starts)] + len(b'"data_offsets": [')
    digits = [at for at in range(start, text.index(b"]", start)) if chr(text[at]).isdigit()]
    content[digits[place % len(digits)]] ^= flip
    # A space beside one digit and a zero for a zero are the same numbers: JSON says so, and no byte of data moved.
    assume(_offsets(bytes(content)) != _offsets(text))

    assert read(bytes(content)).faults


def _offsets(content: bytes) -> object:
    length = int.from_bytes(content[:8], "little")
    try:
        return json.loads(content[8 : 8 + length])
    except ValueError:
        return None
