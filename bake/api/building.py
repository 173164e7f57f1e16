"""`build`: a locked model becomes an image in an OCI layout. Only layers that are nowhere yet are written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bake import plan
from bake.api import contents
from bake.api.bases import open_base
from bake.api.packing import pack_all
from bake.api.verifying import refuse, verify_image
from bake.image import LAYER, AddedLayer, Descriptor, Image, append
from bake.layer import pack_entries
from bake.layout import Layout
from bake.lock import LockedLayer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from bake.api.packing import Packed
    from bake.api.workspace import Workspace
    from bake.digest import Digest
    from bake.lock import LockedModel, ModelId
    from bake.plan import ImagePlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What a build made. `size` is in bytes; of its `layers`, `written` were packed now, with `written_bytes` in all.

    `recorded` says that the lock was told layer digests it did not know.
    """

    id: ModelId
    path: Path
    digest: Digest
    size: int
    layers: int
    written: int
    written_bytes: int
    recorded: bool


def build(workspace: Workspace, model: ModelId, *, to: Path, frozen: bool = False) -> Built:
    """Build the image of a model into an OCI layout, and record in the lock what was learned, unless `frozen`.

    The image appears at once, when all of it is there and its structure is verified; an older one of the same model
    stays until then. Raises LockError, SourceError, NetworkError, DigestError, OutputError, ImageError, CheckFailed.
    """
    image_plan = plan.plan_image(workspace.load(), model)
    layout = Layout(to)
    with workspace.store.holding(f"layout {to.resolve()}"):
        layout.prepare(str(model))
        base = open_base(workspace, image_plan.base, layout)
        packed = pack_all(workspace, image_plan, layout)
        image = _assemble(image_plan, base, layout, packed)
        layout.stage(image)
        if any(item.is_new for item in packed):
            refuse(verify_image(image, layout, target=f"{model}, as packed", expected=image_plan.record))
        layout.publish(image, model=str(model), tag=model.version)
    new = [item for item in packed if item.is_new]
    return Built(
        id=model,
        path=to,
        digest=image.descriptor.digest,
        size=sum(blob.size for blob in image.manifest.layers),
        layers=len(image.manifest.layers),
        written=len(new),
        written_bytes=sum(item.plan.size for item in new),
        recorded=not frozen and _record_layers(workspace, image_plan, packed),
    )


def _assemble(image_plan: ImagePlan, base: Image | None, layout: Layout, packed: Sequence[Packed]) -> Image:
    last = layout.add(pack_entries(contents.image_entries(image_plan)), media_type=LAYER)
    weights = [
        AddedLayer(
            descriptor=Descriptor(media_type=LAYER, digest=item.digest, size=item.plan.size),
            created_by=f"bake {item.plan.model}: {_listed([file.path for file in item.plan.files])}",
        )
        for item in packed
    ]
    runs = image_plan.base is not None
    return append(
        base,
        [*weights, AddedLayer(descriptor=last, created_by=f"bake {image_plan.id}: record and entrypoint")],
        environment=image_plan.environment,
        labels=image_plan.labels | {plan.BASE_LAYERS: str(len(base.manifest.layers) if base else 0)},
        entrypoint=contents.ENTRYPOINT if runs else (),
        command=contents.COMMAND if runs else (),
        workdir=plan.WORKDIR if runs else "",
    )


def _record_layers(workspace: Workspace, image_plan: ImagePlan, packed: Sequence[Packed]) -> bool:
    """Tell the lock the digests of layers that it did not know, if it still holds the same models."""
    with workspace.editing():
        lock = workspace.load()
        for planned in image_plan.models:
            layers = [_locked(item) for item in packed if item.plan.model == planned.model.id]
            if planned.model in lock.models and _standard(planned.model, layers) and not planned.model.layers:
                lock = lock.with_model(plan.remember_layers(planned.model, layers))
        return workspace.save(lock) if lock.models else False


def _standard(model: LockedModel, layers: Sequence[LockedLayer]) -> bool:
    """Whether these are the layers that the model has in an image of its own."""
    usual = plan.plan_layers(model, folder=plan.folder_of(model.id))
    return [layer.files for layer in layers] == [tuple(file.path for file in item.files) for item in usual]


def _locked(item: Packed) -> LockedLayer:
    return LockedLayer(diff_id=item.digest, size=item.plan.size, files=tuple(file.path for file in item.plan.files))


def _listed(paths: Sequence[str]) -> str:
    shown = ", ".join(paths[:3])
    return shown if len(paths) <= 3 else f"{shown} and {len(paths) - 3} more"
