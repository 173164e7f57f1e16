"""Gpu: one GPU that a program may use, and which of them CUDA_VISIBLE_DEVICES leaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

VISIBLE = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU that this container may use, or one MIG instance; `index` is then that of the GPU it is cut from.

    `memory` and `free` are bytes, 0 where the driver does not tell; `capability` is CUDA's, as (9, 0).
    """

    index: int
    name: str
    memory: int
    free: int
    capability: tuple[int, int] | None = None
    uuid: str = ""


def visible(gpus: Sequence[Gpu], environ: Mapping[str, str]) -> tuple[Gpu, ...]:
    """Those that CUDA would use: of a GPU that MIG has cut up, the first instance, unless one is named.

    CUDA C++ Programming Guide, "CUDA Environment Variables": indices or (beginnings of) UUIDs, separated by commas;
    the first one that names nothing ends the list. An empty value leaves none.

    NVIDIA_VISIBLE_DEVICES is not read: the container runtime has obeyed it by now, and where CDI is used it is `void`
    in containers that do have GPUs.
    """
    wanted = environ.get(VISIBLE)
    if wanted is None:
        return tuple(_first_of_each(gpus))
    return tuple(_named(gpus, [word.strip() for word in wanted.split(",")]))


def _first_of_each(gpus: Sequence[Gpu]) -> Iterator[Gpu]:
    seen: set[int] = set()
    for gpu in gpus:
        if gpu.index not in seen:
            seen.add(gpu.index)
            yield gpu


def _named(gpus: Sequence[Gpu], words: Sequence[str]) -> Iterator[Gpu]:
    for word in words:
        found = next((gpu for gpu in gpus if _is_named(gpu, word)), None)
        if found is None:
            return
        yield found


def _is_named(gpu: Gpu, word: str) -> bool:
    if word.isdecimal():
        return gpu.index == int(word[:9])  # no machine has more, and no integer of a million digits is read
    return word.startswith(("GPU-", "MIG-")) and gpu.uuid.startswith(word)
