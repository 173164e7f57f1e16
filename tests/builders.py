"""Values and small images that the tests of the core are made of."""

from __future__ import annotations

import gzip
import io
import tarfile
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, BinaryIO

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from bake.digest import Digest
from bake.errors import SourceError
from bake.image import (
    CONFIG,
    LAYER,
    LAYER_GZIP,
    MANIFEST,
    AddedLayer,
    Descriptor,
    Image,
    ImageConfig,
    Manifest,
    append,
    validate,
)
from bake.layer import pack, pack_entries
from bake.layout import Layout
from bake.lock import LockedModel, ModelId
from bake.plan import LayerPlan, folder_of, plan_layers
from bake.record import RecordedFile
from bake.select import check_path
from bake.tar import parents, tree_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from bake.layer import Directory, File, Link
    from bake.snapshot import Snapshot

# A busy machine is no fault of what is tested.
settings.register_profile("bake", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("bake")

TINY = ModelId("tiny", "v1")

_LETTERS = st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="/\\")
_COMPONENTS = st.one_of(
    st.text(_LETTERS, min_size=1, max_size=12),
    st.text("abc -_.", min_size=1, max_size=160),
    st.sampled_from(["a" * 99, "a" * 100, "a" * 101, "é" * 60]),
)
PATHS = st.lists(_COMPONENTS, min_size=1, max_size=6).map("/".join).filter(lambda path: check_path(path) is None)
"""Any path that a model's file may have (bake.select.check_path)."""

CONTENTS = st.dictionaries(PATHS, st.binary(max_size=1100), min_size=1, max_size=5).filter(
    lambda files: not {folder for path in files for folder in parents(path)} & set(files)
)
"""The files of a model by path; none is the folder of another."""


# --- files and models


def recorded(path: str, content: bytes) -> RecordedFile:
    return RecordedFile(path=path, size=len(content), digest=Digest.of(content))


def sized(path: str, size: int) -> RecordedFile:
    """A file of any size, of which there are no bytes."""
    return RecordedFile(path=path, size=size, digest=Digest.of(f"{path} {size}".encode()))


def locked(files: Iterable[RecordedFile], *, model: ModelId = TINY, **asked: Any) -> LockedModel:
    """A resolved model that holds these files."""
    return LockedModel(id=model, source="dir://model", **asked).resolve(files=files, excluded=(), commit=None)


def layer_of(
    files: Mapping[str, bytes], *, diff_id: Digest | None = None, folder: str = "opt/models/tiny"
) -> LayerPlan:
    """The plan of one layer that holds these files."""
    listed = [recorded(path, files[path]) for path in sorted(files, key=tree_order)]
    return LayerPlan(model=TINY, folder=folder, files=tuple(listed), diff_id=diff_id)


@dataclass(frozen=True)
class Shelf:
    """Files in memory. It plays the role of `bake.snapshot.Snapshot`."""

    files: Mapping[str, bytes]

    def open(self, path: str) -> BinaryIO:
        if path not in self.files:
            raise SourceError(f"{path} is missing")
        return io.BytesIO(self.files[path])


# --- bytes


def packed(layer: LayerPlan, files: Mapping[str, bytes]) -> bytes:
    """The tar of a layer."""
    pail = io.BytesIO()
    pack(layer, Shelf(files), pail)
    return pail.getvalue()


def foreign_tar(*entries: tarfile.TarInfo | tuple[str, bytes], format: int = tarfile.PAX_FORMAT) -> bytes:  # noqa: A002
    """A tar as another tool writes it: members without a body, or a path and a file's bytes."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=format) as archive:
        for entry in entries:
            if isinstance(entry, tarfile.TarInfo):
                archive.addfile(entry)
                continue
            info = tarfile.TarInfo(entry[0])
            info.size, info.mode = len(entry[1]), 0o444
            archive.addfile(info, io.BytesIO(entry[1]))
    return stream.getvalue()


def member(name: str, kind: bytes, *, target: str = "", mode: int = 0o755) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, target, mode
    return info


# --- images


@dataclass(frozen=True)
class Heap:
    """Blobs in memory. It plays the role of `bake.image.Blobs`."""

    held: dict[Digest, bytes] = field(default_factory=dict)

    def size(self, digest: Digest) -> int | None:
        return len(self.held[digest]) if digest in self.held else None

    def open(self, digest: Digest) -> BinaryIO:
        return io.BytesIO(self.held[digest])

    def add(self, content: bytes, *, media_type: str) -> Descriptor:
        self.held[Digest.of(content)] = content
        return Descriptor(media_type=media_type, digest=Digest.of(content), size=len(content))


def zipped(tar: bytes) -> bytes:
    return gzip.compress(tar, mtime=0)


def base_image(
    heap: Heap, *, tars: Sequence[bytes], compress: bool = False, config: ImageConfig | None = None
) -> Image:
    """An image as a base is: its own layers, and a configuration that a base may have."""
    layers = [heap.add(zipped(tar) if compress else tar, media_type=LAYER_GZIP if compress else LAYER) for tar in tars]
    config = config or ImageConfig(history=tuple({"created_by": f"step {number}"} for number in range(len(tars))))
    config = replace(config, diff_ids=tuple(Digest.of(tar) for tar in tars))
    manifest = Manifest(config=heap.add(config.dumps(), media_type=CONFIG), layers=tuple(layers))
    descriptor = replace(heap.add(manifest.dumps(), media_type=MANIFEST), platform=config.platform)
    return Image(descriptor=descriptor, manifest=manifest, config=config)


def appended(base: Image | None, layers: Sequence[AddedLayer], **changes: Any) -> Image:
    """`append` with nothing asked for but what is named."""
    asked: dict[str, Any] = {"environment": {}, "labels": {}, "entrypoint": (), "command": (), "workdir": ""}
    return append(base, layers, **asked | changes)


def add_layer(layout: Layout, plan: LayerPlan, snapshot: Snapshot) -> AddedLayer:
    """Pack a layer into a layout."""
    with layout.writer() as writer:
        digest = pack(plan, snapshot, writer)
        writer.commit(digest)
    return AddedLayer(
        descriptor=Descriptor(media_type=LAYER, digest=digest, size=plan.size), created_by=f"bake {plan.model}"
    )


def write_layout(
    path: Path,
    model: LockedModel,
    snapshot: Snapshot,
    *,
    base: tuple[Image, Heap] | None = None,
    last: Sequence[Directory | File | Link] = (),
) -> Image:
    """An image of a model in a layout, proven whole."""
    layout = Layout(path)
    layout.prepare(str(model.id))
    for blob in base[0].manifest.layers if base else ():
        layout.add(base[1].held[blob.digest] if base else b"", media_type=blob.media_type)
    layers = [add_layer(layout, plan, snapshot) for plan in plan_layers(model, folder=folder_of(model.id))]
    if last:
        layers.append(AddedLayer(descriptor=layout.add(pack_entries(last), media_type=LAYER), created_by="bake"))
    image = appended(base[0] if base else None, layers)
    layout.stage(image)
    layout.publish(image, model=str(model.id), tag=model.id.version)
    if faults := validate(layout.image(), layout, content=True):
        raise AssertionError("\n".join(faults))
    return image
