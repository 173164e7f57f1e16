"""A blob on its way into a registry, while things break: what arrived is not sent again, and nothing wrong is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bake.errors import NetworkError
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
    Counted,
    Waits,
    fault_of,
    push,
)

if TYPE_CHECKING:
    from tests.registry.server import FakeRegistry

WHOLE = {NAME: {str(BLOB.digest): BYTES}}
NO_RESUME = Profile(name="ECR", source="none", put_bytes=0, chunk_bytes=1_000_000, resumable=False)
WHAT = f"blob {BLOB.digest}"


@pytest.mark.parametrize("cut", [0, 1, 999_999, 2_499_999])
def test_a_whole_upload_that_is_cut_goes_on_in_chunks_where_the_registry_says(
    registry: FakeRegistry, waits: Waits, cut: int
) -> None:
    registry.fault("PUT *", cut=cut)
    source = Counted(BYTES)

    push(registry, waits, source=source, advance=source.told.append)

    reached = cut if cut > 1 else 0  # a Range of 0-0 may mean none, and is taken for that
    assert registry.blobs == WHOLE
    assert source.offsets[:2] == [0, reached]
    assert sum(source.told) == len(BYTES)


def test_a_chunk_that_is_cut_goes_on_within(registry: FakeRegistry, waits: Waits) -> None:
    registry.fault("PATCH *", skip=1, cut=300_000)

    push(registry, waits, profile=CHUNKED)

    assert registry.blobs == WHOLE
    assert registry.lines() == [
        HEAD,
        POST,
        f"{PATCH} 0-999999",
        f"{PATCH} 1000000-1999999",
        GET,
        f"{PATCH} 1300000-2299999",
        f"{PATCH} 2300000-2499999",
        PUT,
    ]
    assert waits.seconds == [1.0]


def test_a_registry_that_forgets_a_cut_upload_gets_it_again(registry: FakeRegistry, waits: Waits) -> None:
    registry.forgets = True
    registry.fault("PATCH *", skip=1, cut=300_000)
    source = Counted(BYTES)

    push(registry, waits, profile=CHUNKED, source=source, advance=source.told.append)

    assert registry.blobs == WHOLE
    assert source.offsets == [0, 1_000_000, 0, 1_000_000, 2_000_000]
    assert sum(source.told) == len(BYTES)


def test_a_registry_whose_word_is_not_to_be_trusted_is_not_asked(registry: FakeRegistry, waits: Waits) -> None:
    registry.fault("PATCH *", skip=1, cut=300_000)

    push(registry, waits, profile=NO_RESUME)

    assert registry.blobs == WHOLE
    assert registry.lines(f"{GET}*") == []
    assert len(registry.lines("POST *")) == 2


def test_a_range_that_sticks_is_not_believed_and_the_blob_goes_whole(registry: FakeRegistry, waits: Waits) -> None:
    registry.stuck_range = True
    profile = Profile(name="the registry", source="none", chunk_bytes=1_000_000)
    registry.fault("PUT *", cut=500_000)

    push(registry, waits, profile=profile)

    assert registry.blobs == WHOLE
    assert waits.words[-1] == (
        f"{registry.host}/{NAME}: {WHAT}: the registry does not go on from byte 1000, where it says that it is; "
        "next try in 1.0 s"
    )


def test_a_range_that_sticks_at_a_registry_known_for_it_costs_nothing(registry: FakeRegistry, waits: Waits) -> None:
    registry.stuck_range = True

    push(registry, waits, profile=NO_RESUME)

    assert registry.blobs == WHOLE
    assert len(registry.lines("PATCH *")) == 3


@pytest.mark.parametrize("claimed", ["0-2499998", "0-499999", "bytes 0-1299999", ""])
def test_a_position_that_cannot_be_is_not_believed(registry: FakeRegistry, waits: Waits, claimed: str) -> None:
    registry.fault("PATCH *", skip=1, cut=300_000)
    registry.fault("GET *", skip=1, range=claimed)

    push(registry, waits, profile=CHUNKED)

    assert registry.blobs == WHOLE
    assert registry.lines("PATCH *")[2:] == [
        f"{PATCH} 0-999999",
        f"{PATCH} 1000000-1999999",
        f"{PATCH} 2000000-2499999",
    ]


@pytest.mark.parametrize(("claimed", "bytes_"), [("0-1999999", 2_000_000), ("0-0", 0)])
def test_a_chunk_that_a_registry_counts_wrongly_starts_the_upload_again(
    registry: FakeRegistry, waits: Waits, claimed: str, bytes_: int
) -> None:
    registry.fault("PATCH *", range=claimed)

    push(registry, waits, profile=CHUNKED)

    assert registry.blobs == WHOLE
    assert len(registry.lines("POST *")) == 2
    assert waits.words == [
        (
            f"{registry.host}/{NAME}: {WHAT}: the registry took the bytes to 1000000, and says that it has {bytes_}; "
            "next try in 1.0 s"
        )
    ]


def test_an_answer_that_was_lost_after_the_blob_arrived_sends_nothing_again(
    registry: FakeRegistry, waits: Waits
) -> None:
    registry.fault("PUT *", lost=True)
    source = Counted(BYTES)

    assert push(registry, waits, source=source, advance=source.told.append) == "uploaded"

    assert source.offsets == [0]
    assert registry.lines() == [HEAD, POST, PUT, GET, HEAD]
    assert sum(source.told) == len(BYTES)


def test_an_answer_to_a_chunk_that_was_lost_sends_nothing_again(registry: FakeRegistry, waits: Waits) -> None:
    registry.fault("PATCH *", lost=True)
    source = Counted(BYTES)

    push(registry, waits, source=source, profile=CHUNKED)

    assert source.offsets == [0, 1_000_000, 2_000_000]


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
@pytest.mark.parametrize("method", ["HEAD", "POST"])
def test_a_fault_that_may_pass_is_waited_out(registry: FakeRegistry, waits: Waits, status: int, method: str) -> None:
    registry.fault(f"{method} *", times=2, status=status)

    push(registry, waits)

    assert registry.blobs == WHOLE
    assert waits.seconds == [1.0, 2.0]


def test_a_fault_of_the_last_request_that_may_pass_is_waited_out(registry: FakeRegistry, waits: Waits) -> None:
    registry.fault("PUT *", times=2, status=503)

    push(registry, waits)

    assert registry.blobs == WHOLE
    assert len(waits.seconds) == 2


def test_the_registrys_own_wait_is_kept(registry: FakeRegistry, waits: Waits) -> None:
    registry.fault("POST *", status=429, headers={"Retry-After": "7"})

    push(registry, waits)

    assert waits.seconds == [7.0]
    assert waits.words == [f"{registry.host}/{NAME}: {WHAT}: {registry.host} answered 429; next try in 7.0 s"]


def test_a_wait_that_is_too_long_ends_it(registry: FakeRegistry, waits: Waits) -> None:
    registry.fault("POST *", status=429, headers={"Retry-After": "3600"})

    with pytest.raises(NetworkError) as caught:
        push(registry, waits)

    assert caught.value.message == (
        f"{registry.host}/{NAME}: {WHAT}: {registry.host} answered 429, and asks to wait 3600 s"
    )


def test_it_is_given_up_after_some_tries_without_a_byte_gained(registry: FakeRegistry, waits: Waits) -> None:
    registry.fault("PATCH *", skip=1, times=99, status=503, body=b'{"errors": [{"code": "X", "message": "disk full"}]}')

    with pytest.raises(NetworkError) as caught:
        push(registry, waits, profile=CHUNKED)

    assert fault_of(caught.value) == (
        NetworkError,
        f"{registry.host}/{NAME}: {WHAT}: {registry.host} answered 503 (disk full) (4 tries)",
        "wait a while",
    )
    assert registry.lines()[-1] == DELETE


def test_a_registry_that_loses_every_upload_does_not_go_on_for_ever(registry: FakeRegistry, waits: Waits) -> None:
    registry.forgets = True
    registry.fault("PATCH *1", skip=1, times=1, cut=10)
    registry.fault("PATCH *", skip=1, times=99, cut=10)

    with pytest.raises(NetworkError, match="4 tries"):
        push(registry, waits, profile=CHUNKED)


def test_a_registry_that_ends_long_uploads_is_told_with_the_speed_that_it_needs(
    registry: FakeRegistry, waits: Waits
) -> None:
    registry.fault("PUT *", times=99, cut=0)
    registry.forgets = True
    profile = Profile(name="GHCR", source="none", upload_seconds=600, resumable=False)

    with pytest.raises(NetworkError) as caught:
        push(registry, waits, profile=profile)

    assert caught.value.hint == "GHCR ends an upload after 10 minutes: 2.5 MB need 4.2 kB/s at least"


def test_a_login_that_ends_on_the_way_is_renewed(registry: FakeRegistry, waits: Waits) -> None:
    registry.auth, registry.anonymous = "token", True
    registry.fault("PATCH *", skip=1, expire=True)

    push(registry, waits, profile=CHUNKED)

    assert registry.blobs == WHOLE
    assert len(registry.lines(host="auth")) == 2
    assert waits.seconds == []


def test_a_refusal_on_the_way_does_not_count_bytes_twice(registry: FakeRegistry, waits: Waits) -> None:
    registry.auth, registry.anonymous = "token", True
    registry.fault("PATCH *", skip=1, status=401)
    source = Counted(BYTES)

    push(registry, waits, source=source, profile=CHUNKED, advance=source.told.append)

    assert source.offsets == [0, 1_000_000, 1_000_000, 2_000_000]
    assert sum(source.told) == len(BYTES)
