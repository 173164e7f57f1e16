"""What verl goes on from is said before it builds any model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bake.entrypoint.launch.resume import resumed
from bake.entrypoint.settings import Settings
from tests.entrypoint.files import write

if TYPE_CHECKING:
    from pathlib import Path

TRACKER = "latest_checkpointed_iteration.txt"


def notes(folder: Path, *, mode: str = "auto") -> list[str]:
    return list(resumed(Settings({"trainer": {"resume_mode": mode, "default_local_dir": str(folder)}})))


def test_a_checkpoint_is_gone_on_from(tmp_path: Path) -> None:
    write(tmp_path, {TRACKER: b"150", "global_step_150/data.pt": b""})

    assert notes(tmp_path) == [f"verl goes on from step 150 of {tmp_path}; trainer.resume_mode=disable starts anew"]


def test_a_relative_folder_lies_below_the_current_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {f"here/{TRACKER}": b"3", "here/global_step_3/data.pt": b""})
    monkeypatch.chdir(tmp_path)

    settings = Settings({"trainer": {"resume_mode": "auto", "default_local_dir": "here"}})

    assert list(resumed(settings)) == ["verl goes on from step 3 of here; trainer.resume_mode=disable starts anew"]


@pytest.mark.parametrize("mode", ["disable", "resume_path"])
def test_other_modes_do_not_look_there(tmp_path: Path, mode: str) -> None:
    write(tmp_path, {TRACKER: b"150", "global_step_150/data.pt": b""})

    assert notes(tmp_path, mode=mode) == []


def test_a_step_whose_folder_is_gone_is_not_gone_on_from(tmp_path: Path) -> None:
    write(tmp_path, {TRACKER: b"150", "global_step_100/data.pt": b""})

    assert notes(tmp_path) == []


@pytest.mark.parametrize("content", [b"", b"last", b"\xff"])
def test_a_tracker_that_holds_no_step_says_nothing(tmp_path: Path, content: bytes) -> None:
    write(tmp_path, {TRACKER: content})

    assert notes(tmp_path) == []


def test_an_empty_folder_is_a_new_training(tmp_path: Path) -> None:
    assert notes(tmp_path) == []
