"""Arrival: from Ray's start on the head until Ray sees every node with its GPUs. A node that is lost ends the wait.

What Ray answers counts only while this head's own Ray runs: it might be another Ray's answer otherwise.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from bake.entrypoint.amounts import counted
from bake.entrypoint.cluster.strength import refuse_weak
from bake.errors import ClusterError

if TYPE_CHECKING:
    from bake.entrypoint.cluster import Tell
    from bake.entrypoint.cluster.ray_node import Census, RayNode
    from bake.entrypoint.cluster.rollcall import RollCall
    from bake.entrypoint.process import Watch

_REMIND = 30.0
_TURN = 1.0
"""Seconds. The census is to be asked again this often, until Ray answers."""


class Arrival:
    """Waits for Ray on the head, then for all nodes; `timeout` is seconds, for each of the two."""

    def __init__(
        self, watch: Watch, *, ray: RayNode, roll: RollCall, census: Census, timeout: float, tell: Tell
    ) -> None:
        self._watch = watch
        self._ray = ray
        self._roll = roll
        self._census = census
        self._timeout = timeout
        self._tell = tell

    def wait_for_head(self) -> None:
        """Return once Ray on this node answers. Raises ClusterError where it does not."""
        self._wait(1)

    def wait_for_nodes(self, *, nodes: int, gpus_per_node: int, cpus: int) -> None:
        """Return once Ray has all nodes. Raises ClusterError that names those that do not come, or are too weak.

        `cpus` is for all nodes together; 0 is not checked.
        """
        self._wait(nodes)
        found = self._census.nodes
        refuse_weak(found, gpus_per_node=gpus_per_node, cpus=cpus, tell=self._tell)
        gpus = int(sum(node.gpus for node in found))
        self._tell(f"cluster: Ray sees {counted(gpus, 'GPU')} on {counted(nodes, 'node')}")

    def _wait(self, nodes: int) -> None:
        started = reminded = time.monotonic()
        while len(self._census.nodes) < nodes:
            self._census.ask()
            self._watch.turn(_TURN)
            self._refuse_losses()
            now = time.monotonic()
            if now >= started + self._timeout:
                raise self._too_late(nodes)
            if now >= reminded + _REMIND:
                reminded = now
                self._tell(f"cluster: still waiting: Ray sees {self._seen(nodes)}")

    def _refuse_losses(self) -> None:
        if (code := self._ray.program.code) is not None:
            self._ray.tell_end(self._tell)
            raise ClusterError(f"Ray on the head ended with code {code}", hint="the lines of Ray's own above say why")
        if self._roll.left:
            raise ClusterError(
                f"{', '.join(map(str, self._roll.left))} left before Ray had all nodes",
                hint="the log of that node says why",
            )

    def _seen(self, nodes: int) -> str:
        found = self._census.nodes
        return f"{len(found)} of {counted(nodes, 'node')}{': ' if found else ''}{', '.join(map(str, found))}"

    def _too_late(self, nodes: int) -> ClusterError:
        if not self._census.nodes:
            self._census.tell_end(self._tell)
            self._ray.tell_end(self._tell)
            return ClusterError(
                f"Ray on the head does not answer, after {self._timeout:g} s",
                hint="the lines of Ray's own above say why; BAKE_CLUSTER_TIMEOUT gives it more seconds",
            )
        return ClusterError(
            f"Ray sees {self._seen(nodes)}, after {self._timeout:g} s",
            hint="nodes of Ray reach each other at any port: is there a firewall between them?",
        )
