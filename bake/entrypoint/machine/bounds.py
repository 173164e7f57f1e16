"""Bounds: CPUs, memory and open files that this container may use, by its cgroups and by the kernel.

The files: https://docs.kernel.org/admin-guide/cgroup-v2.html and …/cgroup-v1/. A limit of any group above counts too.
"""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_NO_LIMIT = 1 << 60
"""cgroup v1 writes "no limit" as the largest multiple of a page below 2^63."""


def ray_cpus(environ: Mapping[str, str], *, root: Path = Path("/")) -> int:
    """The CPUs that Ray counts by itself: the whole part of the quota, or else all that the machine has, whatever the
    affinity (ray/_private/utils.py get_num_cpus, 2.60).
    """
    everything = os.cpu_count() or 1
    if environ.get("RAY_USE_MULTIPROCESSING_CPU_COUNT"):
        return everything
    groups = root / "sys/fs/cgroup"
    counts = [*_share(_read(groups / "cpu.max").split()), *_period_share(groups / "cpu/cpu.cfs_quota_us")]
    counts += _cpuset(groups / "cpuset/cpuset.cpus")
    return int(min(counts, default=everything))


def memory(*, root: Path = Path("/")) -> int | None:
    """Bytes: the tightest of the cgroup's limits and what the machine has."""
    groups = root / "sys/fs/cgroup"
    files = [*_files(root, "", "memory.max"), *_files(root, "memory", "memory.limit_in_bytes")]
    limits = [value for file in files if (value := _number(_read(groups / file))) is not None]
    return min([*limits, *_machine_memory(root)], default=None)


def limit(name: str, *, soft: bool) -> int | None:
    """A resource limit of this process, None where there is none."""
    value = resource.getrlimit(getattr(resource, name))[0 if soft else 1]
    return None if value == resource.RLIM_INFINITY else value


def _period_share(file: Path) -> Iterator[float]:
    yield from _share([_read(file).strip(), _read(file.with_name("cpu.cfs_period_us")).strip()])


def _share(words: list[str]) -> Iterator[float]:
    """`100000 50000` is 2 cores; `max` and -1 are no limit."""
    if len(words) == 2 and all(word.isdecimal() and len(word) < 20 and int(word) for word in words):
        yield int(words[0]) / int(words[1])


def _files(root: Path, controller: str, name: str) -> list[str]:
    """The file of each group from the process's own up to the top, as far as this container sees them."""
    own = next((path for names, path in _groups(root) if controller in names.split(",") or controller == names), "/")
    steps = [part for part in own.split("/") if part and part != ".."]
    folders = ["/".join(steps[:count]) for count in range(len(steps), -1, -1)]
    return ["/".join(part for part in (controller, folder, name) if part) for folder in folders]


def _groups(root: Path) -> Iterable[tuple[str, str]]:
    """Of each line `0::/path` or `4:cpu,cpuacct:/path`, the controllers and the path."""
    for line in _read(root / "proc/self/cgroup").splitlines():
        parts = line.split(":", 2)
        if len(parts) == 3:
            yield parts[1], parts[2]


def _machine_memory(root: Path) -> Iterator[int]:
    for line in _read(root / "proc/meminfo").splitlines():
        words = line.split()
        if words[:1] == ["MemTotal:"] and len(words) > 1 and words[1].isdecimal():
            yield int(words[1][:18]) * 1024


def _cpuset(path: Path) -> Iterator[int]:
    """How many CPUs a list such as `0-3,8` names."""
    count = 0
    for word in _read(path).strip().split(","):
        first, _, last = word.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            count += int((last or first)[:9]) - int(first[:9]) + 1
    if count > 0:
        yield count


def _number(text: str) -> int | None:
    text = text.strip()
    if not text.isdecimal() or len(text) > 19 or int(text) >= _NO_LIMIT:
        return None
    return int(text)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
