"""Adapter: a LoRA adapter's folder that verl would pass over in silence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bake.entrypoint.finding import Finding
from bake.entrypoint.preflight.asked import lora_rank, text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bake.entrypoint.preflight.situation import Situation

_FOLDER = "actor_rollout_ref.model.lora_adapter_path"


def check_adapter(situation: Situation) -> Iterator[Finding]:
    """workers/engine/fsdp/transformer_impl.py asks `lora_rank > 0` alone since 0.8, and the trainer the folder too:
    ref_in_actor in trainer/ppo/ray_trainer.py and trainer/ppo/v1/trainer_base.py.
    """
    folder = text(situation.settings, _FOLDER)
    if not folder or situation.release is None or situation.release < (0, 8) or lora_rank(situation.settings):
        return
    yield Finding(
        check="lora",
        severity="error",
        what=f"{_FOLDER}={folder}, and lora_rank is 0",
        why="verl loads no adapter then and trains all weights of the model, while its trainer takes the actor without "
        "an adapter for the reference, which is the actor itself",
        todo=f"actor_rollout_ref.model.lora_rank=R, the `r` in {folder}/adapter_config.json; or leave {_FOLDER} out",
    )
