"""The head of a cluster: it calls the roll, starts Ray, waits for all GPUs, trains, and takes everything down again."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from bake.entrypoint.cluster.arrival import Arrival
from bake.entrypoint.cluster.meeting import Meeting
from bake.entrypoint.cluster.ports import refuse_taken
from bake.entrypoint.cluster.ray_node import Census, RayNode, ray_environment
from bake.entrypoint.cluster.rollcall import RollCall
from bake.entrypoint.process import Watch
from bake.errors import ModelFault

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bake.entrypoint.cluster import Report, Tell

_ALONE = "127.0.0.1"
"""The address of a head without workers."""


def run_head(
    command: Sequence[str],
    *,
    nodes: int,
    gpus_per_node: int,
    cpus: int = 0,
    report: Report,
    environ: Mapping[str, str],
    tell: Tell,
    meeting: Meeting | None = None,
) -> int:
    """Bring `nodes` nodes together, this one included, and run the command on them: its exit code.

    `cpus` are those of Ray that the command reserves on all nodes together; 0 is not checked. The command finds Ray
    through RAY_ADDRESS; every worker ends with its code too. Raises ClusterError where the nodes do not come together,
    do not hold the same models or are too weak, or where Ray's port is taken; ModelFault where this node's models are
    at fault; UsageError where the command cannot run. No Ray is left running then, here or on a worker.
    """
    meeting = meeting or Meeting()
    if report.faults:
        raise ModelFault("the models of the head are at fault", hint="no worker was let in; mend this node first")
    with Watch() as watch, RollCall(watch, port=meeting.roll_call, nodes=nodes, report=report, tell=tell) as roll:
        with roll.explained():
            roll.gather(meeting.timeout)
        address = meeting.node_ip or roll.meeting_address or _ALONE
        ray_address = f"{address}:{meeting.ray_port}"
        environ = ray_environment(environ, address=address)
        with roll.explained():
            refuse_taken(address, meeting.ray_port)
        tell(f"cluster: {_holding(report, nodes)}; starting Ray at {ray_address}")
        with _ray(watch, address=address, environ=environ, meeting=meeting) as ray, roll.explained():
            with _census(watch, ray_address=ray_address, environ=environ) as census:
                arrival = Arrival(watch, ray=ray, roll=roll, census=census, timeout=meeting.timeout, tell=tell)
                arrival.wait_for_head()
                roll.go(ray_address)
                arrival.wait_for_nodes(nodes=nodes, gpus_per_node=gpus_per_node, cpus=cpus)
            code = watch.run(command, {**environ, "RAY_ADDRESS": ray_address})
            if ray.program.code is not None:
                ray.tell_end(tell)
            roll.end(code)
    return code


@contextmanager
def _ray(watch: Watch, *, address: str, environ: Mapping[str, str], meeting: Meeting) -> Iterator[RayNode]:
    ray = RayNode.head(watch, address=address, environ=environ, meeting=meeting)
    try:
        yield ray
    finally:
        ray.stop()


@contextmanager
def _census(watch: Watch, *, ray_address: str, environ: Mapping[str, str]) -> Iterator[Census]:
    census = Census(watch, ray_address=ray_address, environ=environ)
    try:
        yield census
    finally:
        census.stop()


def _holding(report: Report, nodes: int) -> str:
    models = ", ".join(f"{name} {digest}" for name, digest in report.models)
    return f"{'this node holds' if nodes == 1 else f'all {nodes} nodes hold'} {models}"
