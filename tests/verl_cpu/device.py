"""A CPU in the place of torch.cuda, so that verl trains on it as on one GPU. Runs where verl runs, never in the tests.

verl reaches its accelerator through a platform (verl/plugin/platform/platform_base.py, 0.9.1), and through the module
that the platform names, which it calls as it calls torch.cuda.
"""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
from verl.plugin.platform.platform_base import PlatformBase

if TYPE_CHECKING:
    from collections.abc import Iterator

_MEMORY = 1 << 34
"""Bytes that the device says it has. verl only logs them."""


class CpuDevice:
    """torch.cuda's functions as verl calls them. What torch.cpu has itself, as `Stream`, is taken from there."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.cpu, name)

    def is_available(self) -> bool:
        return False

    def device_count(self) -> int:
        return 1

    def current_device(self) -> int:
        return 0

    def set_device(self, *_: object) -> None: ...

    def synchronize(self, *_: object) -> None: ...

    def empty_cache(self) -> None: ...

    def ipc_collect(self) -> None: ...

    def manual_seed(self, _: int) -> None: ...

    def manual_seed_all(self, _: int) -> None: ...

    def reset_peak_memory_stats(self, *_: object) -> None: ...

    def memory_allocated(self, *_: object) -> int:
        return 0

    memory_reserved = max_memory_allocated = max_memory_reserved = memory_allocated

    def mem_get_info(self, *_: object) -> tuple[int, int]:
        return _MEMORY, _MEMORY

    def get_rng_state(self, *_: object) -> torch.Tensor:
        return torch.get_rng_state()

    def set_rng_state(self, state: torch.Tensor, *_: object) -> None:
        torch.set_rng_state(state)

    def get_device_name(self, *_: object) -> str:
        return "cpu"

    def get_device_properties(self, *_: object) -> SimpleNamespace:
        return SimpleNamespace(name="cpu", total_memory=_MEMORY)


class CpuPlatform(PlatformBase):  # type: ignore[misc]
    """One CPU as one logical GPU: Ray hands it out under the name that verl asks for, gloo takes NCCL's place."""

    device_name = vendor_name = "cpu"
    device_module = CpuDevice()

    def is_available(self) -> bool:
        return True

    def is_platform_available(self, use_smi_check: bool = False) -> bool:
        return True

    def current_device(self) -> str:
        return "cpu"

    def device_count(self) -> int:
        return 1

    def set_device(self, device_index: int) -> None: ...

    def synchronize(self, device_index: int | None = None) -> None: ...

    def manual_seed(self, seed: int) -> None: ...

    def manual_seed_all(self, seed: int) -> None: ...

    def set_allocator_settings(self, settings: str) -> None: ...

    def empty_cache(self) -> None: ...

    def get_device_capability(self, device_index: int = 0) -> tuple[int | None, int | None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    @contextlib.contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        yield

    def profiler_start(self) -> None: ...

    def profiler_stop(self) -> None: ...

    def ray_resource_name(self) -> str:
        return "GPU"

    def ray_resource_options(self, num_gpus: float) -> dict[str, Any]:
        return {"num_gpus": num_gpus}

    def ray_noset_envvars(self) -> list[str]:
        return ["RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"]

    def is_ipc_supported(self) -> bool:
        return False

    def cudart(self) -> None: ...
