"""Against a stand-in for the library (fake_nvml): no GPU is here."""

from __future__ import annotations

import pytest

from bake.entrypoint.machine.gpu import Gpu
from bake.entrypoint.machine.nvml import Answer, NvmlError, ask
from tests.entrypoint.machine.fake_nvml import Device, Driver, FakeNvml

H100 = Device(name="NVIDIA H100 80GB HBM3", uuid="GPU-1", memory=(85_520_809_984, 85_000_000_000))
A100 = Device(name="NVIDIA A100-SXM4-80GB", uuid="GPU-2", memory=(80, 60), capability=(8, 0), mig=False)


def gpus(*devices: Device) -> tuple[Gpu, ...]:
    return ask(FakeNvml(Driver(devices=devices))).gpus


def test_each_gpu_has_its_name_memory_capability_and_uuid() -> None:
    answer = ask(FakeNvml(Driver(devices=(H100, A100))))

    assert answer == Answer(
        gpus=(
            Gpu(
                index=0,
                name="NVIDIA H100 80GB HBM3",
                memory=85_520_809_984,
                free=85_000_000_000,
                capability=(9, 0),
                uuid="GPU-1",
            ),
            Gpu(index=1, name="NVIDIA A100-SXM4-80GB", memory=80, free=60, capability=(8, 0), uuid="GPU-2"),
        ),
        driver="580.65.06",
        cuda=(13, 0),
    )


def test_cuda_s_number_holds_major_and_minor() -> None:
    assert ask(FakeNvml(Driver(cuda=12080))).cuda == (12, 8)


def test_a_gpu_that_mig_has_cut_up_gives_its_instances() -> None:
    small = Device(name="NVIDIA A100 MIG 1g.10gb", uuid="MIG-a", memory=(10, 9))
    large = Device(name="NVIDIA A100 MIG 2g.20gb", uuid="MIG-b", memory=(20, 19))
    cut = Device(name="NVIDIA A100", uuid="GPU-2", capability=(8, 0), mig=True, instances=(small, None, large))

    assert gpus(H100, cut)[1:] == (
        Gpu(index=1, name="NVIDIA A100 MIG 1g.10gb", memory=10, free=9, capability=(8, 0), uuid="MIG-a"),
        Gpu(index=1, name="NVIDIA A100 MIG 2g.20gb", memory=20, free=19, capability=(8, 0), uuid="MIG-b"),
    )


def test_a_gpu_that_was_lost_is_left_out() -> None:
    assert [gpu.uuid for gpu in gpus(Device(name="x", uuid="GPU-0", lost=True), A100)] == ["GPU-2"]


def test_what_a_gpu_does_not_tell_is_unknown() -> None:
    shared = Device(name="NVIDIA GB10", uuid="GPU-3", memory=None, capability=None)

    assert gpus(shared) == (Gpu(index=0, name="NVIDIA GB10", memory=0, free=0, capability=None, uuid="GPU-3"),)


def test_a_driver_that_cannot_be_initialised_is_an_error() -> None:
    with pytest.raises(NvmlError, match=r"^nvmlInit_v2 failed with 18$"):
        ask(FakeNvml(Driver(init=18)))


def test_a_call_that_an_old_library_lacks_leaves_its_answer_unknown() -> None:
    library = FakeNvml(Driver(devices=(H100,), without=frozenset({"nvmlSystemGetCudaDriverVersion_v2"})))

    assert ask(library).cuda is None


def test_the_library_is_shut_down_when_a_call_fails() -> None:
    library = FakeNvml(Driver(without=frozenset({"nvmlDeviceGetCount_v2"})))

    with pytest.raises(NvmlError, match=r"^nvmlDeviceGetCount_v2 is not in this driver's library$"):
        ask(library)

    assert library.calls == ["nvmlInit_v2", "nvmlShutdown"]
