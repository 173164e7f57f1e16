"""Disk: where checkpoints go, whether they fit, and whether they outlive the container."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bake.entrypoint.amounts import counted, size
from bake.entrypoint.finding import Finding
from bake.entrypoint.preflight.asked import SECTIONS, Role, nodes, positive, text, uses_critic
from bake.entrypoint.preflight.engines import read_trained
from bake.entrypoint.preflight.mounts import is_container_layer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bake.entrypoint.preflight.situation import Situation
    from bake.entrypoint.settings import Settings

_FOLDER = "trainer.default_local_dir"
_FEW = 3
_CONTENTS = f"{SECTIONS['actor']}.checkpoint.save_contents"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """Bytes of one checkpoint on one node, and how many verl keeps of the actor; None keeps all."""

    size: int
    keep: int | None


def check_disk(situation: Situation) -> Iterator[Finding]:
    folder = text(situation.settings, _FOLDER)
    frequency = situation.settings.number("trainer.save_freq")
    if folder is None or not folder or "://" in folder or "\0" in folder:
        return
    if frequency is not None and frequency <= 0:
        yield _never_saved(frequency)
        return
    there = existing(Path(folder))
    if not os.access(there, os.W_OK | os.X_OK) or not there.is_dir():
        yield _not_writable(current_folder() / folder, there)
        return
    yield from _room_findings(situation, folder=folder, there=there)
    if is_container_layer(there):
        yield _lost(folder)


def existing(path: Path) -> Path:
    """The path itself or the nearest folder above it that is there."""
    absolute = current_folder() / path
    return next((place for place in (absolute, *absolute.parents) if os.path.lexists(place)), Path("/"))


def current_folder() -> Path:
    """The root where the folder that this process was started in is gone: what is relative then leads nowhere else."""
    try:
        return Path.cwd()
    except OSError:
        return Path("/")


def checkpoint(situation: Situation) -> Checkpoint | None:
    """What verl saves by `checkpoint.save_contents`: each role's weights and optimizer as they are trained."""
    settings = situation.settings
    roles: tuple[Role, ...] = ("actor", "critic") if uses_critic(settings) else ("actor",)
    sizes = [_saved(situation, role) for role in roles]
    known = [each for each in sizes if each is not None]
    if len(known) < len(sizes):
        return None
    return Checkpoint(size=sum(known) // (nodes(settings) or 1), keep=_kept(settings))


def _saved(situation: Situation, role: Role) -> int | None:
    model = read_trained(situation, role)
    if model is None:
        return None
    contents = situation.settings.texts(f"{SECTIONS[role]}.checkpoint.save_contents") or ("model", "optimizer")
    sizes = {"model": model.weights.whole, "optimizer": model.optimizer.whole, "hf_model": 2 * model.weights.count}
    return sum(size for name, size in sizes.items() if name in contents)


def _kept(settings: Settings) -> int | None:
    """Since 0.7 the old one of a single kept checkpoint goes after the new one is whole (checkpoint_manager.py)."""
    if settings.flag("trainer.remove_previous_ckpt_in_save"):
        return 2
    keep = positive(settings, "trainer.max_actor_ckpt_to_keep")
    return None if keep is None else max(keep, 2)


def _room_findings(situation: Situation, *, folder: str, there: Path) -> Iterator[Finding]:
    """No error where only the entrypoint decided that checkpoints are saved at all."""
    saved = checkpoint(situation)
    try:
        total, _, free = shutil.disk_usage(there)
    except OSError:
        return
    if saved is None or not saved.size or not total:  # some file systems have no answer, and say 0
        return
    room, wanted = free // saved.size, saved.keep or _FEW
    if room >= wanted:
        return
    kept = f"{saved.keep} are kept at a time" if saved.keep else "all are kept (trainer.max_actor_ckpt_to_keep=null)"
    yield Finding(
        check="disk",
        severity="warning" if room or "trainer.save_freq" not in situation.settings.given else "error",
        what=f"{folder} has room for {counted(room, 'checkpoint')}: {size(free)} free, one takes about "
        f"{size(saved.size)}, and {kept}",
        why="verl stops while it saves, and leaves half a checkpoint: No space left on device",
        todo=f"mount a volume of at least {size(saved.size * wanted * 1.1)} there"
        + ("" if saved.keep == 2 else "; trainer.max_actor_ckpt_to_keep=1 trainer.max_critic_ckpt_to_keep=1 keeps one")
        + f"; or {_CONTENTS}=[model], without the optimizer; or trainer.save_freq=-1, which saves none",
    )


def _not_writable(folder: Path, there: Path) -> Finding:
    return Finding(
        check="disk",
        severity="error",
        what=f"{_FOLDER}={folder}: {there} is no folder that user {os.getuid()} may write to",
        why="verl finds out at its first checkpoint, after hours: Permission denied",
        todo=f"docker run -v HOST_FOLDER:{folder} with a folder that user {os.getuid()} owns, or another {_FOLDER}",
    )


def _lost(folder: str) -> Finding:
    return Finding(
        check="disk",
        severity="warning",
        what=f"{_FOLDER}={folder} lies in the container itself, on no volume",
        why="its checkpoints are gone when the container is removed",
        todo=f"docker run -v HOST_FOLDER:{current_folder() / folder}",
    )


def _never_saved(frequency: float) -> Finding:
    return Finding(
        check="disk",
        severity="warning",
        what=f"trainer.save_freq={frequency:g}: no checkpoint is ever written, not even at the end",
        why="nothing of the training is left when it ends",
        todo="trainer.save_freq=20, which also saves the last step",
    )
