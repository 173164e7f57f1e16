"""Traffic: what one run has on its way to registries, so that images which share a layer send it once.

Who sends a layer holds it; others wait, and have it mounted from where it went. It is known as long as the run goes on.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bake.digest import Digest
    from bake.registry import Reference

_LOOK_AGAIN = 0.1
"""Seconds between two looks at whether another image has sent a layer; sending one takes longer."""


class Traffic:
    """Which repository of a registry has a blob, and who is sending it. Several threads may use it."""

    def __init__(self) -> None:
        self._repositories: dict[tuple[str, Digest], str] = {}
        self._held: set[tuple[str, Digest]] = set()
        self._slots: dict[str, threading.BoundedSemaphore] = {}
        self._changing = threading.Lock()

    def slots(self, host: str, count: int) -> threading.BoundedSemaphore:
        """How many uploads a registry has going at once, of all images together."""
        with self._changing:
            return self._slots.setdefault(host, threading.BoundedSemaphore(count))

    def has_arrived(self, reference: Reference, digest: Digest) -> None:
        """The repository of a reference has a blob."""
        with self._changing:
            self._repositories[reference.host, digest] = reference.repository

    def repository(self, reference: Reference, digest: Digest) -> str | None:
        """Another repository of the same registry that has a blob."""
        found = self._repositories.get((reference.host, digest))
        return None if found == reference.repository else found

    def is_held(self, reference: Reference, digest: Digest) -> bool:
        """Whether a blob is on its way to the registry."""
        return (reference.host, digest) in self._held

    @contextlib.contextmanager
    def holding(self, reference: Reference, digest: Digest, *, sleep: Callable[[float], object]) -> Iterator[None]:
        """Be the only one that sends a blob to a registry; `sleep` waits for whoever does, and ends with the work."""
        key = (reference.host, digest)
        while not self._take(key):
            sleep(_LOOK_AGAIN)
        try:
            yield
        finally:
            with self._changing:
                self._held.discard(key)

    def _take(self, key: tuple[str, Digest]) -> bool:
        with self._changing:
            if key in self._held:
                return False
            self._held.add(key)
            return True
