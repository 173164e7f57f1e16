"""A layer as the source of an upload: the same bytes as a packed one, from any offset, and no end without proof."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bake.api.streaming import LayerStream, layer_words
from bake.digest import Digest
from bake.errors import CheckFailed, DigestError, LockError
from bake.scan import Scanner
from tests.builders import CONTENTS, layer_of, packed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bake.plan import LayerPlan
    from bake.record import RecordedFile

FILES = {"config.json": b"{}\n", "empty.json": b"", "shard.safetensors": bytes(range(256)) * 40}
TOKEN = b"hf_" + b"abcdefghij" * 4


@dataclass
class Pieces:
    """Files in memory, read in small pieces; `offsets` are those at which each was opened."""

    files: Mapping[str, bytes]
    piece: int = 100
    offsets: list[tuple[str, int]] = field(default_factory=list)

    def __call__(self, file: RecordedFile, offset: int) -> Iterator[bytes]:
        self.offsets.append((file.path, offset))
        content = self.files[file.path]
        yield from (content[at : at + self.piece] for at in range(offset, len(content), self.piece))


def tar_of(files: Mapping[str, bytes]) -> tuple[bytes, Digest]:
    """The layer as it is packed, and its digest."""
    tar = packed(layer_of(files), files)
    return tar, Digest.of(tar)


def stream_of(plan: LayerPlan, files: Mapping[str, bytes], *, prove_files: bool = False) -> LayerStream:
    return LayerStream(plan, Pieces(files), prove_files=prove_files, every=1000)


def read(stream: LayerStream, offset: int = 0) -> bytes:
    return b"".join(stream(offset))


def read_some(stream: LayerStream, size: int) -> bytes:
    """The first bytes, at least so many."""
    reader, came = stream(0), b""
    while len(came) < size:
        came += next(reader)
    return came


def read_in_chunks(stream: LayerStream, size: int) -> bytes:
    """All of it, opened anew for each chunk, as a registry that takes no more at once has it."""
    came = b""
    while len(came) < stream.size:
        came += next(stream(len(came)))[:size]
    return came


def read_in_parts(stream: LayerStream, breaks: list[float]) -> bytes:
    """What an upload that breaks has there: each time it is some way ahead, and falls back to a part of that."""
    there = b""
    for part in breaks:
        ahead = there + next(stream(len(there)), b"")
        there = ahead[: int(len(ahead) * part)]
    return there


def read_as_far_as_it_goes(stream: LayerStream) -> tuple[bytes, BaseException]:
    """What comes before a failure, and the failure."""
    came: list[bytes] = []
    with pytest.raises((DigestError, LockError, CheckFailed)) as caught:
        came.extend(stream(0))
    return b"".join(came), caught.value


@given(CONTENTS)
def test_it_gives_the_bytes_of_the_packed_layer_and_learns_its_digest(files: dict[str, bytes]) -> None:
    tar, diff_id = tar_of(files)
    stream = stream_of(layer_of(files), files)

    assert (stream.size, stream.digest) == (len(tar), None)
    assert read(stream) == tar
    assert stream.digest == diff_id


@given(CONTENTS, st.lists(st.floats(0, 1), max_size=6))
def test_it_may_be_taken_up_again_at_any_byte(files: dict[str, bytes], breaks: list[float]) -> None:
    tar, diff_id = tar_of(files)
    stream = stream_of(layer_of(files), files)
    there = read_in_parts(stream, breaks)

    assert there + read(stream, len(there)) == tar
    assert stream.digest == diff_id


def test_chunk_after_chunk_opens_each_file_once() -> None:
    pieces = Pieces(FILES)
    stream = LayerStream(layer_of(FILES), pieces, prove_files=True)
    tar, _ = tar_of(FILES)

    assert read_in_chunks(stream, 70) == tar
    assert pieces.offsets == [("config.json", 0), ("empty.json", 0), ("shard.safetensors", 0)]


def test_a_break_reads_no_more_than_a_stretch_once_more() -> None:
    pieces = Pieces(FILES)
    stream = LayerStream(layer_of(FILES), pieces, prove_files=True, every=1000)
    tar, _ = tar_of(FILES)
    came = read_some(stream, len(tar) - 4000)
    pieces.offsets.clear()

    assert came[:-3000] + read(stream, len(came) - 3000) == tar
    (path, offset), *others = pieces.offsets
    assert (path, others) == ("shard.safetensors", [])
    assert len(came) - 3000 - 1100 <= tar.index(FILES[path]) + offset <= len(came) - 3000


def test_a_file_of_other_bytes_is_told_before_the_end_comes() -> None:
    tar, _ = tar_of(FILES)
    altered = FILES | {"config.json": b"[]\n"}

    came, error = read_as_far_as_it_goes(stream_of(layer_of(FILES), altered))

    assert len(came) < len(tar)
    assert (
        str(error) == f"config.json: expected {Digest.of(b'{}' + bytes([10]))}, found {Digest.of(b'[]' + bytes([10]))}"
    )


@pytest.mark.parametrize(("content", "found"), [(b"{}", "2"), (b"{}\n\n", "more")])
def test_a_file_of_another_size_is_told(content: bytes, found: str) -> None:
    _, error = read_as_far_as_it_goes(stream_of(layer_of(FILES), FILES | {"config.json": content}))

    assert str(error) == f"config.json: expected 3 bytes, found {found}"


@pytest.mark.parametrize("prove_files", [False, True])
def test_a_layer_whose_digest_is_known_is_proven_by_it_and_its_last_piece_held_back(*, prove_files: bool) -> None:
    tar, diff_id = tar_of(FILES)
    shard = bytes(reversed(FILES["shard.safetensors"]))
    plan = layer_of(FILES, diff_id=diff_id)

    came, error = read_as_far_as_it_goes(stream_of(plan, FILES | {"shard.safetensors": shard}, prove_files=prove_files))

    assert len(came) < len(tar)
    assert str(error) == (
        f"shard.safetensors: expected {Digest.of(FILES['shard.safetensors'])}, found {Digest.of(shard)}"
    )


@pytest.mark.parametrize("prove_files", [False, True])
def test_a_lock_that_names_another_layer_is_told(*, prove_files: bool) -> None:
    tar, diff_id = tar_of(FILES)
    wrong = Digest.of(b"another")

    came, error = read_as_far_as_it_goes(stream_of(layer_of(FILES, diff_id=wrong), FILES, prove_files=prove_files))

    assert len(came) < len(tar)
    assert isinstance(error, LockError)
    assert error.message == (
        f"tiny@v1: expected a layer of diff_id {wrong}, found {diff_id}, though every file in it is as locked"
    )


@pytest.mark.parametrize("at", [0, 60, 99, 100])
def test_a_token_is_found_wherever_it_lies_and_the_last_piece_held_back(at: int) -> None:
    files = {"config.json": b" " * at + TOKEN + b" " * 200}
    tar, diff_id = tar_of(files)

    came, error = read_as_far_as_it_goes(
        LayerStream(layer_of(files), Pieces(files), prove_files=True, scanner=Scanner())
    )

    assert len(came) < len(tar)
    assert str(error) == f"a token lies in layer {diff_id} (tiny@v1: config.json)"


def test_a_token_that_was_sent_before_a_break_is_not_forgotten() -> None:
    files = {"config.json": TOKEN + b" " * 5000}
    stream = LayerStream(layer_of(files), Pieces(files), prove_files=True, scanner=Scanner(), every=1000)
    came = read_some(stream, 3000)

    with pytest.raises(CheckFailed, match="a token lies in layer"):
        read(stream, len(came) - 1500)


def test_a_layer_is_named_by_its_model_and_files() -> None:
    plan = layer_of(FILES)

    assert layer_words(plan) == "tiny@v1: config.json and 2 more"
    assert layer_words(replace(plan, files=plan.files[:1])) == "tiny@v1: config.json"
