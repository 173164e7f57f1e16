"""bake stopped at any moment: no corrupt image, no lost lock, nothing left over after the next build.

A process that is killed cannot tidy up. What it leaves must count for nothing, and the next build clears it away.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from typing import TYPE_CHECKING

import pytest

from bake.digest import Digest
from bake.lock.parse import parse
from bake.store import Store, building
from tests.cli.place import EMPTY_LOCK, SOON, Bake, Place, Ran, Started, finish, whole
from tests.entrypoint.files import safetensors, shard

if TYPE_CHECKING:
    from pathlib import Path

    from tests.hub_server import FakeHub

pytestmark = pytest.mark.slow

MOMENTS = [0.06, 0.09, 0.12, 0.15, 0.18, 0.21, 0.25, 0.3, 0.4, 0.5]
"""Seconds after its start at which a bake is stopped: while it starts, while it packs, while it ends."""

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGKILL]
INTERRUPTED = "\ninterrupted\n"
"""What stderr ends with; a terminal has shown ^C before."""

LARGE = 66 << 20


def stopped(started: Started, number: signal.Signals, *, after: float) -> Ran:
    """Let a bake run for so many seconds, then send it a signal, and wait for its end."""
    time.sleep(after)
    started.send_signal(number)
    return finish(started)


def once_it_says(started: Started, text: str) -> None:
    """Wait until a bake has written a line with that text to stderr."""
    assert started.stderr is not None
    assert any(text in line for line in started.stderr)


def left_over(place: Place) -> list[str]:
    """Files that no finished bake has: written beside, on their way, temporary."""
    below = [path for folder in (place.root, place.store) for path in folder.rglob("*") if path.is_file()]
    kept = place.store / "memory"  # a few bytes each, which `bake cache prune` deletes after a month
    return sorted(path.name for path in below if path.name.startswith((".", "tmp")) and kept not in path.parents)


def test_what_a_kill_left_in_the_store_is_pruned(tiny: Place, bake: Bake) -> None:
    stray = tiny.store / "memory" / "hash" / "ab" / ".cdef.0123456789abcdef"
    stray.parent.mkdir(parents=True, exist_ok=True)
    stray.write_text("0")

    assert bake("-q", "cache", "prune", "--all").code == 0
    assert not stray.exists()


def test_what_a_kill_left_beside_an_index_is_cleared(built: Place, bake: Bake) -> None:
    stray = built.root / "dist" / "tiny-v1" / ".index.json.0123456789abcdef"
    stray.write_text("{")

    assert bake("-q", "build", "tiny@v1").code == 0
    assert not stray.exists()


def test_a_build_that_was_killed_at_its_very_start_can_be_repeated(tiny: Place, bake: Bake) -> None:
    (tiny.root / "dist" / "tiny-v1").mkdir(parents=True)
    (tiny.root / "dist" / "tiny-v1" / ".oci-layout.0123456789abcdef").touch()

    assert bake("-q", "build", "tiny@v1").code == 0


def test_what_a_kill_left_beside_the_lock_is_cleared_and_nothing_else(tiny: Place, bake: Bake) -> None:
    stray, swap = tiny.root / ".models.lock.0123456789abcdef", tiny.root / ".models.lock.swp"
    stray.write_text("version")
    swap.write_text("an editor's")

    assert bake("-q", "add", "other@v1", "dir://m").code == 0
    assert (stray.exists(), swap.exists()) == (False, True)


def large(place: Place, bake: Bake) -> str:
    """`tiny@v1` in the lock, with layers to pack; returns the digest that its image has."""
    folder = place.add_large_model(LARGE, 33 << 20)
    for path in folder.glob("*.safetensors"):
        with path.open("r+b") as stream:
            stream.seek(4096)
            stream.write(random.Random(path.name).randbytes(1 << 20))
    assert bake("-q", "add", "tiny@v1", "dir://m").code == 0
    digest = bake("-q", "build", "tiny@v1").digest
    shutil.rmtree(place.root / "dist")
    shutil.rmtree(place.store)
    return digest


def check_after(place: Place, bake: Bake, *, digest: str, lock: bytes) -> None:
    """What must hold after a build was stopped, and after the next."""
    assert place.lock.read_bytes() == lock
    built = (place.root / "dist" / "tiny-v1" / "index.json").exists()
    assert bake("-q", "verify", "tiny@v1", "--level", "full").code == (0 if built else 8)
    again = bake("-q", "build", "tiny@v1")
    assert (again.digest, again.err) == (digest, "")
    assert whole(place.root / "dist" / "tiny-v1") == ()
    assert place.lock.read_bytes() == lock


@pytest.mark.parametrize("after", MOMENTS)
def test_a_build_that_is_killed_leaves_no_image_or_a_whole_one(place: Place, bake: Bake, after: float) -> None:
    digest, lock = large(place, bake), place.lock.read_bytes()

    ran = stopped(place.start("build", "tiny@v1"), signal.SIGKILL, after=after)

    assert ran.code in {-signal.SIGKILL, 0}
    check_after(place, bake, digest=digest, lock=lock)
    assert left_over(place) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("after", MOMENTS[::3])
def test_a_build_that_is_stopped_leaves_no_image_or_a_whole_one(
    place: Place, bake: Bake, number: signal.Signals, after: float
) -> None:
    digest, lock = large(place, bake), place.lock.read_bytes()

    ran = stopped(place.start("build", "tiny@v1"), number, after=after)

    assert ran.code in {-number, 128 + number, 0, 1}  # 1: the interpreter was still starting
    check_after(place, bake, digest=digest, lock=lock)
    assert left_over(place) == []


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("seed", range(60))
def test_a_build_that_is_stopped_at_any_moment(place: Place, bake: Bake, number: signal.Signals, seed: int) -> None:
    digest, lock = large(place, bake), place.lock.read_bytes()

    stopped(place.start("build", "tiny@v1"), number, after=random.Random(seed).uniform(0.05, 0.6))

    check_after(place, bake, digest=digest, lock=lock)
    assert left_over(place) == []


def test_a_build_that_is_killed_a_hundred_times_in_a_row(place: Place, bake: Bake) -> None:
    digest, lock = large(place, bake), place.lock.read_bytes()

    kill_often(place, "build", "tiny@v1")

    check_after(place, bake, digest=digest, lock=lock)
    assert left_over(place) == []


def kill_often(place: Place, *words: str) -> None:
    chance = random.Random(9)
    for _ in range(100):
        stopped(place.start(*words), signal.SIGKILL, after=chance.uniform(0.05, 0.4))


@pytest.mark.parametrize("after", MOMENTS[::2])
def test_an_older_image_stays_until_the_new_one_is_whole(place: Place, bake: Bake, after: float) -> None:
    large(place, bake)
    assert bake("-q", "build", "tiny@v1").code == 0
    (place.root / "m" / "config.json").write_text('{"model_type": "qwen2"}')
    assert bake("-q", "lock", "--upgrade", "tiny@v1").code == 0
    shutil.rmtree(place.store)

    stopped(place.start("build", "tiny@v1"), signal.SIGKILL, after=after)

    assert whole(place.root / "dist" / "tiny-v1") == ()
    assert bake("-q", "verify", "oci:dist/tiny-v1", "--level", "full").code == 0
    assert bake("-q", "build", "tiny@v1").code == 0
    assert bake("-q", "verify", "tiny@v1", "--level", "full").code == 0


@pytest.mark.parametrize("after", MOMENTS[1::2])
def test_an_add_that_is_killed_leaves_the_old_lock_or_the_new_one(place: Place, bake: Bake, after: float) -> None:
    place.add_large_model(LARGE, 33 << 20)

    ran = stopped(place.start("add", "tiny@v1", "dir://m"), signal.SIGKILL, after=after)

    models = parse(place.lock.read_text()).models
    assert len(models) == (1 if ran.code == 0 else len(models))
    assert place.lock.read_text() == EMPTY_LOCK or models[0].is_locked
    assert bake("-q", "lock", "--check").code in {0, 1}
    assert bake("-q", "add", "other@v1", "dir://m").code == 0


@pytest.mark.parametrize("seed", range(60))
def test_a_lock_that_is_killed_loses_no_model(place: Place, bake: Bake, seed: int) -> None:
    """Each model is saved as soon as it is resolved, so that the lock is written many times."""
    place.add_model()
    asked = [f'\n[[model]]\nname = "m{number}"\nversion = "v1"\nsource = "dir://m"\n' for number in range(40)]
    place.write_lock(EMPTY_LOCK + "".join(asked))

    stopped(place.start("lock"), signal.SIGKILL, after=random.Random(seed).uniform(0.1, 0.5))

    assert len(parse(place.lock.read_text()).models) == 40
    assert bake("-q", "lock").code == 0
    assert left_over(place) == []


@pytest.mark.parametrize("words", [("build", "tiny@v1"), ("add", "other@v1", "dir://m"), ("lock", "tiny@v1")])
def test_ctrl_c_ends_soon_and_says_so(place: Place, bake: Bake, words: tuple[str, ...]) -> None:
    place.add_large_model(LARGE)
    assert bake("-q", "add", "tiny@v1", "dir://m").code == 0
    grow(place.root / "m" / "part-1.safetensors")
    started = place.start(*words)
    once_it_says(started, "@v1: ")

    since = time.monotonic()
    ran = stopped(started, signal.SIGINT, after=0.05)

    assert (ran.code, ran.out) == (130, "")
    assert ran.err == INTERRUPTED
    assert time.monotonic() - since < SOON


def grow(path: Path, size: int = 1 << 40) -> None:
    """Make a shard so large, of holes, that no machine reads it within seconds."""
    head = f'{{"t1":{{"dtype":"U8","shape":[{size}],"data_offsets":[0,{size}]}}}}'.encode()
    with path.open("wb") as stream:
        stream.write(len(head).to_bytes(8, "little") + head)
        stream.truncate(8 + len(head) + size)


def test_ctrl_c_while_a_folder_is_verified_ends_soon(place: Place, bake: Bake) -> None:
    folder = place.add_large_model(LARGE)
    bake("-q", "add", "tiny@v1", "dir://m")
    grow(folder / "part-1.safetensors", size=1 << 40)
    size = (folder / "part-1.safetensors").stat().st_size
    place.write_lock(locked_as_large(place.lock.read_text(), size))
    started = place.start("verify", "m", "--level", "full")
    once_it_says(started, "verifying")

    since = time.monotonic()
    ran = stopped(started, signal.SIGINT, after=0.3)

    assert (ran.code, ran.err) == (130, INTERRUPTED)
    assert time.monotonic() - since < SOON


def test_ctrl_c_while_the_hub_is_silent_ends_soon(hub: FakeHub, place: Place, bake: Bake) -> None:
    assert bake("-q", "add", "tiny@v1", "hf://org/name").code == 0
    hub.fault("cdn/*", times=10, slow=60)
    started = place.start("build", "tiny@v1")
    once_it_says(started, "tiny@v1: packing")

    since = time.monotonic()
    ran = stopped(started, signal.SIGINT, after=0.3)

    assert (ran.code, ran.err) == (130, INTERRUPTED)
    assert time.monotonic() - since < SOON


def test_ctrl_c_while_the_hub_asks_to_wait_ends_soon(hub: FakeHub, place: Place, bake: Bake) -> None:
    assert bake("-q", "add", "tiny@v1", "hf://org/name").code == 0
    hub.fault(f"cdn/{Digest.of(shard('c')).hex}", times=10, status=429, headers={"Retry-After": "100"})
    started = place.start("build", "tiny@v1")
    once_it_says(started, "answered 429 (too many requests); next try in 100.0 s")

    since = time.monotonic()
    ran = stopped(started, signal.SIGINT, after=0.3)

    assert (ran.code, ran.err) == (130, INTERRUPTED)
    assert time.monotonic() - since < SOON


def test_a_lock_that_is_held_is_waited_for_and_ctrl_c_ends_the_wait(place: Place) -> None:
    with Store(place.store).holding(f"lock {place.lock}"):
        started = place.start("lock")
        once_it_says(started, "waiting for another bake")

        since = time.monotonic()
        ran = stopped(started, signal.SIGINT, after=0.1)

    assert (ran.code, ran.out, ran.err) == (130, "", INTERRUPTED)
    assert time.monotonic() - since < SOON


def test_an_output_that_is_held_is_waited_for_and_then_written(tiny: Place) -> None:
    with Store(tiny.store).holding(building(tiny.root / "dist" / "tiny-v1")):
        started = tiny.start("build", "tiny@v1")
        once_it_says(started, "waiting for another bake")

    assert finish(started).code == 0
    assert whole(tiny.root / "dist" / "tiny-v1") == ()


def test_a_stopped_fetch_goes_on_where_it_was(hub: FakeHub, place: Place, bake: Bake) -> None:
    large = safetensors({"t": ("U8", [40 << 20])})
    hub.add_repo("org/large", {"config.json": b"{}", "model.safetensors": large})
    assert bake("-q", "add", "tiny@v1", "hf://org/large").code == 0
    hub.fault("cdn/*", times=1, cut=30 << 20)
    hub.fault("cdn/*", times=1, slow=60)
    started = place.start("build", "tiny@v1")
    wait_for_bytes(place.store / "partial", 20 << 20)

    stopped(started, signal.SIGKILL, after=0.0)
    hub.mend()
    hub.requests.clear()

    assert bake("-q", "build", "tiny@v1").code == 0
    (asked,) = hub.requested("cdn/*")
    assert asked.range is not None
    assert whole(place.root / "dist" / "tiny-v1") == ()
    assert left_over(place) == []


def wait_for_bytes(folder: Path, size: int) -> None:
    """Wait until the files of a folder take so many bytes."""
    until = time.monotonic() + 20
    while sum(path.stat().st_size for path in folder.glob("*")) < size:
        assert time.monotonic() < until
        time.sleep(0.01)


def test_the_signal_of_a_vanished_terminal_leaves_no_half_image(place: Place, bake: Bake) -> None:
    digest, lock = large(place, bake), place.lock.read_bytes()

    stopped(place.start("build", "tiny@v1"), signal.SIGHUP, after=0.25)

    check_after(place, bake, digest=digest, lock=lock)
    assert os.listdir(place.root / "dist") == ["tiny-v1"]


def locked_as_large(lock: str, size: int) -> str:
    """The lock of a model whose shard has another size; what its bytes are does not matter."""
    from dataclasses import replace

    from bake.lock.dump import dumps
    from bake.record import set_digest

    whole_lock = parse(lock)
    (model,) = whole_lock.models
    files = tuple(replace(file, size=size if file.path.endswith("safetensors") else file.size) for file in model.files)
    grown = replace(model, files=files, set_digest=set_digest(files), packer=None, layers=())
    return dumps(whole_lock.with_model(grown))
