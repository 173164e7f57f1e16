"""Opening: a locked model's files as files to read, for layers that are written: found, made of others, or fetched."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from bake.api.fetching import Here, folder_reader, hub_reader, needs_fetching, patience_of
from bake.api.making import Recipes
from bake.api.workspace import offline_error
from bake.errors import SourceError
from bake.folder import FolderSnapshot
from bake.layer import PassingLayer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Future
    from pathlib import Path

    from bake import hub
    from bake.api.workers import Workers
    from bake.api.workspace import Workspace
    from bake.lock import LockedModel
    from bake.plan import LayerPlan
    from bake.record import RecordedFile
    from bake.snapshot import Snapshot


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
        return open_folder(workspace, model)
    source = _HubFiles(workspace, model, patience=patience_of(workspace, workers))
    for layer in layers:
        source.request(layer, workers=workers, advance=advance)
    return source


def open_folder(workspace: Workspace, model: LockedModel) -> Snapshot:
    """The files of a model from a folder, made of others where the folder has them in another form."""
    folder = FolderSnapshot(workspace.source_folder(model))
    return _FolderFiles(folder, Recipes(model, folder_reader(folder)))


@dataclass(frozen=True)
class _FolderFiles:
    """Files of a folder, and those made of them. It plays the role of `Snapshot`."""

    folder: FolderSnapshot
    recipes: Recipes

    def open(self, path: str) -> BinaryIO:
        recipe = self.recipes.find(path)
        if recipe is None:
            return self.folder.open(path)
        return recipe.open(lambda source: self.folder.open(source.path))


class _HubFiles:
    """Files of a Hub repository, each found, or fetched once into the store. It plays the role of `Snapshot`.

    A file that is made of another is made of that one where it is here, and else of the bytes that it needs of it.
    """

    def __init__(self, workspace: Workspace, model: LockedModel, *, patience: hub.Patience) -> None:
        self._workspace = workspace
        self._model = model
        self._here = Here(workspace, model)
        self._read = hub_reader(workspace, model, patience=patience, here=self._here)
        self._recipes = Recipes(model, self._read)
        self._files: dict[str, Future[Callable[[], BinaryIO]]] = {}

    def request(self, layer: LayerPlan, *, workers: Workers, advance: Callable[[int], object]) -> None:
        for file in layer.files:
            if self._workspace.offline and needs_fetching(self._workspace, self._model, file):
                raise offline_error(f"{self._model.id}: {file.path}")
            self._files[file.path] = workers.download(self._find, file, layer, advance)

    def open(self, path: str) -> BinaryIO:
        return self._files[path].result()()

    def _find(self, file: RecordedFile, layer: LayerPlan, advance: Callable[[int], object]) -> Callable[[], BinaryIO]:
        """How to open the file in the store; or a true one in the Hugging Face cache; or one made, or fetched."""
        if found := self._here(file):
            return functools.partial(self._open, found)
        recipe = self._recipes.find(file.path)
        if recipe and (recipe.source is None or self._here(recipe.source)):
            return functools.partial(recipe.open, self._open_here)
        if self._workspace.offline:
            raise offline_error(f"{self._model.id}: {file.path} (the copy in the Hugging Face cache is altered)")
        stream = functools.partial(recipe.stream, self._read) if recipe else lambda at: self._read(file, at, None)
        return functools.partial(self._open, self._fetch(file, layer, stream, advance))

    def _fetch(
        self,
        file: RecordedFile,
        layer: LayerPlan,
        stream: Callable[[int], Iterator[bytes]],
        advance: Callable[[int], object],
    ) -> Path:
        passing = PassingLayer(layer) if len(layer.files) == 1 else None
        path = self._workspace.store.fetch(
            stream,
            name=f"{self._model.id}: {file.path}",
            digest=file.digest,
            size=file.size,
            show=passing.show if passing else lambda _: None,
            advance=advance,
        )
        if passing and passing.complete:
            self._workspace.store.remember_diff_id(layer.key, passing.diff_id())
        return path

    def _open_here(self, file: RecordedFile) -> BinaryIO:
        if (path := self._here(file)) is None:
            raise SourceError(f"{self._model.id}: {file.path} has left the store meanwhile", hint="build again")
        return self._open(path)

    def _open(self, path: Path) -> BinaryIO:
        try:
            return path.open("rb", buffering=0)
        except OSError as error:
            raise SourceError(f"{self._model.id}: cannot read {path}: {error.strerror}") from error
