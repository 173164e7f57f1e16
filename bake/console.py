"""What a person sees while bake works: on stderr, with bars on a terminal and plain lines elsewhere."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, TextIO

from bake.units import size_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_LINE_EVERY = 10.0
"""Seconds between two plain lines about one task: a CI log of an hour's download stays readable."""


class Silent:
    """No progress and no notes; warnings still come through."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._writing = threading.Lock()

    @contextlib.contextmanager
    def task(self, label: str, total: int) -> Iterator[Callable[[int], object]]:
        yield lambda _: None

    def note(self, text: str) -> None:
        """Say nothing."""

    def warn(self, text: str) -> None:
        self._line(f"warning: {text}")

    def _line(self, text: str) -> None:
        with self._writing, contextlib.suppress(OSError):  # what cannot be told is no reason to fail
            print(text, file=self._stream, flush=True)


class PlainLines(Silent):
    """A line when a task begins, one now and then while it goes on, and the notes."""

    def __init__(
        self, stream: TextIO, *, every: float = _LINE_EVERY, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(stream)
        self._every = every
        self._clock = clock

    @contextlib.contextmanager
    def task(self, label: str, total: int) -> Iterator[Callable[[int], object]]:
        if not total:
            yield lambda _: None
            return
        self._line(f"{label}: {size_text(total)}")
        done = 0
        last = self._clock()
        counting = threading.Lock()

        def advance(count: int) -> None:
            nonlocal done, last
            with counting:
                done += count
                if (now := self._clock()) - last < self._every:
                    return
                last = now
                line = f"{label}: {size_text(done)} of {size_text(total)} ({100 * done // total}%)"
            self._line(line)

        yield advance

    def note(self, text: str) -> None:
        self._line(text)


class Bars(Silent):
    """One bar a task, with speed and time left, through rich."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._live: Any = None
        self._running = 0

    @contextlib.contextmanager
    def task(self, label: str, total: int) -> Iterator[Callable[[int], object]]:
        if not total:
            yield lambda _: None
            return
        live = self._start()
        task = live.add_task(label, total=total)
        try:
            yield lambda count: live.update(task, advance=count)
        finally:
            live.remove_task(task)
            self._stop()

    def note(self, text: str) -> None:
        self._line(text)

    def _line(self, text: str) -> None:
        if self._live is None:
            super()._line(text)
        else:
            self._live.console.print(text, markup=False, highlight=False)

    def _start(self) -> Any:
        if self._live is None:
            self._live = _bars(self._stream)
            self._live.start()
        self._running += 1
        return self._live

    def _stop(self) -> None:
        self._running -= 1
        if not self._running:
            self._live.stop()
            self._live = None


def make_progress(*, quiet: bool, bars: bool, stream: TextIO | None = None) -> Silent:
    """Bars on a terminal, if they are wanted; plain lines elsewhere; silence for `quiet`. On stderr unless told."""
    stream = stream or sys.stderr
    if quiet:
        return Silent(stream)
    return Bars(stream) if bars and stream.isatty() else PlainLines(stream)


def _bars(stream: TextIO) -> Any:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=Console(file=stream),
        transient=True,
    )
