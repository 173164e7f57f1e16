"""CPUs: those that Ray counts against those that verl reserves. With too few, verl waits for ever and says nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bake.entrypoint.amounts import counted
from bake.entrypoint.finding import Finding
from bake.entrypoint.preflight.asked import (
    engine_parallel,
    gpus_per_node,
    joins_cluster,
    nodes,
    positive,
    ray_option,
    uses_queue,
    whole,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bake.entrypoint.preflight.situation import Situation

_UNITS = "transfer_queue.backend.SimpleStorage.num_data_storage_units"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """CPUs that Ray sets aside for one thing."""

    cpus: int
    thing: str


def check_cpus(situation: Situation) -> Iterator[Finding]:
    """In a cluster, or on several nodes, this node's CPUs alone say nothing."""
    settings = situation.settings
    if joins_cluster(situation) or (nodes(settings) or 1) > 1:
        return
    given = ray_option(settings, "num_cpus")
    counts = whole(settings, "ray_kwargs.ray_init.num_cpus", "ray_init.num_cpus")
    counts = counts if given is not None else situation.machine.ray_cpus
    reserved = reservations(situation)
    needed = sum(each.cpus for each in reserved)
    if counts is None or needed <= counts:
        return
    key = "ray_kwargs.ray_init.num_cpus" if settings.has("ray_kwargs") else "ray_init.num_cpus"
    units = sum(each.cpus for each in reserved if _UNITS in each.thing)
    fewer = f"; or {_UNITS}=1" if units > 1 and needed - units + 1 <= counts else ""
    more = "" if given is not None else f"; or docker run --cpus={needed}, on a machine that has them"
    yield Finding(
        check="cpus",
        severity="error",
        what=f"Ray has {counted(counts, 'CPU')}{' (num_cpus)' if given is not None else ' here'}, and verl reserves "
        f"{needed}: {'; '.join(f'{each.cpus} for {each.thing}' for each in reserved)}",
        why="verl waits for the missing ones for ever, without a word, soon after it has printed its configuration",
        todo=f"{key}={needed}, which raises what Ray counts (these processes mostly wait){fewer}{more}",
    )


def reservations(situation: Situation) -> tuple[Reservation, ...]:
    """What is scheduled with num_cpus or in a placement group; other actors of verl's reserve none."""
    return (*_runner(situation), *_queue(situation), *_workers(situation), *_servers(situation))


def reserved_cpus(situation: Situation, *, nodes: int) -> int:
    """Ray CPUs that verl reserves on all nodes of a cluster together: trainer and queue once, all else on each node."""
    once = [*_runner(situation), *_queue(situation)]
    each = [*_workers(situation), *_servers(situation)]
    return sum(item.cpus for item in once) + nodes * sum(item.cpus for item in each)


def _runner(situation: Situation) -> Iterator[Reservation]:
    """ray.remote(num_cpus=1)(TaskRunner), main_ppo.py until 0.8; 0.9 reserves none for it."""
    if situation.release is not None and situation.release < (0, 9):
        yield Reservation(cpus=1, thing="the trainer")


def _queue(situation: Situation) -> Iterator[Reservation]:
    """TransferQueue 0.1.11: controller.py and storage/simple_storage.py, each @ray.remote(num_cpus=1)."""
    if not uses_queue(situation):
        return
    yield Reservation(cpus=1, thing="TransferQueue's controller")
    units = positive(situation.settings, _UNITS)
    if units and situation.settings.get("transfer_queue.backend.storage_backend") == "SimpleStorage":
        yield Reservation(cpus=units, thing=f"its storage ({_UNITS})")


def _workers(situation: Situation) -> Iterator[Reservation]:
    """Each GPU's bundle, `{"CPU": max_colocate_count, "GPU": 1}` in one STRICT_PACK group: 1 CPU until 0.6
    (trainer/ppo/ray_trainer.py), 3 since 0.7 (single_controller/ray/base.py).
    """
    gpus = gpus_per_node(situation.settings)
    if gpus and situation.release is not None:
        each = 1 if situation.release < (0, 7) else 3
        yield Reservation(cpus=each * gpus, thing=f"workers ({each} a GPU)")


def _servers(situation: Situation) -> Iterator[Reservation]:
    """Each engine that serves: @ray.remote(num_cpus=1) in 0.5 and 0.6, vllm_async_server.py."""
    gpus, engine = gpus_per_node(situation.settings), engine_parallel(situation.settings)
    serves = situation.settings.get("actor_rollout_ref.rollout.mode") == "async"
    if gpus and engine and serves and situation.release is not None and situation.release < (0, 7):
        yield Reservation(cpus=max(1, gpus // engine), thing="rollout servers")
