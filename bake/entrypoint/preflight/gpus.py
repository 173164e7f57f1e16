"""GPUs: as many as the settings ask for, cut as the settings say. verl finds out a minute later, from Ray."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from bake.entrypoint.amounts import counted, divisors, largest_divisor, listed, size
from bake.entrypoint.finding import Finding
from bake.entrypoint.machine.gpu import VISIBLE
from bake.entrypoint.preflight.asked import (
    engine_parallel,
    fraction,
    gpus_per_node,
    joins_cluster,
    joins_other_cluster,
    nodes,
    on_cuda,
    positive,
    product,
    ray_option,
    trains_apart,
    world,
)
from bake.entrypoint.preflight.config import read_shape
from bake.entrypoint.preflight.rollout import ENGINES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bake.entrypoint.machine import Gpu
    from bake.entrypoint.preflight.situation import Situation
    from bake.entrypoint.settings import Settings

_ASKED = "trainer.n_gpus_per_node"
_PARALLEL = "actor_rollout_ref.rollout.tensor_model_parallel_size"
_BUSY = 0.9


def check_gpus(situation: Situation) -> Iterator[Finding]:
    """On another device, with a platform of its own, or in a cluster that runs elsewhere, GPUs are not counted here."""
    counted_here = ray_option(situation.settings, "num_gpus") is None and not joins_other_cluster(situation)
    if on_cuda(situation) and counted_here:
        yield from _count_findings(situation)
        yield from _cut_findings(situation)
        yield from _busy(situation)
    yield from _engine_findings(situation.settings)
    yield from _heads_findings(situation)


def _count_findings(situation: Situation) -> Iterator[Finding]:
    gpus, asked = situation.machine.gpus, _asked(situation.settings)
    if asked is None:
        return
    if not gpus:
        yield _none(situation, asked=asked, told=_told(situation.settings, asked))
    elif len(gpus) < asked:
        yield _fewer(gpus, asked=_told(situation.settings, asked), count=asked, settings=situation.settings)
    elif len(gpus) > asked:
        yield Finding(
            check="gpus",
            severity="warning",
            what=f"{counted(len(gpus), 'GPU')} visible ({_kinds(gpus)}), {_told(situation.settings, asked)}",
            why=f"{len(gpus) - asked} would stay idle",
            todo=f"{_ASKED}={len(gpus)}, or start the container with fewer GPUs",
        )


def _asked(settings: Settings) -> int | None:
    """On this node: the trainer's own, and on a single node also those pools that share none with it."""
    own = gpus_per_node(settings)
    if own is None or nodes(settings) != 1:
        return own
    return own + sum(_pools(settings))


def _pools(settings: Settings) -> Iterator[int]:
    """trainer/ppo/v1/trainer_base.py and main_ppo.py: a reward model's or a teacher's pool, when it is asked for."""
    for section, flag in (
        ("reward.reward_model", "enable_resource_pool"),
        ("reward_model", "enable_resource_pool"),
        ("distillation", "enabled"),
    ):
        if settings.flag(f"{section}.{flag}"):
            per_node, count = positive(settings, f"{section}.n_gpus_per_node"), positive(settings, f"{section}.nnodes")
            yield product(per_node, count) or 0
    if settings.get("trainer.v1.trainer_mode") == "separate_async":
        section = "actor_rollout_ref.rollout"
        yield product(positive(settings, f"{section}.n_gpus_per_node"), positive(settings, f"{section}.nnodes")) or 0


def _told(settings: Settings, asked: int) -> str:
    """Whose number it is: only a person asks."""
    own = _ASKED in settings.given or asked != gpus_per_node(settings)
    return f"{asked} asked for" if own else f"{asked} is verl's default"


def _none(situation: Situation, *, asked: int, told: str) -> Finding:
    note = situation.machine.gpu_note
    hidden = VISIBLE in note
    return Finding(
        check="gpus",
        severity="error",
        what=f"no GPU is visible, {told} ({_ASKED})" + (f": {note}" if note else ""),
        why=f"verl starts Ray, reads the data and then stops: Total available GPUs 0 is less than total desired GPUs "
        f"{asked}",
        todo=f"unset {VISIBLE}, or name GPUs in it"
        if hidden
        else f"docker run --gpus all (the host needs the NVIDIA Container Toolkit); in Kubernetes, "
        f"resources.limits nvidia.com/gpu: {asked}; `nvidia-smi` in this container must list them",
    )


def _fewer(gpus: Sequence[Gpu], *, asked: str, count: int, settings: Settings) -> Finding:
    extra = sum(_pools(settings)) if nodes(settings) == 1 else 0
    pools = f", of these {extra} for pools of their own" if extra else ""
    lower = f"{_ASKED}={len(gpus) - extra}, or " if len(gpus) > extra else ""
    return Finding(
        check="gpus",
        severity="error",
        what=f"{counted(len(gpus), 'GPU')} visible ({_kinds(gpus)}), {asked}{pools}",
        why=f"verl starts Ray, reads the data and then stops: Total available GPUs {len(gpus)} is less than total "
        f"desired GPUs {count}",
        todo=f"{lower}start the container with {count}: docker run --gpus all, or nvidia.com/gpu: {count}",
    )


def _kinds(gpus: Sequence[Gpu]) -> str:
    return ", ".join(f"{count} x {name}" for name, count in Counter(gpu.name for gpu in gpus).items())


def _cut_findings(situation: Situation) -> Iterator[Finding]:
    """Ray counts cards (ray/_private/accelerators/nvidia_gpu.py, 2.60), and MIG's instances are named one by one."""
    gpus, asked = situation.machine.gpus, _asked(situation.settings)
    cards = len({gpu.index for gpu in gpus})
    if asked is None or joins_cluster(situation) or not cards < asked <= len(gpus):
        return
    key = "ray_kwargs.ray_init" if situation.settings.has("ray_kwargs") else "ray_init"
    plus = "" if situation.settings.has(f"{key}.num_gpus") else "+"
    yield Finding(
        check="gpus",
        severity="error",
        what=f"{len(gpus)} MIG instances of {counted(cards, 'card')} are visible, {asked} asked for",
        why=f"Ray counts cards: Total available GPUs {cards} is less than total desired GPUs {asked}",
        todo=f"{_ASKED}={cards}, one instance a card; or {plus}{key}.num_gpus={len(gpus)}, where NCCL can join "
        "instances of one card",
    )


def _busy(situation: Situation) -> Iterator[Finding]:
    """No error, however little is free: what an earlier run holds may be given back before the engine looks."""
    busy = [gpu for gpu in situation.machine.gpus if gpu.memory > 0 and gpu.free < _BUSY * gpu.memory]
    if busy:
        each = ", ".join(f"GPU {gpu.index}: {size(gpu.free)} of {size(gpu.memory)} free" for gpu in busy)
        yield Finding(
            check="gpus",
            severity="warning",
            what=f"memory is taken already: {each}",
            why="vLLM refuses to start: Free memory on device … is less than desired GPU memory utilization"
            if _stops_vllm(situation.settings, busy)
            else "the rollout engine wants its share (rollout.gpu_memory_utilization) of all memory, and finds it "
            "taken",
            todo="`nvidia-smi` on the host names the programs that hold it; end them, or pick other GPUs",
        )


def _stops_vllm(settings: Settings, busy: Sequence[Gpu]) -> bool:
    """vLLM measures when it starts (vllm/v1/worker/gpu_worker.py, 0.9.1 and later)."""
    share = fraction(settings, "actor_rollout_ref.rollout.gpu_memory_utilization")
    is_vllm = settings.get("actor_rollout_ref.rollout.name") == "vllm"
    return is_vllm and share is not None and any(gpu.free < share * gpu.memory for gpu in busy)


def _engine_findings(settings: Settings) -> Iterator[Finding]:
    everything, engine = world(settings), engine_parallel(settings)
    if everything and engine and everything % engine and not trains_apart(settings):
        yield Finding(
            check="gpus",
            severity="error",
            what=f"{counted(everything, 'GPU')} in all, and one rollout engine takes {engine} ({_PARALLEL})",
            why=f"verl loads the actor and then stops: rollout world_size: {everything} is not divisible by {engine}",
            todo=f"{_PARALLEL}={largest_divisor(everything, most=engine)} (it must divide {everything}: "
            f"{listed(divisors(everything))})",
        )


def _heads_findings(situation: Situation) -> Iterator[Finding]:
    """vllm/config/model.py verify_with_parallel_config; SGLang divides the heads in the same way."""
    parallel, model = positive(situation.settings, _PARALLEL), situation.model("actor")
    if situation.settings.get("actor_rollout_ref.rollout.name") not in ENGINES or model is None:
        return
    heads = read_shape(situation.folder(model)).heads
    if parallel and heads and heads % parallel:
        yield Finding(
            check="gpus",
            severity="error",
            what=f"the model has {heads} attention heads, and {_PARALLEL}={parallel} does not divide them",
            why="the rollout engine refuses to start, after verl has loaded the actor",
            todo=f"{_PARALLEL}={listed(divisors(heads))}, one that also divides the number of GPUs",
        )
