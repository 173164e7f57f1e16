"""`pull`: a model's files out of an image in a registry, without a daemon.

Each file is proven by the sha256 of the image's record, which the manifest's digest proves.
"""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass
from tarfile import TarError
from typing import TYPE_CHECKING, BinaryIO

from bake.api.parts import RemoteBlobs
from bake.api.reading import members, open_layer
from bake.api.remote import baked_image, find_record, find_weights, open_registry
from bake.api.target import TargetFolder
from bake.api.verified import base_layers
from bake.api.workers import Workers, results
from bake.digest import CHUNK
from bake.errors import ImageError
from bake.layer import offsets
from bake.rootfs import plain
from bake.select import check_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from bake.api.workspace import Workspace
    from bake.image import Descriptor
    from bake.plan import LayerPlan
    from bake.record import Record, RecordedFile, RecordedModel
    from bake.registry import Reference, Registry

    Advance = Callable[[int], object]

_BROKEN = (TarError, EOFError, ValueError, gzip.BadGzipFile, zlib.error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulled:
    """A model that lies in a folder: `files` of `size` bytes, of which `fetched`, of `fetched_size`, were not there.

    `reference` is the image that they come from, by its digest.
    """

    folder: Path
    model: str
    reference: str
    files: int
    size: int
    fetched: int
    fetched_size: int


def pull(workspace: Workspace, reference: Reference, folder: Path, *, role: str = "actor") -> Pulled:
    """Write a model's files out of an image into a folder that is empty, or holds some of them already.

    `role` says which of the image's models. Raises ImageError, SourceError, NetworkError, DigestError for bytes that
    are not the record's, and OutputError where the folder holds something else or cannot be written.
    """
    workers = Workers()
    with (
        open_registry(workspace, reference, sleep=workers.sleep) as registry,
        workspace.store.holding(f"pull {folder.resolve()}"),
        workers,  # the first to end, so that nothing is on its way when the others are closed
    ):
        image = baked_image(registry)
        base = base_layers(image)
        blobs = RemoteBlobs(registry, image, workers=workers)
        record, number = find_record(image, blobs, base=base)
        model = _choose(record, role, reference)
        _refuse_missing(image.manifest.layers[base:number], blobs, reference)
        target = TargetFolder(workspace, folder, model)
        absent = target.prepare(workers)
        weights = find_weights(record, image, base=base, stop=number)
        with workspace.progress.task(f"{reference}: fetching", sum(file.size for file in absent)) as fetching:
            advance = workers.watch(fetching)
            if weights is not None:
                _fetch_parts(registry, target, weights, workers=workers, advance=advance)
            elif absent:
                _fetch_layers(registry, target, image.manifest.layers[base:number], workers=workers, advance=advance)
        target.finish()
    return Pulled(
        folder=folder,
        model=f"{model.name}@{model.version}",
        reference=f"{reference.name}@{image.descriptor.digest}",
        files=len(model.files),
        size=sum(file.size for file in model.files),
        fetched=len(absent),
        fetched_size=sum(file.size for file in absent),
    )


def _refuse_missing(layers: Sequence[Descriptor], blobs: RemoteBlobs, reference: Reference) -> None:
    """Tell before a byte is fetched that some cannot be. Raises ImageError."""
    missing = [f"layer {layer.digest}: missing" for layer in layers if blobs.size(layer.digest) is None]
    if faults := [*missing, *blobs.faults]:
        raise ImageError("\n  ".join([f"{reference} is not whole:", *faults]), hint=f"bake verify {reference}")


def _choose(record: Record, role: str, reference: Reference) -> RecordedModel:
    """The model of a role. Raises ImageError where there is none, or its paths are not a model's."""
    model = next((model for model in record.models if role in model.roles), None)
    if model is None:
        held = ", ".join(f"{model.name}@{model.version} ({', '.join(model.roles)})" for model in record.models)
        raise ImageError(
            f"{reference} holds no model for the role {role}: it holds {held or 'none'}",
            hint=f"--role {record.models[0].roles[0]}" if record.models else None,
        )
    faults = [f"{file.path!r} {fault}" for file in model.files if (fault := check_path(file.path))]
    if faults:
        raise ImageError("\n  ".join([f"{reference}: the record names paths that no model has:", *faults]))
    return model


def _fetch_parts(
    registry: Registry,
    target: TargetFolder,
    weights: Sequence[tuple[LayerPlan, Descriptor]],
    *,
    workers: Workers,
    advance: Advance,
) -> None:
    """Fetch each file alone, the largest first: where its bytes begin in its layer is known."""
    places = {
        f"{layer.folder}/{path}": (blob, start) for layer, blob in weights for path, start in offsets(layer).items()
    }

    def fetch(file: RecordedFile) -> None:
        blob, start = places[target.path_in_image(file)]
        target.write(
            file,
            lambda done: registry.open_part(blob, offset=start + done, size=file.size - done),
            advance=advance,
        )

    ordered = sorted(target.absent, key=lambda file: -file.size)
    results(workers.download(fetch, file) for file in ordered)


def _fetch_layers(
    registry: Registry, target: TargetFolder, layers: Sequence[Descriptor], *, workers: Workers, advance: Advance
) -> None:
    """Read layers whole, for they are compressed, or another packer's. Raises ImageError where they lack a file."""
    absent = {target.path_in_image(file): file for file in target.absent}

    def fetch(layer: Descriptor) -> set[str]:
        found = set()
        try:
            for info, stream in members(open_layer(registry, layer, workers.watch(lambda _: None)), layer):
                if stream is not None and (file := absent.get(path := plain(info.name))):
                    target.write(file, _once(stream), advance=advance, anew=True)
                    found.add(path)
        except _BROKEN as error:
            raise _broken(layer, error) from error
        return found

    found = results(workers.download(fetch, layer) for layer in layers)
    if missing := sorted(absent.keys() - set().union(*found)):
        raise ImageError("\n  ".join(["no layer of the image holds these files of its record:", *missing]))


def _once(stream: BinaryIO) -> Callable[[int], Iterator[bytes]]:
    """A file that goes by once, from its start."""
    return lambda _: iter(lambda: stream.read(CHUNK), b"")


def _broken(layer: Descriptor, error: Exception) -> ImageError:
    return ImageError(f"layer {layer.digest} is no whole tar: {error}")
