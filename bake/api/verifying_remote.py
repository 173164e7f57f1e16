"""Verifying an image in a registry. Nothing of it is written to disk.

`quick` asks for every blob by name, reads record, configuration and tokenizer, and of the weights the headers alone.
`full` reads every layer from its first byte to its last, several at once.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bake import tar
from bake.api.parts import KeptBlobs, RemoteBlobs
from bake.api.reading import ReadLayer, prove_layer, read_layer
from bake.api.remote import baked_image, find_record, find_weights, open_registry
from bake.api.verified import Verified, VerifiedModel, base_layers, environment_faults, read_record, verify_model
from bake.api.workers import Workers, results
from bake.entrypoint.fault import FETCH_AGAIN, Fault
from bake.errors import DigestError, ImageError
from bake.image import LAYER, validate
from bake.layer import offsets
from bake.rootfs import RootFS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from bake.api.workspace import Workspace
    from bake.digest import Digest
    from bake.entrypoint.verify import Level
    from bake.image import Descriptor, Image
    from bake.plan import LayerPlan
    from bake.record import Record, RecordedModel
    from bake.registry import Reference, Registry


@dataclass(slots=True)
class _Looked:
    """What was seen of an image: its files, and its faults. `digests` are by path in the image; None where unknown."""

    rootfs: RootFS
    faults: list[str]
    digests: Mapping[str, Digest] | None = None
    seen: bool = True
    unread: int = 0


def verify_remote(workspace: Workspace, reference: Reference, *, level: Level, expected: Record | None) -> Verified:
    """Verify an image in a registry. Faults are returned, not raised.

    Raises ImageError where there is none or bake did not build it, DigestError where its manifest or config is not what
    its digest says, SourceError where it may not be read, and NetworkError.
    """
    start = time.monotonic()
    workers = Workers()
    with open_registry(workspace, reference, sleep=workers.sleep) as registry, workers:
        image = baked_image(registry)
        blobs = RemoteBlobs(registry, image, workers=workers)
        faults = [*validate(image, blobs), *blobs.faults]
        if level == "full":
            looked = _read_all(workspace, registry, image, blobs, workers=workers)
        else:
            looked = _look_in(image, blobs)
        record, record_faults = read_record(looked.rootfs, expected=expected)
        faults += [*looked.faults, *record_faults, *environment_faults(image, record)]
        models = tuple(_verify_model(model, looked) for model in record.models)
    return Verified(
        target=str(reference),
        level=level,
        seconds=time.monotonic() - start,
        models=models,
        image_faults=tuple(dict.fromkeys(faults)),
        unread=looked.unread,
        read=blobs.read,
    )


def _look_in(image: Image, blobs: RemoteBlobs) -> _Looked:
    """Look into the layers that hold the record and the models; others above the base are left unread."""
    base = base_layers(image)
    own = image.manifest.layers[base:]
    try:
        record, number = find_record(image, blobs, base=base)
    except (ImageError, DigestError) as error:
        return _Looked(RootFS(blobs), [error.message], unread=len(own))
    weights = find_weights(record, image, base=base, stop=number)
    wanted = {layer.digest for _, layer in weights or ()} | {image.manifest.layers[number].digest}
    looked = _Looked(RootFS(blobs), [], seen=weights is not None)
    chosen = [layer for layer in own if layer.digest in wanted]
    blobs.prefetch((layer, place) for planned, layer in weights or () for place in _places(planned))
    looked.faults += filter(None, [_try_to_apply(looked.rootfs, layer) for layer in chosen])
    looked.unread = len(own) - len(chosen)
    if weights is None and all(layer.media_type == LAYER for layer in own):
        looked.faults.append("expected layers of the files in the record, found layers of other sizes")
    return looked


def _places(layer: LayerPlan) -> Iterator[int]:
    """Where a layer's headers are, and its end, a byte early: tarfile looks at the last byte of the member before."""
    end, starts = 0, offsets(layer)
    for file in layer.files:
        start = starts[file.path]
        yield max(0, start - len(tar.file_header(layer.target(file), size=file.size)) - 1)
        end = start + file.size + tar.padding(file.size)
    yield max(0, end - 1)


def _try_to_apply(rootfs: RootFS, layer: Descriptor) -> str | None:
    try:
        rootfs.apply(layer)
    except (ImageError, DigestError) as error:
        return error.message
    return None


def _read_all(
    workspace: Workspace, registry: Registry, image: Image, blobs: RemoteBlobs, *, workers: Workers
) -> _Looked:
    """Read every layer that is there, several at once: the base's for their digests, the others for their files too."""
    base = base_layers(image)
    layers = {layer.digest: layer for layer in image.manifest.layers if blobs.size(layer.digest) is not None}
    own = {layer.digest for layer in image.manifest.layers[base:]}
    size = sum(layer.size for layer in layers.values())
    with workspace.progress.task(f"verifying {registry.reference}", size) as advance:
        counted = workers.watch(_both(advance, blobs.count))
        ordered = sorted(layers.values(), key=lambda layer: -layer.size)
        below = [
            workers.download(prove_layer, registry, layer, counted) for layer in ordered if layer.digest not in own
        ]
        mine = {
            layer.digest: workers.download(read_layer, registry, layer, counted)
            for layer in ordered
            if layer.digest in own
        }
        faults = [fault for fault in results(below) if fault]
        read = dict(zip(mine, results(mine.values()), strict=True))
    return _put_together(
        [(layer, read[layer.digest]) for layer in image.manifest.layers[base:] if layer.digest in read], faults
    )


def _put_together(layers: list[tuple[Descriptor, ReadLayer]], faults: list[str]) -> _Looked:
    """The files that layers add up to, which were read in any order."""
    kept = KeptBlobs()
    rootfs = RootFS(kept)
    digests: dict[str, Digest] = {}
    for layer, read in layers:
        unzipped = replace(layer, media_type=LAYER)  # what was kept is the tar's, also where the blob is compressed
        kept.keep(unzipped, read.parts)
        rootfs.put(unzipped, read.members)
        digests |= read.digests
        faults += [read.fault] if read.fault else []
    return _Looked(rootfs, faults, digests=digests)


def _verify_model(model: RecordedModel, looked: _Looked) -> VerifiedModel:
    folder = model.path.lstrip("/")
    if not looked.seen:
        size = sum(file.size for file in model.files)
        name = f"{model.name}@{model.version}"
        return VerifiedModel(
            name=name, against=None, folder=model.path, files=len(model.files), size=size, faults=(), is_seen=False
        )
    verified = verify_model(
        model, looked.rootfs.tree(folder), level="quick", against="its record", advance=lambda _: None
    )
    if looked.digests is None:
        return verified
    altered = _altered(model, looked.digests, faulty={fault.path for fault in verified.faults})
    return replace(verified, faults=tuple(sorted((*verified.faults, *altered))))


def _altered(model: RecordedModel, digests: Mapping[str, Digest], *, faulty: set[str]) -> list[Fault]:
    """The files whose bytes are not those of the record; one that another fault is known of is told by that."""
    return [
        Fault(
            path=file.path,
            kind="altered",
            expected=str(file.digest),
            found=str(found) if found else "bytes that are not those of its layer",
            hint=FETCH_AGAIN,
        )
        for file in model.files
        if file.path not in faulty and (found := digests.get(f"{model.path.lstrip('/')}/{file.path}")) != file.digest
    ]


def _both(first: Callable[[int], object], second: Callable[[int], object]) -> Callable[[int], object]:
    def call(count: int) -> None:
        first(count)
        second(count)

    return call
