"""Blobs out of a registry: proven, whole, and with the login left at the registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bake.digest import Digest
from bake.errors import DigestError, ImageError, NetworkError, SourceError
from bake.image import LAYER, Descriptor
from tests.registry.faults import PASSWORD, USER, basic, digest_of
from tests.registry.samples import (
    BLOB,
    BYTES,
    NAME,
    Waits,
    encoded,
    fault_of,
    open_at,
    read,
    write_config,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.registry.server import FakeRegistry

READ = f"GET /v2/{NAME}/blobs/sha256:…"
WHAT = f"blob {BLOB.digest}"
NOT_TRUE = "what a digest names never changes: check what answers in the registry's place"


@pytest.fixture(autouse=True)
def held(registry: FakeRegistry) -> None:
    registry.add_blob(NAME, BYTES)


def test_a_blob_is_read(registry: FakeRegistry, waits: Waits) -> None:
    assert read(registry, waits) == BYTES


def test_a_blob_is_read_from_an_offset(registry: FakeRegistry, waits: Waits) -> None:
    assert read(registry, waits, offset=1_234_567) == BYTES[1_234_567:]
    assert registry.lines() == [f"{READ} bytes=1234567-"]


@pytest.mark.parametrize("cut", [0, 1, 1_500_000, 2_499_999])
def test_a_body_that_breaks_is_continued_where_it_broke(registry: FakeRegistry, waits: Waits, cut: int) -> None:
    registry.fault("GET */blobs/*", cut_answer=cut)

    assert read(registry, waits) == BYTES

    assert registry.lines() == [READ, *([f"{READ} bytes={cut}-"] if cut else [READ])]


def test_a_registry_that_ignores_range_is_read_from_the_start(registry: FakeRegistry, waits: Waits) -> None:
    registry.fault("GET */blobs/*", cut_answer=1_500_000)
    registry.fault("GET */blobs/*", ignore_range=True)

    assert read(registry, waits) == BYTES


def test_a_body_that_drips_is_put_together(registry: FakeRegistry, waits: Waits) -> None:
    small = Descriptor(media_type=LAYER, digest=Digest.of(BYTES[:3000]), size=3000)
    registry.add_blob(NAME, BYTES[:3000])
    registry.fault("GET */blobs/*", drip=7)

    assert read(registry, waits, blob=small) == BYTES[:3000]


def test_other_bytes_are_found_out_before_the_last_chunk_is_handed_on(registry: FakeRegistry, waits: Waits) -> None:
    other = BYTES[:-1] + bytes([BYTES[-1] ^ 1])
    registry.fault("GET */blobs/*", content=other)
    taken: list[bytes] = []

    with open_at(registry, waits, access="pull") as opened, pytest.raises(DigestError) as caught:
        taken.extend(opened.open_blob(BLOB))

    assert fault_of(caught.value) == (
        DigestError,
        f"{registry.host}/{NAME}: {WHAT}: found bytes of {digest_of(other)}",
        NOT_TRUE,
    )
    assert len(b"".join(taken)) < len(BYTES)


@pytest.mark.parametrize(("content", "found"), [(BYTES + b"x", "2500001"), (BYTES[:-1], "2499999")])
def test_a_body_of_another_size_is_refused(registry: FakeRegistry, waits: Waits, content: bytes, found: str) -> None:
    registry.fault("GET */blobs/*", content=content)

    with pytest.raises(DigestError) as caught:
        read(registry, waits)

    assert caught.value.message == f"{registry.host}/{NAME}: {WHAT}: expected 2500000 bytes, found {found}"


def test_a_blob_that_ends_before_the_offset_is_of_another_size(registry: FakeRegistry, waits: Waits) -> None:
    larger = Descriptor(media_type=LAYER, digest=BLOB.digest, size=9_000_000)

    with pytest.raises(DigestError) as caught:
        read(registry, waits, blob=larger, offset=3_000_000)

    assert caught.value.message == f"{registry.host}/{NAME}: {WHAT}: expected more bytes than {registry.host} has"


def test_a_blob_that_is_missing_is_named(registry: FakeRegistry, waits: Waits) -> None:
    missing = Descriptor(media_type=LAYER, digest=Digest.of(b"missing"), size=7)

    with pytest.raises(ImageError) as caught:
        read(registry, waits, blob=missing)

    assert fault_of(caught.value) == (
        ImageError,
        f"{registry.host}/{NAME}: the registry has no blob {missing.digest} (blob unknown to registry)",
        "check name, tag and digest",
    )


@pytest.mark.parametrize("auth", ["basic", "token"])
def test_no_login_follows_a_redirect_to_another_host(
    registry: FakeRegistry, waits: Waits, docker_config: Path, auth: str
) -> None:
    registry.auth = auth  # type: ignore[assignment]
    registry.redirects = True
    write_config(docker_config, auths={registry.host: encoded(USER, PASSWORD)})

    assert read(registry, waits, offset=10) == BYTES[10:]

    assert registry.sent_to("cdn") == [None]
    assert registry.lines(host="cdn")[0].endswith(" bytes=10-")


def test_a_signed_url_that_ran_out_is_signed_again(registry: FakeRegistry, waits: Waits) -> None:
    registry.redirects = True
    registry.fault("GET /[0-9a-f]*", status=403)

    assert read(registry, waits) == BYTES

    assert waits.words == [f"{registry.host}/{NAME}: {WHAT}: {registry.address('cdn')} answered 403; next try in 1.0 s"]


def test_redirects_without_end_are_told(registry: FakeRegistry, waits: Waits) -> None:
    registry.fault("GET */blobs/*", times=99, status=302, headers={"Location": "?again"})

    with pytest.raises(NetworkError) as caught:
        read(registry, waits)

    assert caught.value.message == f"{registry.host}/{NAME}: {registry.host} redirects without end"


def test_reading_without_permission_is_a_fault_of_the_source(registry: FakeRegistry, waits: Waits) -> None:
    registry.auth = "token"

    with open_at(registry, waits, access="pull") as opened, pytest.raises(SourceError) as caught:
        opened.image()

    assert fault_of(caught.value) == (
        SourceError,
        f"{registry.host} lets no stranger read {NAME}: incorrect username or password",
        f"docker login {registry.host}",
    )


def test_a_login_is_sent_with_every_request_to_the_registry(
    registry: FakeRegistry, waits: Waits, docker_config: Path
) -> None:
    registry.auth = "basic"
    write_config(docker_config, auths={registry.host: encoded(USER, PASSWORD)})

    read(registry, waits)

    assert registry.sent_to("registry") == [None, basic()]


# --- parts


def read_part(registry: FakeRegistry, waits: Waits, *, offset: int, size: int) -> bytes:
    with open_at(registry, waits, access="pull") as opened:
        return b"".join(opened.open_part(BLOB, offset=offset, size=size))


def test_a_part_is_asked_for_and_no_more(registry: FakeRegistry, waits: Waits) -> None:
    assert read_part(registry, waits, offset=1000, size=500) == BYTES[1000:1500]
    assert registry.lines() == [f"{READ} bytes=1000-1499"]


def test_a_part_that_breaks_is_continued_where_it_broke(registry: FakeRegistry, waits: Waits) -> None:
    registry.fault("GET */blobs/*", cut_answer=1_200_000)

    assert read_part(registry, waits, offset=1000, size=2_000_000) == BYTES[1000:2_001_000]
    assert registry.lines() == [f"{READ} bytes=1000-2000999", f"{READ} bytes=1201000-2000999"]


def test_a_part_is_found_in_the_whole_where_range_is_ignored(registry: FakeRegistry, waits: Waits) -> None:
    registry.fault("GET */blobs/*", ignore_range=True)

    assert read_part(registry, waits, offset=1_100_000, size=500) == BYTES[1_100_000:1_100_500]


def test_a_part_s_connection_serves_the_next_one_too(registry: FakeRegistry, waits: Waits) -> None:
    with open_at(registry, waits, access="pull") as opened:
        first = b"".join(opened.open_part(BLOB, offset=0, size=10))
        before = registry.connections
        second = b"".join(opened.open_part(BLOB, offset=10, size=10))

    assert (first + second, registry.connections) == (BYTES[:20], before)
