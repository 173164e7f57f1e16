"""RollCall: which workers are there, what they hold, and what they are told. Connections last as long as the training.

A node that is at fault stays on the list when it goes, so that all faults are told at once; any other is waited for
anew.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bake.entrypoint.cluster import differences
from bake.entrypoint.cluster.door import Door, Peer
from bake.entrypoint.cluster.wire import Notice
from bake.entrypoint.fault import printable
from bake.errors import BakeError, ClusterError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from bake.entrypoint.cluster import Report, Tell
    from bake.entrypoint.cluster.wire import Hello
    from bake.entrypoint.process import Watch

_SETTLE = 15.0
"""Seconds that the head gives the other nodes to come, once one is at fault."""

_REMIND = 30.0

_LEAVE = 15.0
"""Seconds that the workers have to leave Ray. One that loses Ray's head first takes 10 s more to end."""


class RollCall:
    """Takes workers in from when it is entered until it is left."""

    def __init__(self, watch: Watch, *, port: int, nodes: int, report: Report, tell: Tell) -> None:
        self._watch = watch
        self._workers = nodes - 1
        self._port = port
        self._report = report
        self._tell = tell
        self._door = Door(watch, port=port, on_report=self._enter, on_lost=self._lost)
        self._peers: list[Peer] = []
        self._closed_because: str | None = None
        self._dismissed = False
        self.left: list[Peer] = []
        """Workers that went away after they were told to go."""

    def __enter__(self) -> RollCall:
        self._door.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for peer in self._peers:
            peer.close()
        self._door.__exit__(kind, error, trace)

    @property
    def meeting_address(self) -> str | None:
        """This node's own address, as the workers reached it; None where there is no worker."""
        found = next((peer for peer in self._peers if peer.open), None)
        return None if found is None else str(found.socket.getsockname()[0])

    def gather(self, timeout: float) -> None:
        """Wait until every worker has reported. Raises ClusterError where some do not come, or are at fault."""
        if self._workers:
            self._tell(f"cluster: expecting {_workers(self._workers)} at port {self._port}, for {timeout:g} s")
        else:
            self._tell("cluster: trainer.nnodes=1: this head waits for nobody, and trains alone (it counts all nodes)")
        now = time.monotonic()
        end, reminder, settled = now + timeout, now + _REMIND, None
        while len(self._peers) < self._workers and now < (settled or end):
            self._watch.turn(min(settled or end, reminder) - now)
            now = time.monotonic()
            settled = (settled or now + _SETTLE) if any(peer.wrong for peer in self._peers) else None
            if now >= reminder:
                reminder = now + _REMIND
                self._remind()
        self._refuse_faulty()
        if len(self._peers) < self._workers:
            raise self._too_late(timeout)

    def go(self, address: str) -> None:
        """Send the workers to Ray. From here on nobody else is let in."""
        self._closed_because = "the training has begun without this node; start all nodes again, the head first"
        self._send_all(Notice(say="go", address=address))

    def end(self, code: int) -> None:
        """Tell the workers that the training has ended, and give them time to leave Ray before the head does."""
        self._dismiss(Notice(say="ended", code=code))

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Where what is done inside fails, tell the workers why, and give them time to leave Ray."""
        try:
            yield
        except BakeError as error:
            self._dismiss(Notice(say="refused", text=(error.message,)))
            raise
        except KeyboardInterrupt:
            self._dismiss(Notice(say="refused", text=("the head was told to stop",)))
            raise

    def _dismiss(self, notice: Notice) -> None:
        self._dismissed = True
        self._send_all(notice)
        deadline = time.monotonic() + _LEAVE
        while any(peer.open for peer in self._peers) and time.monotonic() < deadline:
            self._watch.turn(deadline - time.monotonic())

    def _enter(self, peer: Peer, hello: Hello) -> None:
        reason = self._closed_because or self._replace_earlier(peer)
        if reason is not None:
            self._tell(f"cluster: turned {peer} away: {reason}")
            peer.refuse(reason)
            return
        peer.wrong = (*_route_difference(hello, peer.address), *differences(self._report, hello.report))
        self._peers.append(peer)
        self._tell(f"cluster: {peer} is here{', and at fault' if peer.wrong else ''}: {self._count()}")
        peer.send(Notice(say="noted" if hello.report.faults else "waiting", text=(self._count(),)))

    def _replace_earlier(self, peer: Peer) -> str | None:
        """Take an earlier start of the same node off the list. Returns the reason why there is no room all the same."""
        for earlier in tuple(self._peers):
            same = earlier.report is not None and peer.report is not None and earlier.report.host == peer.report.host
            if earlier.address == peer.address or (same and not earlier.open):
                earlier.refuse(f"a newer worker has come from {peer.address}")
                self._peers.remove(earlier)
        full = len(self._peers) == self._workers
        return f"the {self._workers + 1} nodes of this training are there already" if full else None

    def _lost(self, peer: Peer) -> None:
        if peer not in self._peers or self._dismissed:
            return
        if self._closed_because is not None:
            self.left.append(peer)
            self._tell(f"cluster: {peer} has gone while it was needed: its own log says why")
        elif not peer.wrong:
            self._peers.remove(peer)
            self._tell(f"cluster: {peer} has gone again: {self._count()}")

    def _send_all(self, notice: Notice) -> None:
        for peer in tuple(self._peers):
            was_open = peer.open
            peer.send(notice)
            if was_open and not peer.open:
                self._lost(peer)

    def _remind(self) -> None:
        self._tell(f"cluster: still waiting: {self._count()} came so far{self._names()}")
        self._send_all(Notice(say="waiting", text=(self._count(),)))

    def _count(self) -> str:
        return f"{len(self._peers)} of {_workers(self._workers)}"

    def _names(self) -> str:
        return f": {', '.join(map(str, self._peers))}" if self._peers else ""

    def _too_late(self, timeout: float) -> ClusterError:
        return ClusterError(
            f"expected {_workers(self._workers)}, and {len(self._peers)} came within {timeout:g} s{self._names()}",
            hint=f"do the others run `ray-worker` with this head's address, and do they reach its port {self._port}? "
            "BAKE_CLUSTER_TIMEOUT gives them more seconds",
        )

    def _refuse_faulty(self) -> None:
        faulty = [peer for peer in self._peers if peer.wrong]
        for peer in faulty:
            self._tell(f"cluster: {peer} is at fault:")
            for line in peer.wrong:
                self._tell(f"  {line}")
            peer.refuse(*peer.wrong)
        if faulty:
            raise ClusterError(
                f"at fault, of {self._workers + 1} nodes: {', '.join(map(str, faulty))}",
                hint="start every node from the same image, by digest; the lines above say what differs",
            )


def _workers(count: int) -> str:
    return f"{count} worker{'' if count == 1 else 's'}"


def _route_difference(hello: Hello, address: str) -> tuple[str, ...]:
    if hello.address == address:
        return ()
    line = (
        f"takes {printable(hello.address)} for its own address, and comes from {address}: Ray's nodes must reach each "
        "other without translation, as with `docker run --network host`"
    )
    return (line,)
