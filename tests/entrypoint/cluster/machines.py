"""Two machines on one: network namespaces, a cable between them, and own folders for each program."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.entrypoint.cluster.meet import NODE, RIGHT, ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HEAD, WORKER = "10.251.7.1", "10.251.7.2"

_MOUNTS = "mkdir -p /tmp/ray && mount -t tmpfs tmpfs /tmp/ray && mount -t tmpfs tmpfs /dev/shm"
"""Nothing else of /tmp is hidden: the checkout and its Python may lie there."""

_CONTAINER = f'{_MOUNTS} && hostname $0 && cd / && exec "$@"'


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A network namespace of one address. `site` is where Ray lies."""

    name: str
    namespace: str
    site: Path

    def left(self) -> str:
        """The pids of all that still runs on this machine, one a line, once what was killed has had time to go."""
        words = ["ip", "netns", "pids", self.namespace]
        deadline = time.monotonic() + 60
        while (pids := subprocess.run(words, capture_output=True, text=True, check=True).stdout) and (
            time.monotonic() < deadline
        ):
            time.sleep(0.1)
        return pids

    @contextmanager
    def start(
        self, *words: str, command: tuple[str, ...] = (), model: str = RIGHT, pid_namespace: bool = True
    ) -> Iterator[subprocess.Popen[str]]:
        """A node, as process 1 of a container, but for the root file system; or among the other processes here."""
        own_processes = ("--pid", "--fork", "--mount-proc", "--kill-child") if pid_namespace else ()
        process = subprocess.Popen(
            [
                *("ip", "netns", "exec", self.namespace),
                *("unshare", "--mount", "--uts", *own_processes),
                *("sh", "-c", _CONTAINER, self.name),
                *(sys.executable, str(NODE), "--num-cpus=2", f"--model=tiny@v1={model}", *words, "--", *command),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join((str(ROOT), str(self.site))),
                "RAY_USAGE_STATS_ENABLED": "0",
            },
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate(timeout=60)


@contextmanager
def two_machines(site: Path) -> Iterator[tuple[Machine, Machine]]:
    """Raises PermissionError where they may not be made, FileNotFoundError where `ip` is missing."""
    names = tuple(f"bake{os.getpid()}{side}" for side in "hw")
    if os.geteuid() != 0:
        raise PermissionError("only root may make network namespaces")
    with ExitStack() as stack:
        for name in names:
            _ip("netns", "add", name)
            stack.callback(_ip, "netns", "del", name)
        _ip("link", "add", "eth0", "netns", names[0], "type", "veth", "peer", "name", "eth0", "netns", names[1])
        for name, address in zip(names, (HEAD, WORKER), strict=True):
            _ip("-n", name, "address", "add", f"{address}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                _ip("-n", name, "link", "set", device, "up")
        yield (
            Machine(name="node-0", namespace=names[0], site=site),
            Machine(name="node-1", namespace=names[1], site=site),
        )


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PermissionError(f"ip {' '.join(words)}: {done.stderr.strip()}")
