from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, NamedTuple

import pytest

from bake.entrypoint.finding import Finding
from bake.entrypoint.preflight.disk import Checkpoint, check_disk, checkpoint
from bake.entrypoint.preflight.mounts import is_container_layer
from tests.entrypoint.preflight.situations import ACTOR, FSDP, LLAMA_8B, bake, llama_tensors, situation

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

LLAMA = 8_030_261_248
MOUNTS = """\
1 0 0:50 / / rw,relatime - overlay overlay rw,lowerdir=/a
2 1 0:51 / {volume} rw - ext4 /dev/sda1 rw
3 1 0:52 / /with\\040space rw - tmpfs tmpfs rw
"""


class Usage(NamedTuple):
    total: int
    used: int
    free: int


GIVEN = frozenset({"trainer.save_freq"})


def found(root: Path, settings: Mapping[str, Any], *, given: frozenset[str] = GIVEN) -> list[Finding]:
    model = bake(root, LLAMA_8B, llama_tensors())
    tree = {**FSDP, "trainer.default_local_dir": str(root / "out/ckpt"), "trainer.save_freq": 10, **settings}
    return list(check_disk(situation(tree, models=(model,), root=root, given=given)))


def free(monkeypatch: pytest.MonkeyPatch, amount: int) -> None:
    """A disk of a certain size: the real one's is whatever it is."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(total=amount, used=0, free=amount))


def test_a_checkpoint_is_weights_and_both_moments_in_fp32(tmp_path: Path) -> None:
    model = bake(tmp_path, LLAMA_8B, llama_tensors())

    assert checkpoint(situation(FSDP, models=(model,), root=tmp_path)) == Checkpoint(size=12 * LLAMA, keep=None)


def test_a_checkpoint_holds_what_the_settings_say(tmp_path: Path) -> None:
    model = bake(tmp_path, LLAMA_8B, llama_tensors())
    tree = {**FSDP, f"{ACTOR}.checkpoint.save_contents": ["model", "hf_model"], "trainer.max_actor_ckpt_to_keep": 3}

    assert checkpoint(situation(tree, models=(model,), root=tmp_path)) == Checkpoint(size=6 * LLAMA, keep=3)


def test_each_node_keeps_its_part(tmp_path: Path) -> None:
    model = bake(tmp_path, LLAMA_8B, llama_tensors())

    saved = checkpoint(situation({**FSDP, "trainer.nnodes": 4}, models=(model,), root=tmp_path))

    assert saved == Checkpoint(size=3 * LLAMA, keep=None)


def test_no_room_for_one_checkpoint_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free(monkeypatch, 50 << 30)

    assert found(tmp_path, {}) == [
        Finding(
            check="disk",
            severity="error",
            what=f"{tmp_path}/out/ckpt has room for 0 checkpoints: 50.0 GiB free, one takes about 89.7 GiB, and "
            "all are kept (trainer.max_actor_ckpt_to_keep=null)",
            why="verl stops while it saves, and leaves half a checkpoint: No space left on device",
            todo="mount a volume of at least 296.2 GiB there; trainer.max_actor_ckpt_to_keep=1 "
            f"trainer.max_critic_ckpt_to_keep=1 keeps one; or {ACTOR}.checkpoint.save_contents=[model], without the "
            "optimizer; or trainer.save_freq=-1, which saves none",
        )
    ]


def test_room_for_one_and_no_more_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free(monkeypatch, 100 << 30)

    findings = found(tmp_path, {"trainer.max_actor_ckpt_to_keep": 1})

    assert [(finding.severity, finding.todo) for finding in findings] == [
        (
            "warning",
            (
                f"mount a volume of at least 197.4 GiB there; or {ACTOR}.checkpoint.save_contents=[model], without the "
                "optimizer; or trainer.save_freq=-1, which saves none"
            ),
        )
    ]


def test_checkpoints_that_nobody_asked_for_are_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free(monkeypatch, 50 << 30)

    assert [finding.severity for finding in found(tmp_path, {}, given=frozenset())] == ["warning"]


def test_a_file_system_that_does_not_tell_its_size_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free(monkeypatch, 0)

    assert found(tmp_path, {}) == []


def test_room_for_those_that_are_kept_is_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free(monkeypatch, 200 << 30)

    assert found(tmp_path, {"trainer.max_actor_ckpt_to_keep": 1}) == []


def test_a_run_that_never_saves_is_a_warning(tmp_path: Path) -> None:
    assert found(tmp_path, {"trainer.save_freq": -1}) == [
        Finding(
            check="disk",
            severity="warning",
            what="trainer.save_freq=-1: no checkpoint is ever written, not even at the end",
            why="nothing of the training is left when it ends",
            todo="trainer.save_freq=20, which also saves the last step",
        )
    ]


def test_a_file_in_the_way_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(b"")

    assert [(finding.severity, finding.what) for finding in found(tmp_path, {})] == [
        (
            "error",
            (
                f"trainer.default_local_dir={tmp_path}/out/ckpt: {tmp_path}/out is no folder that user {os.getuid()} "
                "may write to"
            ),
        )
    ]


@pytest.mark.parametrize("folder", ["", "hdfs://a/b", "a\0b", None])
def test_nothing_is_said_of_a_folder_that_is_none(tmp_path: Path, folder: str | None) -> None:
    assert found(tmp_path, {"trainer.default_local_dir": folder}) == []


@pytest.mark.parametrize(
    ("path", "expected"),
    [("/outputs", True), ("/volume/outputs", False), ("/volumes", True), ("/with space/outputs", False)],
)
def test_what_is_on_no_volume_lies_in_the_container_itself(tmp_path: Path, path: str, expected: bool) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS.format(volume="/volume"))

    assert is_container_layer(type(tmp_path)(path), mounts=mounts) is expected


def test_a_root_that_is_no_container_s_says_nothing(tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text("1 0 8:1 / / rw,relatime - ext4 /dev/sda1 rw\nnonsense\n")

    assert is_container_layer(type(tmp_path)("/outputs"), mounts=mounts) is False


def test_mounts_that_cannot_be_read_say_nothing(tmp_path: Path) -> None:
    assert is_container_layer(tmp_path, mounts=tmp_path / "gone") is False
