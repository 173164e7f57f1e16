from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bake.entrypoint.finding import Finding
from bake.entrypoint.preflight.resume import check_resume
from tests.entrypoint.files import write
from tests.entrypoint.preflight.situations import FSDP, situation

if TYPE_CHECKING:
    from pathlib import Path

PATH = "trainer.resume_from_path"
TODO = (
    f"{PATH}=FOLDER/global_step_N, on a volume that this container has; or trainer.resume_mode=auto, which goes on "
    "from the newest in trainer.default_local_dir, or from none"
)


def given(path: str | None) -> list[Finding]:
    return list(check_resume(situation({**FSDP, "trainer.resume_mode": "resume_path", PATH: path})))


def auto(folder: Path, **settings: object) -> list[Finding]:
    place = {"trainer.resume_mode": "auto", "trainer.default_local_dir": str(folder)}
    return list(check_resume(situation({**FSDP, **place, **settings})))


def saved(folder: Path, *, world: int, role: str = "actor") -> Path:
    return write(
        folder,
        {
            "latest_checkpointed_iteration.txt": b"20",
            f"global_step_20/{role}/model_world_size_{world}_rank_0.pt": b"",
            f"global_step_20/{role}/optim_world_size_{world}_rank_0.pt": b"",
        },
    )


def test_a_path_that_is_not_there_is_an_error() -> None:
    assert given("/nowhere/global_step_20") == [
        Finding(
            check="resume",
            severity="error",
            what=f"{PATH}=/nowhere/global_step_20 is no folder that can be seen here",
            why="verl loads the models and then stops",
            todo=TODO,
        )
    ]


@pytest.mark.parametrize("name", ["last", "global_step_", "global_step_20/", "global_step_20/actor"])
def test_a_path_must_end_in_its_step(tmp_path: Path, name: str) -> None:
    assert [finding.what for finding in given(f"{tmp_path}/{name}")] == [
        f"{PATH}={tmp_path}/{name} does not end in global_step_ and a number"
    ]


def test_a_path_that_is_not_given_is_an_error() -> None:
    assert [finding.what for finding in given(None)] == [f"trainer.resume_mode=resume_path, and {PATH} is not set"]


def test_a_checkpoint_of_as_many_gpus_is_right(tmp_path: Path) -> None:
    folder = saved(tmp_path, world=8)

    assert auto(folder) == []
    assert given(f"{folder}/global_step_20") == []


def test_a_checkpoint_of_other_gpus_is_an_error(tmp_path: Path) -> None:
    folder = saved(tmp_path, world=4)

    assert auto(folder) == [
        Finding(
            check="resume",
            severity="error",
            what=f"{folder}/global_step_20/actor was saved by 4 GPUs, and 8 GPUs train now",
            why="verl loads the models and then stops: no such file model_world_size_8_rank_0.pt",
            todo="train with 4 GPUs; or merge it (python3 -m verl.model_merger merge) and train from that; or "
            "trainer.resume_mode=disable and another trainer.default_local_dir",
        )
    ]


def test_a_path_that_is_given_is_looked_into_too(tmp_path: Path) -> None:
    assert len(given(f"{saved(tmp_path, world=4)}/global_step_20")) == 1


def test_the_critic_has_a_checkpoint_of_its_own(tmp_path: Path) -> None:
    folder = saved(tmp_path, world=4, role="critic")

    assert auto(folder) == []
    assert len(auto(folder, **{"algorithm.adv_estimator": "gae"})) == 1


@pytest.mark.parametrize("tracker", [b"", b"twenty", b"21"])
def test_without_a_step_that_is_there_verl_begins_anew(tmp_path: Path, tracker: bytes) -> None:
    folder = write(saved(tmp_path, world=4), {"latest_checkpointed_iteration.txt": tracker})

    assert auto(folder) == []


def test_where_the_model_is_not_loaded_its_shards_are_not_asked_for(tmp_path: Path) -> None:
    folder = saved(tmp_path, world=4)

    assert auto(folder, **{"actor_rollout_ref.actor.checkpoint.load_contents": ["extra"]}) == []
    assert len(auto(folder, **{"actor_rollout_ref.actor.checkpoint.load_contents": ["model"]})) == 1


def test_megatron_s_checkpoints_are_laid_out_in_another_way(tmp_path: Path) -> None:
    assert auto(saved(tmp_path, world=4), **{"actor_rollout_ref.actor.strategy": "megatron"}) == []


def test_the_folders_of_another_cluster_are_not_looked_for_here() -> None:
    tree = {**FSDP, "trainer.resume_mode": "resume_path", PATH: "/nowhere/global_step_20"}

    assert list(check_resume(situation(tree, environ={"RAY_ADDRESS": "head:6379"}))) == []


def test_a_training_that_does_not_resume_looks_at_nothing(tmp_path: Path) -> None:
    assert auto(saved(tmp_path, world=4), **{"trainer.resume_mode": "disable"}) == []
