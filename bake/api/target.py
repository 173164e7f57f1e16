"""Target: the folder that a model's files are written into. It holds that model, some of its files, or nothing.

A file appears under its name when all of its bytes are there and proven. Until then it lies in a folder beside, and a
later pull goes on with it. What was there is read, and never written.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from bake import disk
from bake.api.workers import results
from bake.digest import Digest
from bake.entrypoint.fault import printable
from bake.errors import DigestError, OutputError
from bake.store import complete
from bake.units import count_text, size_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from bake.api.workers import Workers
    from bake.api.workspace import Workspace
    from bake.record import RecordedFile, RecordedModel

PARTIAL = ".bake-partial"
"""Where files are until they are whole."""

_SHOWN = 5
_ELSEWHERE = "name a folder that is empty or does not exist; or remove these"


class TargetFolder:
    """One model's folder; `absent` are the files that are not there yet, once it was prepared."""

    def __init__(self, workspace: Workspace, folder: Path, model: RecordedModel) -> None:
        self.absent: tuple[RecordedFile, ...] = model.files
        self._store = workspace.store
        self._progress = workspace.progress
        self._folder = folder
        self._model = model

    def path_in_image(self, file: RecordedFile) -> str:
        return f"{self._model.path.lstrip('/')}/{file.path}"

    def prepare(self, workers: Workers) -> tuple[RecordedFile, ...]:
        """See what is there, and make room for what is not; returns that.

        Raises OutputError where the folder holds something else, or there is no space.
        """
        with disk.writing(self._folder):
            self._refuse_others()
            self.absent = self._find_absent(workers)
            self._check_space()
            (self._folder / PARTIAL).mkdir(parents=True, exist_ok=True)
            wanted = {self._partial(file) for file in self.absent}
            for left in set((self._folder / PARTIAL).iterdir()) - wanted:
                left.unlink()
        return self.absent

    def write(
        self,
        file: RecordedFile,
        stream: Callable[[int], Iterator[bytes]],
        *,
        advance: Callable[[int], object],
        anew: bool = False,
    ) -> None:
        """Write a file; `stream(offset)` gives its bytes from there on. With `anew`, only from its start.

        Raises DigestError where they are not those of the record, and then keeps nothing.
        """
        target, partial = self._folder / file.path, self._partial(file)
        with disk.writing(target):
            if anew:
                partial.unlink(missing_ok=True)
            with partial.open("a+b") as writer:
                found = complete(writer, stream, size=file.size, show=lambda _: None, advance=advance)
            if found != file.digest:
                partial.unlink()
                raise DigestError(
                    f"{file.path}: expected {file.digest}, found {found}",
                    hint="the registry holds other bytes than the image's record names: bake verify REF --level full",
                )
            target.parent.mkdir(parents=True, exist_ok=True)
            partial.replace(target)
        self._store.prove(target, file.digest)

    def finish(self) -> None:
        """Every file is there: nothing is left beside them."""
        with disk.writing(self._folder):
            shutil.rmtree(self._folder / PARTIAL)

    def _refuse_others(self) -> None:
        if self._folder.exists() and not self._folder.is_dir():
            raise OutputError(f"{self._folder} exists and is no folder", hint=_ELSEWHERE)
        paths = {file.path for file in self._model.files}
        others = sorted(path for path in _walk(self._folder) if path not in paths)
        if others:
            raise self._refusal("holds something else", [printable(path) for path in others])

    def _find_absent(self, workers: Workers) -> tuple[RecordedFile, ...]:
        """The files to fetch. Raises OutputError where one is there with other bytes: nobody's file is written over."""
        there = [file for file in self._model.files if (self._folder / file.path).exists()]
        sizes = {file.path: (self._folder / file.path).stat().st_size for file in there}
        same = [file for file in there if sizes[file.path] == file.size]
        with self._progress.task(f"{self._folder}: reading what is there", sum(file.size for file in same)) as reading:
            advance = workers.watch(reading)
            right = results(workers.compute(self._is_right, file, advance) for file in same)
        proven = {file.path for file, is_right in zip(same, right, strict=True) if is_right}
        if altered := [file.path for file in there if file.path not in proven]:
            raise self._refusal("holds files of these names with other bytes", altered)
        return tuple(file for file in self._model.files if file.path not in proven)

    def _is_right(self, file: RecordedFile, advance: Callable[[int], object]) -> bool:
        return self._store.check(self._folder / file.path, file.digest, advance=advance)

    def _check_space(self) -> None:
        partial = sum(_size(self._partial(file)) for file in self.absent)
        needed = sum(file.size for file in self.absent) - partial
        if needed > (free := disk.free_bytes(self._folder)):
            raise OutputError(
                f"no space to write {self._folder}: {size_text(needed)} needed, {size_text(free)} free",
                hint="free some, or name another folder",
            )

    def _partial(self, file: RecordedFile) -> Path:
        """Two files may have the same bytes, and two models a file of the same name."""
        return self._folder / PARTIAL / Digest.of(f"{file.digest.hex}  {file.path}".encode()).hex

    def _refusal(self, what: str, paths: list[str]) -> OutputError:
        shown = "\n  ".join(paths[:_SHOWN])
        more = f"\n  and {count_text(len(paths) - _SHOWN, 'other')}" if len(paths) > _SHOWN else ""
        return OutputError(
            f"{self._folder} {what} than {self._model.name}@{self._model.version}:\n  {shown}{more}", hint=_ELSEWHERE
        )


def _walk(folder: Path) -> Iterable[str]:
    """Every file below a folder by its path in it, and every link to a folder; what bake keeps beside is left out."""
    for place, folders, names in os.walk(folder):
        if place == str(folder) and PARTIAL in folders:
            folders.remove(PARTIAL)
        links = [name for name in folders if os.path.islink(os.path.join(place, name))]  # noqa: PTH114, PTH118
        for name in [*names, *links]:
            yield os.path.relpath(os.path.join(place, name), folder).replace(os.sep, "/")  # noqa: PTH118


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
