"""Against a stand-in program called nvidia-smi on the PATH: no GPU is here."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest

from bake.entrypoint.machine import smi
from bake.entrypoint.machine.gpu import Gpu

if TYPE_CHECKING:
    from pathlib import Path

ROWS = """\
0, 81559, 81000, 9.0, 550.54.15, GPU-1, NVIDIA H100 80GB HBM3
1, [N/A], [N/A], [N/A], 550.54.15, GPU-2, NVIDIA GB10, a
"""
BANNER = "| NVIDIA-SMI 550.54.15    Driver Version: 550.54.15    CUDA Version: 12.4     |"


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_rows_and_the_banner_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, f"[ $# = 0 ] && echo {shlex.quote(BANNER)} || printf %s {shlex.quote(ROWS)}")

    assert smi.ask() == smi.Answer(
        gpus=(
            Gpu(
                index=0,
                name="NVIDIA H100 80GB HBM3",
                memory=81559 << 20,
                free=81000 << 20,
                capability=(9, 0),
                uuid="GPU-1",
            ),
            Gpu(index=1, name="NVIDIA GB10, a", memory=0, free=0, capability=None, uuid="GPU-2"),
        ),
        driver="550.54.15",
        cuda=(12, 4),
    )


def test_the_fields_are_asked_for_in_the_order_in_which_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, f'[ $# = 0 ] || echo "$@" > {tmp_path}/asked')

    smi.ask()

    assert (tmp_path / "asked").read_text() == (
        "--query-gpu=index,memory.total,memory.free,compute_cap,driver_version,uuid,name "
        "--format=csv,noheader,nounits\n"
    )


def test_lines_that_are_no_rows_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, "echo No devices were found; echo x, 1, 1, 9.0, 1, u, n")

    assert smi.ask() == smi.Answer(gpus=(), driver="1", cuda=None)


def test_a_refusal_is_told_in_its_own_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, "echo NVIDIA-SMI has failed; echo second line; exit 9")

    with pytest.raises(smi.SmiError, match=r"^nvidia-smi: NVIDIA-SMI has failed$"):
        smi.ask()


def test_a_refusal_without_a_word_is_told_by_its_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, "exit 9")

    with pytest.raises(smi.SmiError, match=r"^nvidia-smi: exit code 9$"):
        smi.ask()


def test_a_program_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, "exec sleep 60")
    monkeypatch.setattr(smi, "_SECONDS", 0.2)

    with pytest.raises(smi.SmiError, match=r"^nvidia-smi did not answer in 0.2 seconds$"):
        smi.ask()


def test_no_program_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(smi.SmiError, match=r"^nvidia-smi: No such file or directory$"):
        smi.ask()
