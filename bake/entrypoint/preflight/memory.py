"""Memory: does the training fit on the GPUs and in the node? An error only where what is certain alone does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bake.entrypoint.amounts import size
from bake.entrypoint.finding import Finding
from bake.entrypoint.preflight.asked import SECTIONS, Role, fraction, lora_rank, on_cuda, strategy, text, uses_critic
from bake.entrypoint.preflight.engines import engine_section
from bake.entrypoint.preflight.estimate import estimate
from bake.entrypoint.preflight.part import PHASES, Phase
from bake.entrypoint.preflight.rollout import capacity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bake.entrypoint.preflight.estimate import Estimate
    from bake.entrypoint.preflight.situation import Situation
    from bake.entrypoint.settings import Settings

_SHARE = "actor_rollout_ref.rollout.gpu_memory_utilization"

_PHASES: dict[Phase, str] = {
    "generate": "generating",
    "update actor": "the actor's update",
    "update critic": "the critic's update",
}


def check_memory(situation: Situation) -> Iterator[Finding]:
    counted = estimate(situation)
    if counted is None or _adapts(situation):
        return
    memory = capacity(situation)
    if on_cuda(situation) and memory is not None:
        yield from _engine_finding(situation, counted, memory)
        yield from _gpu_finding(situation, counted, memory)
    if situation.machine.memory is not None:
        yield from _host_finding(counted, situation.machine.memory)


def _adapts(situation: Situation) -> bool:
    """Up to 0.7 an adapter's folder alone makes LoRA of a training (workers/fsdp_workers.py); its rank is not read."""
    folder = text(situation.settings, "actor_rollout_ref.model.lora_adapter_path")
    old = situation.release is None or situation.release < (0, 8)
    return bool(folder) and old and not lora_rank(situation.settings)


def _gpu_finding(situation: Situation, counted: Estimate, memory: int) -> Iterator[Finding]:
    surely, likely = _lacking(counted, memory), max(PHASES, key=counted.on_gpu)
    if surely is not None:
        least = size(counted.on_gpu(surely, certain=True))
        yield Finding(
            check="memory",
            severity="error",
            what=f"{_PHASES[surely]} takes at least {least} of each GPU, which has {size(memory)}",
            why=f"CUDA out of memory, after the models are loaded; {'; '.join(counted.lines(surely))}",
            todo=_less_to_hold(situation.settings, surely),
        )
    elif counted.on_gpu(likely) > memory:
        yield Finding(
            check="memory",
            severity="warning",
            what=f"{_PHASES[likely]} takes about {size(counted.on_gpu(likely))} of each GPU, which has {size(memory)}",
            why=f"CUDA out of memory is likely, after minutes; {'; '.join(counted.lines(likely))}",
            todo=_less_at_once(situation.settings, likely),
        )


def _lacking(counted: Estimate, memory: int) -> Phase | None:
    """A phase that surely does not fit: an update before generating, since offload mends the latter alone."""
    sizes = {phase: counted.on_gpu(phase, certain=True) for phase in PHASES}
    largest_first = sorted((phase for phase in PHASES if sizes[phase] > memory), key=lambda phase: -sizes[phase])
    return min(largest_first, key=lambda phase: phase == "generate", default=None)


def _less_to_hold(settings: Settings, phase: Phase) -> str:
    """For what has to be there: more GPUs to spread it over, less to train, or the node's memory."""
    engine = engine_section(settings, "actor")
    ways = ["more GPUs (trainer.n_gpus_per_node, trainer.nnodes)"]
    if phase == "generate":
        ways.append(_offload(settings))
    elif strategy(settings) == "megatron":
        ways.append(f"higher {engine}.tensor_model_parallel_size or .pipeline_model_parallel_size")
    else:
        small = f"{engine}.model_dtype=bf16, in which the frozen weights lose nothing"
        ways.append(small if lora_rank(settings) else "LoRA (actor_rollout_ref.model.lora_rank=32)")
        ways.append(f"actor_rollout_ref.actor.strategy=fsdp2 {engine}.offload_policy=True, which is slow")
    if uses_critic(settings):
        ways.append("algorithm.adv_estimator=grpo, which trains without a critic")
    return "; or ".join(ways)


def _less_at_once(settings: Settings, phase: Phase) -> str:
    if phase == "generate":
        return f"{_offload(settings)}; or a lower {_SHARE}"
    section = SECTIONS["actor" if phase == "update actor" else "critic"]
    if settings.flag(f"{section}.use_dynamic_bsz"):
        return f"a lower {section}.ppo_max_token_len_per_gpu (at least one prompt with its answer)"
    return f"a lower {section}.ppo_micro_batch_size_per_gpu; or {section}.use_dynamic_bsz=True"


def _offload(settings: Settings) -> str:
    """It makes room between updates, so for the rollout alone."""
    roles: tuple[Role, ...] = ("actor", "critic") if uses_critic(settings) else ("actor",)
    keys = [f"{engine_section(settings, role)}.{what}_offload" for role in roles for what in ("param", "optimizer")]
    return " ".join(f"{key}=True" for key in keys if not settings.flag(key)) or "fewer models at a time"


def _engine_finding(situation: Situation, counted: Estimate, memory: int) -> Iterator[Finding]:
    share = fraction(situation.settings, _SHARE)
    weights = next((part for part in counted.gpu if part.name == "rollout weights" and part.certain), None)
    if share is not None and weights is not None and weights.size > share * memory:
        yield Finding(
            check="memory",
            severity="error",
            what=f"{weights}, and {_SHARE}={share} gives the rollout {size(share * memory)} of each GPU",
            why="the rollout engine stops while it starts, since no memory is left for its KV cache",
            todo=f"a higher {_SHARE}, or a higher actor_rollout_ref.rollout.tensor_model_parallel_size",
        )


def _host_finding(counted: Estimate, memory: int) -> Iterator[Finding]:
    lasting, loading = counted.in_memory(loading=False), counted.in_memory(loading=True)
    if loading <= memory:
        return
    lacks = lasting > memory
    yield Finding(
        check="memory",
        severity="error" if lacks else "warning",
        what=f"{'training' if lacks else 'loading the models'} takes at least {size(lasting if lacks else loading)} of "
        f"this node's memory, of which the container may use {size(memory)}",
        why="the kernel ends the container (OOMKilled, exit code 137); "
        + "; ".join(str(part) for part in counted.host),
        todo="more memory (docker run --memory, or resources.limits.memory in Kubernetes), less offload, or more nodes",
    )
