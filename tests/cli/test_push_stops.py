"""`bake push` stopped at any moment: no tag leads to a part of an image, and the next push completes it."""

from __future__ import annotations

import random
import signal
import time
from typing import TYPE_CHECKING

import pytest

from tests.cli.place import SOON
from tests.cli.pushed import NAME, broken_tags, faults_in, image_in, reference, tags_in, weights_sent
from tests.cli.test_interrupts import INTERRUPTED, once_it_says, stopped

if TYPE_CHECKING:
    from tests.cli.place import Bake, Place
    from tests.hub_server import FakeHub
    from tests.registry.server import FakeRegistry

pytestmark = pytest.mark.slow

MOMENTS = [0.15, 0.22, 0.29, 0.36, 0.43, 0.5, 0.6, 0.7]
"""Seconds after its start at which a push is stopped: while it asks, while it sends, while it puts the tags."""

LARGE = 66 << 20


@pytest.fixture
def large(place: Place, bake: Bake) -> Place:
    """`tiny@v1` in the lock, with two layers that take a while to send."""
    folder = place.add_large_model(LARGE, LARGE + 4096)
    for path in folder.glob("*.safetensors"):
        with path.open("r+b") as stream:
            stream.seek(4096)
            stream.write(random.Random(path.name).randbytes(1 << 20))
    assert bake("-q", "add", "tiny@v1", "dir://m").code == 0
    return place


def check_after(bake: Bake, registry: FakeRegistry) -> None:
    """What must hold after a push was stopped, and after the next."""
    assert broken_tags(registry) == []
    assert bake("-q", "push", "tiny@v1", reference(registry)).code == 0
    assert faults_in(registry) == ()
    assert broken_tags(registry) == []


@pytest.mark.parametrize("after", MOMENTS)
def test_a_push_that_is_killed_leaves_no_broken_tag(
    large: Place, bake: Bake, registry: FakeRegistry, after: float
) -> None:
    stopped(large.start("push", "tiny@v1", reference(registry)), signal.SIGKILL, after=after)

    check_after(bake, registry)


@pytest.mark.parametrize("after", MOMENTS[::3])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_push_that_is_stopped_leaves_no_broken_tag(
    large: Place, bake: Bake, registry: FakeRegistry, number: signal.Signals, after: float
) -> None:
    ran = stopped(large.start("push", "tiny@v1", reference(registry)), number, after=after)

    assert ran.code in {-number, 128 + number, 0, 1}  # 1: the interpreter was still starting
    check_after(bake, registry)


def test_a_push_that_is_killed_again_and_again_comes_to_an_end(
    large: Place, bake: Bake, registry: FakeRegistry
) -> None:
    broken = [tag for after in moments(20) for tag in tags_after_a_kill(large, registry, after)]

    assert broken == []
    check_after(bake, registry)


def moments(count: int) -> list[float]:
    chance = random.Random(5)
    return [chance.uniform(0.15, 0.6) for _ in range(count)]


def tags_after_a_kill(place: Place, registry: FakeRegistry, after: float) -> list[str]:
    """The broken tags once a push was killed so many seconds after its start."""
    stopped(place.start("push", "tiny@v1", reference(registry)), signal.SIGKILL, after=after)
    return broken_tags(registry)


def test_an_older_image_keeps_its_tag_until_the_new_one_is_whole(
    large: Place, bake: Bake, registry: FakeRegistry
) -> None:
    assert bake("-q", "push", "tiny@v1", reference(registry)).code == 0
    older = image_in(registry).descriptor.digest
    with (large.root / "m" / "part-1.safetensors").open("r+b") as shard:
        shard.seek(4096)
        shard.write(b"trained")
    assert bake("-q", "add", "tiny@v2", "dir://m").code == 0
    registry.fault("PUT */blobs/uploads/*", silent=True)

    started = large.start("push", "tiny@v2", reference(registry))
    once_it_says(started, "pushing")
    stopped(started, signal.SIGKILL, after=0.3)

    assert image_in(registry).descriptor.digest == older
    assert broken_tags(registry) == []


def test_what_a_killed_push_has_sent_is_not_sent_again(large: Place, bake: Bake, registry: FakeRegistry) -> None:
    registry.fault("PUT */blobs/uploads/*", skip=1, times=99, silent=True)
    started = large.start("push", "tiny@v1", reference(registry))
    wait_for_a_blob(registry)
    stopped(started, signal.SIGKILL, after=0.0)
    there = sum(map(len, registry.blobs[NAME].values()))
    registry.mend()
    registry.requests.clear()

    assert bake("-q", "push", "tiny@v1", reference(registry)).code == 0
    assert weights_sent(registry) == sum(map(len, registry.blobs[NAME].values())) - there


def wait_for_a_blob(registry: FakeRegistry) -> None:
    until = time.monotonic() + 20
    while not registry.blobs.get(NAME):
        assert time.monotonic() < until
        time.sleep(0.01)


def test_ctrl_c_while_the_registry_is_silent_ends_soon(large: Place, registry: FakeRegistry) -> None:
    registry.fault("PUT */blobs/uploads/*", times=9, silent=True)
    started = large.start("push", "tiny@v1", reference(registry))
    once_it_says(started, "pushing")

    since = time.monotonic()
    ran = stopped(started, signal.SIGINT, after=0.5)

    assert (ran.code, ran.out, ran.err) == (130, "", INTERRUPTED)
    assert time.monotonic() - since < SOON
    assert tags_in(registry) == []


def test_ctrl_c_while_the_registry_asks_to_wait_ends_soon(large: Place, registry: FakeRegistry) -> None:
    registry.fault("PUT */blobs/uploads/*", times=9, status=429, headers={"Retry-After": "100"})
    started = large.start("push", "tiny@v1", reference(registry))
    once_it_says(started, "next try in 100.0 s")

    since = time.monotonic()
    ran = stopped(started, signal.SIGINT, after=0.3)

    assert (ran.code, ran.err.splitlines()[-1]) == (130, "interrupted")
    assert time.monotonic() - since < SOON


def test_ctrl_c_while_the_hub_is_silent_ends_soon(
    hub: FakeHub, place: Place, bake: Bake, registry: FakeRegistry
) -> None:
    assert bake("-q", "add", "tiny@v1", "hf://org/name").code == 0
    hub.fault("cdn/*", times=10, slow=60)
    started = place.start("push", "tiny@v1", reference(registry))
    once_it_says(started, "pushing")

    since = time.monotonic()
    ran = stopped(started, signal.SIGINT, after=0.3)

    assert (ran.code, ran.err.splitlines()[-1]) == (130, "interrupted")
    assert time.monotonic() - since < SOON
    assert tags_in(registry) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_a_push_that_is_stopped_at_any_moment(large: Place, bake: Bake, registry: FakeRegistry, seed: int) -> None:
    chance = random.Random(seed)
    number = chance.choice([signal.SIGINT, signal.SIGTERM, signal.SIGKILL])

    stopped(large.start("push", "tiny@v1", reference(registry)), number, after=chance.uniform(0.1, 1.0))

    check_after(bake, registry)
