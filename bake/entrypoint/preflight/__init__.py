"""Preflight: what in the machine, the image and the settings would make a training fail, found before it starts.

A check looks and changes nothing. What it cannot know, it does not guess: it says nothing.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from bake.entrypoint.preflight.adapter import check_adapter
from bake.entrypoint.preflight.batches import check_batches
from bake.entrypoint.preflight.choices import check_choices
from bake.entrypoint.preflight.cpus import check_cpus
from bake.entrypoint.preflight.disk import check_disk
from bake.entrypoint.preflight.driver import check_driver
from bake.entrypoint.preflight.flash import check_flash
from bake.entrypoint.preflight.folders import check_folders
from bake.entrypoint.preflight.gpus import check_gpus
from bake.entrypoint.preflight.limits import check_limits
from bake.entrypoint.preflight.loggers import check_loggers
from bake.entrypoint.preflight.memory import check_memory
from bake.entrypoint.preflight.packages import check_packages
from bake.entrypoint.preflight.ray_start import check_ray
from bake.entrypoint.preflight.resume import check_resume
from bake.entrypoint.preflight.shm import check_shm
from bake.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from bake.entrypoint.finding import Finding
    from bake.entrypoint.preflight.situation import Situation

CHECKS: Mapping[str, Callable[[Situation], Iterable[Finding]]] = {
    "gpus": check_gpus,
    "driver": check_driver,
    "verl": check_packages,
    "flash-attn": check_flash,
    "choices": check_choices,
    "lora": check_adapter,
    "batches": check_batches,
    "memory": check_memory,
    "cpus": check_cpus,
    "shm": check_shm,
    "limits": check_limits,
    "disk": check_disk,
    "resume": check_resume,
    "folders": check_folders,
    "ray": check_ray,
    "wandb": check_loggers,
}
"""By the name that --no-preflight takes, in the order in which they are told."""


def preflight(situation: Situation, *, skip: Collection[str] = (), also: Collection[str] = ()) -> tuple[Finding, ...]:
    """Every finding of every check but those in `skip`. `also` are names of checks that are known elsewhere.

    Raises UsageError for a name in `skip` that is no check.
    """
    known = (*CHECKS, *also)
    unknown = sorted(set(skip) - set(known))
    if unknown:
        raise UsageError(
            f"no preflight check is called {' or '.join(repr(name) for name in unknown)}", hint=_hint(unknown, known)
        )
    return tuple(finding for name, check in CHECKS.items() if name not in skip for finding in check(situation))


def _hint(unknown: Collection[str], known: Collection[str]) -> str:
    near = dict.fromkeys(match for name in unknown for match in difflib.get_close_matches(name, known, cutoff=0.5))
    asked = f"did you mean {' or '.join(near)}? " if near else ""
    return f"{asked}the checks are {', '.join(known)}"
