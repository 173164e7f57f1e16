"""A model folder that something writes to while bake reads it: a clear error, or an image that is whole."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from tests.cli.place import EMPTY_LOCK, Bake, Place, finish

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SIZE = 33 << 20


def append(path: Path, _: int) -> None:
    with path.open("ab") as stream:
        stream.write(b"x")


def overwrite(path: Path, number: int) -> None:
    """Other bytes, the same size: in the middle, at the end, at the start of the tensors by turns."""
    with path.open("r+b") as stream:
        stream.seek((SIZE // 2, SIZE - 8, 4096)[number % 3])
        stream.write(number.to_bytes(8, "little"))


def replace(path: Path, number: int) -> None:
    """Another file of the same size in its place."""
    other = path.with_name(".other")
    with other.open("wb") as stream:
        stream.write(path.read_bytes()[:4096] + number.to_bytes(8, "little"))
        stream.truncate(SIZE)
    other.replace(path)


def vanish(path: Path, _: int) -> None:
    path.unlink(missing_ok=True)


CHANGES = [append, overwrite, replace, vanish]


@pytest.fixture
def changing() -> Iterator[Callable[[Callable[[Path, int], None], Path], None]]:
    """Start a thread that changes a file again and again until the test ends."""
    stopping = threading.Event()
    threads: list[threading.Thread] = []

    def start(change: Callable[[Path, int], None], path: Path) -> None:
        def work() -> None:
            number = 1
            while not stopping.wait(0.001):
                change(path, number)
                number += 1

        threads.append(threading.Thread(target=work))
        threads[0].start()

    yield start
    stopping.set()
    threads[0].join()


@pytest.mark.parametrize("change", CHANGES)
def test_a_folder_that_changes_while_it_is_packed(
    place: Place,
    bake: Bake,
    changing: Callable[[Callable[[Path, int], None], Path], None],
    change: Callable[[Path, int], None],
) -> None:
    folder = place.add_large_model(SIZE, SIZE)
    assert bake("-q", "add", "tiny@v1", "dir://m").code == 0
    before = place.lock.read_bytes()

    started = place.start("build", "tiny@v1")
    changing(change, folder / "part-1.safetensors")
    ran = finish(started)

    assert ran.code in {0, 4, 6}
    assert "Traceback" not in ran.err
    assert ("error: " in ran.err) == (ran.code != 0)
    assert place.lock.read_bytes() == before
    assert (place.root / "dist" / "tiny-v1" / "index.json").exists() == (ran.code == 0)
    assert bake("-q", "verify", "tiny@v1", "--level", "full").code == (0 if ran.code == 0 else 8)


@pytest.mark.parametrize("change", [append, overwrite, replace])
def test_a_folder_that_changes_while_it_is_locked(
    place: Place,
    changing: Callable[[Callable[[Path, int], None], Path], None],
    change: Callable[[Path, int], None],
) -> None:
    folder = place.add_large_model(SIZE, SIZE)

    changing(change, folder / "part-1.safetensors")
    ran = place.run("add", "tiny@v1", "dir://m")

    assert ran.code in {4, 6}
    assert "Traceback" not in ran.err
    assert place.lock.read_text() == EMPTY_LOCK


@pytest.mark.parametrize("change", [append, overwrite, replace])
def test_a_change_after_it_was_locked_is_found_though_hashes_are_remembered(
    place: Place, bake: Bake, change: Callable[[Path, int], None]
) -> None:
    folder = place.add_large_model(SIZE)
    assert bake("-q", "add", "tiny@v1", "dir://m").code == 0

    change(folder / "part-1.safetensors", 1)

    assert bake("-q", "build", "tiny@v1").code == 6
    assert bake("-q", "verify", "m", "--level", "full").code == 1
