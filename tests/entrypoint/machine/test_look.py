from __future__ import annotations

import ctypes
from contextlib import contextmanager
from threading import Event
from typing import TYPE_CHECKING

from bake.entrypoint.machine import Gpu, look, seen
from bake.entrypoint.machine.seen import Seen, see
from tests.entrypoint.machine.fake_nvml import Device, Driver, FakeNvml

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pytest

H100 = Device(name="H100", uuid="GPU-1", memory=(80, 70))


def drive(monkeypatch: pytest.MonkeyPatch, driver: Driver) -> None:
    """Load a stand-in where the driver's library would be loaded: no GPU is here."""
    library = FakeNvml(driver)
    monkeypatch.setattr(ctypes, "CDLL", lambda _: library)


@contextmanager
def driver_that_hangs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """It is let go in the end, so that its thread outlives no test."""
    over = Event()

    def load(_: str) -> None:
        over.wait(60)
        raise OSError("let go")

    monkeypatch.setattr(ctypes, "CDLL", load)
    monkeypatch.setattr(seen, "_SECONDS", 0.1)
    try:
        yield
    finally:
        over.set()


def test_a_machine_without_a_driver_says_where_it_was_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seen, "LIBRARY", "libno-such-driver.so.1")
    monkeypatch.setenv("PATH", str(tmp_path))

    machine = look({})

    assert (machine.gpus, machine.driver, machine.cuda) == ((), None, None)
    assert machine.gpu_note == (
        "libno-such-driver.so.1: cannot open shared object file: No such file or directory; "
        "nvidia-smi: No such file or directory"
    )


def test_gpus_are_those_that_cuda_would_use(monkeypatch: pytest.MonkeyPatch) -> None:
    drive(monkeypatch, Driver(devices=(H100, Device(name="A100", uuid="GPU-2"))))

    assert see({"CUDA_VISIBLE_DEVICES": "0"}) == Seen(
        gpus=(Gpu(index=0, name="H100", memory=80, free=70, capability=(9, 0), uuid="GPU-1"),),
        driver="580.65.06",
        cuda=(13, 0),
    )


def test_gpus_that_are_all_hidden_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    drive(monkeypatch, Driver(devices=(H100, H100)))

    assert see({"CUDA_VISIBLE_DEVICES": ""}) == Seen(
        driver="580.65.06", cuda=(13, 0), note="CUDA_VISIBLE_DEVICES='' hides all 2 of them"
    )


def test_a_driver_that_names_no_gpu_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    drive(monkeypatch, Driver())

    assert see({}).note == "the GPU driver is here and names no GPU"


def test_nvidia_smi_is_asked_where_the_library_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drive(monkeypatch, Driver(init=18))
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 0, 2, 1, 9.0, 550, GPU-9, H100\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert see({}) == Seen(
        gpus=(Gpu(index=0, name="H100", memory=2 << 20, free=1 << 20, capability=(9, 0), uuid="GPU-9"),),
        driver="550",
    )


def test_a_driver_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    with driver_that_hangs(monkeypatch):
        assert see({}) == Seen(note="the GPU driver did not answer in 0.1 seconds")


def test_the_whole_machine_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    drive(monkeypatch, Driver(devices=(H100,) * 8))

    machine = look({})

    assert len(machine.gpus) == 8
    assert machine.shm is not None
