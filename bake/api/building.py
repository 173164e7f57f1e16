"""`build`: a locked model becomes an image, by bake's own writer, in an OCI layout or in the Docker daemon.

Only layers that are nowhere yet are written, and only layers that the daemon lacks are sent to it.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bake import plan
from bake.api import contents
from bake.api.base_layers import open_base
from bake.api.bases import WithBase
from bake.api.packing import pack_all
from bake.api.scanning import refuse_tokens
from bake.api.verifying import refuse, verify_image
from bake.api.wheels import wheels_layer
from bake.api.workspace import shown_path
from bake.archive import archive_size
from bake.errors import CheckFailed, DaemonError, LockError, OutputError
from bake.image import LAYER, AddedLayer, Descriptor, Image, append
from bake.layer import stream_entries
from bake.layout import Layout
from bake.lock import LockedLayer
from bake.store import building

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bake.api.outputs import Output
    from bake.api.packing import Packed
    from bake.api.small import Adds
    from bake.api.workspace import Workspace
    from bake.daemon import Daemon, DaemonImage
    from bake.digest import Digest
    from bake.image import Blobs
    from bake.lock import LockedModel, ModelId
    from bake.plan import ImagePlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What a build made: an image that `digest` names and `reference` leads to, of `size` bytes in `layers`.

    `written` layers, of `written_bytes` in all, were packed for it; `sent_bytes` went to the daemon. `recorded` says
    that the lock was told layer digests it did not know, and `runs` that the image starts training by itself.
    """

    id: ModelId
    output: Output
    digest: Digest
    reference: str
    size: int
    layers: int
    written: int
    written_bytes: int
    sent_bytes: int
    recorded: bool
    runs: bool


def build(workspace: Workspace, model: ModelId, *, output: Output, frozen: bool = False) -> Built:
    """Build the image of a model, and record in the lock what was learned, unless `frozen`.

    The image appears at once, when all of it is there, verified and searched for tokens; an older one of the same model
    stays until then. Raises LockError, SourceError, NetworkError, DigestError, OutputError, ImageError, DaemonError,
    CheckFailed.
    """
    image_plan = plan.plan_image(workspace.load(), model)
    if output.kind == "oci":
        return _build_layout(workspace, image_plan, output, frozen=frozen)
    return _build_into_daemon(workspace, image_plan, output, frozen=frozen)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """An image that is whole and checked, and not named by anything yet."""

    image: Image
    packed: list[Packed]
    blobs: Blobs
    base_layers: int


def _build_layout(workspace: Workspace, image_plan: ImagePlan, output: Output, *, frozen: bool) -> Built:
    layout = Layout(Path(output.place))
    with workspace.store.holding(building(layout.path)), layout.preparing(str(image_plan.id)):
        made = _make(workspace, image_plan, layout, daemon=None)
        layout.publish(made.image, model=str(image_plan.id), tag=image_plan.id.version)
    digest = made.image.descriptor.digest
    reference = f"oci:{shown_path(layout.path)}@{digest}"
    return _built(workspace, image_plan, made, output, digest=digest, reference=reference, frozen=frozen)


def _build_into_daemon(workspace: Workspace, image_plan: ImagePlan, output: Output, *, frozen: bool) -> Built:
    from bake.daemon import Daemon

    with contextlib.closing(Daemon.connect()) as daemon, _work_layout(workspace, image_plan) as layout:
        check_name(daemon, output.place, image_plan.id)
        layout.prepare(str(image_plan.id))
        made = _make(workspace, image_plan, layout, daemon=daemon)
        loaded, sent = _load(workspace, made, daemon, name=output.place)
        reference = f"{output.place}@{loaded.id}" if daemon.store == "containerd" else output.place
    return _built(
        workspace, image_plan, made, output, digest=loaded.id, reference=reference, frozen=frozen, sent_bytes=sent
    )


def check_name(daemon: Daemon, name: str, model: ModelId) -> None:
    """Refuse a name that an image of something else holds. Raises DaemonError."""
    held = daemon.image(name)
    if held is not None and (found := held.config.labels.get("dev.bake.model")) != str(model):
        raise DaemonError(
            f"{name} is another image in the daemon ({found or held.id}), not one of {model}",
            hint=f"give another name: --to docker:REPOSITORY:TAG; or remove it: docker image rm {name}",
        )


def _make(workspace: Workspace, image_plan: ImagePlan, layout: Layout, *, daemon: Daemon | None) -> _Made:
    """Everything but the naming: the layout then holds the whole image, but for layers of a base in the daemon."""
    base = open_base(workspace, image_plan.base, layout, daemon=daemon)
    below = base.manifest.layers if base else ()
    wheels = wheels_layer(workspace, image_plan, layout)
    packed = pack_all(workspace, image_plan, layout)
    image = assemble(image_plan, base, layout, packed, wheels=wheels)
    layout.stage(image)
    elsewhere = tuple(layer for layer in below if layout.size(layer.digest) is None)
    blobs: Blobs = WithBase(layout, elsewhere) if daemon else layout
    refuse(verify_image(image, blobs, target=f"{image_plan.id}, as packed", expected=image_plan.record))
    weights = [item for item in packed if all(plan.is_weights(file.path) for file in item.plan.files)]
    proven = {layer.digest for layer in below} | {item.digest for item in weights}
    public = {item.digest for item in packed if from_hub(image_plan, item.plan.model)}
    try:
        refuse_tokens(image, layout, proven=proven, public=public | ({wheels.descriptor.digest} if wheels else set()))
    except CheckFailed:
        for item in packed:
            if item.digest not in proven:
                workspace.store.drop_layer(item.digest)
        raise
    return _Made(image=image, packed=packed, blobs=blobs, base_layers=len(below))


def from_hub(image_plan: ImagePlan, model: ModelId) -> bool:
    return any(item.model.id == model and item.model.source.startswith("hf://") for item in image_plan.models)


@contextlib.contextmanager
def _work_layout(workspace: Workspace, image_plan: ImagePlan) -> Iterator[Layout]:
    """A layout in the store, for an image on its way to the daemon. Its weight layers stay in the store afterwards."""
    folder = workspace.store.work / f"{image_plan.id.name}-{image_plan.id.version}"
    with workspace.store.holding(building(folder)):
        layout = Layout(folder)
        try:
            yield layout
        finally:
            layout.remove()


def _load(workspace: Workspace, made: _Made, daemon: Daemon, *, name: str) -> tuple[DaemonImage, int]:
    """Send the layers that the daemon lacks. Should it turn out to lack others after all, it is sent all of them."""
    own = [layer.digest for layer in made.image.manifest.layers]
    elsewhere = {layer.digest for layer in made.blobs.elsewhere} if isinstance(made.blobs, WithBase) else set()
    mine = {digest for digest in own if made.blobs.size(digest)} - elsewhere
    known = daemon.known_layers(made.image.config.diff_ids)
    send = {digest for digest, diff_id in zip(own, made.image.config.diff_ids, strict=True) if diff_id not in known}
    try:
        return _send(workspace, made, daemon, name=name, send=send & mine)
    except DaemonError:
        if send & mine == mine:
            raise
        return _send(workspace, made, daemon, name=name, send=mine)


def _send(
    workspace: Workspace, made: _Made, daemon: Daemon, *, name: str, send: set[Digest]
) -> tuple[DaemonImage, int]:
    size = archive_size(made.image, send=send)
    with workspace.progress.task(f"{name}: loading into Docker", size) as advance:
        return daemon.load(made.image, made.blobs, name=name, send=send, advance=advance), size


def _built(
    workspace: Workspace,
    image_plan: ImagePlan,
    made: _Made,
    output: Output,
    *,
    digest: Digest,
    reference: str,
    frozen: bool,
    sent_bytes: int = 0,
) -> Built:
    new = [item for item in made.packed if item.is_new]
    return Built(
        id=image_plan.id,
        output=output,
        digest=digest,
        reference=reference,
        size=sum(blob.size for blob in made.image.manifest.layers),
        layers=len(made.image.manifest.layers),
        written=len(new),
        written_bytes=sum(item.plan.size for item in new),
        sent_bytes=sent_bytes,
        recorded=not frozen and record_layers(workspace, image_plan, made.packed),
        runs=image_plan.base is not None,
    )


def assemble(
    image_plan: ImagePlan, base: Image | None, blobs: Adds, packed: Sequence[Packed], *, wheels: AddedLayer | None
) -> Image:
    """The image of a plan: base, packed layers, wheels, and the layer of record and entrypoint, added to the blobs."""
    last = blobs.add_all(stream_entries(contents.image_entries(image_plan)), media_type=LAYER)
    weights = [
        AddedLayer(
            descriptor=Descriptor(media_type=LAYER, digest=item.digest, size=item.plan.size),
            created_by=f"bake {item.plan.model}: {_listed([file.path for file in item.plan.files])}",
        )
        for item in packed
    ]
    program = AddedLayer(descriptor=last, created_by=f"bake {image_plan.id}: record and entrypoint")
    runs = image_plan.base is not None
    return append(
        base,
        [*weights, *([wheels] if wheels else []), program],
        environment=image_plan.environment,
        labels=image_plan.labels | {plan.BASE_LAYERS: str(len(base.manifest.layers) if base else 0)},
        entrypoint=contents.ENTRYPOINT if runs else (),
        command=contents.COMMAND if runs else (),
        workdir=plan.WORKDIR if runs else "",
        search_path=image_plan.search_path,
    )


def record_layers(workspace: Workspace, image_plan: ImagePlan, packed: Sequence[Packed]) -> bool:
    """Tell the lock the digests of layers that it did not know; returns whether that changed it.

    The image is there already; a lock that cannot be written is no reason to call the build a failure.
    """
    try:
        return _record(workspace, image_plan, packed)
    except (LockError, OutputError) as error:
        workspace.progress.warn(f"the layers' digests are not recorded in the lock: {error.message}")
        return False


def _record(workspace: Workspace, image_plan: ImagePlan, packed: Sequence[Packed]) -> bool:
    """If the lock still holds the same models."""
    with workspace.editing():
        before = lock = workspace.load()
        for planned in image_plan.models:
            layers = [_locked(item) for item in packed if item.plan.model == planned.model.id]
            if planned.model in lock.models and _standard(planned.model, layers) and not planned.model.layers:
                lock = lock.with_model(plan.remember_layers(planned.model, layers))
        return lock != before and workspace.save(lock)


def _standard(model: LockedModel, layers: Sequence[LockedLayer]) -> bool:
    """Whether these are the layers that the model has in an image of its own."""
    usual = plan.plan_layers(model, folder=plan.folder_of(model.id))
    return [layer.files for layer in layers] == [tuple(file.path for file in item.files) for item in usual]


def _locked(item: Packed) -> LockedLayer:
    return LockedLayer(diff_id=item.digest, size=item.plan.size, files=tuple(file.path for file in item.plan.files))


def _listed(paths: Sequence[str]) -> str:
    shown = ", ".join(paths[:3])
    return shown if len(paths) <= 3 else f"{shown} and {len(paths) - 3} more"
