"""The lock's verbs: asked -> resolved.

A version is immutable: what one resolved to changes only when a person says so.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from bake.api.bases import find_digest
from bake.api.resolving import resolve, with_known_layers
from bake.digest import Digest
from bake.errors import LockError, OutputError, SourceError, UsageError
from bake.lock import (
    SCRATCH,
    Base,
    Lock,
    LockedModel,
    Wheel,
    check_override,
    check_revision,
    check_shard_size,
    check_source,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bake.api.workspace import Workspace
    from bake.lock import ModelId

_REPO_ID = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*", re.ASCII)
_HUB_PAGES = ("https://huggingface.co/", "https://hf.co/")

DEFAULT_BASE = Base(
    name="vllm",
    image="verlai/verl:vllm024.dev2",
    digest=Digest("b867883b0dd011363e69ab2ab344922a28c5bd0409e2a324e3ee70fb27ca7543"),
    verl="0.9.1",
    wheels=(
        Wheel(
            name="verl",
            version="0.9.1",
            digest=Digest("db6e6f2a8d9d5808d9ec32d357a42319fdc6967df688ff9d9810050f49bfdd14"),
        ),
        Wheel(
            name="transferqueue",
            version="0.1.11",
            digest=Digest("dfc5adb71e55732bb239f964d8e7fecea6eeaa66d9bdbdcc0b12ffe9a3b0c120"),
        ),
        Wheel(
            name="transformers",
            version="5.10.4",
            digest=Digest("8c5b99b141b53619435a76629b0284f04d27ff46d788b463fc0ecb23b8ff130e"),
        ),
    ),
)
"""The base that `bake init` writes: the image that verl 0.9's own CI runs in, by digest, and what that image lacks."""


def init(workspace: Workspace) -> None:
    """Write a new lock that knows one base. Raises OutputError where there is a lock already."""
    with workspace.editing():
        if workspace.path.exists():
            raise OutputError(
                f"{workspace.path} exists already", hint="bake add NAME@VERSION SOURCE adds a model to it"
            )
        workspace.save(Lock(bases=(DEFAULT_BASE,)))


def asked_model(
    workspace: Workspace,
    model: ModelId,
    source: str,
    *,
    revision: str | None = None,
    base: str | None = None,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    max_shard_size: str | None = None,
    critic: ModelId | None = None,
    reward_model: ModelId | None = None,
    trust_remote_code: bool = False,
    overrides: Sequence[str] = (),
) -> LockedModel:
    """What is asked for, as a model that is not resolved yet. Raises UsageError for a source, shard size or override
    of an unknown form.
    """
    lock = workspace.load()
    return LockedModel(
        id=model,
        source=_source(workspace, source),
        revision=_revision(revision, source) if revision is not None else None,
        include=tuple(include),
        exclude=tuple(exclude),
        max_shard_size=_shard_size(max_shard_size) if max_shard_size is not None else None,
        base=base or default_base(lock),
        critic=lock.find(critic).id if critic else None,
        reward_model=lock.find(reward_model).id if reward_model else None,
        trust_remote_code=trust_remote_code,
        overrides=tuple(_override(override) for override in overrides),
    )


def add(workspace: Workspace, model: LockedModel) -> LockedModel:
    """Resolve a new model and add it to the lock. Nothing is written where that fails.

    Resolving may take long, so the lock is read again before it is written: what others wrote meanwhile stays.
    """
    lock = workspace.load()
    _check_new(lock, model)
    resolved = resolve(workspace, model)
    with workspace.editing():
        lock = workspace.load()
        _check_new(lock, model)
        workspace.save(lock.with_model(resolved))
    return resolved


def _check_new(lock: Lock, model: LockedModel) -> None:
    if any(known.id == model.id for known in lock.models):
        raise LockError(
            f"{model.id} is in the lock already, and a version is immutable",
            hint=f"add it under another version, or resolve it anew with: bake lock --upgrade {model.id}",
        )
    _check_base(lock, model.base)


def default_base(lock: Lock) -> str:
    """The base of a model that asks for none: the lock's only one. Raises LockError where there are several."""
    if not lock.bases:
        return SCRATCH
    if len(lock.bases) > 1:
        names = ", ".join(base.name for base in lock.bases)
        raise LockError(f"the lock has several bases: {names}", hint="say which, with --base NAME")
    return lock.bases[0].name


def lock_models(workspace: Workspace, wanted: Sequence[ModelId], *, upgrade: bool = False) -> tuple[str, ...]:
    """Resolve what is not resolved yet; a model that is named and is resolved is compared with its source.

    With `upgrade`, the named models are resolved anew. Each model is saved as soon as it is resolved. Returns the
    names of what changed. Raises LockError where a stale model is to be resolved in silence, SourceError where a
    source differs.
    """
    lock = workspace.load()
    changed = _lock_bases(workspace, lock)
    for model in [lock.find(wanted_id) for wanted_id in wanted] if wanted else lock.models:
        locked = _lock_one(workspace, model, named=bool(wanted), upgrade=upgrade)
        if locked != model:
            _put(workspace, model, locked)
            changed.append(str(locked.id))
    with workspace.editing():
        workspace.save(workspace.load())  # in canonical form
    return tuple(changed)


def _put(workspace: Workspace, before: LockedModel, after: LockedModel) -> None:
    """Save one model that was resolved, unless somebody has changed it meanwhile; what else was changed stays."""
    with workspace.editing():
        lock = workspace.load()
        if before not in lock.models:
            raise LockError(f"{before.id} was changed in {workspace.path.name} while it was resolved", hint="bake lock")
        workspace.save(lock.with_model(after))


def check_lock(workspace: Workspace, wanted: Sequence[ModelId] = ()) -> tuple[str, ...]:
    """What `bake lock` would have to do, in words; nothing where the lock is complete. Writes nothing.

    The models named are compared with their sources as well.
    """
    lock = workspace.load()
    models = [lock.find(model) for model in wanted] or lock.models
    faults = [f"{model.id}: not resolved yet" for model in models if not model.is_locked]
    faults += [f"{model.id}: edited after it was resolved" for model in models if model.is_stale]
    faults += [f"base {base.name}: no digest" for base in lock.bases if base.digest is None]
    if not workspace.is_canonical():
        faults.append(f"{workspace.path.name}: not in canonical form")
    for model in models if wanted else ():
        if model.is_locked and not model.is_stale:
            faults += differences(model, resolve(workspace, model, commit=model.commit))
    return tuple(faults)


def differences(locked: LockedModel, found: LockedModel) -> tuple[str, ...]:
    """Each file in which a source is not what was locked, in words."""
    before = {file.path: file for file in locked.files}
    after = {file.path: file for file in found.files}
    lines = [f"{locked.id}: {path}: gone from {locked.source}" for path in before.keys() - after.keys()]
    lines += [f"{locked.id}: {path}: new in {locked.source}" for path in after.keys() - before.keys()]
    lines += [
        f"{locked.id}: {path}: expected {before[path].digest} of {before[path].size} bytes, "
        f"found {after[path].digest} of {after[path].size} bytes"
        for path in before.keys() & after.keys()
        if before[path] != after[path]
    ]
    return tuple(sorted(lines))


def _lock_one(workspace: Workspace, model: LockedModel, *, named: bool, upgrade: bool) -> LockedModel:
    if not model.is_locked or upgrade:
        return resolve(workspace, model)
    if model.is_stale:
        raise LockError(
            f"{model.id}: what is asked (source, revision, include, exclude or max_shard_size) was edited after it was "
            "resolved",
            hint=f"a version is immutable: add a new one, or resolve this one anew: bake lock --upgrade {model.id}",
        )
    if not named:
        return with_known_layers(workspace.store, model)
    found = resolve(workspace, model, commit=model.commit)
    if lines := differences(model, found):
        raise SourceError(
            "\n".join(lines),
            hint="a changed model is a new version: bake add NAME@NEW_VERSION SOURCE; to give this version up instead: "
            f"bake lock --upgrade {model.id}",
        )
    kept = found if found.layers else replace(found, packer=model.packer, layers=model.layers)
    return replace(kept, license=found.license or model.license, comment=model.comment)


def _lock_bases(workspace: Workspace, lock: Lock) -> list[str]:
    """Resolve and save bases that have no digest; returns the names of those that have one now."""
    changed = []
    for base in [base for base in lock.bases if base.digest is None]:
        if (digest := find_digest(workspace, base)) is None:
            workspace.progress.warn(
                f"base {base.name}: --offline allows no network to ask what {base.image} is now; run it without, "
                f'or write digest = "sha256:…" below [base.{base.name}]'
            )
            continue
        with workspace.editing():
            fresh = workspace.load()
            if base in fresh.bases:
                workspace.save(fresh.with_base(replace(base, digest=digest)))
        changed.append(f"base {base.name}")
    return changed


def _revision(text: str, source: str) -> str:
    if not source.startswith("hf://"):
        raise UsageError(f"--revision: expected a source on the Hub, found {source}")
    try:
        return check_revision(text)
    except ValueError as error:
        raise UsageError(f"--revision: {error}") from error


def _shard_size(text: str) -> str:
    try:
        return check_shard_size(text)
    except ValueError as error:
        raise UsageError(f"--max-shard-size: {error}") from error


def _override(text: str) -> str:
    try:
        return check_override(text)
    except ValueError as error:
        raise UsageError(f"--override: {error}", hint="for example --override algorithm.adv_estimator=grpo") from error


def _source(workspace: Workspace, text: str) -> str:
    try:
        return check_source(text)
    except ValueError as error:
        hint = f"hf://{text}" if _REPO_ID.fullmatch(text) else None
        if (workspace.folder / text).is_dir():
            hint = f"dir://{text}"
        elif text.startswith(_HUB_PAGES):
            hint = "hf://" + "/".join(text.partition("://")[2].split("/")[1:3])
        raise UsageError(str(error), hint=f"did you mean {hint}?" if hint else None) from error


def _check_base(lock: Lock, name: str) -> None:
    if name != SCRATCH and lock.find_base(name) is None:
        known = ", ".join([SCRATCH, *(base.name for base in lock.bases)])
        raise LockError(
            f"expected a base of the lock ({known}), found {name!r}",
            hint=f'add a [base.{name}] table with image = "…" to the lock first',
        )
