"""Estimate: the bytes that a training takes, on each GPU and in each node's memory, part by part and phase by phase.

verl runs its phases one after another: it generates, then updates the actor, then the critic. A part that is offloaded
to the CPU leaves the GPU between phases, and is back on it, whole, in its own (workers/engine/fsdp/transformer_impl.py
of 0.9.1: train_mode loads what offload put away). So offload makes room for the rollout, not for the update.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bake.entrypoint.preflight.asked import trains_apart, uses_critic
from bake.entrypoint.preflight.engines import read_trained, reference_parts
from bake.entrypoint.preflight.rollout import activation_part, rollout_parts

if TYPE_CHECKING:
    from bake.entrypoint.preflight.part import Part, Phase
    from bake.entrypoint.preflight.situation import Situation
    from bake.entrypoint.preflight.trained import TrainedModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """`gpu` are the parts on each GPU, `host` those in each node's memory."""

    gpu: tuple[Part, ...]
    host: tuple[Part, ...]

    def on_gpu(self, phase: Phase, *, certain: bool = False) -> int:
        """Bytes on each GPU in a phase; `certain` leaves out rough shares and what the rollout may choose."""
        return sum(part.size for part in self.gpu if phase in part.phases and (part.certain or not certain))

    def in_memory(self, *, loading: bool) -> int:
        """Bytes in each node's memory: what lasts, and with `loading` the largest of what does not."""
        lasting = sum(part.size for part in self.host if part.lasts)
        passing = max((part.size for part in self.host if not part.lasts), default=0)
        return lasting + passing if loading else lasting

    def lines(self, phase: Phase) -> tuple[str, ...]:
        """One readable line for each part of a phase, the largest first."""
        parts = sorted((part for part in self.gpu if phase in part.phases), key=lambda part: -part.size)
        return tuple(str(part) for part in parts)


def estimate(situation: Situation) -> Estimate | None:
    """None where too little is known: no baked actor, weights that cannot be counted, an engine of another kind."""
    actor = read_trained(situation, "actor")
    if actor is None or trains_apart(situation.settings):
        return None
    models = [actor]
    if uses_critic(situation.settings):
        critic = read_trained(situation, "critic")
        if critic is None:
            return None
        models.append(critic)
    gpu = [part for model in models for part in model.gpu_parts()]
    host = [part for model in models for part in model.host_parts()]
    on_gpu, on_host = reference_parts(situation, actor)
    return Estimate(
        gpu=(*gpu, *on_gpu, *rollout_parts(situation, actor), *_activations(situation, models)),
        host=(*host, *on_host),
    )


def _activations(situation: Situation, models: list[TrainedModel]) -> list[Part]:
    return [part for model in models if (part := activation_part(situation, model)) is not None]
