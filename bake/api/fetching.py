"""Fetching: a locked model's bytes from wherever they are: the store, the Hugging Face cache, a folder, the Hub."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO

from bake import hub
from bake.api.workspace import offline_error
from bake.digest import CHUNK
from bake.errors import SourceError
from bake.folder import FolderSnapshot
from bake.layer import PassingLayer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Future
    from pathlib import Path

    from bake.api.workers import Workers
    from bake.api.workspace import Workspace
    from bake.lock import LockedModel
    from bake.plan import LayerPlan
    from bake.record import RecordedFile
    from bake.snapshot import Snapshot


def needs_fetching(workspace: Workspace, model: LockedModel, file: RecordedFile) -> bool:
    """Whether a file's bytes must come over the network, as far as names and sizes tell."""
    return (
        model.source.startswith("hf://")
        and workspace.store.file(file.digest, size=file.size) is None
        and _cached(model, file) is None
    )


def open_source(
    workspace: Workspace,
    model: LockedModel,
    layers: Iterable[LayerPlan],
    *,
    workers: Workers,
    advance: Callable[[int], object],
) -> Snapshot:
    """The bytes of the files of some layers of a model. What must come from the Hub is on its way when this returns."""
    if not model.source.startswith("hf://"):
        return FolderSnapshot(workspace.source_folder(model))
    source = _HubFiles(workspace, model, patience=_patience(workspace, workers))
    for layer in layers:
        source.request(layer, workers=workers, advance=advance)
    return source


def stream_files(
    workspace: Workspace, model: LockedModel, *, workers: Workers
) -> Callable[[RecordedFile, int], Iterator[bytes]]:
    """How to read a file of a model from a byte on, wherever it is; what comes from the Hub is written nowhere.

    The reader proves what it is given: a folder's files may be others than those that were locked.
    """
    if not model.source.startswith("hf://"):
        folder = FolderSnapshot(workspace.source_folder(model))
        return lambda file, offset: _read_from(lambda: folder.open(file.path), offset)
    snapshot = replace(_snapshot(model), patience=_patience(workspace, workers))

    def read(file: RecordedFile, offset: int) -> Iterator[bytes]:
        if found := _find_here(workspace, model, file):
            return _read_from(lambda: found.open("rb", buffering=0), offset)
        return snapshot.stream(file.path, size=file.size, offset=offset)

    return read


class _HubFiles:
    """Files of a Hub repository, each fetched once into the store, or found. It plays the role of `Snapshot`."""

    def __init__(self, workspace: Workspace, model: LockedModel, *, patience: hub.Patience) -> None:
        self._workspace = workspace
        self._model = model
        self._patience = patience
        self._paths: dict[str, Future[Path]] = {}

    def request(self, layer: LayerPlan, *, workers: Workers, advance: Callable[[int], object]) -> None:
        for file in layer.files:
            if self._workspace.offline and needs_fetching(self._workspace, self._model, file):
                raise offline_error(f"{self._model.id}: {file.path}")
            self._paths[file.path] = workers.download(self._find, file, layer, advance)

    def open(self, path: str) -> BinaryIO:
        found = self._paths[path].result()
        try:
            return found.open("rb", buffering=0)
        except OSError as error:
            raise SourceError(f"{self._model.id}: cannot read {found}: {error.strerror}") from error

    def _find(self, file: RecordedFile, layer: LayerPlan, advance: Callable[[int], object]) -> Path:
        """The file in the store; or a true one in the Hugging Face cache; or fetched."""
        if found := _find_here(self._workspace, self._model, file):
            return found
        if self._workspace.offline:
            raise offline_error(f"{self._model.id}: {file.path} (the copy in the Hugging Face cache is altered)")
        return self._fetch(file, layer, advance)

    def _fetch(self, file: RecordedFile, layer: LayerPlan, advance: Callable[[int], object]) -> Path:
        snapshot = replace(_snapshot(self._model), patience=self._patience)
        passing = PassingLayer(layer) if len(layer.files) == 1 else None
        path = self._workspace.store.fetch(
            lambda offset: snapshot.stream(file.path, size=file.size, offset=offset),
            name=f"{self._model.id}: {file.path}",
            digest=file.digest,
            size=file.size,
            show=passing.show if passing else lambda _: None,
            advance=advance,
        )
        if passing and passing.complete:
            self._workspace.store.remember_diff_id(layer.key, passing.diff_id())
        return path


def _find_here(workspace: Workspace, model: LockedModel, file: RecordedFile) -> Path | None:
    """The file in the store, or a true one in the Hugging Face cache."""
    if found := workspace.store.sound_file(file.digest, size=file.size):
        return found
    cached = _cached(model, file)
    return cached if cached and workspace.store.check(cached, file.digest) else None


def _read_from(opened: Callable[[], BinaryIO], offset: int) -> Iterator[bytes]:
    with opened() as stream:
        stream.seek(offset)
        while piece := stream.read(CHUNK):
            yield piece


def _patience(workspace: Workspace, workers: Workers) -> hub.Patience:
    return replace(hub.usual_patience(), sleep=workers.sleep, tell=workspace.progress.note)


def _cached(model: LockedModel, file: RecordedFile) -> Path | None:
    path = _snapshot(model).cached(file.path)
    try:
        return path if path and path.stat().st_size == file.size else None
    except OSError:
        return None


def _snapshot(model: LockedModel) -> hub.HubSnapshot:
    if model.commit is None:
        raise SourceError(f"{model.id}: no commit is locked", hint=f"bake lock {model.id}")
    return hub.HubSnapshot.at(model.source.removeprefix("hf://"), model.commit)
