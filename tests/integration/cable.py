"""Two hosts with a cable between them: network namespaces of their own, and no other network.

Docker's own bridges will not do: an engine that leaves the firewall alone forwards nothing where the machine's firewall
drops what it does not know. A host is a container that sleeps, as a Kubernetes pod's; others then run in its network.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.integration.engine import start_container
from tests.needs import without

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from testcontainers.core.container import DockerContainer

    from tests.integration.engine import Engine

_FIRST, _SECOND = "192.168.77.1", "192.168.77.2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """`network` is what another container's network_mode must be to be on this host."""

    name: str
    address: str
    network: str


@contextlib.contextmanager
def two_hosts(engine: Engine, first: str, second: str) -> Iterator[tuple[Host, Host]]:
    """Hosts of these names, which know each other by name. Needs root on the engine's own machine."""
    if os.geteuid() != 0 or not shutil.which("ip"):
        without("needs root and `ip`, to lay a cable between two containers", required="DOCKER")
    addresses = {first: _FIRST, second: _SECOND}
    with _asleep(engine, first, addresses) as left, _asleep(engine, second, addresses) as right:
        _connect(_process(left), _process(right))
        yield (
            Host(name=first, address=_FIRST, network=f"container:{_id(left)}"),
            Host(name=second, address=_SECOND, network=f"container:{_id(right)}"),
        )


def _asleep(engine: Engine, name: str, addresses: Mapping[str, str]) -> DockerContainer:
    return start_container(
        engine, engine.base, "sleep", "infinity", hostname=name, extra_hosts=addresses, stop_signal="SIGKILL"
    )


def _id(container: DockerContainer) -> str:
    return str(container.get_wrapped_container().id)


def _process(container: DockerContainer) -> int:
    """The number that the container's first process has on this machine."""
    wrapped = container.get_wrapped_container()
    wrapped.reload()
    return int(wrapped.attrs["State"]["Pid"])


def _connect(left: int, right: int) -> None:
    """A pair of virtual Ethernet devices, an end in the network of each process."""
    _inside(left, "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", str(right))
    for process, address in ((left, _FIRST), (right, _SECOND)):
        _inside(process, "address", "add", f"{address}/24", "dev", "eth0")
        _inside(process, "link", "set", "eth0", "up")


def _inside(process: int, *words: str) -> None:
    subprocess.run(["nsenter", "-t", str(process), "-n", "ip", *words], check=True, stdin=subprocess.DEVNULL)
