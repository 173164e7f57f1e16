"""Writing so that the old file or the new one is there, and what is said when it cannot be."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bake import disk
from bake.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Iterator

SHM = Path("/dev/shm")  # noqa: S108 - a second file system on most machines


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", place], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", place], check=True)


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    """A folder on another file system."""
    if not SHM.is_dir() or SHM.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second file system at /dev/shm")
    with tempfile.TemporaryDirectory(dir=SHM) as name:
        yield Path(name)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# --- write


def test_a_file_is_written_with_its_folders(tmp_path: Path) -> None:
    disk.write(tmp_path / "a" / "b.txt", b"content")

    assert (tmp_path / "a" / "b.txt").read_bytes() == b"content"
    assert names(tmp_path / "a") == ["b.txt"]


def test_the_mode_does_not_depend_on_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        disk.write(tmp_path / "a", b"")
    finally:
        os.umask(before)

    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o644


def test_a_link_stays_a_link_and_its_target_is_written(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"old")
    (tmp_path / "link").symlink_to("target")

    disk.write(tmp_path / "link", b"new")

    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"new"


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(full: Path) -> None:
    disk.write(full / "a", b"old")

    with pytest.raises(OutputError) as caught:
        disk.write(full / "a", bytes(200_000))

    assert caught.value.message == f"no space left to write {full / 'a'}"
    assert re.fullmatch(r"\d+\.\d kB are free there; bake cache prune frees the store", caught.value.hint or "")
    assert (full / "a").read_bytes() == b"old"
    assert names(full) == ["a"]


def test_a_folder_in_the_way_is_told(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()

    with pytest.raises(OutputError, match=r"^cannot write .*/a: Is a directory$"):
        disk.write(tmp_path / "a", b"")

    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize(
    ("number", "message", "hint"),
    [
        (errno.EROFS, "cannot write /x: the file system is read-only", None),
        (errno.EACCES, "cannot write /x: permission denied", "check who owns the folder"),
        (errno.EPERM, "cannot write /x: permission denied", "check who owns the folder"),
        (errno.EFBIG, "cannot write /x: File too large", None),
    ],
)
def test_what_the_system_says_becomes_what_a_person_can_act_on(number: int, message: str, hint: str | None) -> None:
    error = disk.output_error(Path("/x"), OSError(number, os.strerror(number)))

    assert (error.message, error.hint) == (message, hint)


# --- link_or_copy


def test_a_file_gets_a_second_name(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"content")

    linked = disk.link_or_copy(tmp_path / "a", tmp_path / "sub" / "b")

    assert linked
    assert (tmp_path / "sub" / "b").samefile(tmp_path / "a")
    assert names(tmp_path / "sub") == ["b"]


def test_a_second_name_takes_the_place_of_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"new")
    (tmp_path / "b").write_bytes(b"old")

    disk.link_or_copy(tmp_path / "a", tmp_path / "b")

    assert (tmp_path / "b").read_bytes() == b"new"


def test_a_link_s_own_target_gets_the_second_name(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"content")
    (tmp_path / "link").symlink_to("a")

    disk.link_or_copy(tmp_path / "link", tmp_path / "sub" / "b")

    assert (tmp_path / "sub" / "b").samefile(tmp_path / "a")


def test_a_file_is_copied_to_another_file_system(tmp_path: Path, elsewhere: Path) -> None:
    (tmp_path / "a").write_bytes(b"content" * 1000)

    linked = disk.link_or_copy(tmp_path / "a", elsewhere / "b")

    assert not linked
    assert (elsewhere / "b").read_bytes() == b"content" * 1000
    assert (elsewhere / "b").stat().st_mode & 0o777 == 0o444
    assert names(elsewhere) == ["b"]


def test_a_copy_that_fails_leaves_nothing(tmp_path: Path, full: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(200_000))

    with pytest.raises(OutputError, match=r"^no space left to write"):
        disk.link_or_copy(tmp_path / "a", full / "b")

    assert names(full) == []


def test_no_source_is_told(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"^cannot write .*/b: No such file or directory$"):
        disk.link_or_copy(tmp_path / "a", tmp_path / "b")


# --- copy_range


def test_no_more_is_copied_than_is_there(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")

    with (tmp_path / "a").open("rb") as source, (tmp_path / "b").open("wb") as target:
        count = disk.copy_range(source.fileno(), target.fileno(), 9)

    assert (count, (tmp_path / "b").read_bytes()) == (5, b"12345")


def test_no_more_is_copied_than_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")

    with (tmp_path / "a").open("rb") as source, (tmp_path / "b").open("wb") as target:
        count = disk.copy_range(source.fileno(), target.fileno(), 3)

    assert (count, (tmp_path / "b").read_bytes()) == (3, b"123")


def test_a_file_whose_size_the_kernel_does_not_know_is_copied(tmp_path: Path) -> None:
    with Path("/proc/self/status").open("rb") as source, (tmp_path / "b").open("wb") as target:
        count = disk.copy_range(source.fileno(), target.fileno(), 1 << 20)

    assert count == (tmp_path / "b").stat().st_size > 0


def test_free_space_is_that_of_the_nearest_folder(tmp_path: Path) -> None:
    assert disk.free_bytes(tmp_path / "a" / "b") == pytest.approx(disk.free_bytes(tmp_path), rel=0.1)
