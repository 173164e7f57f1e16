"""Contact: the worker's side of the connection to the head."""

from __future__ import annotations

import socket
import time
from collections import deque
from typing import TYPE_CHECKING

from bake.entrypoint.cluster.wire import Hello, Lines, Notice, WireError, keep_alive
from bake.errors import ClusterError, ModelFault

if TYPE_CHECKING:
    from types import TracebackType

    from bake.entrypoint.cluster import Report, Tell
    from bake.entrypoint.cluster.meeting import Meeting
    from bake.entrypoint.process import Program, Watch

_ANSWER = 15.0
"""Seconds within which a head answers a report."""

_PAUSES = (0.5, 1.0, 2.0, 4.0)
_LONGEST_PAUSE = 5.0
_REMIND = 30.0


class Contact:
    """A head that has taken this node's report. Closing it tells the head that this node is gone."""

    def __init__(self, connection: socket.socket, name: str) -> None:
        self._socket = connection
        self._name = name
        self._lines = Lines()
        self._notices: deque[Notice] = deque()
        self._watch: Watch | None = None
        self.lost = False

    def __enter__(self) -> Contact:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def __str__(self) -> str:
        return self._name

    @property
    def own_address(self) -> str:
        """This node's address, as the head sees it."""
        return str(self._socket.getsockname()[0])

    def report(self, report: Report) -> None:
        """Say what this node holds, and wait for the first answer. Raises OSError or WireError where none comes."""
        self._socket.settimeout(_ANSWER)
        self._socket.sendall(Hello(report=report, address=self.own_address).line())
        deadline = time.monotonic() + _ANSWER
        while not self._notices and not self.lost:
            if time.monotonic() > deadline:
                raise TimeoutError(f"no answer within {_ANSWER:g} s")
            self._receive()
        if not self._notices:
            raise WireError("it broke off")

    def watched_by(self, watch: Watch) -> None:
        """From now on `next` waits with the watch, and the watch takes what comes."""
        self._socket.setblocking(False)
        self._watch = watch
        watch.on_input(self._socket, self._take)

    def next(self, watch: Watch, *, program: Program | None = None) -> Notice | None:
        """The next notice; None once the head is gone, or the program has ended."""
        while not self._notices and not self.lost and (program is None or program.code is None):
            watch.turn()
        return self._notices.popleft() if self._notices else None

    def _take(self) -> None:
        try:
            self._receive()
        except BlockingIOError:
            return
        except (OSError, WireError):  # no head, whatever it is
            self.lost = True
        if self.lost and self._watch is not None:
            self._watch.forget(self._socket)

    def _receive(self) -> None:
        content = self._socket.recv(65536)
        self.lost = not content
        self._notices.extend(map(Notice.parse, self._lines.feed(content)))


def find_head(host: str, port: int, *, report: Report, meeting: Meeting, tell: Tell) -> Contact:
    """Report to the head, which may come up later than this node: tried again and again, until the meeting's timeout.

    Raises ClusterError, or ModelFault where this node's models are at fault, if no head answers by then.
    """
    deadline = time.monotonic() + meeting.timeout
    pauses = iter(_PAUSES)
    reminder = 0.0
    while True:
        try:
            return _connect(host, port, report=report)
        except (OSError, WireError) as error:
            reason = getattr(error, "strerror", None) or str(error)
        now = time.monotonic()
        if now >= deadline:
            raise _no_head(host, port, reason=reason, report=report, timeout=meeting.timeout)
        if now >= reminder:
            reminder = now + _REMIND
            tell(f"cluster: no head at {host}:{port} yet ({reason}): trying on for {deadline - now:.0f} s")
        time.sleep(min(next(pauses, _LONGEST_PAUSE), max(0.0, deadline - now)))


def _connect(host: str, port: int, *, report: Report) -> Contact:
    connection = socket.create_connection((host, port), timeout=_ANSWER)
    try:
        keep_alive(connection)
        address, found = connection.getpeername()[:2]
        contact = Contact(connection, f"{address}:{found}" if address == host else f"{host}:{found} ({address})")
        contact.report(report)
    except BaseException:
        connection.close()
        raise
    return contact


def _no_head(host: str, port: int, *, reason: str, report: Report, timeout: float) -> ClusterError | ModelFault:
    if report.faults:
        return ModelFault("the models of this node are at fault", hint="the head was not there to be told")
    return ClusterError(
        f"no head answered at {host}:{port} within {timeout:g} s: {reason}",
        hint="does `ray-head` run there, and does nothing between the nodes block this port? "
        "BAKE_CLUSTER_TIMEOUT gives it more seconds",
    )
