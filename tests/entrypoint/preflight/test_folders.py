"""Folders that may not be written to are files in their place: these tests may run as root, who may write anywhere."""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from bake.entrypoint.finding import Finding
from bake.entrypoint.preflight.folders import check_folders
from tests.entrypoint.preflight.situations import situation

if TYPE_CHECKING:
    from collections.abc import Mapping


def found(environ: Mapping[str, str], *, given: frozenset[str] = frozenset()) -> list[Finding]:
    return list(check_folders(situation(environ=environ, given=given)))


def test_folders_that_may_be_written_to_are_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert found({"HOME": str(tmp_path), "TMPDIR": "/tmp"}) == []  # noqa: S108 - a path short enough for a socket


def test_a_home_that_is_not_there_yet_may_still_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert found({"HOME": str(tmp_path / "new/home")}) == []


def test_a_home_that_is_no_folder_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    home = tmp_path / "home"
    home.write_bytes(b"")

    assert found({"HOME": str(home)}) == [
        Finding(
            check="folders",
            severity="error",
            what=f"HOME={home} is no folder that user {os.getuid()} may write to",
            why="Triton, vLLM, wandb and Ray keep caches, settings and keys there, and die of Permission denied",
            todo="docker run -e HOME=/tmp, or mount a folder there; with --user, one that this user owns",
        )
    ]


def test_no_home_at_all_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "getuid", lambda: 987_654_321)  # a user that the system does not know

    assert [finding.what for finding in found({})] == [f"HOME is not set, and user {os.getuid()} has no home folder"]


def test_without_the_variable_home_is_the_user_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pwd, "getpwuid", lambda _: SimpleNamespace(pw_dir=str(tmp_path)))

    assert found({}) == []


def test_on_another_device_home_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert [finding.severity for finding in found({"VERL_USE_EXTERNAL_MODULES": "verl_cpu", "HOME": "/dev/null"})] == [
        "warning"
    ]


@pytest.fixture
def locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, in which no file may be made."""
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o555)
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
def test_a_current_folder_that_cannot_be_written_to_stops_hydra(tmp_path: Path, locked: Path) -> None:
    assert found({"HOME": str(tmp_path)}) == [
        Finding(
            check="folders",
            severity="error",
            what=f"the current folder {locked} cannot be written to by user {os.getuid()}",
            why="Hydra makes outputs/ in it before anything else, and verl does not start",
            todo="hydra.run.dir=/tmp/hydra, or docker run --workdir with a folder that may be written to",
        )
    ]


@pytest.mark.usefixtures("locked")
def test_a_current_folder_does_not_matter_where_hydra_is_told_another(tmp_path: Path) -> None:
    assert found({"HOME": str(tmp_path)}, given=frozenset({"hydra.run.dir"})) == []


def test_a_current_folder_that_is_gone_breaks_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()

    assert found({"HOME": str(tmp_path)}, given=frozenset({"hydra.run.dir"})) == []


def test_a_temporary_folder_that_is_no_folder_stops_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_bytes(b"")

    assert [finding.what for finding in found({"HOME": str(tmp_path), "TMPDIR": str(tmp_path / "file")})] == [
        f"the temporary folder {tmp_path}/file cannot be written to by user {os.getuid()}"
    ]


def test_a_long_path_of_the_temporary_folder_stops_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    long = Path("/tmp") / ("x" * 60)  # noqa: S108 - nothing is written there

    assert found({"HOME": str(tmp_path), "RAY_TMPDIR": str(long)}) == [
        Finding(
            check="folders",
            severity="error",
            what=f"the path of the temporary folder {long} has 65 bytes, at most 45 will do",
            why="Ray does not start: AF_UNIX path length cannot exceed 107 bytes",
            todo="docker run -e RAY_TMPDIR=/tmp, or a shorter TMPDIR",
        )
    ]
