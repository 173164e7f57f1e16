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

_VARIABLES = {
    "ray_port": "BAKE_RAY_PORT",
    "roll_call_port": "BAKE_ROLL_CALL_PORT",
    "timeout": "BAKE_CLUSTER_TIMEOUT",
    "node_ip": "BAKE_NODE_IP",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """`timeout` is seconds: for the workers to report, and again for Ray to see all GPUs.

    `node_ip` is this node's IPv4 address as the others reach it; None takes the one over which head and worker talk.
    `num_cpus` and `num_gpus` are what Ray is told that this node has; None lets it look.
    """

    ray_port: int = _RAY_PORT
    roll_call_port: int = _RAY_PORT + 1
    timeout: float = _TIMEOUT
    node_ip: str | None = None
    num_cpus: int | None = None
    num_gpus: int | None = None
    dashboard_host: str = _DASHBOARD

    @classmethod
    def parse(cls, words: Sequence[str], environ: Mapping[str, str]) -> tuple[Meeting, list[str]]:
        """A meeting from options and variables, and the words that were none of its options. Raises UsageError."""
        parser = Parser("ray-head, ray-worker")
        parser.add_argument("--ray-port", type=_port, default=_RAY_PORT)
        parser.add_argument("--roll-call-port", type=_port)
        parser.add_argument("--timeout", type=_seconds, default=_TIMEOUT)
        parser.add_argument("--node-ip", type=_address)
        parser.add_argument("--num-cpus", type=int)
        parser.add_argument("--num-gpus", type=int)
        parser.add_argument("--dashboard-host", default=_DASHBOARD)
        found, rest = parser.parse_known_args([*_from_variables(environ), *words])
        if found.roll_call_port is None:
            found.roll_call_port = found.ray_port + 1
        return cls(**vars(found)), rest


def split_address(text: str, meeting: Meeting) -> tuple[str, int]:
    """HOST[:PORT] of `ray-worker`, with Ray's port: the host and the port of its roll call. Raises UsageError."""
    host, colon, port = text.rpartition(":")
    if not colon:
        return text, meeting.roll_call_port
    try:
        distance = meeting.roll_call_port - meeting.ray_port
        return host, _port(port) + distance
    except argparse.ArgumentTypeError as error:
        raise UsageError(
            f"ray-worker: expected HOST or HOST:PORT, found {text!r}", hint="for example `ray-worker head-0:6379`"
        ) from error


def _from_variables(environ: Mapping[str, str]) -> list[str]:
    """Variables as options, before those of the command line, which then count."""
    return [
        f"--{name.replace('_', '-')}={value}"
        for name, variable in _VARIABLES.items()
        if (value := environ.get(variable))
    ]


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 65536:
        raise argparse.ArgumentTypeError(f"expected a port from 1 to 65535, found {text!r}")
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
