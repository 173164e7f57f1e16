"""Resume: whether verl goes on from a checkpoint that lies where this training will write its own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bake.entrypoint.settings import Settings

_TRACKER = "latest_checkpointed_iteration.txt"


def resumed(settings: Settings) -> Iterator[str]:
    """A note where verl will not begin at step 1, which verl itself says only after it has built all models.

    As verl 0.5 to 0.9 finds it: utils/checkpoint/checkpoint_manager.py find_latest_ckpt_path, which wants the step's
    folder too; a relative folder lies below the current one.
    """
    folder = settings.get("trainer.default_local_dir")
    if settings.get("trainer.resume_mode") != "auto" or not isinstance(folder, str):
        return
    try:
        step = int((Path(folder) / _TRACKER).read_text(encoding="ascii"))
        there = (Path(folder) / f"global_step_{step}").exists()
    except (OSError, ValueError):
        return
    if there:
        yield f"verl goes on from step {step} of {folder}; trainer.resume_mode=disable starts anew"
