"""Wire: what head and worker say to each other: one JSON object a line, over one TCP connection.

A line from the other side is short, or it is refused: whoever reads it holds no more than LIMIT bytes.
"""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from bake.entrypoint.cluster import Report

PROTOCOL = 1
LIMIT = 256 * 1024
_FAULTS = 50
_TEXT = 500
_HOST = 255

Say = Literal["waiting", "noted", "refused", "go", "ended"]


class WireError(ValueError):
    """The other side says something that is no line of this protocol."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """What the head says to a worker.

    waiting: `text` says for whom. noted: a report with faults has come. refused: `text` says why. go: Ray is at
    `address`. ended: the training ended with `code`.
    """

    say: Say
    text: tuple[str, ...] = ()
    address: str = ""
    code: int = 0

    def line(self) -> bytes:
        return _line({"say": self.say, "text": self.text, "address": self.address, "code": self.code})

    @classmethod
    def parse(cls, line: bytes) -> Notice:
        """Raises WireError."""
        document = _object(line)
        say = _text(document, "say")
        if say not in get_args(Say):
            raise WireError(f"unknown notice {say!r}")
        return cls(
            say=cast("Say", say),
            text=_texts(document, "text"),
            address=_text(document, "address"),
            code=_number(document, "code"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """What a worker says to the head, once: its report, and the address that it believes to be its own."""

    report: Report
    address: str

    def line(self) -> bytes:
        report = self.report
        return _line(
            {
                "protocol": PROTOCOL,
                "address": self.address,
                "host": report.host,
                "bake": report.bake,
                "models": report.models,
                "faults": _shortened(report.faults),
                "software": report.software,
            }
        )

    @classmethod
    def parse(cls, line: bytes) -> Hello:
        """Raises WireError."""
        document = _object(line)
        if (protocol := _number(document, "protocol")) != PROTOCOL:
            raise WireError(f"protocol {protocol} (expected {PROTOCOL})")
        if len(host := _text(document, "host")) > _HOST:
            raise WireError("a host name that is too long")
        report = Report(
            host=host,
            bake=_text(document, "bake"),
            models=_pairs(document, "models"),
            faults=_texts(document, "faults"),
            software=_pairs(document, "software"),
        )
        return cls(report=report, address=_text(document, "address"))


class Lines:
    """Cuts what a socket gives into lines."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, content: bytes) -> list[bytes]:
        """The lines that are whole now. Raises WireError once one is longer than LIMIT bytes."""
        *lines, self._rest = (self._rest + content).split(b"\n")
        if max(map(len, (*lines, self._rest))) > LIMIT:
            raise WireError(f"a line of more than {LIMIT} bytes")
        return lines


def keep_alive(connection: socket.socket) -> None:
    """Have the kernel notice within a minute that the other machine has gone without a word."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 20)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4)


def _shortened(faults: tuple[str, ...]) -> list[str]:
    shown = [fault[:_TEXT] for fault in faults[:_FAULTS]]
    return shown if len(faults) <= _FAULTS else [*shown, f"and {len(faults) - _FAULTS} more lines: see its own log"]


def _line(document: dict[str, Any]) -> bytes:
    return json.dumps(document).encode() + b"\n"


def _object(line: bytes) -> dict[str, Any]:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise WireError(f"no JSON: {line[:40]!r}") from error
    if not isinstance(document, dict):
        raise WireError(f"no object: {line[:40]!r}")
    return document


def _text(document: dict[str, Any], key: str) -> str:
    if not isinstance(value := document.get(key), str):
        raise WireError(f"{key}: no text")
    return value


def _number(document: dict[str, Any], key: str) -> int:
    if not isinstance(value := document.get(key), int):
        raise WireError(f"{key}: no number")
    return value


def _texts(document: dict[str, Any], key: str) -> tuple[str, ...]:
    value = document.get(key)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise WireError(f"{key}: no list of texts")
    return tuple(value)


def _pairs(document: dict[str, Any], key: str) -> tuple[tuple[str, str], ...]:
    value = document.get(key)
    if not isinstance(value, list):
        raise WireError(f"{key}: no list of pairs")
    pairs = tuple(tuple(item) if isinstance(item, list) else () for item in value)
    if not all(len(pair) == 2 and all(isinstance(item, str) for item in pair) for pair in pairs):
        raise WireError(f"{key}: no list of pairs")
    return cast("tuple[tuple[str, str], ...]", pairs)
