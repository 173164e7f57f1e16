from __future__ import annotations

import hashlib
import io
from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bake.digest import CHUNK, Digest, read_into, stream_digest

ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # FIPS 180-2, appendix B.1
EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


class Trickle(io.BytesIO):
    """A stream that gives a few bytes at a time, as a socket may."""

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        return super().readinto(memoryview(buffer)[:3])


@pytest.mark.parametrize(("content", "digest"), [(b"abc", ABC), (b"", EMPTY)])
def test_a_digest_is_sha256(content: bytes, digest: str) -> None:
    assert Digest.of(content) == Digest(digest)


def test_both_text_forms_are_read_and_the_long_one_is_written() -> None:
    assert Digest.parse(f"sha256:{ABC}") == Digest.parse_hex(ABC) == Digest(ABC)
    assert str(Digest(ABC)) == f"sha256:{ABC}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        ABC,
        f"sha256{ABC}",
        f"sha256-{ABC}",
        f"SHA256:{ABC}",
        f"sha512:{ABC}",
        f" sha256:{ABC}",
        f"sha256:{ABC}\n",
        f"sha256:{ABC.upper()}",
        f"sha256:{ABC[:-1]}",
        f"sha256:{ABC}0",
        f"sha256:sha256:{ABC}",
        "sha256:" + "٣" * 64,
    ],
)
def test_another_long_form_is_refused_with_what_was_found(text: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole message is compared
        Digest.parse(text)

    assert str(caught.value) == f"expected sha256:<64 lower-case hex digits>, found {text!r}"


@pytest.mark.parametrize("text", ["", f"sha256:{ABC}", ABC.upper(), ABC[:-1], f"{ABC}0", f"{ABC}\n", "g" * 64])
def test_another_bare_form_is_refused_with_what_was_found(text: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole message is compared
        Digest.parse_hex(text)

    assert str(caught.value) == f"expected 64 lower-case hex digits, found {text!r}"


def test_digests_are_values() -> None:
    digest = Digest.of(b"abc")

    assert len({digest, Digest(ABC)}) == 1
    assert sorted([Digest("b" * 64), Digest("a" * 64)]) == [Digest("a" * 64), Digest("b" * 64)]
    with pytest.raises(FrozenInstanceError):
        digest.hex = EMPTY  # type: ignore[misc]


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 7])
def test_a_stream_is_hashed_to_its_end_whatever_its_size(size: int) -> None:
    content = bytes(size)

    assert stream_digest(io.BytesIO(content)) == (Digest(hashlib.sha256(content).hexdigest()), size)


@given(st.binary(max_size=20))
def test_a_stream_that_gives_few_bytes_at_a_time_has_the_same_digest(content: bytes) -> None:
    assert stream_digest(Trickle(content)) == (Digest.of(content), len(content))


def test_hashing_tells_of_each_run_of_bytes() -> None:
    counts: list[int] = []

    stream_digest(io.BytesIO(bytes(CHUNK + 5)), advance=counts.append)

    assert counts == [CHUNK, 5]


def test_hashing_goes_on_from_where_a_stream_is() -> None:
    stream = io.BytesIO(b"xyzabc")
    stream.seek(3)

    assert stream_digest(stream) == (Digest(ABC), 3)


def test_a_buffer_is_filled_and_the_count_is_0_at_the_end() -> None:
    stream, buffer = io.BytesIO(b"abc"), bytearray(2)

    assert (read_into(stream, memoryview(buffer)), bytes(buffer)) == (2, b"ab")
    assert (read_into(stream, memoryview(buffer)), bytes(buffer)) == (1, b"cb")
    assert (read_into(stream, memoryview(buffer)), bytes(buffer)) == (0, b"cb")
