"""The store: what a killed fetch leaves, two bakes at once, what is believed without reading it, and pruning."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bake.digest import Digest
from bake.errors import DigestError, OutputError
from bake.snapshot import Fingerprint
from bake.store import Store, Usage, building

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CONTENT = b"0123456789" * 1000
DIGEST = Digest.of(CONTENT)
DAY = 86400


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


class Source:
    """Where a file is fetched from; it notes from which offsets it was asked."""

    def __init__(self, content: bytes = CONTENT, *, fail_after: int | None = None) -> None:
        self.content = content
        self.fail_after = fail_after
        self.offsets: list[int] = []

    def stream(self, offset: int) -> Iterator[bytes]:
        self.offsets.append(offset)
        for start in range(offset, len(self.content), 1000):
            if self.fail_after is not None and start >= self.fail_after:
                raise DigestError("the line went dead")
            yield self.content[start : start + 1000]


def fetch(store: Store, source: Source, show: Callable[[bytes], object] = lambda _: None) -> Path:
    return store.fetch(source.stream, name="tiny@v1: model.bin", digest=DIGEST, size=len(CONTENT), show=show)


def partial(store: Store, content: bytes, *, name: str = DIGEST.hex) -> Path:
    """What an earlier try left."""
    path = store.root / "partial" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def left_in_work(store: Store, content: bytes) -> Path:
    """A blob of an image that was on its way to the daemon when its build was killed."""
    path = store.work / "tiny-v1" / "blobs" / "sha256" / ("b" * 64)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def age(path: Path, days: float) -> None:
    os.utime(path, (time.time() - days * DAY, time.time() - days * DAY))


# --- where it is


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"BAKE_CACHE": "/a/b"}, "/a/b"),
        ({"BAKE_CACHE": "~/b"}, "/home/me/b"),
        ({"XDG_CACHE_HOME": "/c"}, "/c/bake"),
        ({"XDG_CACHE_HOME": ""}, "/home/me/.cache/bake"),
        ({}, "/home/me/.cache/bake"),
    ],
)
def test_the_store_is_where_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], expected: str
) -> None:
    monkeypatch.delenv("BAKE_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/home/me")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    assert Store.default().root == Path(expected)


def test_nothing_is_created_before_something_is_kept(store: Store) -> None:
    store.file(DIGEST, size=1)
    store.layer(DIGEST, size=1)
    store.diff_id(DIGEST)

    assert store.usage() == tuple(
        Usage(kind=kind, count=0, size=0) for kind in ("files", "layers", "partial", "work", "memory")
    )
    assert not store.root.exists()


# --- fetch


def test_a_file_is_fetched_once(store: Store) -> None:
    source = Source()

    paths = {fetch(store, source), fetch(store, source)}

    assert [path.read_bytes() for path in paths] == [CONTENT]
    assert source.offsets == [0]
    assert store.file(DIGEST, size=len(CONTENT)) in paths


def test_a_fetched_file_is_read_only_and_leaves_no_partial(store: Store) -> None:
    path = fetch(store, Source())

    assert path.stat().st_mode & 0o777 == 0o444
    assert list((store.root / "partial").iterdir()) == []


def test_a_fetch_goes_on_where_it_broke_off(store: Store) -> None:
    source = Source(fail_after=3000)
    with pytest.raises(DigestError, match="the line went dead"):
        fetch(store, source)
    source.fail_after = None
    shown: list[bytes] = []

    path = fetch(store, source, shown.append)

    assert source.offsets == [0, 3000]
    assert path.read_bytes() == b"".join(shown) == CONTENT


@pytest.mark.parametrize(("left", "asked"), [(b"", [0]), (CONTENT[:7], [7]), (CONTENT, []), (CONTENT + b"!", [0])])
def test_what_an_earlier_try_left_is_used_where_it_can_be(store: Store, left: bytes, asked: list[int]) -> None:
    partial(store, left)
    source = Source()

    assert fetch(store, source).read_bytes() == CONTENT
    assert source.offsets == asked


@pytest.mark.parametrize("content", [CONTENT[:-1] + b"!", CONTENT[:-1], CONTENT * 2], ids=["other", "less", "more"])
def test_wrong_bytes_are_refused_and_nothing_is_kept(store: Store, content: bytes) -> None:
    with pytest.raises(DigestError) as caught:
        fetch(store, Source(content))

    assert caught.value.message.startswith(f"tiny@v1: model.bin: expected {DIGEST} of 10000 bytes, found sha256:")
    assert caught.value.hint == "the source sent other bytes than it lists; try again, or another HF_ENDPOINT"
    assert store.file(DIGEST, size=len(CONTENT)) is None
    assert list((store.root / "partial").iterdir()) == []


def test_no_more_is_taken_than_a_file_has(store: Store) -> None:
    shown: list[bytes] = []

    with pytest.raises(DigestError):
        fetch(store, Source(CONTENT * 100), shown.append)

    assert sum(map(len, shown)) <= len(CONTENT) + 1000


def test_an_earlier_try_with_wrong_bytes_is_thrown_away(store: Store) -> None:
    partial(store, b"x" * 10)
    with pytest.raises(DigestError):
        fetch(store, Source())

    assert fetch(store, Source()).read_bytes() == CONTENT


def test_threads_that_want_one_file_fetch_it_once(store: Store) -> None:
    source = Source()
    with ThreadPoolExecutor(6) as pool:
        paths = list(pool.map(lambda _: fetch(store, source), range(6)))

    assert len(set(paths)) == 1
    assert source.offsets == [0]


FETCHER = """
import sys, time
from pathlib import Path
from bake.digest import Digest
from bake.store import Store

root, log, pause = Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])
content = b"0123456789" * 1000


def stream(offset):
    with log.open("a") as lines:
        lines.write(f"{offset}\\n")
    for start in range(offset, len(content), 1000):
        yield content[start : start + 1000]
        time.sleep(pause)


Store(root).fetch(stream, name="x", digest=Digest.of(content), size=len(content))
"""


def fetcher(store: Store, log: Path, *, pause: float) -> subprocess.Popen[bytes]:
    """Another bake that fetches the same file, slowly."""
    return subprocess.Popen([sys.executable, "-c", FETCHER, str(store.root), str(log), str(pause)])


def wait_for(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_two_bakes_that_want_one_file_fetch_it_once(store: Store, tmp_path: Path) -> None:
    log = tmp_path / "log"
    both = [fetcher(store, log, pause=0.02), fetcher(store, log, pause=0.02)]

    assert [process.wait(20) for process in both] == [0, 0]
    assert log.read_text() == "0\n"


def test_a_fetch_that_is_killed_leaves_no_file_and_is_resumed(store: Store, tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = fetcher(store, log, pause=60)
    wait_for(log.exists)
    process.send_signal(signal.SIGKILL)
    process.wait(20)
    found = store.file(DIGEST, size=len(CONTENT))

    path = fetch(store, Source())

    assert found is None
    assert path.read_bytes() == CONTENT


# --- what is there


def test_a_file_is_found_without_its_size(store: Store) -> None:
    path = fetch(store, Source())

    assert (store.file(DIGEST), store.sound_file(DIGEST)) == (path, path)
    assert (store.file(Digest.of(b"x")), store.sound_file(Digest.of(b"x"))) == (None, None)


def test_a_file_of_another_size_is_not_the_one(store: Store) -> None:
    fetch(store, Source())

    assert (store.file(DIGEST, size=1), store.sound_file(DIGEST, size=1)) == (None, None)


@pytest.mark.parametrize("size", [None, len(CONTENT)])
def test_a_file_that_was_written_to_in_place_is_deleted(store: Store, size: int | None) -> None:
    path = fetch(store, Source())
    damage(path)

    assert store.sound_file(DIGEST, size=size) is None
    assert not path.exists()


def test_a_file_that_was_only_touched_is_read_again_and_stays(store: Store) -> None:
    path = fetch(store, Source())
    age(path, 1)
    known = store.is_proven(path, DIGEST)

    assert store.sound_file(DIGEST) == path
    assert (known, store.is_proven(path, DIGEST)) == (False, True)


def test_a_file_that_was_written_to_in_place_is_fetched_again(store: Store) -> None:
    source = Source()
    damage(fetch(store, source))

    assert fetch(store, source).read_bytes() == CONTENT
    assert source.offsets == [0, 0]


def damage(path: Path) -> None:
    """Other bytes of the same size, in a file whose mode forbids it."""
    path.chmod(0o644)
    with path.open("r+b") as stream:
        stream.write(b"!")
    age(path, 1)


# --- keep


def test_a_small_file_is_kept_by_the_digest_that_is_found(store: Store) -> None:
    digest, size = store.keep([b"ab", b"c"])

    path = store.file(digest, size=size)

    assert (digest, size) == (Digest.of(b"abc"), 3)
    assert path is not None
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"abc", 0o444)


def test_a_small_file_that_breaks_off_leaves_nothing(store: Store) -> None:
    with pytest.raises(DigestError):
        store.keep(Source(fail_after=2000).stream(0))

    assert list((store.root / "partial").iterdir()) == []


# --- layers


@pytest.fixture
def blob(tmp_path: Path) -> Path:
    """A layer that was just written into a layout."""
    path = tmp_path / "layout" / "blob"
    path.parent.mkdir()
    path.write_bytes(CONTENT)
    return path


def test_a_layer_is_kept_by_a_second_name(store: Store, blob: Path) -> None:
    store.keep_layer(blob, DIGEST)

    kept = store.layer(DIGEST, size=len(CONTENT))

    assert kept is not None
    assert kept.samefile(blob)


def test_a_layer_of_another_size_is_not_the_one(store: Store, blob: Path) -> None:
    store.keep_layer(blob, DIGEST)

    assert store.layer(DIGEST, size=1) is None


def test_a_layer_that_was_written_to_in_place_is_not_believed(store: Store, blob: Path) -> None:
    store.keep_layer(blob, DIGEST)
    age(blob, 1)
    assert store.check(blob, DIGEST)
    with blob.open("r+b") as stream:
        stream.write(b"!")

    assert store.layer(DIGEST, size=len(CONTENT)) is None
    assert not store.check(blob, DIGEST)


def test_a_layer_that_is_not_believed_gives_way_to_a_new_one(store: Store, blob: Path, tmp_path: Path) -> None:
    store.keep_layer(blob, DIGEST)
    with blob.open("r+b") as stream:
        stream.write(b"!")
    age(blob, 1)
    (tmp_path / "new").write_bytes(CONTENT)

    store.keep_layer(tmp_path / "new", DIGEST)

    kept = store.layer(DIGEST, size=len(CONTENT))
    assert kept is not None
    assert kept.samefile(tmp_path / "new")


def test_another_name_of_a_proven_file_is_proven(store: Store, blob: Path, tmp_path: Path) -> None:
    store.keep_layer(blob, DIGEST)
    (tmp_path / "again").hardlink_to(blob)

    assert store.is_proven(tmp_path / "again", DIGEST)


def test_a_copy_of_a_proven_file_is_not_proven(store: Store, blob: Path, tmp_path: Path) -> None:
    store.keep_layer(blob, DIGEST)
    (tmp_path / "copy").write_bytes(CONTENT)

    assert not store.is_proven(tmp_path / "copy", DIGEST)


def test_a_file_is_read_once_to_prove_it(store: Store, blob: Path) -> None:
    counts: list[int] = []

    assert store.check(blob, DIGEST, advance=counts.append)
    assert store.check(blob, DIGEST, advance=counts.append)

    assert sum(counts) == len(CONTENT)


def test_a_file_with_other_bytes_is_not_proven(store: Store, blob: Path) -> None:
    assert not store.check(blob, Digest.of(b"other"))
    assert not store.is_proven(blob, Digest.of(b"other"))


def test_a_file_that_is_written_to_while_it_is_checked_is_not_proven(store: Store, blob: Path) -> None:
    age(blob, 1)

    store.check(blob, DIGEST, advance=lambda _: blob.touch())

    assert not store.is_proven(blob, DIGEST)


def test_a_file_that_is_not_there_is_not_proven(store: Store, tmp_path: Path) -> None:
    assert not store.is_proven(tmp_path / "none", DIGEST)
    with pytest.raises(OutputError, match=r"^cannot read .*/none: No such file or directory$"):
        store.check(tmp_path / "none", DIGEST)


# --- memory


def fingerprint(*, changed: float) -> Fingerprint:
    """A file that changed so many seconds ago."""
    at = time.time_ns() - int(changed * 1e9)
    return Fingerprint(device=1, inode=2, size=3, mtime_ns=at, ctime_ns=at)


def test_a_hash_is_remembered_by_the_file_s_fingerprint(store: Store) -> None:
    seen = fingerprint(changed=10)
    store.remember_hash(seen, DIGEST)

    assert store.hash(seen) == DIGEST
    assert store.hash(fingerprint(changed=11)) is None


def test_the_hash_of_a_file_that_just_changed_is_not_remembered(store: Store) -> None:
    seen = fingerprint(changed=0.1)
    store.remember_hash(seen, DIGEST)

    assert store.hash(seen) is None


def test_a_diff_id_is_remembered_by_what_decides_it(store: Store) -> None:
    store.remember_diff_id(Digest.of(b"key"), DIGEST)

    assert (store.diff_id(Digest.of(b"key")), store.diff_id(DIGEST)) == (DIGEST, None)


@pytest.mark.parametrize(
    "content", [b"", b"0" * 63, b"\xff" * 64, DIGEST.hex.upper().encode(), DIGEST.hex.encode() + b"\n"]
)
def test_memory_that_is_not_whole_is_forgotten(store: Store, content: bytes) -> None:
    store.remember_diff_id(Digest.of(b"key"), DIGEST)
    (path,) = (path for path in (store.root / "memory").rglob("*") if path.is_file())
    path.write_bytes(content)

    assert store.diff_id(Digest.of(b"key")) is None


def test_memory_can_be_read_by_whoever_may_enter_the_store(store: Store) -> None:
    store.remember_diff_id(Digest.of(b"key"), DIGEST)
    (path,) = (path for path in (store.root / "memory").rglob("*") if path.is_file())

    assert path.stat().st_mode & 0o777 == 0o644


# --- locks


def test_a_lock_is_held_against_other_threads(store: Store) -> None:
    busy: list[bool] = []

    def try_it() -> None:
        try:
            with store.holding("x", wait=False):
                busy.append(False)
        except BlockingIOError:
            busy.append(True)

    with store.holding("x"):
        other = threading.Thread(target=try_it)
        other.start()
        other.join()
    try_it()

    assert busy == [True, False]


def test_locks_of_other_names_are_not_held(store: Store) -> None:
    with store.holding("x"), store.holding("y", wait=False):
        pass


# --- prune


def kept(store: Store) -> dict[str, int]:
    return {usage.kind: usage.count for usage in store.usage()}


@pytest.fixture
def filled(store: Store, blob: Path, tmp_path: Path) -> Store:
    """A store with a file, a layer in use, one that is not, two partial files, what a killed build left, and memory."""
    fetch(store, Source())
    store.keep_layer(blob, DIGEST)
    (tmp_path / "gone").write_bytes(b"123")
    store.keep_layer(tmp_path / "gone", Digest.of(b"123"))
    (tmp_path / "gone").unlink()
    age(partial(store, b"12345", name="tmp1"), 1)
    partial(store, b"1234567", name="a" * 64)
    left_in_work(store, b"12345678")
    return store


def test_usage_counts_what_a_layout_has_too(filled: Store) -> None:
    assert filled.usage() == (
        Usage(kind="files", count=1, size=10_000),
        Usage(kind="layers", count=2, size=10_003, shared=10_000),
        Usage(kind="partial", count=2, size=12),
        Usage(kind="work", count=1, size=8),
        Usage(kind="memory", count=3, size=192),
    )


def test_pruning_leaves_layers_in_use_and_what_was_computed(filled: Store) -> None:
    freed = filled.prune()

    assert freed == 10_000 + 3 + 5 + 7 + 8
    assert kept(filled) == {"files": 0, "layers": 1, "partial": 0, "work": 0, "memory": 3}
    assert filled.layer(DIGEST, size=len(CONTENT)) is not None


def test_pruning_everything_leaves_nothing(filled: Store, blob: Path) -> None:
    freed = filled.prune(keep_layers_in_use=False)

    assert freed == 10_000 + 3 + 5 + 7 + 8 + 192
    assert kept(filled) == {"files": 0, "layers": 0, "partial": 0, "work": 0, "memory": 0}
    assert blob.read_bytes() == CONTENT


def test_what_was_used_since_stays(filled: Store) -> None:
    age(filled.root / "partial" / ("a" * 64), 3)

    freed = filled.prune(older_than_days=2)

    assert freed == 7
    assert kept(filled) == {"files": 1, "layers": 2, "partial": 1, "work": 1, "memory": 3}


def test_a_file_that_another_bake_is_fetching_stays(store: Store, tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = fetcher(store, log, pause=0.1)
    wait_for((store.root / "partial" / DIGEST.hex).exists)

    freed = store.prune()

    assert freed == 0
    assert process.wait(20) == 0
    assert store.file(DIGEST, size=len(CONTENT)) is not None


def test_a_small_file_that_may_be_on_its_way_stays(store: Store) -> None:
    partial(store, b"123", name="tmp1")

    assert store.prune() == 0


def test_an_image_on_its_way_to_the_daemon_stays(store: Store) -> None:
    path = left_in_work(store, b"12345678")

    with store.holding(building(store.work / "tiny-v1")):
        held = store.prune(keep_layers_in_use=False)
    freed = store.prune()

    assert (held, freed) == (0, 8)
    assert not path.exists()


def test_an_empty_store_has_nothing_to_prune(store: Store) -> None:
    assert store.prune() == 0
