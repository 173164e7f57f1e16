"""RayNode: Ray on this machine, as `ray start --block` in the background, and the nodes that it has brought together.

Ray runs as a program of ours and not as daemons, because `ray stop` ends every Ray of the machine that this user has,
another job's as well. It ends with SIGTERM (seen with Ray 2.60: 1 to 3 s), and nothing of it is left.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bake.entrypoint.cluster.interface import gloo_environment
from bake.entrypoint.cluster.piped import Piped
from bake.entrypoint.fault import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bake.entrypoint.cluster import Tell
    from bake.entrypoint.cluster.meeting import Meeting
    from bake.entrypoint.process import Program, Watch

_KEPT = 40
"""Lines of Ray's own output that are told where it fails."""

GRACE = 10.0
"""Seconds that Ray has to end: less than the 30 that Kubernetes leaves a pod."""

_AGAIN = 1.0
"""Seconds between two tries to ask a Ray that does not answer yet."""


def ray_environment(environ: Mapping[str, str], *, address: str) -> dict[str, str]:
    """The environment of everything of Ray's on the node of this address; what is set already counts.

    RAY_AUTH_MODE is said aloud: unset, Ray's commands disagree about it.
    """
    return {"RAY_AUTH_MODE": "disabled", **gloo_environment(address), **environ}


class RayNode:
    """Starts Ray at once. Its output is kept back, and the end of it is told where Ray fails."""

    def __init__(self, watch: Watch, words: list[str], environ: Mapping[str, str], *, meeting: Meeting) -> None:
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--log-color=false", *words]
        given = {
            "--num-cpus": meeting.num_cpus,
            "--num-gpus": meeting.num_gpus,
            "--object-store-memory": meeting.object_store_memory,
        }
        command += [f"{option}={count}" for option, count in given.items() if count is not None]
        self._lines: deque[str] = deque(maxlen=_KEPT)
        self._piped = Piped(watch, command, environ, on_line=self._keep)

    @classmethod
    def head(cls, watch: Watch, *, address: str, environ: Mapping[str, str], meeting: Meeting) -> RayNode:
        words = [
            "--head",
            f"--node-ip-address={address}",
            f"--port={meeting.ray_port}",
            f"--dashboard-host={meeting.dashboard_host}",
        ]
        return cls(watch, words, environ, meeting=meeting)

    @classmethod
    def worker(
        cls, watch: Watch, *, ray_address: str, address: str, environ: Mapping[str, str], meeting: Meeting
    ) -> RayNode:
        words = [f"--address={ray_address}", f"--node-ip-address={address}"]
        return cls(watch, words, environ, meeting=meeting)

    @property
    def program(self) -> Program:
        return self._piped.program

    def stop(self, *, grace: float = GRACE) -> None:
        """End Ray here. `grace` seconds after SIGTERM all of it is killed."""
        self._piped.stop(grace=grace)

    def tell_end(self, tell: Tell) -> None:
        """Tell the last lines of Ray's output."""
        self._piped.stop(grace=GRACE)
        for line in self._lines:
            tell(f"ray: {printable(line)}")

    def _keep(self, line: str) -> None:
        if "[state-dump]" not in line:  # hundreds of lines, in front of the one that says why
            self._lines.append(line.rstrip())


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node as Ray sees it. `gpus` counts NPUs where there are no GPUs, as verl does."""

    host: str
    address: str
    cpus: float
    gpus: float

    def __str__(self) -> str:
        return f"{printable(self.host)} ({printable(self.address)})"


class Census:
    """The nodes that Ray sees, kept up to date by a program that asks Ray. Empty until Ray answers."""

    def __init__(self, watch: Watch, *, ray_address: str, environ: Mapping[str, str]) -> None:
        self._watch = watch
        self._command = [sys.executable, "-m", "bake.entrypoint.cluster.nodes", ray_address]
        self._environ = _with_this_package(environ)
        self._lines: deque[str] = deque(maxlen=_KEPT)
        self._before: tuple[str, ...] = ()
        self._piped: Piped | None = None
        self._ended = 0.0
        self.nodes: tuple[Node, ...] = ()

    def ask(self) -> None:
        """Ask Ray, in the background; again where an earlier question was in vain."""
        if self._piped is not None and self._piped.program.code is not None:
            self.stop()
        if self._piped is None and time.monotonic() >= self._ended + _AGAIN:
            self._before = tuple(self._lines)
            self._lines.clear()
            self._piped = Piped(self._watch, self._command, self._environ, on_line=self._take)

    def stop(self) -> None:
        if self._piped is not None:
            self._piped.stop(grace=GRACE)
            self._piped = None
            self._ended = time.monotonic()

    def tell_end(self, tell: Tell) -> None:
        """Tell why there is no answer: what the program said that asked last, or the one before while it still asks."""
        asks = self._piped is not None and self._piped.program.code is None
        for line in self._before if asks and self._before else self._lines:
            tell(f"ray: {printable(line)}")

    def _take(self, line: str) -> None:
        if line.startswith("[{") or line == "[]":
            self.nodes = tuple(_node(document) for document in json.loads(line))
        else:
            self._lines.append(line)


def _node(document: dict[str, Any]) -> Node:
    return Node(
        host=str(document["host"]),
        address=str(document["address"]),
        cpus=float(document["cpus"]),
        gpus=float(document["gpus"]),
    )


def _with_this_package(environ: Mapping[str, str]) -> dict[str, str]:
    """Python finds `bake` there too, wherever this entrypoint lies."""
    path = str(Path(__file__).parents[3])
    return {**environ, "PYTHONPATH": os.pathsep.join(filter(None, (path, environ.get("PYTHONPATH"))))}
