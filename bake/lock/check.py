"""What must hold between the keys of a lock: a model is whole, and what it names is there. Pure; places come from the
table that was read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bake.lock import SCRATCH
from bake.record import set_digest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bake.lock import Lock, LockedModel, ModelId
    from bake.lock.table import Table

_PACK_ANEW = "delete packer and every [[model.layer]] record of the model; the next build writes them anew"


def check_model(model: LockedModel, table: Table) -> None:
    """Raise LockError unless a model is resolved whole or not at all, and proves itself."""
    _check_whole(model, table)
    _check_source(model, table)
    _check_files(model, table)
    _check_digests(model, table)
    _check_resharded(model, table)
    _check_layers(model, table)


def check_bases(lock: Lock, table: Table) -> None:
    known = {SCRATCH, *(base.name for base in lock.bases)}
    for number, model in enumerate(lock.models):
        if model.base not in known:
            raise table.error(
                f"model[{number}].base",
                f"expected one of {', '.join(sorted(known))}, found {model.base!r}",
                hint=f'add a [base.{model.base}] table with an image, or set base = "{SCRATCH}"',
            )


def check_models(lock: Lock, table: Table) -> None:
    ids = {model.id for model in lock.models}
    seen: dict[ModelId, int] = {}
    for number, model in enumerate(lock.models):
        if (first := seen.setdefault(model.id, number)) != number:
            raise table.error(
                f"model[{number}]",
                f"{model.id} is already model[{first}]",
                hint="a version is immutable: delete one of the two, or give it another version",
            )
        for role, other in (("critic", model.critic), ("reward_model", model.reward_model)):
            if other is not None and other not in ids:
                raise table.error(
                    f"model[{number}].{role}", f"no model {other} in the lock", hint=f"bake add {other} SOURCE"
                )


def _check_whole(model: LockedModel, table: Table) -> None:
    must: dict[str, object] = {
        "set_digest": model.set_digest,
        "asked_digest": model.asked_digest,
        "file": model.files or None,
    }
    single = (model.commit, model.packer, model.resharder, table.optional_size("size"))
    may = (*single, *model.excluded, *model.resharded, *model.layers)
    absent = [key for key, value in must.items() if value is None]
    if absent and (len(absent) < len(must) or any(value is not None for value in may)):
        raise table.error(
            absent[0],
            f"{model.id} is only half resolved: no {', '.join(absent)}",
            hint=_resolve_anew(model),
        )


def _check_source(model: LockedModel, table: Table) -> None:
    """A Hub repository has revisions and commits, a folder has neither.

    Where what is asked was edited, the commit may still be that of the source before.
    """
    on_hub = model.source.startswith("hf://")
    if model.revision is not None and not on_hub:
        raise table.error("revision", f"expected none, since {model.source} is a folder, found {model.revision!r}")
    if not model.is_locked or model.is_stale:
        return
    if on_hub and model.commit is None:
        raise table.error("commit", f"{model.id} is only half resolved: no commit", hint=_resolve_anew(model))
    if model.commit is not None and not on_hub:
        raise table.error("commit", f"expected none, since {model.source} is a folder, found {model.commit!r}")


def _check_files(model: LockedModel, table: Table) -> None:
    paths: set[str] = set()
    for file in model.files:
        if file.path in paths:
            raise table.error("file", f"{file.path!r} is listed twice")
        paths.add(file.path)
    for path in sorted(path for path in paths if "/" in path):
        folders = (path[:at] for at in range(len(path)) if path[at] == "/")
        if folder := next((folder for folder in folders if folder in paths), None):
            raise table.error("file", f"{folder!r} is listed as a file and as a folder, of {path!r}")
    for left in model.excluded:
        if left.path in paths:
            raise table.error("excluded", f"{left.path!r} is listed as a file and as excluded")


def _check_digests(model: LockedModel, table: Table) -> None:
    """The files are those that were resolved: their set_digest is over paths and bytes, their sum over sizes."""
    if model.set_digest is None:
        return
    found: Mapping[str, tuple[object, object]] = {
        "set_digest": (model.set_digest, set_digest(model.files)),
        "size": (table.optional_size("size"), model.size),
    }
    for key, (locked, computed) in found.items():
        if locked is not None and locked != computed:
            raise table.error(
                key,
                f"expected {locked}, found {computed} over the files listed: a record of {model.id} was edited, lost "
                "or merged wrongly",
                hint=_resolve_anew(model),
            )


def _check_resharded(model: LockedModel, table: Table) -> None:
    """Each file that is made of another is a file of the model, and made of one only; the other is then none."""
    if (model.resharder is None) != (not model.resharded):
        raise table.error(
            "resharded" if model.resharder else "resharder",
            "missing: resharder and [[model.resharded]] records stand together",
            hint=_resolve_anew(model),
        )
    paths = {file.path for file in model.files}
    others = {*paths, *(left.path for left in model.excluded)} - model.made
    made: set[str] = set()
    for number, item in enumerate(model.resharded):
        if item.source.path in others:
            what = f"{item.source.path!r} is a file of {model.id}, listed twice, or excluded"
            raise table.error(f"resharded[{number}].path", what, hint=_resolve_anew(model))
        others.add(item.source.path)
        place = f"resharded[{number}].files"
        if not item.files:
            raise table.error(place, "expected a file or more, found none", hint=_resolve_anew(model))
        for path in item.files:
            if path in made or path not in paths:
                what = "is made of another file already" if path in made else f"is no file of {model.id}"
                raise table.error(place, f"{path!r} {what}", hint=_resolve_anew(model))
            made.add(path)


def _check_layers(model: LockedModel, table: Table) -> None:
    """Layers are known for all files or for none, each file in one of them."""
    if model.packer is None and not model.layers:
        return
    if model.packer is None or not model.layers:
        raise table.error(
            "layer" if model.packer else "packer",
            "missing: packer and [[model.layer]] records stand together",
            hint=_PACK_ANEW,
        )
    paths = {file.path for file in model.files}
    seen: dict[str, int] = {}
    for number, layer in enumerate(model.layers):
        if not layer.files:
            raise table.error(f"layer[{number}].files", "expected a file or more, found none", hint=_PACK_ANEW)
        for path in layer.files:
            if path not in paths:
                raise table.error(f"layer[{number}].files", f"{path!r} is no file of {model.id}", hint=_PACK_ANEW)
            if path in seen:
                raise table.error(
                    f"layer[{number}].files", f"{path!r} is in layer[{seen[path]}] already", hint=_PACK_ANEW
                )
            seen[path] = number
    if without := sorted(paths - seen.keys()):
        raise table.error("layer", f"{without[0]!r} is in none of them", hint=_PACK_ANEW)


def _resolve_anew(model: LockedModel) -> str:
    return (
        "take the record back from version control; to resolve it anew, delete all of it but what is asked "
        f"and run: bake lock {model.id}"
    )
