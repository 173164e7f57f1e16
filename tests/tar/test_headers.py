"""What holds for the header of any path: whole blocks, a right checksum, and Python's tarfile reads it back."""

from __future__ import annotations

import io
import tarfile

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bake import tar
from tests.builders import PATHS

SIZES = st.one_of(st.integers(0, 1 << 20), st.sampled_from([(8 << 30) - 1, 8 << 30, 50 << 30]))
LONG = "opt/models/tiny/" + "é" * 100


def read_back(header: bytes) -> tarfile.TarInfo:
    with tarfile.open(fileobj=io.BytesIO(header + tar.TRAILER), mode="r:") as archive:
        found = archive.next()
    assert found is not None
    return found


def checksum(block: bytes) -> int:
    """As POSIX has it: the sum of all bytes, the field's own taken as spaces."""
    return sum(block[:148]) + 8 * 32 + sum(block[156:])


@given(path=PATHS, size=SIZES)
@example(path=LONG, size=8 << 30)
def test_a_file_s_header_is_read_back_as_it_was_meant(path: str, size: int) -> None:
    found = read_back(tar.file_header(path, size=size))

    assert (found.name, found.size, found.mode, found.type) == (path, size, 0o444, tarfile.REGTYPE)
    assert (found.uid, found.gid, found.uname, found.gname, found.mtime) == (0, 0, "", "", 0)


@given(path=PATHS)
@example(path=LONG)
def test_a_directory_s_header_is_read_back_as_it_was_meant(path: str) -> None:
    found = read_back(tar.directory_header(path))

    assert (found.name, found.size, found.mode, found.type) == (path, 0, 0o755, tarfile.DIRTYPE)
    assert (found.uid, found.gid, found.uname, found.gname, found.mtime) == (0, 0, "", "", 0)


@given(path=PATHS, size=SIZES)
@example(path=LONG, size=8 << 30)
def test_a_header_is_one_block_or_three_and_their_checksums_are_right(path: str, size: int) -> None:
    header = tar.file_header(path, size=size)
    blocks = [header[start : start + 512] for start in range(0, len(header), 512)]
    headers = [blocks[0], blocks[-1]]

    assert {len(block) for block in blocks} == {512}
    assert [int(block[148:154], 8) for block in headers] == [checksum(block) for block in headers]


def test_a_link_s_header_is_read_back_as_it_was_meant() -> None:
    found = read_back(tar.link_header("models", "opt/models/tiny"))

    assert (found.name, found.linkname, found.mode, found.type) == (
        "models",
        "opt/models/tiny",
        0o777,
        tarfile.SYMTYPE,
    )


@pytest.mark.parametrize(("size", "expected"), [(0, 0), (1, 511), (511, 1), (512, 0), (513, 511), (8 << 30, 0)])
def test_padding_fills_the_last_block(size: int, expected: int) -> None:
    assert tar.padding(size) == expected


def test_a_tree_is_listed_depth_first_and_not_as_whole_paths_sort() -> None:
    assert sorted(["a.b", "a/z", "a", "a-b", "B"], key=tar.tree_order) == ["B", "a", "a/z", "a-b", "a.b"]


def test_names_sort_by_their_bytes() -> None:
    assert sorted(["é", "z", "Z", "\U0001f600", "\uffee"], key=tar.tree_order) == [
        "Z",
        "z",
        "é",
        "\uffee",
        "\U0001f600",
    ]


@pytest.mark.parametrize(("path", "expected"), [("a", ()), ("a/b", ("a",)), ("a/b/c", ("a", "a/b"))])
def test_parents_come_outermost_first(path: str, expected: tuple[str, ...]) -> None:
    assert tar.parents(path) == expected
