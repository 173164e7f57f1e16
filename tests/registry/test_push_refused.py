"""What a registry does not take: bodies that are too large, and bytes that are not those that were named."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bake.digest import Digest
from bake.errors import DigestError, OutputError
from bake.image import LAYER, Descriptor
from bake.registry import Profile, in_memory
from tests.registry.faults import digest_of
from tests.registry.samples import (
    BLOB,
    BYTES,
    CHUNKED,
    NAME,
    PATCH,
    Waits,
    fault_of,
    push,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.registry.server import FakeRegistry

WHOLE = {NAME: {str(BLOB.digest): BYTES}}
WHAT = f"blob {BLOB.digest}"


@pytest.mark.parametrize("status", [413, 416])
def test_a_limit_on_bodies_is_found(registry: FakeRegistry, waits: Waits, status: int) -> None:
    content = BYTES * 4
    blob = Descriptor(media_type=LAYER, digest=Digest.of(content), size=len(content))
    registry.largest_body, registry.too_large = 4 << 20, status
    profile = Profile(name="the registry", source="none", put_bytes=0, chunk_bytes=64 << 20)

    push(registry, waits, blob=blob, source=in_memory(content), profile=profile)

    assert registry.blobs[NAME] == {str(blob.digest): content}
    assert registry.lines("PATCH *")[-2:] == [f"{PATCH} 4194304-8388607", f"{PATCH} 8388608-9999999"]
    assert waits.seconds == []


def test_a_limit_on_bodies_sends_a_whole_blob_in_chunks(registry: FakeRegistry, waits: Waits) -> None:
    registry.largest_body = 1 << 20
    profile = Profile(name="the registry", source="none", chunk_bytes=4 << 20)

    push(registry, waits, profile=profile)

    assert registry.blobs == WHOLE


def test_a_limit_that_is_answered_before_the_body_was_read_is_heard(registry: FakeRegistry, waits: Waits) -> None:
    registry.fault("PUT *", status=413, early=True)
    profile = Profile(name="the registry", source="none", chunk_bytes=1 << 20)

    push(registry, waits, profile=profile)

    assert registry.blobs == WHOLE


def test_a_limit_below_any_chunk_is_told(registry: FakeRegistry, waits: Waits) -> None:
    registry.largest_body = 1000

    with pytest.raises(OutputError) as caught:
        push(registry, waits)

    assert fault_of(caught.value) == (
        OutputError,
        (
            f"{registry.host}/{NAME}: {WHAT}: too large: {registry.host} does not take 1.0 MB at once, "
            "and answered 413 (request body too large)"
        ),
        "raise the limit of the registry, or of the proxy in front of it (nginx: client_max_body_size 0)",
    )
    assert registry.uploads == {}


def test_a_registry_without_chunks_gets_the_blob_whole(registry: FakeRegistry, waits: Waits) -> None:
    registry.chunks = False

    push(registry, waits, profile=CHUNKED)

    assert registry.blobs == WHOLE


def test_bytes_that_are_not_those_of_the_digest_are_refused(registry: FakeRegistry, waits: Waits) -> None:
    other = bytes(len(BYTES))

    with pytest.raises(DigestError) as caught:
        push(registry, waits, source=in_memory(other))

    assert caught.value.message == (
        f"{registry.host}/{NAME}: {WHAT}: {registry.host} answered 400 (provided digest did not match uploaded content)"
    )
    assert (registry.blobs, registry.uploads) == ({}, {})


def test_a_registry_that_takes_wrong_bytes_is_found_out(registry: FakeRegistry, waits: Waits) -> None:
    registry.verifies = False
    other = bytes(len(BYTES))

    with pytest.raises(DigestError) as caught:
        push(registry, waits, source=in_memory(other))

    assert caught.value.message == f"{registry.host}/{NAME}: {WHAT}: the registry took it for {digest_of(other)}"


def test_a_source_that_is_too_short_is_named(registry: FakeRegistry, waits: Waits) -> None:
    with pytest.raises(DigestError) as caught:
        push(registry, waits, source=in_memory(BYTES[:-1]))

    assert caught.value.message == f"{WHAT}: expected 2500000 bytes to push, found 2499999"


def test_a_source_that_cannot_be_read_is_no_fault_of_the_network(registry: FakeRegistry, waits: Waits) -> None:
    def broken(_: int) -> Iterator[bytes]:
        yield BYTES[:1000]
        raise OSError(5, "Input/output error")

    with pytest.raises(OutputError) as caught:
        push(registry, waits, source=broken)

    assert caught.value.message == f"cannot read {WHAT}: Input/output error"
    assert waits.seconds == []


def test_a_blob_that_the_registry_will_not_take_is_refused_before_a_byte_is_sent(
    registry: FakeRegistry, waits: Waits
) -> None:
    profile = Profile(name="GHCR", source="none", max_layer_bytes=2_000_000)

    with pytest.raises(OutputError) as caught:
        push(registry, waits, profile=profile)

    assert fault_of(caught.value) == (
        OutputError,
        (
            f"{registry.host}/{NAME}: 1 layer too large for GHCR:\n"
            f"  {BLOB.digest}: 2.5 MB, and GHCR takes at most 2.0 MB a layer"
        ),
        (
            "split the model into smaller shards; or push to another registry; if this one takes more: "
            "--registry-profile layer=SIZE"
        ),
    )
    assert registry.lines() == []


def test_a_blob_of_another_size_in_the_registry_is_a_fault(registry: FakeRegistry, waits: Waits) -> None:
    registry.add_blob(NAME, BYTES)
    registry.fault("HEAD *", length=17)

    with pytest.raises(DigestError) as caught:
        push(registry, waits)

    assert caught.value.message == (f"{registry.host}/{NAME}: {WHAT}: expected 2500000 bytes, found 17 in the registry")
