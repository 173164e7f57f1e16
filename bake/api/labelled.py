"""Labelled: the progress of one image of several. All that it says begins with the model's name."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bake.store import Store

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator

    from bake.api.choosing import Wanted
    from bake.api.workspace import Progress, Workspace


@dataclass(frozen=True, slots=True)
class Labelled:
    """Plays the role of `Progress`. `telling` is held while anything begins, ends or is said, by all that share it."""

    progress: Progress
    image: Wanted
    telling: threading.Lock

    @contextlib.contextmanager
    def task(self, label: str, total: int) -> Iterator[Callable[[int], object]]:
        with contextlib.ExitStack() as stack:
            with self.telling:
                advance = stack.enter_context(self.progress.task(self._named(label), total))
                ending = stack.pop_all()
            try:
                yield advance
            finally:
                with self.telling:
                    ending.close()

    def note(self, text: str) -> None:
        with self.telling:
            self.progress.note(self._named(text))

    def warn(self, text: str) -> None:
        with self.telling:
            self.progress.warn(self._named(text))

    def _named(self, text: str) -> str:
        name = f"{self.image.id}: "
        said = text.removeprefix(f"{self.image.output.place}: ")  # where it goes is the same all along
        return said if said.startswith((name, f"{self.image.id} ")) else f"{name}{said}"


def labelled(workspace: Workspace, image: Wanted, telling: threading.Lock) -> Workspace:
    """The workspace, for one image."""
    progress = Labelled(workspace.progress, image, telling)
    waiting = "waiting for another image, or another bake, that is at the same"
    store = Store(workspace.store.root, tell=lambda _: progress.note(waiting))
    return replace(workspace, progress=progress, store=store)
