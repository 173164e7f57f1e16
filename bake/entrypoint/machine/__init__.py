"""Machine: what this container can see of the machine it runs on. `look` asks once; everything else is values."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bake.entrypoint.machine.bounds import limit, memory, ray_cpus
from bake.entrypoint.machine.gpu import Gpu
from bake.entrypoint.machine.seen import see

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Gpu", "Machine", "look"]

_SHM = Path("/dev/shm")  # noqa: S108 - the file system itself, in which nothing is written


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Sizes are bytes; None where something cannot be known here, or has no limit (`memlock`, `nofile`).

    `memory` is what the container may use: its cgroup's limit where it has one. `ray_cpus` is what Ray counts by
    itself. `driver` is the GPU driver's version, `cuda` the newest CUDA that this driver runs.
    `gpu_note` says, where no GPU is seen, where it was looked for. `memlock` is the soft limit; `nofile` the hard one,
    to which Ray raises its own (up to 65,536).
    """

    gpus: tuple[Gpu, ...] = ()
    driver: str | None = None
    cuda: tuple[int, int] | None = None
    gpu_note: str = ""
    ray_cpus: int | None = None
    memory: int | None = None
    shm: int | None = None
    shm_free: int | None = None
    memlock: int | None = None
    nofile: int | None = None


def look(environ: Mapping[str, str]) -> Machine:
    """Ask the driver, the cgroups and the kernel. Never raises, and waits no more than a minute for a sick GPU."""
    seen = see(environ)
    shm, shm_free = _space(_SHM)
    return Machine(
        gpus=seen.gpus,
        driver=seen.driver,
        cuda=seen.cuda,
        gpu_note=seen.note,
        ray_cpus=ray_cpus(environ),
        memory=memory(),
        shm=shm,
        shm_free=shm_free,
        memlock=limit("RLIMIT_MEMLOCK", soft=True),
        nofile=limit("RLIMIT_NOFILE", soft=False),
    )


def _space(folder: Path) -> tuple[int | None, int | None]:
    try:
        usage = shutil.disk_usage(folder)
    except OSError:
        return None, None
    return usage.total, usage.free
