"""Patience: how often and how long what failed is tried again. A fault that may pass is a TransientError until then."""

from __future__ import annotations

import logging
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bake.errors import NetworkError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_log = logging.getLogger(__name__)


class TransientError(Exception):
    """A request failed in a way that may pass; `wait` is how many seconds the server asks for."""

    def __init__(self, what: str, *, wait: float = 0.0, hint: str | None = None) -> None:
        super().__init__(what)
        self.wait = wait
        self.hint = hint


def _none() -> float:
    return 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How a request that failed is tried again: `tries` in a row without a byte gained, then it is given up.

    The wait before the next try, in seconds, starts at `base` and doubles; `jitter`, from 0 to 1, takes up to a half of
    it away, so that several at once do not all come back at once. A longer wait that the server asks for is kept, up to
    `longest`; the Hub counts requests in windows of 300 s. `tell` hears of each wait.
    """

    tries: int = 5
    base: float = 1.0
    longest: float = 330.0
    sleep: Callable[[float], object] = time.sleep
    jitter: Callable[[], float] = _none
    tell: Callable[[str], object] = _log.info


@dataclass(slots=True)
class Attempts:
    """Counts the failures in a row, and waits after each. `label` begins each message."""

    patience: Patience
    label: str
    hint: str | None = None
    failures: int = 0

    @contextmanager
    def once(self) -> Iterator[None]:
        """One try: a failure that may pass is waited out, then the caller tries again. Raises NetworkError at last."""
        try:
            yield
        except TransientError as error:
            self.patience.sleep(self._wait_after(error))

    def _wait_after(self, error: TransientError) -> float:
        wait = max(error.wait, self.patience.base * 2.0**self.failures * (1 - self.patience.jitter() / 2))
        self.failures += 1
        hint = self.hint or error.hint
        if self.failures >= self.patience.tries:
            raise NetworkError(f"{self.label}: {error} ({self.failures} tries)", hint=hint) from error
        if wait > self.patience.longest:
            raise NetworkError(f"{self.label}: {error}, and asks to wait {wait:.0f} s", hint=hint) from error
        self.patience.tell(f"{self.label}: {error}; next try in {wait:.1f} s")
        return wait
