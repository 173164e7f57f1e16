"""Meeting: the ports, the address and the patience with which the nodes come together."""

from __future__ import annotations

import argparse
import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bake.entrypoint.speech import Parser
from bake.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_RAY_PORT = 6379
_TIMEOUT = 600
_DASHBOARD = "127.0.0.1"
"""Ray's dashboard lets everyone who reaches it run programs."""

_LEAST_OBJECT_STORE = 75 << 20
"""Bytes: ray 2.60, OBJECT_STORE_MINIMUM_MEMORY_BYTES in _private/ray_constants.py. Ray does not start with fewer."""

_NAME_IT = "`--roll-call-port PORT` or BAKE_ROLL_CALL_PORT, the same on every node, names another for the roll call"

_VARIABLES = {
    "ray_port": "BAKE_RAY_PORT",
    "roll_call_port": "BAKE_ROLL_CALL_PORT",
    "timeout": "BAKE_CLUSTER_TIMEOUT",
    "node_ip": "BAKE_NODE_IP",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """`timeout` is seconds: for the workers to report, and again for Ray to see all GPUs.

    `roll_call_port` is None where it was not named: it is one above Ray's then.
    `node_ip` is this node's IPv4 address as the others reach it; None takes the one over which head and worker talk.
    `num_cpus`, `num_gpus` and `object_store_memory` (bytes) are what Ray is told that this node has; None lets it look.
    """

    ray_port: int = _RAY_PORT
    roll_call_port: int | None = None
    timeout: float = _TIMEOUT
    node_ip: str | None = None
    num_cpus: int | None = None
    num_gpus: int | None = None
    object_store_memory: int | None = None
    dashboard_host: str = _DASHBOARD

    @classmethod
    def parse(cls, words: Sequence[str], environ: Mapping[str, str]) -> tuple[Meeting, list[str]]:
        """A meeting from options and variables, and the words that were none of its options. Raises UsageError."""
        parser = Parser("ray-head, ray-worker")
        parser.add_argument("--ray-port", type=_port, default=_RAY_PORT)
        parser.add_argument("--roll-call-port", type=_port)
        parser.add_argument("--timeout", type=_seconds, default=_TIMEOUT)
        parser.add_argument("--node-ip", type=_address)
        parser.add_argument("--num-cpus", type=_count)
        parser.add_argument("--num-gpus", type=_count)
        parser.add_argument("--object-store-memory", type=_object_store)
        parser.add_argument("--dashboard-host", default=_DASHBOARD)
        found, rest = parser.parse_known_args([*_from_variables(environ), *words])
        meeting = cls(**vars(found))
        if meeting.roll_call == meeting.ray_port:
            raise UsageError(
                f"ray-head, ray-worker: expected two ports, found {found.ray_port} for Ray and for the roll call",
                hint=_NAME_IT,
            )
        return meeting, rest

    @property
    def roll_call(self) -> int:
        """The port at which workers report. Raises UsageError where there is none above Ray's."""
        if self.roll_call_port is not None:
            return self.roll_call_port
        return _derived(self.ray_port, word="ray-head, ray-worker")


def split_address(text: str, meeting: Meeting) -> tuple[str, int]:
    """HOST[:PORT] of `ray-worker`, with Ray's port: the host and the port of its roll call. Raises UsageError."""
    host, colon, port = text.partition(":")
    if not host or (colon and not _is_port(port)):
        raise UsageError(f"ray-worker: expected HOST or HOST:PORT, found {text!r}", hint=_mended(text))
    if not colon or meeting.roll_call_port is not None:
        return host, meeting.roll_call
    return host, _derived(int(port), word="ray-worker")


def _mended(text: str) -> str:
    if text.count(":") > 1:
        return "IPv6 is not supported: name the head by its IPv4 address, or by a name that leads to it"
    if text.startswith(":") or not text:
        return "the name of the head is empty: is a variable unset? For example `ray-worker head-0:6379`"
    return "for example `ray-worker head-0:6379`"


def _derived(ray_port: int, *, word: str) -> int:
    if not _is_port(str(ray_port + 1)):
        raise UsageError(f"{word}: no port is one above Ray's {ray_port}, and the roll call needs one", hint=_NAME_IT)
    return ray_port + 1


def _from_variables(environ: Mapping[str, str]) -> list[str]:
    """Variables as options, before those of the command line, which then count."""
    return [
        f"--{name.replace('_', '-')}={value}"
        for name, variable in _VARIABLES.items()
        if (value := environ.get(variable))
    ]


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 6 and 0 < int(text) < 65536


def _port(text: str) -> int:
    if not _is_port(text):
        raise argparse.ArgumentTypeError(f"expected a port from 1 to 65535, found {text!r}")
    return int(text)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise argparse.ArgumentTypeError(f"expected a whole number from 0, found {text!r}")
    return int(text)


def _object_store(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) >= _LEAST_OBJECT_STORE):
        raise argparse.ArgumentTypeError(f"expected bytes, {_LEAST_OBJECT_STORE} at least, found {text!r}")
    return int(text)


def _address(text: str) -> str:
    try:
        return str(ipaddress.IPv4Address(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"expected an IPv4 address, found {text!r}") from error


def _seconds(text: str) -> float:
    if not text.isdecimal() or not 0 < int(text) < 1_000_000:
        raise argparse.ArgumentTypeError(f"expected whole seconds, found {text!r}")
    return int(text)
