"""`verify`: a folder, an OCI layout or a model of the lock, against what it should be. Every fault at once."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bake import plan
from bake.api.workers import Workers, results
from bake.api.workspace import shown_path
from bake.digest import Digest, stream_digest
from bake.entrypoint.fault import report
from bake.entrypoint.tree import FolderTree
from bake.entrypoint.verify import load_record, verify
from bake.errors import CheckFailed, ImageError, UsageError
from bake.image import validate
from bake.layout import Layout
from bake.lock import ModelId
from bake.record import Record
from bake.rootfs import RootFS
from bake.select import select
from bake.snapshot import SourceFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bake.api.workspace import Workspace
    from bake.entrypoint.fault import Fault
    from bake.entrypoint.tree import Tree
    from bake.entrypoint.verify import Level
    from bake.image import Blobs, Descriptor, Image
    from bake.lock import Lock
    from bake.record import RecordedModel

    Advance = Callable[[int], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedModel:
    """One model's outcome: `files` of `size` bytes in all.

    `against` says what they were compared with; None is nothing.
    """

    name: str
    against: str | None
    folder: str
    files: int
    size: int
    faults: tuple[Fault, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What a verification found. `image_faults` are those of the image around the models; `altered` names layers."""

    target: str
    level: Level
    seconds: float
    models: tuple[VerifiedModel, ...]
    image_faults: tuple[str, ...] = ()
    altered: tuple[Digest, ...] = ()

    @property
    def fault_count(self) -> int:
        return len(self.image_faults) + sum(len(model.faults) for model in self.models)

    def lines(self) -> tuple[str, ...]:
        """Every fault, for a person: where, what was expected, what was found, what to do."""
        faults = (line for model in self.models for line in report(model.faults, folder=model.folder))
        return (*self.image_faults, *faults)


def refuse(verified: Verified) -> None:
    """Raise CheckFailed with every fault, if there is one."""
    if count := verified.fault_count:
        raise CheckFailed("\n".join([f"{verified.target}: {count} fault{'s' if count > 1 else ''}", *verified.lines()]))


def verify_target(workspace: Workspace, target: str, *, level: Level, against: ModelId | None = None) -> Verified:
    """Verify a folder, `oci:PATH[@DIGEST]`, or NAME@VERSION (its image in `dist/`). Faults are returned, not raised.

    Raises UsageError for a target of another form, LockError for a model that the lock does not hold, and ImageError
    for an image that cannot be read at all.
    """
    if target.startswith("oci:") or (Path(target) / "oci-layout").is_file():
        return _verify_layout(workspace, target.removeprefix("oci:"), level=level, against=against)
    if target and Path(target).is_dir():
        return _verify_folder(workspace, Path(target), level=level, against=against)
    model = _model_id(target)
    path = workspace.default_output(workspace.load().find(model).id)
    if not path.exists():
        raise ImageError(
            f"{model} is not in a folder: no {shown_path(path)}",
            hint=f"bake build {model} --to oci; or in Docker: bake run {model} --gpus none -- verify --level full",
        )
    return _verify_layout(workspace, str(path), level=level, against=against or model)


def verify_image(
    image: Image,
    blobs: Blobs,
    *,
    target: str,
    expected: Record | None = None,
    level: Level = "quick",
    advance: Advance = lambda _: None,
) -> Verified:
    """Verify an image: its documents, its blobs, and every model in it against the image's own record.

    `full` hashes every layer; `quick` looks into bake's own, and at the sizes of the base's.
    """
    start = time.monotonic()
    read = image.manifest.layers[0 if level == "full" else _base_layers(image) :]
    altered = _altered_blobs(read, blobs, advance) if level == "full" else {}
    faults = [*validate(image, blobs), *(_altered(layer, found) for layer, found in altered.items())]
    rootfs = RootFS(blobs)
    for layer in read:
        try:
            rootfs.apply(layer)
        except ImageError as error:
            faults.append(error.message)
    content = rootfs.read(plan.RECORD)
    if content is None:
        faults.append(f"no /{plan.RECORD}: expected an image that bake built")
    record = Record(models=()) if content is None else Record.parse(content, where=f"/{plan.RECORD}")
    if expected is not None and content is not None and record != expected:
        faults.append("the record in the image is not that of the lock: the image was built from another state of it")
    faults += _environment_faults(image, record)
    models = [
        _verify_model(model, rootfs.tree(model.path.lstrip("/")), level=level, against="its record", advance=advance)
        for model in record.models
    ]
    return Verified(
        target=target,
        level=level,
        seconds=time.monotonic() - start,
        models=tuple(models),
        image_faults=tuple(dict.fromkeys(faults)),
        altered=tuple(altered),
    )


def _base_layers(image: Image) -> int:
    """How many layers are the base's and need not be read; 0 where the image does not say."""
    text = image.config.labels.get(plan.BASE_LAYERS, "")
    return int(text) if text.isdecimal() else 0


def _environment_faults(image: Image, record: Record) -> Iterator[str]:
    """VERL_MODEL_PATH and its like are what the entrypoint trains: they must lead to the models of the record."""
    for model in record.models:
        for variable in (plan.ENVIRONMENT[role] for role in model.roles):
            if (found := image.config.environment.get(variable)) != model.path:
                yield f"environment: expected {variable}={model.path}, found {found or 'nothing'}"


def _verify_layout(workspace: Workspace, place: str, *, level: Level, against: ModelId | None) -> Verified:
    path, at, digest = place.rpartition("@sha256:")
    path, digest = (path, f"sha256:{digest}") if at else (place, "")
    layout = Layout(Path(path))
    image = layout.image(digest=_digest(digest) if digest else None)
    expected = plan.plan_image(workspace.load(), against).record if against else None
    size = sum(layer.size for layer in image.manifest.layers)
    size += sum(file.size for file in expected.models[0].files) if expected else size
    with workspace.progress.task(f"verifying {path}", size if level == "full" else 0) as advance:
        verified = verify_image(image, layout, target=f"oci:{path}", expected=expected, level=level, advance=advance)
    for layer in verified.altered:  # so that the next build does not take it for what it was
        workspace.store.forget(layout.blob(layer))
    return verified


def _verify_folder(workspace: Workspace, folder: Path, *, level: Level, against: ModelId | None) -> Verified:
    start = time.monotonic()
    cases = list(_folder_cases(workspace, folder, against=against))
    size = sum(file.size for model, _, _ in cases if model for file in model.files)
    with workspace.progress.task(f"verifying {folder}", size if level == "full" else 0) as advance:
        models = tuple(
            _verify_model(model, FolderTree(place), level=level, against=source, folder=str(place), advance=advance)
            for model, place, source in cases
        )
    return Verified(target=str(folder), level=level, seconds=time.monotonic() - start, models=models)


def _folder_cases(
    workspace: Workspace, folder: Path, *, against: ModelId | None
) -> Iterator[tuple[RecordedModel | None, Path, str | None]]:
    """Each model in a folder, where it lies, and what it is compared with: a record beside it, or the lock."""
    root = folder.resolve()
    if against is not None:
        yield _recorded(workspace.load(), against), folder, f"{against} in {workspace.path.name}"
    elif (root / plan.RECORD).is_file():
        for model in load_record(root / plan.RECORD).models:
            yield model, folder / model.path.lstrip("/"), f"{folder}/{plan.RECORD}"
    elif (beside := _record_beside(root)) is not None:
        yield beside, folder, "the record beside it"
    elif (source := _model_of_source(workspace, root)) is not None:
        yield _recorded(workspace.load(), source), folder, f"{source} in {workspace.path.name}"
    else:
        yield None, folder, None


def _record_beside(root: Path) -> RecordedModel | None:
    """The record of a model's folder in an unpacked image: `opt/models/NAME` has it at `opt/bake/record.json`."""
    with contextlib.suppress(IndexError, ImageError):
        top = root.parents[2]
        models = load_record(top / plan.RECORD).models if (top / plan.RECORD).is_file() else ()
        return next((model for model in models if top / model.path.lstrip("/") == root), None)
    return None


def _model_of_source(workspace: Workspace, root: Path) -> ModelId | None:
    """The model of the lock whose source a folder is. Raises UsageError where there are several."""
    if not workspace.path.exists():
        return None
    found = [
        model.id
        for model in workspace.load().models
        if model.source.startswith("dir://") and workspace.source_folder(model).resolve() == root and model.is_locked
    ]
    if len(found) > 1:
        names = ", ".join(map(str, found))
        raise UsageError(
            f"{root} is the source of several models: {names}", hint="say which, with --against NAME@VERSION"
        )
    return found[0] if found else None


def _verify_model(
    model: RecordedModel | None,
    tree: Tree,
    *,
    level: Level,
    against: str | None,
    advance: Advance,
    folder: str | None = None,
) -> VerifiedModel:
    entries = tree.entries()
    listed = [SourceFile(path=path, size=entry.size) for path, entry in entries.items() if path != "."]
    left_out = frozenset(left.path for left in select(listed).excluded)
    in_image = folder is None
    return VerifiedModel(
        name=f"{model.name}@{model.version}" if model else "a model without a record",
        against=against,
        folder=folder or (model.path if model else ""),
        files=len(model.files) if model else len(listed) - len(left_out),
        size=sum(file.size for file in model.files) if model else sum(file.size for file in listed),
        faults=_interruptible(
            lambda watched: verify(
                model,
                tree,
                level=level,
                ignore=frozenset() if in_image else left_out,
                check_modes=in_image,
                advance=watched,
            ),
            advance,
        ),
    )


def _interruptible(work: Callable[[Advance], tuple[Fault, ...]], advance: Advance) -> tuple[Fault, ...]:
    """Do in a thread what starts threads of its own, so that Ctrl-C ends them all at the next byte they count."""
    with Workers() as workers:
        (faults,) = results([workers.compute(work, workers.watch(advance))])
    return faults


def _altered_blobs(layers: tuple[Descriptor, ...], blobs: Blobs, advance: Advance) -> dict[Digest, Digest]:
    """Layers whose bytes are not those of their digest, with the digest that the bytes have."""
    present = [layer for layer in layers if blobs.size(layer.digest) is not None]
    with Workers() as workers:
        watched = workers.watch(advance)
        found = results(workers.compute(_blob_digest, layer, blobs, watched) for layer in present)
    return {layer.digest: digest for layer, digest in zip(present, found, strict=True) if digest != layer.digest}


def _altered(layer: Digest, found: Digest) -> str:
    return f"layer {layer} is altered: its bytes have the digest {found}; the next build writes it anew"


def _blob_digest(layer: Descriptor, blobs: Blobs, advance: Advance) -> Digest:
    with blobs.open(layer.digest) as stream:
        return stream_digest(stream, advance=advance)[0]


def _recorded(lock: Lock, model: ModelId) -> RecordedModel:
    return plan.plan_image(lock, model).record.models[0]


def _model_id(target: str) -> ModelId:
    try:
        return ModelId.parse(target)
    except ValueError as error:
        raise UsageError(
            f"expected a folder, oci:PATH or NAME@VERSION, found {target!r}",
            hint="there is no such folder here; bake list shows the models of the lock",
        ) from error


def _digest(text: str) -> Digest:
    try:
        return Digest.parse(text)
    except ValueError as error:
        raise UsageError(f"expected oci:PATH@sha256:…: {error}") from error
