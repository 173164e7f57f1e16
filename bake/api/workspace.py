"""Workspace: one lock, one store, and whom to tell about progress. What every verb is given."""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from bake import disk
from bake.errors import LockError, OutputError, SourceError
from bake.lock import FORMAT, Lock
from bake.lock.dump import dumps
from bake.lock.parse import parse
from bake.scan import holds_token

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from bake.lock import LockedModel, ModelId
    from bake.registry import Adjustment
    from bake.store import Store

LOCK_NAME = "models.lock"


class Progress(Protocol):
    """Whom the verbs tell how far they are. Every method may be called from any thread."""

    def task(self, label: str, total: int) -> AbstractContextManager[Callable[[int], object]]:
        """A piece of work of `total` bytes; the function that it gives takes each count of bytes done."""
        ...

    def note(self, text: str) -> None: ...

    def warn(self, text: str) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """`path` is models.lock; relative sources, bases and outputs are taken from its folder.

    `adjustment` is what was said of the registry that is pushed to.
    """

    path: Path
    store: Store
    progress: Progress
    offline: bool = False
    adjustment: Adjustment | None = None

    @property
    def folder(self) -> Path:
        return self.path.parent

    def load(self) -> Lock:
        """Read the lock. Raises LockError."""
        text = self._text()
        if (
            line := next(
                (
                    number
                    for number, line in enumerate(text.split("\n"), 1)
                    if "hf_" in line and holds_token(line.encode())
                ),
                None,
            )
        ) is not None:
            raise LockError(
                f"{self.path.name}: line {line} holds what looks like an access token of the Hub",
                hint="revoke it, and delete it here and in the file's history; bake takes HF_TOKEN or `hf auth login`",
            )
        lock = parse(text, where=self.path.name)
        if lock.format > FORMAT:
            self.progress.warn(
                f"{self.path.name} has format {_version(lock)}, newer than this bake; it reads what it knows of it"
            )
        return lock

    def is_canonical(self) -> bool:
        """Whether the lock's text is what bake would write."""
        return self._text() == dumps(self.load())

    @contextlib.contextmanager
    def editing(self) -> Iterator[None]:
        """Hold the lock against other bakes while it is read, changed and saved.

        What a bake that was killed while it saved has left beside the lock is deleted.
        """
        target = self.path.resolve()
        with self.store.holding(f"lock {target}"):
            with contextlib.suppress(OutputError):  # where nothing can be deleted, saving will say what is wrong
                disk.clear_beside(target)
            yield

    def save(self, lock: Lock) -> bool:
        """Write the lock, if that changes it; returns whether it did. Raises LockError for one of a newer format."""
        if lock.format > FORMAT:
            raise LockError(
                f"{self.path.name} has format {_version(lock)}, newer than this bake writes; "
                "writing it would lose what this bake does not know",
                hint="install a newer bake, as this one was installed",
            )
        text = dumps(lock).encode()
        parse(text.decode(), where=self.path.name)  # what cannot be read again is never written
        target = self.path.resolve()
        mode = 0o644
        with contextlib.suppress(FileNotFoundError):
            if target.read_bytes() == text:
                return False
            mode = stat.S_IMODE(target.stat().st_mode)
        disk.write(target, text, mode=mode)
        return True

    def source_folder(self, model: LockedModel) -> Path:
        """The folder of a `dir://` source."""
        return Path(os.path.normpath(self.folder / Path(model.source.removeprefix("dir://")).expanduser()))

    def layout_folder(self, image: str) -> Path:
        """The folder of an `oci:PATH`."""
        return Path(os.path.normpath(self.folder / Path(image.removeprefix("oci:")).expanduser()))

    def default_output(self, model: ModelId) -> Path:
        """Where the image of a model goes unless told otherwise: `dist/NAME-VERSION` beside the lock."""
        return self.folder / "dist" / f"{model.name}-{model.version}"

    def _text(self) -> str:
        try:
            return self.path.read_bytes().decode()
        except FileNotFoundError as error:
            raise _no_lock(self.path) from error
        except UnicodeDecodeError as error:
            raise LockError(f"{self.path.name}: expected UTF-8, found byte {error.object[error.start]:#x}") from error
        except OSError as error:
            raise LockError(f"cannot read {self.path}: {error.strerror}") from error


def shown_path(path: Path) -> str:
    """A path as a person would type it here."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("../..") else relative


def find_lock(start: Path) -> Path:
    """The models.lock of a folder or of the nearest folder above it.

    Where there is none, where one would be written.
    """
    for folder in (start, *start.parents):
        try:
            if (folder / LOCK_NAME).exists():
                return folder / LOCK_NAME
        except OSError:  # a folder that may not be looked into: reading the lock will say so
            return folder / LOCK_NAME
    return start / LOCK_NAME


def _version(lock: Lock) -> str:
    return f"{lock.format[0]}.{lock.format[1]}"


def _no_lock(path: Path) -> LockError:
    if path == Path.cwd() / LOCK_NAME:
        return LockError(f"no {LOCK_NAME} in {path.parent} or above", hint="bake init writes one")
    return LockError(f"no lock {path}", hint=f"bake init --lock {path} writes one")


def offline_error(what: str) -> SourceError:
    return SourceError(f"{what} is not in the store, and --offline allows no network", hint="run it without --offline")
