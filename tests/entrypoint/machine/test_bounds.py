from __future__ import annotations

import os
import resource
from typing import TYPE_CHECKING

import pytest

from bake.entrypoint.machine.bounds import limit, memory, ray_cpus
from tests.entrypoint.files import write

if TYPE_CHECKING:
    from pathlib import Path

MEMINFO = b"MemTotal:       1048576 kB\nMemFree:  1 kB\n"
GIB = 1 << 30


def test_memory_is_the_limit_of_cgroup_v2(tmp_path: Path) -> None:
    write(tmp_path, {"sys/fs/cgroup/memory.max": b"536870912\n", "proc/meminfo": MEMINFO})

    assert memory(root=tmp_path) == GIB // 2


def test_memory_is_the_limit_of_cgroup_v1(tmp_path: Path) -> None:
    write(tmp_path, {"sys/fs/cgroup/memory/memory.limit_in_bytes": b"536870912\n", "proc/meminfo": MEMINFO})

    assert memory(root=tmp_path) == GIB // 2


@pytest.mark.parametrize("content", [b"max\n", b"9223372036854771712\n", b"", b"9" * 5000])
def test_without_a_limit_memory_is_what_the_machine_has(tmp_path: Path, content: bytes) -> None:
    write(tmp_path, {"sys/fs/cgroup/memory.max": content, "proc/meminfo": MEMINFO})

    assert memory(root=tmp_path) == GIB


def test_memory_that_nothing_tells_is_unknown(tmp_path: Path) -> None:
    assert memory(root=tmp_path) is None


def test_ray_counts_the_whole_part_of_a_quota(tmp_path: Path) -> None:
    write(tmp_path, {"sys/fs/cgroup/cpu.max": b"250000 100000\n"})

    assert ray_cpus({}, root=tmp_path) == 2


def test_ray_counts_a_cpuset_of_cgroup_v1(tmp_path: Path) -> None:
    write(tmp_path, {"sys/fs/cgroup/cpuset/cpuset.cpus": b"0-3,8\n"})

    assert ray_cpus({}, root=tmp_path) == 5


def test_ray_counts_all_of_the_machine_without_a_quota(tmp_path: Path) -> None:
    assert ray_cpus({}, root=tmp_path) == os.cpu_count()


def test_ray_can_be_told_to_look_past_the_quota(tmp_path: Path) -> None:
    write(tmp_path, {"sys/fs/cgroup/cpu.max": b"250000 100000\n"})

    assert ray_cpus({"RAY_USE_MULTIPROCESSING_CPU_COUNT": "1"}, root=tmp_path) == os.cpu_count()


def test_a_limit_of_the_process_is_read() -> None:
    assert limit("RLIMIT_NOFILE", soft=True) == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
