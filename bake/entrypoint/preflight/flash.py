"""Flash: flash-attn is there where something needs it. verl finds out after Ray, while it loads the models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bake.entrypoint.finding import Finding
from bake.entrypoint.launch.installed import importable
from bake.entrypoint.preflight.asked import mapping, on_cuda, shards_freely, uses_critic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bake.entrypoint.preflight.situation import Situation

_PACKED = "actor_rollout_ref.model.use_remove_padding"


def check_flash(situation: Situation) -> Iterator[Finding]:
    """Nothing is said where a module of one's own may replace what needs flash-attn."""
    needs = needs_flash(situation)
    if not needs or importable("flash_attn"):
        return
    yield Finding(
        check="flash-attn",
        severity="error",
        what=f"flash-attn is not installed, and is needed by {'; by '.join(needs)}",
        why="verl loads the data, starts Ray and dies while it builds the models; for the critic it then names trl as "
        "what is missing, which is not the cause",
        todo=_todo(situation),
    )


def needs_flash(situation: Situation) -> tuple[str, ...]:
    """What needs it, as words. Megatron has attention of its own."""
    if not on_cuda(situation):
        return ()
    return (
        *(["the actor's attention"] if _actor(situation) else []),
        *(["the critic's attention (hard-coded in verl)"] if _critic(situation) else []),
        *([_PACKED] if _packing(situation) else []),
    )


def _actor(situation: Situation) -> bool:
    """Hard-coded in 0.5.0 (workers/fsdp_workers.py:254); since 0.6 the default of override_config (config/model.py)."""
    settings = situation.settings
    if not shards_freely(settings) or situation.release is None:
        return False
    chosen = mapping(settings, "actor_rollout_ref.model.override_config").get("attn_implementation")
    return situation.release < (0, 6) or chosen in (None, "flash_attention_2")


def _critic(situation: Situation) -> bool:
    """utils/model.py load_valuehead_model: hard-coded in every release from 0.5.0 to 0.9.1."""
    known = situation.release is not None and situation.release <= (0, 9)
    return known and uses_critic(situation.settings) and shards_freely(situation.settings, "critic")


def _packing(situation: Situation) -> bool:
    """Until 0.8 flash-attn's own functions remove the padding; 0.9 can do without (utils/attention_utils.py)."""
    old = situation.release is not None and situation.release < (0, 9)
    return old and situation.settings.flag(_PACKED) and shards_freely(situation.settings)


def _todo(situation: Situation) -> str:
    changes = [
        *(["+actor_rollout_ref.model.override_config.attn_implementation=sdpa"] if _actor(situation) else []),
        *(["algorithm.adv_estimator=grpo, which trains without a critic"] if _critic(situation) else []),
        *([f"{_PACKED}=False"] if _packing(situation) else []),
    ]
    fixed = situation.release is not None and situation.release < (0, 6)
    install = "an image that has flash-attn (pip install flash-attn --no-build-isolation)"
    return install if fixed else f"{install}; or do without: {' and '.join(changes)}"
