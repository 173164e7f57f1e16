"""Both sides of a roll call on this machine: the head's in the test itself, workers as programs or as bare sockets."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from bake.entrypoint.cluster import Report
from bake.entrypoint.cluster.rollcall import RollCall
from bake.entrypoint.cluster.wire import Hello
from bake.entrypoint.process import Watch

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[3]
NODE = Path(__file__).with_name("node.py")
HERE = "127.0.0.1"
RIGHT, WRONG = f"sha256:{'a' * 64}", f"sha256:{'b' * 64}"


def report(host: str, *, digest: str = RIGHT, faults: tuple[str, ...] = ()) -> Report:
    return Report(host=host, models=(("tiny@v1", digest),), faults=faults)


def free_port() -> int:
    """A port that nobody listens at, below those that the kernel gives to outgoing connections."""
    while True:
        port = random.randrange(20000, 32000)
        with suppress(OSError), socket.create_server(("", port)):
            return port


class Head:
    """A roll call and what it told. It takes workers in only while something of it waits."""

    def __init__(self, watch: Watch, roll: RollCall, told: list[str], port: int) -> None:
        self.watch = watch
        self.roll = roll
        self.told = told
        self.port = port

    def listen(self, *, until: str) -> None:
        """Serve until a line that holds a text was told."""
        while not any(until in line for line in self.told):
            self.watch.turn(60)

    def answer(self, connection: socket.socket) -> bytes:
        """Serve until the other end of a connection has heard all that it will hear: that."""
        with ThreadPoolExecutor() as threads:
            heard = threads.submit(rest_of, connection)
            while not heard.done():
                self.watch.turn(0.05)
            return heard.result()


@contextmanager
def head(*, nodes: int, port: int | None = None) -> Iterator[Head]:
    port = port or free_port()
    told: list[str] = []
    with Watch() as watch, RollCall(watch, port=port, nodes=nodes, report=report("head"), tell=told.append) as roll:
        yield Head(watch, roll, told, port)


def connect(port: int, *, source: str = HERE) -> socket.socket:
    connection = socket.create_connection((HERE, port), timeout=60, source_address=(source, 0))
    connection.settimeout(60)
    return connection


@contextmanager
def reporting(port: int, found: Report, *, source: str = HERE, address: str | None = None) -> Iterator[socket.socket]:
    """A worker's connection that has sent its report. `source` stands for another machine's address."""
    with connect(port, source=source) as connection:
        connection.sendall(Hello(report=found, address=address or source).line())
        yield connection


def rest_of(connection: socket.socket) -> bytes:
    """All that the other side says until it ends the connection."""
    content = b""
    while received := connection.recv(65536):
        content += received
    return content


@contextmanager
def node(*words: str, **environ: str) -> Iterator[subprocess.Popen[str]]:
    """A node as a program of its own, with what it tells on stderr."""
    process = subprocess.Popen(
        [sys.executable, "-W", "error", str(NODE), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environ},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=60)


def ended(process: subprocess.Popen[str]) -> tuple[int, list[str]]:
    """A node's exit code and what is left of what it told."""
    _, told = process.communicate(timeout=60)
    return process.returncode, told.splitlines()


def next_line(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    return process.stderr.readline().rstrip("\n")
