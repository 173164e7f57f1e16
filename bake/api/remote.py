"""Remote: images in registries as bake reads them: by reference, without a daemon, and only those that bake built.

What a manifest names by digest is proven when it is read whole; of large layers only parts are read.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from bake import plan
from bake.api.outputs import names_host
from bake.errors import ImageError, SourceError
from bake.image import LAYER, LAYER_GZIP
from bake.lock import LockedModel, ModelId
from bake.record import Record
from bake.registry import Reference, Registry, usual_patience
from bake.rootfs import RootFS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bake.api.workspace import Workspace
    from bake.image import Blobs, Descriptor, Image
    from bake.plan import LayerPlan
    from bake.record import RecordedModel
    from bake.registry import Access

_RECORD_LIMIT = 64 << 20
"""Bytes of a layer above which it is not the small one that holds record and entrypoint."""


def reference_of(text: str) -> Reference:
    """A reference as it is typed, `registry:` before it or not. Raises UsageError."""
    return Reference.parse(text if names_host(text) else text.removeprefix("registry:"))


@contextlib.contextmanager
def open_registry(
    workspace: Workspace,
    reference: Reference,
    *,
    access: Access = "pull",
    sleep: Callable[[float], object] = time.sleep,
) -> Iterator[Registry]:
    """The repository of a reference; `sleep` waits between tries. Raises SourceError where no network is allowed."""
    if workspace.offline:
        raise SourceError(
            f"{reference} is in a registry, and --offline allows no network", hint="run it without --offline"
        )
    patience = replace(usual_patience(), sleep=sleep, tell=workspace.progress.note)
    adjustment = workspace.adjustment if access == "push" else None
    with Registry.open(reference, access=access, patience=patience, adjustment=adjustment) as registry:
        yield registry


def baked_image(registry: Registry) -> Image:
    """The image of a registry's reference, its manifest and config proven. Raises ImageError where bake built none."""
    image = registry.image()
    if "dev.bake.model" not in image.config.labels:
        raise ImageError(
            f"{registry.reference} is no image that bake built: it has no label dev.bake.model",
            hint="name one that `bake build` or `bake push` made",
        )
    return image


def find_record(image: Image, blobs: Blobs, *, base: int) -> tuple[Record, int]:
    """The record of an image, and the number of the layer that holds it. Raises ImageError.

    It is in the last layer, unless others were put on top; each is read whole, and so proven. The first `base` layers
    are the base's, and hold none.
    """
    layers = image.manifest.layers
    for number in reversed(range(base, len(layers))):
        layer = layers[number]
        if layer.media_type not in {LAYER, LAYER_GZIP} or layer.size > _RECORD_LIMIT:
            continue
        rootfs = RootFS(blobs)
        rootfs.apply(layer)
        if content := rootfs.read(plan.RECORD):
            return Record.parse(content, where=f"/{plan.RECORD}"), number
    raise ImageError(
        f"no /{plan.RECORD} in the image {image.descriptor.digest}: expected one that bake built",
        hint="build and push it again: bake push NAME@VERSION REF",
    )


def recorded_layers(record: Record) -> tuple[LayerPlan, ...]:
    """The layers that hold a record's files, in the image's order, as this packer divides them."""
    budget = plan.MAX_LAYERS // max(1, len(record.models))
    return tuple(
        layer
        for model in record.models
        for layer in plan.plan_layers(_locked(model), folder=model.path.lstrip("/"), budget=budget)
    )


def find_weights(record: Record, image: Image, *, base: int, stop: int) -> list[tuple[LayerPlan, Descriptor]] | None:
    """The layers of an image that hold the record's files, by their sizes; None where none are so, as when compressed.

    They come after the first `base` layers and before the one that holds the record, `stop`. That they hold these bytes
    is not said yet: whoever reads a file proves it by its sha256.
    """
    planned = recorded_layers(record)
    sizes = [layer.size for layer in planned]
    for start in range(base, stop - len(planned) + 1):
        found = image.manifest.layers[start : start + len(planned)]
        if [layer.size for layer in found] == sizes and all(layer.media_type == LAYER for layer in found):
            return list(zip(planned, found, strict=True))
    return None


def _locked(model: RecordedModel) -> LockedModel:
    """A recorded model as the lock had it, as far as packing goes."""
    asked = LockedModel(id=ModelId(model.name, model.version), source=model.source)
    return asked.resolve(files=model.files, excluded=(), commit=model.commit)
