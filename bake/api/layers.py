"""Layers: what a push sends, each with where its bytes come from. None is read before it turns out to be missing."""

from __future__ import annotations

import functools
import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

from bake import plan
from bake.api.building import from_hub
from bake.api.fetching import stream_files
from bake.api.packing import Packed
from bake.api.scanning import known_tokens, token_fault
from bake.api.sending import Blob
from bake.api.streaming import LayerStream, layer_words
from bake.api.wheels import wheels_step
from bake.digest import CHUNK, Digest
from bake.image import LAYER, Descriptor
from bake.registry import in_memory, reopened
from bake.scan import Scanner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from bake.api.base_layers import ReadableBase
    from bake.api.workers import Workers
    from bake.api.workspace import Workspace
    from bake.image import AddedLayer
    from bake.plan import ImagePlan, LayerPlan
    from bake.record import RecordedFile
    from bake.registry import Reference, Source


def known_digest(workspace: Workspace, item: LayerPlan) -> Digest | None:
    """A layer's digest, by the lock or by the store's memory; None where they differ, for then it must be read."""
    remembered = workspace.store.diff_id(item.key) or workspace.store.packed(item.key)
    known = item.diff_id or remembered
    return known if remembered in {None, known} else None


class Layers:
    """The layers of one plan on their way to one repository."""

    def __init__(self, workspace: Workspace, image_plan: ImagePlan, reference: Reference, *, workers: Workers) -> None:
        self.plan = image_plan
        self._workspace = workspace
        self._reference = reference
        self._workers = workers
        self._tokens = known_tokens()
        self._models = {planned.model.id: planned.model for planned in image_plan.models}
        self._read: set[Digest] = set()

    def base(self, base: ReadableBase) -> list[Blob]:
        """The base's layers; one from the same registry is mounted."""
        near = base.reference is not None and base.reference.host == self._reference.host
        repository = base.reference.repository if base.reference and near else None
        return [
            Blob(
                what=f"layer {number} of the base",
                size=layer.size,
                digest=layer.digest,
                open=functools.partial(base.source, layer),
                mount_from=repository or self._seen_in(layer.digest),
            )
            for number, layer in enumerate(base.image.manifest.layers, start=1)
        ]

    def weights(self) -> list[Blob]:
        """The layers of the plan, in its order."""
        return [self._blob(item) for item in self.plan.layers]

    def wheels(self, chunks: Callable[[], Iterator[bytes]]) -> Blob:
        """The layer of the base's wheels: made once for its digest, and once more if it must be sent."""
        layer = self._describe_wheels(chunks)
        return Blob(
            what="the layer of wheels",
            size=layer.size,
            digest=layer.digest,
            open=lambda: lambda offset: _from_offset(chunks(), offset),
        )

    def added_wheels(self, chunks: Callable[[], Iterator[bytes]]) -> AddedLayer:
        """The same layer as a step of the image."""
        return wheels_step(self.plan, self._describe_wheels(chunks))

    def small(self, what: str, blob: Descriptor, content: bytes) -> Blob:
        return Blob(what=what, size=blob.size, digest=blob.digest, open=lambda: in_memory(content))

    def packed(self, digests: Sequence[Digest]) -> list[Packed]:
        """The plan's layers with the digests that they turned out to have; what was learned is remembered."""
        store, found = self._workspace.store, []
        for item, digest in zip(self.plan.layers, digests, strict=False):
            is_new = item.key in self._read
            store.remember_pushed(self._reference.host, digest, self._reference.repository)
            if is_new and item.diff_id is None:  # then every file in it was proven by its own sha256
                store.remember_diff_id(item.key, digest)
            elif is_new:
                store.remember_packed(item.key, digest)
            found.append(Packed(plan=item, digest=digest, is_new=is_new))
        return found

    def _describe_wheels(self, chunks: Callable[[], Iterator[bytes]]) -> Descriptor:
        """Raises CheckFailed where a token of this user lies in them."""
        hasher, size, scanner = hashlib.sha256(), 0, Scanner(self._tokens, shaped=False)
        for chunk in chunks():
            hasher.update(chunk)
            scanner.show(chunk)
            size += len(chunk)
        if scanner.found:
            raise token_fault("a wheel of the base")
        return Descriptor(media_type=LAYER, digest=Digest(hasher.hexdigest()), size=size)

    def _blob(self, item: LayerPlan) -> Blob:
        known = known_digest(self._workspace, item)
        return Blob(
            what=layer_words(item),
            size=item.size,
            digest=known,
            open=functools.partial(self._open, replace(item, diff_id=known) if known else item),
            mount_from=self._seen_in(known) if known else None,
        )

    def _open(self, item: LayerPlan) -> Source | LayerStream:
        """A layer's bytes: those that the store has, or made anew from the model's files."""
        weights = all(plan.is_weights(file.path) for file in item.files)
        scanner = None if weights else Scanner(self._tokens, shaped=not from_hub(self.plan, item.model))
        stored = self._workspace.store.layer(item.diff_id, size=item.size) if item.diff_id else None
        if stored:
            if scanner:
                _scan(stored, scanner, what=layer_words(item))
            return reopened(lambda: stored.open("rb", buffering=0))
        model = self._models[item.model]
        files = stream_files(self._workspace, model, workers=self._workers)

        def read(file: RecordedFile, offset: int) -> Iterator[bytes]:
            self._read.add(item.key)  # not before: a layer that is mounted is not read, and so not proven
            return files(file, offset)

        return LayerStream(item, read, prove_files=model.source.startswith("hf://"), scanner=scanner)

    def _seen_in(self, digest: Digest) -> str | None:
        """Another repository of this registry that a push from here has put a layer into."""
        found = self._workspace.store.pushed(self._reference.host, digest)
        return None if found == self._reference.repository else found


def _scan(path: Path, scanner: Scanner, *, what: str) -> None:
    with path.open("rb", buffering=0) as stream:
        while content := stream.read(CHUNK):
            scanner.show(content)
    if scanner.found:
        raise token_fault(f"the layer of {what}")


def _from_offset(chunks: Iterator[bytes], offset: int) -> Iterator[bytes]:
    for chunk in chunks:
        if rest := chunk[offset:]:
            yield rest
        offset = max(offset - len(chunk), 0)
