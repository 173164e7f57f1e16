"""Verifying folders: a model's source, an unpacked image, or any model's files, against what is known of them."""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from bake import plan
from bake.api.verified import Verified, verify_model
from bake.entrypoint.tree import FolderTree
from bake.entrypoint.verify import load_record
from bake.errors import ImageError, UsageError
from bake.record import set_digest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bake.api.workspace import Workspace
    from bake.entrypoint.verify import Level
    from bake.lock import ModelId
    from bake.record import RecordedModel


def verify_folder(workspace: Workspace, folder: Path, *, level: Level, against: ModelId | None) -> Verified:
    """Verify every model in a folder. Raises UsageError where it may be several, LockError and ImageError."""
    start = time.monotonic()
    cases = list(_folder_cases(workspace, folder, against=against))
    size = sum(file.size for model, _, _ in cases if model for file in model.files)
    with workspace.progress.task(f"verifying {folder}", size if level == "full" else 0) as advance:
        models = tuple(
            verify_model(model, FolderTree(place), level=level, against=source, folder=str(place), advance=advance)
            for model, place, source in cases
        )
    return Verified(target=str(folder), level=level, seconds=time.monotonic() - start, models=models)


def _folder_cases(
    workspace: Workspace, folder: Path, *, against: ModelId | None
) -> Iterator[tuple[RecordedModel | None, Path, str | None]]:
    """Each model in a folder, where it lies, and what it is compared with: a record beside it, or the lock."""
    root = folder.resolve()
    if against is not None:
        yield _locked_case(workspace, folder, against)
    elif (root / plan.RECORD).is_file():
        for model in load_record(root / plan.RECORD).models:
            yield model, folder / model.path.lstrip("/"), f"{folder}/{plan.RECORD}"
    elif (beside := _record_beside(root)) is not None:
        yield beside, folder, "the record beside it"
    elif (source := _model_of_source(workspace, root)) is not None:
        yield _locked_case(workspace, folder, source)
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


def _locked_case(workspace: Workspace, folder: Path, model: ModelId) -> tuple[RecordedModel, Path, str]:
    """A model of the lock: as it is baked; or as its source has it, where it is re-sharded and the folder is not."""
    lock = workspace.load()
    recorded, locked = plan.plan_image(lock, model).record.models[0], lock.find(model)
    against = f"{model} in {workspace.path.name}"
    shards = {path for path in locked.made if not any(path == item.source.path for item in locked.resharded)}
    if not shards or any((folder / path).exists() for path in shards):
        return recorded, folder, against
    files = locked.source_files
    return replace(recorded, files=files, set_digest=set_digest(files)), folder, f"{against}, before it is re-sharded"
