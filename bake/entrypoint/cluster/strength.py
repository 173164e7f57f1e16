"""Strength: what Ray's nodes can give, against what the training takes. With less of it verl would wait for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bake.entrypoint.amounts import counted
from bake.errors import ClusterError

if TYPE_CHECKING:
    from bake.entrypoint.cluster import Tell
    from bake.entrypoint.cluster.ray_node import Node


def refuse_weak(nodes: tuple[Node, ...], *, gpus_per_node: int, cpus: int, tell: Tell) -> None:
    """Raises ClusterError where a node has fewer GPUs than `gpus_per_node`, or all together fewer than `cpus` CPUs.

    Each node that falls short is told in a line of its own. What Ray says by itself is "No available node types can
    fulfill resource request", again and again, and the training waits (Ray 2.60).
    """
    if weak := [node for node in nodes if node.gpus < gpus_per_node]:
        for node in weak:
            tell(f"cluster: {node} has {node.gpus:g} of {counted(gpus_per_node, 'GPU')}")
        raise ClusterError(
            f"fewer than {counted(gpus_per_node, 'GPU')} on {len(weak)} of {counted(len(nodes), 'node')}",
            hint="give every node the same GPUs, or set trainer.n_gpus_per_node to what each one has",
        )
    if (found := sum(node.cpus for node in nodes)) < cpus:
        for node in nodes:
            tell(f"cluster: {node} has {counted(int(node.cpus), 'CPU')}")
        raise ClusterError(
            f"Ray has {counted(int(found), 'CPU')} on {counted(len(nodes), 'node')}, and verl reserves {cpus}: it "
            "would wait for the missing ones for ever",
            hint=f"`--num-cpus {-(-cpus // len(nodes))}` on every node, for ray-head and ray-worker, raises what Ray "
            "counts (these processes mostly wait); or give the nodes more CPUs",
        )
