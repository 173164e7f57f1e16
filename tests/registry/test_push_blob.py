"""A blob on its way into a registry, while all goes well."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from bake.digest import Digest
from bake.image import LAYER, Descriptor
from bake.registry import Profile, in_memory
from tests.registry.faults import digest_of
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
    SOURCE,
    Counted,
    Waits,
    open_at,
    push,
)
from tests.registry.server import FakeRegistry


def test_a_blob_goes_whole_in_one_request(registry: FakeRegistry, waits: Waits) -> None:
    assert push(registry, waits) == "uploaded"

    assert registry.blobs == {NAME: {str(BLOB.digest): BYTES}}
    assert registry.lines() == [HEAD, POST, PUT]


def test_a_blob_that_is_there_is_not_sent(registry: FakeRegistry, waits: Waits) -> None:
    registry.add_blob(NAME, BYTES)
    source = Counted(BYTES)

    assert push(registry, waits, source=source, advance=source.told.append) == "present"

    assert registry.lines() == [HEAD]
    assert (source.offsets, source.told) == ([], [len(BYTES)])


def test_a_blob_of_another_repository_is_mounted(registry: FakeRegistry, waits: Waits) -> None:
    registry.add_blob("org/base", BYTES)
    source = Counted(BYTES)

    assert push(registry, waits, source=source, mount_from="org/base", advance=source.told.append) == "mounted"

    assert registry.blobs[NAME] == {str(BLOB.digest): BYTES}
    assert (source.offsets, sum(source.told)) == ([], len(BYTES))


def test_a_mount_that_is_refused_goes_on_with_the_upload_that_it_opened(registry: FakeRegistry, waits: Waits) -> None:
    registry.mounts = False
    registry.add_blob("org/base", BYTES)

    assert push(registry, waits, mount_from="org/base") == "uploaded"

    assert registry.lines() == [HEAD, POST, PUT]


def test_a_mount_that_is_forbidden_goes_on_without(registry: FakeRegistry, waits: Waits) -> None:
    registry.fault("POST *", status=403)

    assert push(registry, waits, mount_from="org/secret") == "uploaded"

    assert registry.lines() == [HEAD, POST, POST, PUT]


def test_a_mount_alone_tells_whether_it_was_done_and_leaves_no_upload(registry: FakeRegistry, waits: Waits) -> None:
    registry.add_blob("org/base", BYTES)
    with open_at(registry, waits) as opened:
        missing = Descriptor(media_type=LAYER, digest=Digest.of(b"missing"), size=7)

        assert opened.mount(BLOB, "org/base")
        assert not opened.mount(missing, "org/base")

    assert registry.lines() == [POST, POST, DELETE]
    assert registry.uploads == {}


def test_what_is_too_large_for_one_request_goes_in_chunks(registry: FakeRegistry, waits: Waits) -> None:
    assert push(registry, waits, profile=CHUNKED) == "uploaded"

    assert registry.blobs[NAME] == {str(BLOB.digest): BYTES}
    assert registry.lines() == [
        HEAD,
        POST,
        f"{PATCH} 0-999999",
        f"{PATCH} 1000000-1999999",
        f"{PATCH} 2000000-2499999",
        PUT,
    ]


def test_the_registrys_least_chunk_is_kept(registry: FakeRegistry, waits: Waits) -> None:
    registry.least_chunk = 2_000_000

    push(registry, waits, profile=CHUNKED)

    assert registry.lines("PATCH *") == [f"{PATCH} 0-1999999", f"{PATCH} 2000000-2499999"]


@pytest.mark.parametrize("profile", [None, CHUNKED])
def test_a_location_may_be_relative(registry: FakeRegistry, waits: Waits, profile: Profile | None) -> None:
    registry.relative = True

    push(registry, waits, profile=profile)

    assert registry.blobs[NAME] == {str(BLOB.digest): BYTES}


def test_the_query_of_a_location_is_kept(registry: FakeRegistry, waits: Waits) -> None:
    push(registry, waits)

    (put,) = [request for request in registry.requests if request.method == "PUT"]
    assert put.path == f"/v2/{NAME}/blobs/uploads/upload-1?state=1&digest={BLOB.digest}"


def test_an_empty_blob_is_a_blob(registry: FakeRegistry, waits: Waits) -> None:
    empty = Descriptor(media_type=LAYER, digest=Digest.of(b""), size=0)

    assert push(registry, waits, blob=empty, source=in_memory(b"")) == "uploaded"

    assert registry.blobs[NAME] == {digest_of(b""): b""}


@pytest.mark.parametrize("profile", [None, CHUNKED])
def test_progress_adds_up_to_the_size(registry: FakeRegistry, waits: Waits, profile: Profile | None) -> None:
    source = Counted(BYTES)

    push(registry, waits, source=source, profile=profile, advance=source.told.append)

    assert sum(source.told) == len(BYTES)
    assert min(source.told) > 0


def test_several_go_at_once_from_threads(registry: FakeRegistry, waits: Waits) -> None:
    contents = [BYTES[start : start + 300_000] for start in range(0, 2_400_000, 300_000)]
    registry.auth = "token"
    registry.anonymous = True

    with open_at(registry, waits, profile=CHUNKED) as opened, ThreadPoolExecutor(opened.profile.parallel) as pool:
        blobs = [Descriptor(media_type=LAYER, digest=Digest.of(one), size=len(one)) for one in contents]
        arrivals = list(pool.map(opened.push_blob, blobs, map(in_memory, contents)))

    assert arrivals == ["uploaded"] * 8
    assert registry.blobs[NAME] == {digest_of(one): one for one in contents}
    assert len(registry.lines(host="auth")) == 1


def test_an_upload_may_lie_at_another_host_which_gets_no_login(registry: FakeRegistry, waits: Waits) -> None:
    with FakeRegistry() as storage:
        storage.uploads["upload-x"] = bytearray()
        location = f"{storage.url('registry')}/v2/{NAME}/blobs/uploads/upload-x"
        registry.auth = "token"
        registry.anonymous = True
        registry.fault("POST *", status=202, headers={"Location": location})

        push(registry, waits)

        assert storage.blobs[NAME] == {str(BLOB.digest): BYTES}
        assert storage.sent_to("registry") == [None]


def test_without_faults_nobody_waits(registry: FakeRegistry, waits: Waits) -> None:
    push(registry, waits, source=SOURCE, profile=CHUNKED)

    assert waits == Waits()
    assert registry.lines(f"{GET}*") == []
