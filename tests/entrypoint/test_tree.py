from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from bake.entrypoint.tree import Entry, FolderTree

if TYPE_CHECKING:
    from pathlib import Path


def file(path: str, size: int) -> Entry:
    return Entry(path=path, size=size, mode=0o644, kind="file")


def test_a_folder_gives_its_files_by_path_with_size_and_mode(tmp_path: Path) -> None:
    (tmp_path / "vae").mkdir()
    (tmp_path / "config.json").write_bytes(b"{}")
    (tmp_path / "vae" / "weights").write_bytes(b"abc")
    (tmp_path / "config.json").chmod(0o600)
    (tmp_path / "vae" / "weights").chmod(0o644)

    assert FolderTree(tmp_path).entries() == {
        "config.json": Entry(path="config.json", size=2, mode=0o600, kind="file"),
        "vae/weights": file("vae/weights", 3),
    }


def test_a_link_to_a_file_of_the_folder_is_that_file(tmp_path: Path) -> None:
    (tmp_path / "blob").write_bytes(b"abc")
    (tmp_path / "blob").chmod(0o644)
    (tmp_path / "model").symlink_to("blob")

    assert FolderTree(tmp_path).entries()["model"] == file("model", 3)


def test_a_folder_that_is_reached_through_a_link_is_listed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "config.json").write_bytes(b"{}")
    (tmp_path / "real" / "config.json").chmod(0o644)
    (tmp_path / "real" / "same").symlink_to("config.json")
    (tmp_path / "named").symlink_to("real")

    assert FolderTree(tmp_path / "named").entries() == {"config.json": file("config.json", 2), "same": file("same", 2)}


@pytest.mark.parametrize(
    ("target", "note"),
    [
        ("absent", "a link to absent: No such file or directory"),
        ("link", "a link to link: Too many levels of symbolic links"),
        ("folder", "a link to folder, a folder"),
        ("pipe", "a link to pipe, a named pipe"),
        ("../outside", "a link to ../outside, out of the model's folder"),
    ],
)
def test_a_link_to_anything_else_says_where_it_leads(tmp_path: Path, target: str, note: str) -> None:
    root = tmp_path / "model"
    (root / "folder").mkdir(parents=True)
    (tmp_path / "outside").write_bytes(b"secret")
    os.mkfifo(root / "pipe")
    (root / "link").symlink_to(target)

    assert FolderTree(root).entries()["link"] == Entry(path="link", size=0, mode=0, kind="link", note=note)


def test_a_named_pipe_is_told_and_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "pipe").chmod(0o644)

    entries = FolderTree(tmp_path).entries()

    assert entries == {"pipe": Entry(path="pipe", size=0, mode=0o644, kind="other", note="a named pipe")}


def test_a_folder_that_does_not_exist_is_empty(tmp_path: Path) -> None:
    assert FolderTree(tmp_path / "absent").entries() == {}


def test_a_file_in_the_folder_s_place_is_an_entry_that_says_so(tmp_path: Path) -> None:
    (tmp_path / "model").write_bytes(b"")

    note = "a folder that cannot be listed: Not a directory"
    assert FolderTree(tmp_path / "model").entries() == {
        ".": Entry(path=".", size=0, mode=0, kind="other", note=note),
    }


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every folder")
def test_a_folder_that_may_not_be_listed_is_an_entry_that_says_so(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o000)

    note = "a folder that cannot be listed: Permission denied"
    assert FolderTree(tmp_path).entries() == {
        "closed": Entry(path="closed", size=0, mode=0, kind="other", note=note),
    }


def test_an_opened_file_seeks_and_fills_a_buffer(tmp_path: Path) -> None:
    (tmp_path / "weights").write_bytes(b"abcdef")
    buffer = bytearray(4)

    with FolderTree(tmp_path).open("weights") as stream:
        stream.seek(2)
        count = stream.readinto(buffer)  # type: ignore[attr-defined]

    assert (count, bytes(buffer)) == (4, b"cdef")
