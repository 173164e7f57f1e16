"""Sources: where a model is locked from, as re-sharding reads it: a folder, or a repository of the Hub."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bake.api.fetching import Here, folder_reader, hub_reader
from bake.digest import CHUNK, Digest
from bake.errors import DigestError, SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from bake import hub
    from bake.api.workspace import Workspace
    from bake.folder import FolderSnapshot
    from bake.lock import LockedModel
    from bake.record import RecordedFile
    from bake.store import Store


class HubSource:
    """It plays the role of `bake.api.resharding.Source`; what it shows stays in the store."""

    def __init__(self, workspace: Workspace, model: LockedModel, snapshot: hub.HubSnapshot) -> None:
        self._store = workspace.store
        self._model = model
        self._snapshot = snapshot
        self._here = Here(workspace, model)
        self.read = hub_reader(workspace, model, patience=snapshot.patience, here=self._here)

    def known(self, file: RecordedFile) -> Digest | None:
        return file.digest

    def bytes_to_fetch(self, file: RecordedFile) -> int:
        return 0 if self._here(file) else file.size

    def show(self, file: RecordedFile, show: Callable[[bytes], object]) -> Digest:
        shown = 0

        def count(content: bytes) -> None:
            nonlocal shown
            shown += len(content)
            show(content)

        if (path := self._here(file)) is None:
            path = self._store.fetch(
                lambda offset: self._snapshot.stream(file.path, size=file.size, offset=offset),
                name=f"{self._model.id}: {file.path}",
                digest=file.digest,
                size=file.size,
                show=count,
            )
        if not shown:  # it was here, or another bake has fetched it meanwhile
            self._show_proven(path, file, show)
        return file.digest

    def _show_proven(self, path: Path, file: RecordedFile, show: Callable[[bytes], object]) -> None:
        """What is made of these bytes is named by a digest of its own, so that they are proven in this very read."""
        hasher = hashlib.sha256()
        with path.open("rb", buffering=0) as stream:
            while piece := stream.read(CHUNK):
                hasher.update(piece)
                show(piece)
        if (found := Digest(hasher.hexdigest())) != file.digest:
            self._store.forget(path)
            raise DigestError(
                f"{path}: expected {file.digest}, found {found}",
                hint="its bytes have changed since they were fetched: delete it, then run the same command again",
            )


def changed_error(snapshot: FolderSnapshot, paths: Sequence[str]) -> SourceError:
    return SourceError(
        f"{snapshot.root}: changed while it was read: {', '.join(paths)}",
        hint="wait until nothing writes to the folder, then try again",
    )


@dataclass(frozen=True)
class FolderSource:
    """It plays the role of `bake.api.resharding.Source`."""

    store: Store
    snapshot: FolderSnapshot

    def read(self, file: RecordedFile, offset: int, stop: int | None) -> Iterator[bytes]:
        return folder_reader(self.snapshot)(file, offset, stop)

    def known(self, file: RecordedFile) -> Digest | None:
        return self.store.hash(self.snapshot.fingerprint(file.path))

    def bytes_to_fetch(self, file: RecordedFile) -> int:
        return 0

    def show(self, file: RecordedFile, show: Callable[[bytes], object]) -> Digest:
        hasher, before = hashlib.sha256(), self.snapshot.fingerprint(file.path)
        for piece in self.read(file, 0, None):
            hasher.update(piece)
            show(piece)
        if self.snapshot.fingerprint(file.path) != before:
            raise changed_error(self.snapshot, [file.path])
        digest = Digest(hasher.hexdigest())
        self.store.remember_hash(before, digest)
        return digest
