"""Passing: the shards of a file by their digests, computed while the file's bytes go by, on their way elsewhere."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

from bake import plan
from bake.digest import Digest
from bake.errors import SourceError
from bake.layer import PassingLayer
from bake.plan import LayerPlan
from bake.record import RecordedFile
from bake.reshard import divide

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bake.api.workspace import Workspace
    from bake.lock import LockedModel
    from bake.reshard import Shard

UNKNOWN = Digest("0" * 64)
"""What stands for the digest of a file that was not read yet."""


class PassingShards:
    """The shards of a file by their digests, and with them their layers, while the file's bytes go by."""

    def __init__(self, model: LockedModel, file: RecordedFile, shards: Sequence[Shard]) -> None:
        self._file = file
        self._limit = model.shard_limit or file.size
        self._shards = tuple(shards)
        self._head = bytearray()
        self._hashers = [hashlib.sha256(shard.head) for shard in shards]
        self._layers = {shard.path: _layer(model, shard) for shard in shards if shard.size >= plan.LARGE}
        self._passing = {path: PassingLayer(layer) for path, layer in self._layers.items()}
        for shard in shards:
            self._show_layer(shard, shard.head)
        self._position = 0

    def show(self, content: bytes) -> None:
        begin, self._position = self._position, self._position + len(content)
        self._head += content[: max(self._shards[0].start - begin, 0)]
        for shard, hasher in zip(self._shards, self._hashers, strict=True):
            if part := content[max(shard.start - begin, 0) : max(shard.end - begin, 0)]:
                hasher.update(part)
                self._show_layer(shard, part)

    def finish(self, workspace: Workspace) -> list[RecordedFile]:
        """The shards, once every byte was shown; what was learned of their layers is remembered."""
        if self._position != self._file.size:
            raise SourceError(f"{self._file.path}: expected {self._file.size} bytes, found {self._position}")
        if not self._shards[0].is_whole and not self._is_as_planned():
            raise SourceError(f"{self._file.path}: its header is another than a moment ago", hint="try again")
        found = [
            RecordedFile(path=shard.path, size=shard.size, digest=Digest(hasher.hexdigest()))
            for shard, hasher in zip(self._shards, self._hashers, strict=True)
        ]
        for file in found:
            if file.path in self._layers:
                layer = replace(self._layers[file.path], files=(file,))
                workspace.store.remember_diff_id(layer.key, self._passing[file.path].diff_id())
        return found

    def _is_as_planned(self) -> bool:
        """Whether the header that went by is the one that the shards were planned by."""
        found = divide(self._file.path, bytes(self._head), size=self._file.size, limit=self._limit)
        return [(shard.head, shard.start) for shard in found] == [(shard.head, shard.start) for shard in self._shards]

    def _show_layer(self, shard: Shard, content: bytes) -> None:
        if shard.path in self._passing:
            self._passing[shard.path].show(content)


def _layer(model: LockedModel, shard: Shard) -> LayerPlan:
    """The layer of a shard that has one of its own, but for its digest."""
    file = RecordedFile(path=shard.path, size=shard.size, digest=UNKNOWN)
    return LayerPlan(model=model.id, folder=plan.folder_of(model.id), files=(file,))
