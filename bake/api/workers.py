"""Workers: threads that all stop soon after one of them fails or a person interrupts.

Python interrupts the main thread alone. Where several threads have workers each, a `Halt` passes it on to all of them.
"""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import FIRST_COMPLETED, FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

from bake.entrypoint.verify import cores
from bake.errors import BakeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import TracebackType

_T = TypeVar("_T")

DOWNLOADS = 8
"""Files fetched at once: enough for the Hub's line to be the limit, few enough not to be rate-limited."""


_GRACE = 0.5
"""Seconds that threads have to tidy up after Ctrl-C."""


class StoppedError(BakeError):
    """This thread was told to stop because the work it belongs to has failed; that failure is what is reported."""


class Halt:
    """One way to stop the work of several threads, each of which has joined it."""

    def __init__(self) -> None:
        self.reached: Future[None] = Future()
        self._events: list[threading.Event] = []
        self._changing = threading.Lock()

    @contextlib.contextmanager
    def joined(self) -> Iterator[None]:
        """Workers that this thread begins, and results that it waits for, end with the halt."""
        token = _HALT.set(self)
        try:
            yield
        finally:
            _HALT.reset(token)

    def stop(self) -> None:
        """Stop all that has joined, and all that joins later."""
        with self._changing:
            if not self.reached.done():
                self.reached.set_result(None)
            for event in self._events:
                event.set()

    def add(self, event: threading.Event) -> None:
        """An event to be set when all is to stop."""
        with self._changing:
            self._events.append(event)
            if self.reached.done():
                event.set()


_HALT: ContextVar[Halt | None] = ContextVar("halt", default=None)
"""What the thread has joined. Threads inherit nothing: each joins by itself."""


class Workers:
    """Two pools, one for what waits for the network and one for what takes a core, and one way to stop both."""

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._halt = _HALT.get()
        if self._halt:
            self._halt.add(self._stopping)
        self._network = ThreadPoolExecutor(DOWNLOADS)
        self._cores = ThreadPoolExecutor(cores())
        self._begun: list[Future[Any]] = []

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if kind is not None:
            self._stopping.set()
        for pool in (self._cores, self._network):
            pool.shutdown(wait=False, cancel_futures=kind is not None)
        interrupted = kind is not None and issubclass(kind, KeyboardInterrupt)
        if interrupted or (self._halt and self._halt.reached.done()):  # a host that is silent must not keep a person
            wait([future for future in self._begun if not future.cancelled()], timeout=_GRACE)
            return
        for pool in (self._network, self._cores):
            pool.shutdown(wait=True)

    def download(self, function: Callable[..., _T], *args: Any) -> Future[_T]:
        return self._start(self._network, function, *args)

    def compute(self, function: Callable[..., _T], *args: Any) -> Future[_T]:
        return self._start(self._cores, function, *args)

    def _start(self, pool: ThreadPoolExecutor, function: Callable[..., _T], *args: Any) -> Future[_T]:
        started = pool.submit(function, *args)
        self._begun.append(started)
        return started

    def watch(self, advance: Callable[[int], object]) -> Callable[[int], object]:
        """`advance`, which stops the thread that calls it when the work is given up."""

        def watched(count: int) -> None:
            if self._stopping.is_set():
                raise StoppedError("stopped")
            advance(count)

        return watched

    def sleep(self, seconds: float) -> None:
        """Wait, but not longer than the work goes on."""
        if self._stopping.wait(seconds):
            raise StoppedError("stopped")


def results(futures: Iterable[Future[_T]]) -> list[_T]:
    """The results in order; the first failure is raised as soon as it happens."""
    ordered = list(futures)
    halt = _HALT.get()
    done = _wait(ordered, halt.reached) if halt else wait(ordered, return_when=FIRST_EXCEPTION).done
    failures = [error for future in done if (error := future.exception())]
    if failures:
        raise next((error for error in failures if not isinstance(error, StoppedError)), failures[0])
    return [future.result() for future in ordered]


def _wait(futures: Iterable[Future[Any]], halted: Future[None]) -> set[Future[Any]]:
    """Those that are done, as soon as all are or one has failed. Raises StoppedError at a halt, whatever goes on."""
    done: set[Future[Any]] = set()
    pending = set(futures)
    while pending and not any(future.exception() for future in done):
        ended, _ = wait({*pending, halted}, return_when=FIRST_COMPLETED)
        if halted in ended:
            raise StoppedError("stopped")
        pending -= ended
        done |= ended
    return done
