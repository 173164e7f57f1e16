from __future__ import annotations

import errno
import os
import resource
import socket
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bake.entrypoint.data.columns import columns_of
from bake.entrypoint.data.convert import convert
from bake.entrypoint.data.formats import open_table
from bake.entrypoint.data.scores import known
from bake.entrypoint.data.scratch import ScratchError, beside, require_room
from bake.entrypoint.finding import Finding
from bake.entrypoint.settings import Settings
from tests.entrypoint.data.samples import prepared, rows, whats, write_parquet
from tests.entrypoint.data.test_rewriting import MAP, RAW, written

if TYPE_CHECKING:
    from collections.abc import Iterator

COLUMNS = columns_of(Settings({}), MAP, release=(0, 9), sources=known(None))


def test_a_file_written_before_is_used_again(tmp_path: Path) -> None:
    file = write_parquet(tmp_path / "x.parquet", RAW)
    before = prepared(file, scratch=tmp_path / "scratch", columns=MAP)
    [target] = (tmp_path / "scratch").iterdir()
    time = target.stat().st_mtime_ns

    after = prepared(file, scratch=tmp_path / "scratch", columns=MAP)

    assert (after.overrides, after.notes[1], target.stat().st_mtime_ns, os.listdir(tmp_path / "scratch")) == (
        before.overrides,
        (
            f"data: {file} was written before as {target}, and is used again (2 rows, prompt from question, "
            "ground_truth from answer; data_source openai/gsm8k)"
        ),
        time,
        [target.name],
    )


def test_a_file_that_was_written_before_and_is_damaged_is_replaced(tmp_path: Path) -> None:
    file = write_parquet(tmp_path / "x.parquet", RAW)
    before = prepared(file, scratch=tmp_path / "scratch", columns=MAP)
    [target] = (tmp_path / "scratch").iterdir()
    target.write_bytes(b"PAR1")

    after = prepared(file, scratch=tmp_path / "scratch", columns=MAP)

    assert (after, len(written(after.overrides))) == (before, 2)


def test_what_another_map_source_or_release_makes_has_another_name(tmp_path: Path) -> None:
    first, second = (write_parquet(tmp_path / name / "train.parquet", RAW) for name in "ab")
    scratch = tmp_path / "scratch"

    prepared(first, scratch=scratch, columns=MAP)
    prepared(second, scratch=scratch, columns=MAP)
    prepared(first, scratch=scratch, columns=MAP, release=(0, 8))
    prepared(first, scratch=scratch, columns={**MAP, "ground_truth": "level"})
    prepared(write_parquet(tmp_path / "a" / "train.parquet", RAW[:1]), scratch=scratch, columns=MAP)

    assert len(os.listdir(scratch)) == 5


def test_an_unfinished_file_is_called_by_its_process() -> None:
    host = socket.gethostname()

    assert beside(Path("/s/x-1.parquet")) == Path(f"/s/.x-1.parquet.{host}-{os.getpid()}.part")


def test_without_writing_files_are_named_as_they_would_be(tmp_path: Path) -> None:
    file = write_parquet(tmp_path / "x.parquet", RAW)

    before = prepared(file, scratch=tmp_path / "scratch", columns=MAP, write=False)
    there = (tmp_path / "scratch").exists()
    after = prepared(file, scratch=tmp_path / "scratch", columns=MAP)

    assert (there, before.overrides, before.notes[1]) == (
        False,
        after.overrides,
        after.notes[1].replace("was written", "would be written"),
    )


def test_without_writing_the_folder_is_checked(tmp_path: Path) -> None:
    file = write_parquet(tmp_path / "x.parquet", RAW)
    (tmp_path / "scratch").write_text("a file")

    found = prepared(file, scratch=tmp_path / "scratch" / "a" / "b", columns=MAP, write=False)

    assert whats(found) == [f"{file} cannot be written as parquet to {tmp_path}/scratch/a/b: Not a directory"]


def test_no_folder_for_temporary_files_is_an_error_only_where_a_file_must_be_written(tmp_path: Path) -> None:
    file, good = write_parquet(tmp_path / "x.parquet", RAW), write_parquet(tmp_path / "y.parquet", rows(1))

    assert prepared(good, scratch=None).findings == ()
    assert prepared(file, scratch=None, columns=MAP).findings == (
        Finding(
            check="data-files",
            severity="error",
            what=f"{file} cannot be written as parquet: there is no folder for temporary files",
            why="verl does not take it as it is",
            todo=f"mount a folder that uid {os.geteuid()} can write, and set BAKE_SCRATCH to it "
            "(docker run --tmpfs /tmp, or an emptyDir at /tmp, serves too where the data fit into memory)",
        ),
    )


def test_on_several_nodes_the_place_of_a_written_file_is_told(tmp_path: Path) -> None:
    file = write_parquet(tmp_path / "x.parquet", RAW)

    assert prepared(file, scratch=tmp_path, columns=MAP, trainer={"nnodes": 2}).findings == (
        Finding(
            check="data-files",
            severity="warning",
            what=f"data is rewritten to {tmp_path} on this node, and trainer.nnodes=2",
            why="Ray may start verl's task runner, which reads the data, on another node, where the files are not",
            todo="let that folder be on storage that all nodes share, or bring the data as parquet with verl's columns",
        ),
    )


def test_a_scratch_that_cannot_be_written_is_a_finding(tmp_path: Path) -> None:
    file = write_parquet(tmp_path / "x.parquet", RAW)
    (tmp_path / "scratch").write_text("a file")

    assert prepared(file, scratch=tmp_path / "scratch", columns=MAP).findings == (
        Finding(
            check="data-files",
            severity="error",
            what=f"{file} cannot be written as parquet to {tmp_path}/scratch: Not a directory",
            why="verl does not take it as it is",
            todo="set BAKE_SCRATCH to a folder",
        ),
    )


def test_files_are_not_begun_where_there_is_less_room_than_all_of_them_may_need(tmp_path: Path) -> None:
    huge = [tmp_path / "a", tmp_path / "b"]
    huge[0].touch()
    huge[1].touch()
    os.truncate(huge[0], 2**42)
    os.truncate(huge[1], 2**42)

    with pytest.raises(ScratchError, match=r"^8,796,093,022,208 bytes are needed and [\d,]+ are free$"):
        require_room(tmp_path / "scratch", [str(path) for path in huge])

    assert not (tmp_path / "scratch").exists()


@pytest.mark.parametrize(
    ("number", "todo"),
    [
        (errno.EACCES, f"mount a folder that uid {os.geteuid()} can write, and set BAKE_SCRATCH to it"),
        (errno.EROFS, f"mount a folder that uid {os.geteuid()} can write, and set BAKE_SCRATCH to it"),
        (errno.ENOTDIR, "set BAKE_SCRATCH to a folder"),
        (errno.ENOSPC, "mount a folder with more room for it, and set BAKE_SCRATCH to it"),
        (None, "mount a folder with more room for it, and set BAKE_SCRATCH to it"),
    ],
)
def test_the_advice_goes_by_what_keeps_the_file_from_being_written(number: Any, todo: str) -> None:
    assert ScratchError(number, "x").todo == todo


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_folder_of_another_user_s_takes_no_file() -> None:
    os.seteuid(65534)
    try:
        with pytest.raises(ScratchError, match=r"^Permission denied$"):
            require_room(Path("/root-only-scratch"), [])
    finally:
        os.seteuid(0)


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """What a full disk does to a writer, a limit on the size of files does too."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_file_that_cannot_be_ended_is_not_left_half(tmp_path: Path) -> None:
    table = open_table(write_parquet(tmp_path / "x.parquet", [RAW[0] for _ in range(50_000)]))

    with largest_file(5000), pytest.raises(ScratchError, match=r"^File too large$"):
        convert(table, columns=COLUMNS, target=tmp_path / "scratch" / "x.parquet")

    assert os.listdir(tmp_path / "scratch") == []
