"""Seen: what the GPU driver tells, through its library or else through nvidia-smi. No driver is no fault here."""

from __future__ import annotations

import ctypes
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from bake.entrypoint.machine import nvml, smi
from bake.entrypoint.machine.gpu import VISIBLE, Gpu, visible

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

LIBRARY = "libnvidia-ml.so.1"
"""The container runtime puts it there from the host's driver."""

_SECONDS = 60
"""A healthy driver answers in milliseconds; without its persistence daemon it wakes many GPUs one after the other."""

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """`note` says how the GPUs were looked for, where none is left to use."""

    gpus: tuple[Gpu, ...] = ()
    driver: str | None = None
    cuda: tuple[int, int] | None = None
    note: str = ""


def see(environ: Mapping[str, str]) -> Seen:
    """The GPUs that CUDA would use here. Never raises."""
    silent = Seen(note=f"the GPU driver did not answer in {_SECONDS} seconds")
    return _usable(_in_time(_ask, _SECONDS) or silent, environ)


def _usable(seen: Seen, environ: Mapping[str, str]) -> Seen:
    left = visible(seen.gpus, environ)
    if left or not seen.gpus:
        return replace(seen, gpus=left)
    return replace(seen, gpus=(), note=f"{VISIBLE}={environ.get(VISIBLE)!r} hides all {len(seen.gpus)} of them")


def _ask() -> Seen:
    try:
        answer = nvml.ask(ctypes.CDLL(LIBRARY))
    except (OSError, nvml.NvmlError) as error:
        return _ask_program(because=str(error))
    note = "" if answer.gpus else "the GPU driver is here and names no GPU"
    return Seen(gpus=answer.gpus, driver=answer.driver, cuda=answer.cuda, note=note)


def _ask_program(*, because: str) -> Seen:
    try:
        answer = smi.ask()
    except smi.SmiError as error:
        return Seen(note=f"{because}; {error}")
    return Seen(gpus=answer.gpus, driver=answer.driver, cuda=answer.cuda, note="" if answer.gpus else because)


def _in_time(step: Callable[[], _Answer], seconds: float) -> _Answer | None:
    """What the step returns, or None when it takes longer: a call into a driver that hangs cannot be broken off."""
    answers: list[_Answer] = []
    thread = threading.Thread(target=lambda: answers.append(step()), daemon=True)
    thread.start()
    thread.join(seconds)
    return answers[0] if answers else None
