"""Door: where workers come in. Whatever connects may be anything: nothing that it does stops the head.

What says anything but a report is told so and dropped; what says nothing makes room for others.
"""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bake.entrypoint.cluster.wire import Hello, Lines, Notice, WireError, keep_alive
from bake.entrypoint.fault import printable
from bake.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from bake.entrypoint.cluster import Report
    from bake.entrypoint.process import Watch

_SILENT = 10.0
"""Seconds after which a connection without a report makes room for others."""

_STRANGERS = 64
"""How many connections without a report are held at most."""


@dataclass(eq=False, kw_only=True)
class Peer:
    """A connection; a worker's once `report` has come. `wrong` is what is the matter with that node."""

    watch: Watch
    socket: socket.socket
    address: str
    since: float = field(default_factory=time.monotonic)
    lines: Lines = field(default_factory=Lines)
    report: Report | None = None
    wrong: tuple[str, ...] = ()
    open: bool = True

    def __str__(self) -> str:
        return f"{printable(self.report.host)} ({self.address})" if self.report else self.address

    def send(self, notice: Notice) -> None:
        """What cannot be sent at once is for a peer that is gone, or does not read: it is closed."""
        if self.open:
            try:
                self.socket.sendall(notice.line())
            except OSError:
                self.close()

    def refuse(self, *reasons: str) -> None:
        """Say why, and close."""
        self.send(Notice(say="refused", text=reasons))
        self.close()

    def close(self) -> None:
        if self.open:
            self.open = False
            self.watch.forget(self.socket)
            self.socket.close()


class Door:
    """Listens from when it is entered until it is left. Hands over each peer with its report, and later those lost."""

    def __init__(
        self, watch: Watch, *, port: int, on_report: Callable[[Peer, Hello], None], on_lost: Callable[[Peer], None]
    ) -> None:
        self._watch = watch
        self._port = port
        self._on_report = on_report
        self._on_lost = on_lost
        self._strangers: list[Peer] = []

    def __enter__(self) -> Door:
        try:
            self._listener = socket.create_server(("", self._port), backlog=1024)
        except OSError as error:
            raise ClusterError(
                f"cannot listen at port {self._port} for the workers: {os.strerror(error.errno or 0)}",
                hint="is another head here? BAKE_ROLL_CALL_PORT, the same on every node, names another port",
            ) from error
        self._listener.setblocking(False)
        self._watch.on_input(self._listener, self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for peer in self._strangers:
            peer.close()
        self._watch.forget(self._listener)
        self._listener.close()

    def _accept(self) -> None:
        try:
            connection, (address, *_) = self._listener.accept()
        except OSError:  # it has gone again, or there is no descriptor left for it
            return
        connection.setblocking(False)
        keep_alive(connection)
        self._make_room()
        peer = Peer(watch=self._watch, socket=connection, address=address)
        self._strangers.append(peer)
        self._watch.on_input(connection, lambda: self._read(peer))

    def _make_room(self) -> None:
        late = time.monotonic() - _SILENT
        crowd = len(self._strangers) - _STRANGERS + 1
        for number, peer in enumerate(tuple(self._strangers)):
            if number < crowd or peer.since < late or not peer.open:
                peer.close()
                self._strangers.remove(peer)

    def _read(self, peer: Peer) -> None:
        try:
            content = peer.socket.recv(65536)
        except BlockingIOError:
            return
        except OSError:  # the other side broke off
            content = b""
        if not content:
            peer.close()
        if peer not in self._strangers:
            if not content:
                self._on_lost(peer)
        elif content:
            self._listen(peer, content)

    def _listen(self, peer: Peer, content: bytes) -> None:
        try:
            lines = peer.lines.feed(content)
            hello = Hello.parse(lines[0]) if lines else None
        except WireError as error:
            peer.refuse(f"expected the report of a bake worker, found {error}")
            return
        if hello is not None:
            peer.report = hello.report
            self._strangers.remove(peer)
            self._on_report(peer, hello)
