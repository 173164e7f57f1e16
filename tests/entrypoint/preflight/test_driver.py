from __future__ import annotations

from typing import TYPE_CHECKING

from bake.entrypoint.finding import Finding
from bake.entrypoint.machine import Machine
from bake.entrypoint.preflight.asked import on_cuda
from bake.entrypoint.preflight.driver import check_driver
from tests.entrypoint.files import write
from tests.entrypoint.preflight.image import install
from tests.entrypoint.preflight.situations import ACTOR, ROLLOUT, gpus, situation

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

    import pytest

H100 = Machine(gpus=gpus(1, capability=(9, 0)), driver="550.54.15", cuda=(12, 4))


def found(
    machine: Machine,
    *,
    environ: Mapping[str, str] | None = None,
    settings: Mapping[str, Any] | None = None,
    **more: Any,
) -> list[Finding]:
    return list(check_driver(situation(settings, machine=machine, environ=environ, **more)))


def torch(folder: Path, monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    """PyTorch as its wheels write torch/version.py; importing it would be an error."""
    version = "\n".join(("from typing import Optional", "__version__ = '2.11.0'", *lines, "")).encode()
    write(folder, {"torch/__init__.py": b"raise AssertionError('imported')", "torch/version.py": version})
    install(monkeypatch, folder)


def test_an_older_major_version_of_cuda_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch(tmp_path, monkeypatch, "cuda: Optional[str] = '13.0'", "hip: Optional[str] = None")

    assert found(H100) == [
        Finding(
            check="driver",
            severity="error",
            what="the GPU driver 550.54.15 runs CUDA up to 12.4, and this image's PyTorch was built with 13.0",
            why="PyTorch would see no GPU: The NVIDIA driver on your system is too old",
            todo="a driver from 580.65 on the host, or an image built with CUDA 12",
        )
    ]


def test_within_one_major_version_any_driver_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch(tmp_path, monkeypatch, "cuda: Optional[str] = '12.8'", "hip: Optional[str] = None")

    assert found(H100) == []


def test_pytorch_comes_before_what_the_base_image_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch(tmp_path, monkeypatch, "cuda: Optional[str] = '12.8'")

    assert found(H100, environ={"CUDA_VERSION": "13.0.2"}) == []


def test_without_pytorch_the_base_image_says_it() -> None:
    assert len(found(H100, environ={"CUDA_VERSION": "13.0.2"})) == 1


def test_nothing_is_said_where_nothing_tells() -> None:
    assert found(H100, environ={"CUDA_VERSION": "new"}) == []


def test_the_compatibility_package_makes_it_a_warning(tmp_path: Path) -> None:
    write(tmp_path, {"usr/local/cuda/compat/libcuda.so.1": b""})

    findings = found(H100, environ={"CUDA_VERSION": "13.0"}, root=tmp_path)

    assert [(finding.severity, finding.why) for finding in findings] == [
        ("warning", "the image brings NVIDIA's compatibility package, which helps on data center GPUs alone")
    ]


def test_a_pytorch_without_cuda_beside_gpus_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch(tmp_path, monkeypatch, "cuda: Optional[str] = None", "git_version = 'x'", "hip: Optional[str] = None")

    assert [finding.what for finding in found(H100)] == ["the PyTorch in this image was built without CUDA"]


def test_a_pytorch_for_amd_is_not_one_without_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch(tmp_path, monkeypatch, "cuda: Optional[str] = None", "hip: Optional[str] = '6.4'")

    assert found(H100) == []


def test_an_image_for_amd_is_given_no_advice_on_cuda(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch(tmp_path, monkeypatch, "cuda: Optional[str] = None", "hip: Optional[str] = '6.4'")

    assert on_cuda(situation()) is False


def test_a_gpu_that_is_newer_than_the_image_s_cuda_is_an_error() -> None:
    machine = Machine(gpus=gpus(2, name="B200", capability=(10, 0)), cuda=(13, 0))

    assert found(machine, environ={"CUDA_VERSION": "12.4"}) == [
        Finding(
            check="driver",
            severity="error",
            what="B200 is of compute capability 10.0, and this image's CUDA is 12.4",
            why="PyTorch has no code for it: no kernel image is available for execution on the device",
            todo="an image built with CUDA 12.8 or later, or other GPUs",
        )
    ]


def test_a_gpu_that_cuda_13_dropped_is_an_error() -> None:
    machine = Machine(gpus=gpus(1, name="V100", capability=(7, 0)), cuda=(13, 0))

    assert [finding.todo for finding in found(machine, environ={"CUDA_VERSION": "13.0"})] == [
        "an image built with CUDA 12, or other GPUs"
    ]


def test_a_gpu_without_bfloat16_is_an_error_where_it_is_asked_for() -> None:
    machine = Machine(gpus=gpus(2, name="T4", capability=(7, 5)), cuda=(12, 4))
    settings = {f"{ROLLOUT}.dtype": "bfloat16", f"{ACTOR}.strategy": "fsdp"}

    assert [(finding.what, finding.why) for finding in found(machine, settings=settings)] == [
        (
            "T4 is of compute capability 7.5",
            (
                "the rollout's bfloat16 (rollout.dtype) and flash-attn 2 need 8.0 (A100, L4, H100, …); verl "
                "finds out once it has read the models"
            ),
        )
    ]


def test_a_gpu_without_bfloat16_is_right_where_nothing_asks_for_it() -> None:
    assert found(Machine(gpus=gpus(1, capability=(7, 5)))) == []


def test_another_device_has_no_driver_to_look_at() -> None:
    assert found(H100, environ={"CUDA_VERSION": "13.0"}, settings={"trainer.device": "npu"}) == []
