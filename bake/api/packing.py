"""Packing: every weight layer of a plan in the layout, each byte proven, in parallel.

What is there already is not read.
"""

from __future__ import annotations

import contextlib
import tarfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, cast

from bake import disk, layer
from bake.api.fetching import needs_fetching
from bake.api.opening import open_source
from bake.api.workers import Workers, results
from bake.digest import stream_digest
from bake.errors import OutputError
from bake.units import size_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from bake.api.workspace import Workspace
    from bake.digest import Digest
    from bake.layout import Layout
    from bake.lock import LockedModel, ModelId
    from bake.plan import ImagePlan, LayerPlan
    from bake.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """A layer in the layout. `is_new` says that its bytes were read and written for it."""

    plan: LayerPlan
    digest: Digest
    is_new: bool


def pack_all(workspace: Workspace, image_plan: ImagePlan, layout: Layout) -> list[Packed]:
    """Put every weight layer into the layout, in the plan's order."""
    ready = {item.key: found for item in image_plan.layers if (found := find_layer(workspace, item, layout))}
    for item in image_plan.layers:
        if (diff_id := ready.get(item.key)) and not _is_in(workspace, item, layout, diff_id):
            _take(workspace, item, layout, diff_id)
    absent = [item for item in image_plan.layers if item.key not in ready]
    made = _pack_absent(workspace, image_plan, absent, layout) if absent else {}
    return [
        Packed(plan=item, digest=made.get(item.key) or ready[item.key], is_new=item.key in made)
        for item in image_plan.layers
    ]


def find_layer(workspace: Workspace, item: LayerPlan, layout: Layout, *, read: bool = True) -> Digest | None:
    """The diff_id of a layer that need not be packed: it lies in the layout or in the store, proven.

    With `read`, a blob that this machine does not know yet is read once, to prove it. Where the lock names another
    diff_id than the one that these files give, the layer must be packed, to tell which is wrong.
    """
    remembered = workspace.store.diff_id(item.key) or workspace.store.packed(item.key)
    diff_id = item.diff_id or remembered
    if diff_id is None or (remembered or diff_id) != diff_id:
        return None
    path = workspace.store.layer(diff_id, size=item.size)
    if path is None and layout.size(diff_id) == item.size:
        blob = layout.blob(diff_id)
        proven = workspace.store.check(blob, diff_id) if read else workspace.store.is_proven(blob, diff_id)
        path = blob if proven else None
    if path is None or (read and remembered is None and not _holds(path, item)):
        return None
    if read and remembered is None:
        workspace.store.remember_diff_id(item.key, diff_id)
    return diff_id


def _holds(path: Path, item: LayerPlan) -> bool:
    """Whether a layer's tar holds exactly the planned files, by their own sha256s: the lock's word is not enough."""
    wanted = {item.target(file): file for file in item.files}
    with tarfile.open(path, mode="r:") as archive:
        for info in archive:
            if info.isdir():
                continue
            file, stream = wanted.pop(info.name, None), archive.extractfile(info)
            if file is None or stream is None or stream_digest(cast("BinaryIO", stream)) != (file.digest, file.size):
                return False
    return not wanted


def bytes_to_fetch(workspace: Workspace, models: dict[ModelId, LockedModel], layers: Sequence[LayerPlan]) -> int:
    """Bytes that must come over the network to pack some layers."""
    return sum(
        file.size for item in layers for file in item.files if needs_fetching(workspace, models[item.model], file)
    )


def _is_in(workspace: Workspace, item: LayerPlan, layout: Layout, diff_id: Digest) -> bool:
    """Whether the layout has a layer whose bytes are known to be those of its diff_id, without reading them."""
    return layout.size(diff_id) == item.size and workspace.store.is_proven(layout.blob(diff_id), diff_id)


def _take(workspace: Workspace, item: LayerPlan, layout: Layout, diff_id: Digest) -> None:
    stored = workspace.store.layer(diff_id, size=item.size)
    if stored is None:
        raise OutputError(f"layer {diff_id} has left the store meanwhile", hint="build again")
    layout.take(stored, diff_id)
    workspace.store.prove(layout.blob(diff_id), diff_id)


def _pack_absent(
    workspace: Workspace, image_plan: ImagePlan, absent: Sequence[LayerPlan], layout: Layout
) -> dict[Digest, Digest]:
    models = {planned.model.id: planned.model for planned in image_plan.models}
    to_fetch = bytes_to_fetch(workspace, models, absent)
    _check_space(workspace, absent, layout, to_fetch=to_fetch)
    size = sum(file.size for item in absent for file in item.files)
    with contextlib.ExitStack() as stack:
        fetching = stack.enter_context(workspace.progress.task(f"{image_plan.id}: fetching", to_fetch))
        packing = stack.enter_context(workspace.progress.task(f"{image_plan.id}: packing", size))
        workers = stack.enter_context(Workers())
        sources = {
            model: open_source(
                workspace,
                models[model],
                [item for item in absent if item.model == model],
                workers=workers,
                advance=workers.watch(fetching),
            )
            for model in dict.fromkeys(item.model for item in absent)
        }
        advance = workers.watch(packing)
        ordered = sorted(absent, key=lambda item: -item.size)  # the longest first, so that no core is idle at the end
        futures = [
            workers.compute(_pack_one, workspace, item, layout, sources[item.model], advance) for item in ordered
        ]
        return dict(zip((item.key for item in ordered), results(futures), strict=True))


def _pack_one(
    workspace: Workspace, item: LayerPlan, layout: Layout, source: Snapshot, advance: Callable[[int], object]
) -> Digest:
    with layout.writer() as writer:
        diff_id = layer.pack(item, source, writer, advance=advance)
        path = writer.commit(diff_id)
    workspace.store.keep_layer(path, diff_id)
    if item.diff_id is None:  # then every file in it was proven by its own sha256
        workspace.store.remember_diff_id(item.key, diff_id)
    else:
        workspace.store.remember_packed(item.key, diff_id)
    return diff_id


def _check_space(workspace: Workspace, absent: Sequence[LayerPlan], layout: Layout, *, to_fetch: int) -> None:
    """Raise OutputError where it is plain beforehand that something will not fit: fetched files stay in the store."""
    needs = {layout.path: sum(item.size for item in absent), workspace.store.root: to_fetch}
    by_device: dict[int, tuple[Path, int]] = {}
    for path, needed in needs.items():
        device = disk.device(path)
        first, before = by_device.get(device, (path, 0))
        by_device[device] = first, before + needed
    for path, needed in by_device.values():
        if needed > (free := disk.free_bytes(path)):
            raise OutputError(
                f"no space to write {path}: {size_text(needed)} needed, {size_text(free)} free",
                hint="free some, or name another place with --to oci:PATH; bake cache prune empties the store",
            )
