from __future__ import annotations

import pytest

from bake.entrypoint.machine.gpu import Gpu, visible


def gpu(index: int, uuid: str) -> Gpu:
    return Gpu(index=index, name="H100", memory=80, free=80, uuid=uuid)


WHOLE = (gpu(0, "GPU-aa1"), gpu(1, "GPU-bb2"), gpu(2, "GPU-cc3"))
CUT = (gpu(0, "MIG-x"), gpu(0, "MIG-y"), gpu(1, "MIG-z"))


@pytest.mark.parametrize(
    ("words", "uuids"),
    [
        ("", []),
        ("0", ["GPU-aa1"]),
        ("2,0", ["GPU-cc3", "GPU-aa1"]),
        (" 1 , 2 ", ["GPU-bb2", "GPU-cc3"]),
        ("GPU-bb", ["GPU-bb2"]),
        ("GPU-cc3,1", ["GPU-cc3", "GPU-bb2"]),
        ("0,-1,2", ["GPU-aa1"]),
        ("0,7,2", ["GPU-aa1"]),
        ("-1", []),
        ("NoDevFiles", []),
        ("9" * 5000, []),
    ],
)
def test_cuda_visible_devices_names_gpus_up_to_the_first_word_that_names_none(words: str, uuids: list[str]) -> None:
    assert [gpu.uuid for gpu in visible(WHOLE, {"CUDA_VISIBLE_DEVICES": words})] == uuids


def test_all_are_visible_when_nothing_is_said() -> None:
    assert visible(WHOLE, {}) == WHOLE


def test_of_a_gpu_that_mig_has_cut_up_the_first_instance_is_visible() -> None:
    assert [gpu.uuid for gpu in visible(CUT, {})] == ["MIG-x", "MIG-z"]


def test_a_mig_instance_can_be_named() -> None:
    assert [gpu.uuid for gpu in visible(CUT, {"CUDA_VISIBLE_DEVICES": "MIG-y"})] == ["MIG-y"]


def test_nvidia_visible_devices_hides_none_of_what_the_driver_shows() -> None:
    """With CDI it is `void` in a container that does have GPUs."""
    assert visible(WHOLE, {"NVIDIA_VISIBLE_DEVICES": "void"}) == WHOLE
