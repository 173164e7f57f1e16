"""A blob whose digest only its last byte tells, on its way into a registry."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import pytest

from bake.digest import Digest
from bake.errors import DigestError, OutputError
from bake.registry import Profile
from tests.registry.samples import (
    BLOB,
    BYTES,
    CHUNKED,
    DELETE,
    GET,
    HEAD,
    NAME,
    PATCH,
    POST,
    PUT,
    Waits,
    fault_of,
    open_at,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bake.image import Descriptor
    from tests.registry.server import FakeRegistry

WHAT = "tiny@v1: model.safetensors"
WHOLE = {NAME: {str(BLOB.digest): BYTES}}
STUCK = Profile(name="ECR", source="none", resumable=False)


class Reading:
    """BYTES, hashed as they are read. `refuses` is at which byte they turn out to be others."""

    def __init__(self, *, refuses: int | None = None) -> None:
        self.size = len(BYTES)
        self.digest: Digest | None = None
        self.offsets: list[int] = []
        self._refuses = refuses

    def __call__(self, offset: int) -> Iterator[bytes]:
        self.offsets.append(offset)
        for at in range(offset, len(BYTES), 100_000):
            if self._refuses is not None and at >= self._refuses:
                raise DigestError("model.safetensors: expected others")
            piece = BYTES[at : at + 100_000]
            if at + len(piece) == len(BYTES):
                self.digest = Digest(hashlib.sha256(BYTES).hexdigest())
            yield piece


def push(registry: FakeRegistry, waits: Waits, source: Reading, **more: Any) -> Descriptor:
    told: list[int] = more.pop("told", [])
    with open_at(registry, waits, **more) as opened:
        return opened.push_unnamed(source, what=WHAT, advance=told.append)


def test_it_is_read_once_and_named_at_the_end(registry: FakeRegistry, waits: Waits) -> None:
    source, told = Reading(), list[int]()

    assert push(registry, waits, source, told=told) == BLOB

    assert registry.blobs == WHOLE
    assert registry.lines() == [POST, PATCH, PUT]
    assert (source.offsets, sum(told)) == ([0], len(BYTES))


def test_it_goes_in_chunks_where_the_registry_takes_no_more_at_once(registry: FakeRegistry, waits: Waits) -> None:
    assert push(registry, waits, Reading(), profile=CHUNKED) == BLOB

    assert registry.blobs == WHOLE
    assert registry.lines() == [
        POST,
        f"{PATCH} 0-999999",
        f"{PATCH} 1000000-1999999",
        f"{PATCH} 2000000-2499999",
        PUT,
    ]


@pytest.mark.parametrize("status", [413, 416])
def test_it_goes_in_chunks_after_a_refusal_of_the_whole(registry: FakeRegistry, waits: Waits, status: int) -> None:
    registry.largest_body, registry.too_large = 1 << 20, status

    assert push(registry, waits, Reading()) == BLOB

    assert registry.blobs == WHOLE


@pytest.mark.parametrize("cut", [0, 999_999, 2_499_999])
def test_it_goes_on_where_it_was_cut(registry: FakeRegistry, waits: Waits, cut: int) -> None:
    registry.fault("PATCH *", cut=cut)
    source, told = Reading(), list[int]()

    assert push(registry, waits, source, told=told) == BLOB

    assert registry.blobs == WHOLE
    assert source.offsets[:2] == [0, cut]
    assert sum(told) == len(BYTES)


def test_an_answer_that_is_lost_sends_nothing_twice(registry: FakeRegistry, waits: Waits) -> None:
    registry.fault("PATCH *", lost=True)
    source = Reading()

    assert push(registry, waits, source) == BLOB

    assert registry.lines() == [POST, PATCH, GET, PUT]
    assert source.offsets == [0]


def test_a_name_whose_answer_is_lost_is_found_there(registry: FakeRegistry, waits: Waits) -> None:
    registry.fault("PUT *", lost=True)

    assert push(registry, waits, Reading()) == BLOB

    assert registry.lines() == [POST, PATCH, PUT, GET, HEAD]


def test_it_starts_again_where_no_word_of_the_registry_is_to_be_trusted(registry: FakeRegistry, waits: Waits) -> None:
    registry.fault("PATCH *", cut=1_000_000)
    source = Reading()

    assert push(registry, waits, source, profile=STUCK) == BLOB

    assert registry.blobs == WHOLE
    assert source.offsets == [0, 0]


def test_it_starts_again_where_the_registry_says_the_same_place_for_ever(registry: FakeRegistry, waits: Waits) -> None:
    registry.stuck_range = True

    assert push(registry, waits, Reading(), profile=CHUNKED) == BLOB

    assert registry.blobs == WHOLE


def test_a_registry_that_forgets_what_was_cut_gets_it_again(registry: FakeRegistry, waits: Waits) -> None:
    registry.forgets = True
    registry.fault("PATCH *", cut=1_000_000)

    assert push(registry, waits, Reading()) == BLOB

    assert registry.blobs == WHOLE


def test_where_no_part_may_be_sent_it_is_read_for_its_name_first(registry: FakeRegistry, waits: Waits) -> None:
    registry.chunks = False
    source = Reading()

    assert push(registry, waits, source) == BLOB

    assert registry.blobs == WHOLE
    assert source.offsets == [0, 0]
    assert registry.lines()[-2:] == [POST, PUT]


def test_a_token_is_renewed_on_the_way(registry: FakeRegistry, waits: Waits) -> None:
    registry.auth, registry.anonymous = "token", True
    registry.fault("PATCH *", skip=1, expire=True)

    assert push(registry, waits, Reading(), profile=CHUNKED) == BLOB

    assert registry.blobs == WHOLE


@pytest.mark.parametrize("profile", [None, CHUNKED])
def test_bytes_that_turn_out_to_be_others_are_never_named(
    registry: FakeRegistry, waits: Waits, profile: Profile | None
) -> None:
    registry.verifies = False

    with pytest.raises(DigestError, match="expected others"):
        push(registry, waits, Reading(refuses=2_400_000), profile=profile)

    assert (registry.blobs, registry.uploads) == ({}, {})
    assert registry.lines("PUT *") == []
    assert registry.lines("DELETE *") == [DELETE]


def test_a_registry_that_says_that_it_has_more_than_was_sent_is_not_believed(
    registry: FakeRegistry, waits: Waits
) -> None:
    registry.fault("PATCH *", range="0-2499999")

    assert push(registry, waits, Reading(), profile=CHUNKED) == BLOB

    assert registry.blobs == WHOLE
    (told,) = waits.words
    assert told == (
        f"{registry.host}/{NAME}: {WHAT}: the registry took the bytes to 1000000, and says that it has 2500000; "
        "next try in 1.0 s"
    )


def test_a_layer_that_is_too_large_is_told_by_its_name_before_it_is_read(registry: FakeRegistry, waits: Waits) -> None:
    source = Reading()

    with pytest.raises(OutputError) as caught:
        push(registry, waits, source, profile=Profile(name="GHCR", source="none", max_layer_bytes=1_000_000))

    assert fault_of(caught.value) == (
        OutputError,
        f"{registry.host}/{NAME}: 1 layer too large for GHCR:\n  {WHAT}: 2.5 MB, and GHCR takes at most 1.0 MB a layer",
        (
            "split the model into smaller shards; or push to another registry; if this one takes more: "
            "--registry-profile layer=SIZE"
        ),
    )
    assert (source.offsets, registry.lines()) == ([], [])
