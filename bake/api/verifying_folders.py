"""Verifying folders: a model's source, an unpacked image, or any model's files, against what is known of them."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from bake import plan
from bake.api.verified import Verified, verify_model
from bake.entrypoint.tree import FolderTree
from bake.entrypoint.verify import load_record
from bake.errors import ImageError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bake.api.workspace import Workspace
    from bake.entrypoint.verify import Level
    from bake.lock import Lock, ModelId
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


def _recorded(lock: Lock, model: ModelId) -> RecordedModel:
    return plan.plan_image(lock, model).record.models[0]
