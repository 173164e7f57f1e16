from __future__ import annotations

from typing import TYPE_CHECKING

from bake.entrypoint.finding import Finding
from bake.entrypoint.machine import Machine
from bake.entrypoint.preflight.limits import check_limits
from tests.entrypoint.preflight.situations import situation

if TYPE_CHECKING:
    from pathlib import Path

TWO = {"trainer.nnodes": 2}


def test_few_open_files_are_a_warning() -> None:
    assert list(check_limits(situation(machine=Machine(nofile=1024)))) == [
        Finding(
            check="limits",
            severity="warning",
            what="a process may open 1,024 files",
            why="Ray wants at least 4,096: below, connections break under load, as Too many open files",
            todo="docker run --ulimit nofile=65536:65536",
        )
    ]


def test_little_locked_memory_is_a_warning_with_infiniband_and_several_nodes(tmp_path: Path) -> None:
    (tmp_path / "dev/infiniband").mkdir(parents=True)

    assert list(check_limits(situation(TWO, machine=Machine(memlock=8 << 20), root=tmp_path))) == [
        Finding(
            check="limits",
            severity="warning",
            what="a process may lock 8.0 MiB of memory, and this machine has InfiniBand or RoCE",
            why="NCCL registers its buffers with the network card, and fails: ibv_reg_mr … Cannot allocate memory",
            todo="docker run --ulimit memlock=-1 --cap-add=IPC_LOCK",
        )
    ]


def test_little_locked_memory_is_right_without_infiniband(tmp_path: Path) -> None:
    assert list(check_limits(situation(TWO, machine=Machine(memlock=8 << 20), root=tmp_path))) == []


def test_no_limits_are_right(tmp_path: Path) -> None:
    (tmp_path / "dev/infiniband").mkdir(parents=True)

    assert list(check_limits(situation(TWO, root=tmp_path))) == []
