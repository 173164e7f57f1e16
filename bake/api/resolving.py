"""Resolving: what is asked of one model -> its files, by sha256. A folder's bytes are read once at most.

Those of a file that is re-sharded into layers of several files are read twice.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from bake import hub, layer, plan
from bake.api.opening import open_folder
from bake.api.passing import UNKNOWN
from bake.api.resharding import Resharding, reshard
from bake.api.sources import FolderSource, HubSource, changed_error
from bake.api.workers import Workers, results
from bake.entrypoint.fault import report
from bake.entrypoint.tree import FolderTree
from bake.entrypoint.verify import verify
from bake.errors import NetworkError, SourceError
from bake.folder import FolderSnapshot
from bake.lock import LockedLayer, LockedModel
from bake.record import RecordedFile
from bake.select import select

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import BinaryIO

    from bake.api.workspace import Workspace
    from bake.digest import Digest
    from bake.entrypoint.tree import Entry, Tree
    from bake.plan import LayerPlan
    from bake.select import Excluded, Selection
    from bake.snapshot import Fingerprint, Snapshot, SourceFile
    from bake.store import Store

_INDEX = ".safetensors.index.json"


def resolve(workspace: Workspace, model: LockedModel, *, commit: str | None = None) -> LockedModel:
    """Look at a model's source and pin its files; `commit` asks for the files of that commit, not of the revision.

    Layers whose digests are known, or were learned in the same read, are recorded too. Raises SourceError,
    NetworkError.
    """
    if model.source.startswith("hf://"):
        resolved = _resolve_hub(workspace, model, commit=commit)
    else:
        resolved = _resolve_folder(workspace, model)
    return with_known_layers(workspace.store, resolved)


def with_known_layers(store: Store, model: LockedModel) -> LockedModel:
    """The model with the digest of every layer that this machine ever packed or learned, if it knows them all."""
    layers = plan.plan_layers(model, folder=plan.folder_of(model.id))
    known = [item.diff_id or store.diff_id(item.key) for item in layers]
    found = [
        LockedLayer(diff_id=diff_id, size=item.size, files=tuple(file.path for file in item.files))
        for item, diff_id in zip(layers, known, strict=True)
        if diff_id
    ]
    return plan.remember_layers(model, found) if len(found) == len(layers) else model


def _resolve_hub(workspace: Workspace, model: LockedModel, *, commit: str | None) -> LockedModel:
    if workspace.offline:
        raise NetworkError(f"{model.id}: resolving {model.source} needs the network, and --offline allows none")
    patience = replace(hub.usual_patience(), tell=workspace.progress.note)
    snapshot = hub.resolve(model.source.removeprefix("hf://"), commit or model.revision, patience=patience)
    chosen = _choose(model, snapshot.listing)
    snapshot.check(chosen.kept)
    unknown = [file for file in chosen.kept if file.digest is None]
    with (
        workspace.progress.task(f"{model.id}: reading small files", sum(file.size for file in unknown)) as advance,
        Workers() as workers,
    ):
        reader = replace(snapshot, patience=replace(snapshot.patience, sleep=workers.sleep))
        watched = workers.watch(advance)
        digests = dict(results(workers.download(_keep, workspace.store, reader, file, watched) for file in unknown))
    files = [
        RecordedFile(path=file.path, size=file.size, digest=file.digest or digests[file.path]) for file in chosen.kept
    ]
    _check_indexes(workspace.store, model, files)
    found = reshard(workspace, model, files, HubSource(workspace, replace(model, commit=snapshot.commit), snapshot))
    resolved = model.resolve(
        files=found.files, excluded=chosen.excluded, commit=snapshot.commit, resharded=found.resharded
    )
    return replace(resolved, license=snapshot.license, gated=snapshot.gated)


def _keep(
    store: Store, snapshot: hub.HubSnapshot, file: SourceFile, advance: Callable[[int], object]
) -> tuple[str, Digest]:
    digest, size = store.keep(snapshot.stream(file.path, size=file.size))
    advance(size)
    return file.path, digest


def _check_indexes(store: Store, model: LockedModel, files: Sequence[RecordedFile]) -> None:
    """An index that names shards which are not there is told before anything large is fetched."""
    paths = {file.path for file in files}
    for file in files:
        path = store.file(file.digest, size=file.size) if file.path.endswith(_INDEX) else None
        if path is None:
            continue
        try:
            shards = set(cast("dict[str, str]", json.loads(path.read_bytes())["weight_map"]).values())
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SourceError(f"{model.id}: {file.path} of {model.source} is no index of shards: {error!r}") from error
        folder = file.path.rpartition("/")[0]
        named = {f"{folder}/{shard}" if folder else shard for shard in shards}
        if missing := sorted(named - paths):
            raise SourceError(
                f"{model.id}: {file.path} of {model.source} names shards that are not there: {', '.join(missing)}",
                hint="the repository is broken at this commit, or an exclude glob left them out",
            )


def _resolve_folder(workspace: Workspace, model: LockedModel) -> LockedModel:
    snapshot = FolderSnapshot(workspace.source_folder(model))
    chosen = _choose(model, snapshot.files(), skipped=snapshot.skipped())
    snapshot.check(chosen.kept)
    _check_structure(model, snapshot, chosen)
    listed = [RecordedFile(path=file.path, size=file.size, digest=UNKNOWN) for file in chosen.kept]
    found = reshard(workspace, model, listed, FolderSource(workspace.store, snapshot))
    planned = model.resolve(files=found.files, excluded=chosen.excluded, commit=None, resharded=found.resharded)
    files = _Folder(snapshot, open_folder(workspace, planned), found)
    layers = plan.plan_layers(planned, folder=plan.folder_of(model.id))
    with (
        workspace.progress.task(f"{model.id}: hashing", planned.size) as advance,
        Workers() as workers,
    ):
        watched = workers.watch(advance)
        learned = results(workers.compute(_learn, workspace.store, files, item, watched) for item in layers)
        digests = {path: digest for part in learned for path, digest in part.items()}
    return model.resolve(
        files=[replace(file, digest=digests[file.path]) for file in found.files],
        excluded=chosen.excluded,
        commit=None,
        resharded=found.resharded,
    )


@dataclass(frozen=True)
class _Folder:
    """A folder's files as they are listed, and as they are to be baked: some are made of others."""

    snapshot: FolderSnapshot
    baked: Snapshot
    resharding: Resharding

    def fingerprints(self, item: LayerPlan) -> dict[str, Fingerprint]:
        """Of a layer's files that the folder itself has."""
        made = self.resharding.made
        return {file.path: self.snapshot.fingerprint(file.path) for file in item.files if file.path not in made}

    def made(self, item: LayerPlan) -> dict[str, Digest]:
        """A layer's files that are made of others: they were read already."""
        made = self.resharding.made
        return {file.path: made[file.path].digest for file in item.files if file.path in made}


def _learn(store: Store, folder: _Folder, item: LayerPlan, advance: Callable[[int], object]) -> Mapping[str, Digest]:
    """The sha256 of each file in a layer, and with it the layer's diff_id: from memory, or in one read of the files."""
    snapshot, before, made = folder.snapshot, folder.fingerprints(item), folder.made(item)
    remembered = made | {path: digest for path, seen in before.items() if (digest := store.hash(seen))}
    if len(remembered) == len(item.files) and store.diff_id(_with(item, remembered).key):
        advance(sum(file.size for file in item.files))
        return remembered
    diff_id, found = layer.learn(item, folder.baked, advance=advance)
    changed = [path for path, seen in before.items() if snapshot.fingerprint(path) != seen]
    changed += [path for path, digest in made.items() if found[path] != digest]
    if changed:
        raise changed_error(snapshot, changed)
    for path, seen in before.items():
        store.remember_hash(seen, found[path])
    store.remember_diff_id(_with(item, found).key, diff_id)
    return found


def _with(item: LayerPlan, digests: Mapping[str, Digest]) -> LayerPlan:
    return replace(item, files=tuple(replace(file, digest=digests[file.path]) for file in item.files))


def _check_structure(model: LockedModel, snapshot: FolderSnapshot, chosen: Selection) -> None:
    """A folder that transformers could not load is refused before it is locked, with every fault."""
    kept = frozenset(file.path for file in chosen.kept)
    faults = verify(None, _Chosen(FolderTree(snapshot.root), kept), level="quick")
    if faults:
        raise SourceError(
            "\n".join([f"{model.id}: {snapshot.root} is not a model that can be loaded", *report(faults)]),
            hint="mend the folder; --exclude GLOB leaves a file out",
        )


def _choose(model: LockedModel, files: Sequence[SourceFile], *, skipped: Sequence[Excluded] = ()) -> Selection:
    chosen = select(files, include=model.include, exclude=model.exclude, skipped=skipped)
    if not chosen.kept:
        reasons = sorted({left.reason for left in chosen.excluded})
        raise SourceError(
            f"{model.id}: {model.source} has no file to bake; every one is left out: {', '.join(reasons)}",
            hint="--include GLOB brings files back",
        )
    return chosen


@dataclass(frozen=True)
class _Chosen:
    """The chosen files of a tree. It plays the role of `bake.entrypoint.tree.Tree`."""

    tree: Tree
    paths: frozenset[str]

    def entries(self) -> Mapping[str, Entry]:
        return {path: entry for path, entry in self.tree.entries().items() if path in self.paths}

    def open(self, path: str) -> BinaryIO:
        return self.tree.open(path)
