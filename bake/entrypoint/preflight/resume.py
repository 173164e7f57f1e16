"""Resume: the checkpoint that verl would go on from is there, and was saved by as many GPUs as train now.

verl loads the models first (trainer/ppo/ray_trainer.py and v1/trainer_base.py _load_checkpoint, 0.5.0 to 0.9.1).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from bake.entrypoint.amounts import counted, listed
from bake.entrypoint.finding import Finding
from bake.entrypoint.preflight.asked import (
    SECTIONS,
    Role,
    joins_other_cluster,
    shards_freely,
    text,
    uses_critic,
    world,
)
from bake.entrypoint.preflight.disk import current_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bake.entrypoint.preflight.situation import Situation
    from bake.entrypoint.settings import Settings

_PATH = "trainer.resume_from_path"
_TRACKER = "latest_checkpointed_iteration.txt"
_SHARD = re.compile(r"model_world_size_(\d{1,9})_rank_\d+\.pt")
"""utils/checkpoint/fsdp_checkpoint_manager.py"""


def check_resume(situation: Situation) -> Iterator[Finding]:
    """In somebody else's cluster the trainer may run on another node, which has other folders."""
    settings, mode = situation.settings, situation.settings.get("trainer.resume_mode")
    folder = None
    if joins_other_cluster(situation):
        return
    if mode == "resume_path":
        folder = text(settings, _PATH)
        wrong = _wrong_path(folder)
        if wrong is not None:
            yield wrong
            return
    elif mode == "auto":
        folder = _latest(settings)
    if folder and "://" not in folder:
        yield from _other_world(situation, current_folder() / folder)


def _wrong_path(folder: str | None) -> Finding | None:
    if folder is None:
        return _path_finding("trainer.resume_mode=resume_path, and trainer.resume_from_path is not set")
    if not folder.rpartition("global_step_")[2].isdecimal() or "global_step_" not in folder:
        return _path_finding(f"{_PATH}={folder} does not end in global_step_ and a number")
    if "://" not in folder and not (current_folder() / folder).is_dir():
        return _path_finding(f"{_PATH}={folder} is no folder that can be seen here")
    return None


def _path_finding(what: str) -> Finding:
    return Finding(
        check="resume",
        severity="error",
        what=what,
        why="verl loads the models and then stops",
        todo=f"{_PATH}=FOLDER/global_step_N, on a volume that this container has; or trainer.resume_mode=auto, which "
        "goes on from the newest in trainer.default_local_dir, or from none",
    )


def _latest(settings: Settings) -> str | None:
    """utils/checkpoint/checkpoint_manager.py find_latest_ckpt_path: without the file or its folder, from scratch."""
    place = text(settings, "trainer.default_local_dir")
    if not place or "://" in place or "\0" in place:
        return None
    folder = current_folder() / place
    try:
        step = (folder / _TRACKER).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None
    return str(folder / f"global_step_{step}") if step.isdecimal() else None


def _other_world(situation: Situation, folder: Path) -> Iterator[Finding]:
    settings, now = situation.settings, world(situation.settings)
    roles: tuple[Role, ...] = ("actor", "critic") if uses_critic(settings) else ("actor",)
    for role in roles:
        saved = _worlds(folder / role) if _loads_shards(settings, role) else []
        if now is None or not saved or now in saved:
            continue
        yield Finding(
            check="resume",
            severity="error",
            what=f"{folder}/{role} was saved by {listed(saved)} GPUs, and {counted(now, 'GPU')} train now",
            why=f"verl loads the models and then stops: no such file model_world_size_{now}_rank_0.pt",
            todo=f"train with {listed(saved)} GPUs; or merge it (python3 -m verl.model_merger merge) and train from "
            "that; or trainer.resume_mode=disable and another trainer.default_local_dir",
        )


def _loads_shards(settings: Settings, role: Role) -> bool:
    """utils/checkpoint/checkpoint_manager.py should_load_model."""
    contents = settings.get(f"{SECTIONS[role]}.checkpoint.load_contents")
    return shards_freely(settings, role) and not (isinstance(contents, list) and "model" not in contents)


def _worlds(folder: Path) -> list[int]:
    try:
        names = [path.name for path in folder.iterdir()]
    except OSError:
        return []
    return sorted({int(found[1]) for name in names if (found := _SHARD.fullmatch(name))})
