"""Fetching: a locked model's bytes from wherever they are: the store, the Hugging Face cache, a folder, the Hub."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO

from bake import hub
from bake.api.making import Recipes, sources_of
from bake.api.workspace import offline_error
from bake.digest import CHUNK
from bake.errors import SourceError
from bake.folder import FolderSnapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from bake.api.making import Read
    from bake.api.workers import Workers
    from bake.api.workspace import Workspace
    from bake.lock import LockedModel
    from bake.record import RecordedFile


def needs_fetching(workspace: Workspace, model: LockedModel, file: RecordedFile) -> bool:
    """Whether a file's bytes must come over the network, as far as names and sizes tell."""
    if not model.source.startswith("hf://") or _seems_here(workspace, model, file):
        return False
    sources = sources_of(model, file.path)
    return not sources or not all(_seems_here(workspace, model, source) for source in sources)


def stream_files(
    workspace: Workspace, model: LockedModel, *, workers: Workers
) -> Callable[[RecordedFile, int], Iterator[bytes]]:
    """How to read a file of a model from a byte on, wherever it is; what comes from the Hub is written nowhere.

    The reader proves what it is given: a folder's files may be others than those that were locked.
    """
    if model.source.startswith("hf://"):
        here: Callable[[RecordedFile], Path | None] = Here(workspace, model)
        read = hub_reader(workspace, model, patience=patience_of(workspace, workers), here=here)
    else:
        here = _nowhere
        read = folder_reader(FolderSnapshot(workspace.source_folder(model)))
    recipes = Recipes(model, read)

    def stream(file: RecordedFile, offset: int) -> Iterator[bytes]:
        recipe = None if here(file) else recipes.find(file.path)
        return recipe.stream(read, offset) if recipe else read(file, offset, None)

    return stream


def folder_reader(folder: FolderSnapshot) -> Read:
    return lambda file, offset, stop: _read_from(lambda: folder.open(file.path), offset, stop)


def hub_reader(
    workspace: Workspace, model: LockedModel, *, patience: hub.Patience, here: Callable[[RecordedFile], Path | None]
) -> Read:
    """How to read the files of a Hub repository: those that are here, and the others over the network."""
    snapshot = replace(snapshot_of(model), patience=patience)

    def read(file: RecordedFile, offset: int, stop: int | None) -> Iterator[bytes]:
        if found := here(file):
            return _read_from(lambda: found.open("rb", buffering=0), offset, stop)
        if workspace.offline:
            raise offline_error(f"{model.id}: {file.path}")
        return snapshot.stream(file.path, size=file.size, offset=offset, stop=stop)

    return read


class Here:
    """Files of a model in the store, or true ones in the Hugging Face cache."""

    def __init__(self, workspace: Workspace, model: LockedModel) -> None:
        self._workspace = workspace
        self._model = model
        self._divided = {item.source for item in model.resharded}
        self._proving = threading.Lock()

    def __call__(self, file: RecordedFile) -> Path | None:
        """A large file that many are made of is asked for many times: it is proven by the first."""
        with self._proving if file in self._divided else contextlib.nullcontext():
            return find_here(self._workspace, self._model, file)


def find_here(workspace: Workspace, model: LockedModel, file: RecordedFile) -> Path | None:
    """The file in the store, or a true one in the Hugging Face cache."""
    if found := workspace.store.sound_file(file.digest, size=file.size):
        return found
    cached = _cached(model, file)
    return cached if cached and workspace.store.check(cached, file.digest) else None


def _nowhere(_: RecordedFile) -> None:
    """No file of a folder is looked for elsewhere."""


def _read_from(opened: Callable[[], BinaryIO], offset: int, stop: int | None) -> Iterator[bytes]:
    with opened() as stream:
        stream.seek(offset)
        while piece := stream.read(CHUNK if stop is None else min(CHUNK, stop - offset)):
            offset += len(piece)
            yield piece


def _seems_here(workspace: Workspace, model: LockedModel, file: RecordedFile) -> bool:
    return workspace.store.file(file.digest, size=file.size) is not None or _cached(model, file) is not None


def patience_of(workspace: Workspace, workers: Workers) -> hub.Patience:
    return replace(hub.usual_patience(), sleep=workers.sleep, tell=workspace.progress.note)


def _cached(model: LockedModel, file: RecordedFile) -> Path | None:
    path = snapshot_of(model).cached(file.path)
    try:
        return path if path and path.stat().st_size == file.size else None
    except OSError:
        return None


def snapshot_of(model: LockedModel) -> hub.HubSnapshot:
    if model.commit is None:
        raise SourceError(f"{model.id}: no commit is locked", hint=f"bake lock {model.id}")
    return hub.HubSnapshot.at(model.source.removeprefix("hf://"), model.commit)
