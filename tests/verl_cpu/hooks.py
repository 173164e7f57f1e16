"""Lets real verl 0.9.1 train on a CPU: VERL_USE_EXTERNAL_MODULES=verl_cpu.hooks makes `import verl` load this module.

It uses verl's own doors (platforms, rollouts) and, where verl has none, three patches. No file of verl is edited, and
nothing that bake checks or starts is touched. In the image this folder is the package `verl_cpu`, hence `from .`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed
import transformers
from verl.plugin.platform import platform_manager
from verl.workers.rollout import base, replica

from .device import CpuPlatform

if TYPE_CHECKING:
    from collections.abc import Callable

ROLLOUT = "cpu"
"""The value of actor_rollout_ref.rollout.name that generates on the CPU."""


def register() -> None:
    """The platform, the engines, the rollout: each through the registry that verl has for it."""
    platform_manager.PlatformRegistry.register(platform="cpu")(CpuPlatform)
    platform_manager.set_platform(CpuPlatform())
    os.environ.setdefault("VERL_ENGINE_DEVICE", "cuda")  # FSDP's engine is registered for cuda and npu alone
    base._ROLLOUT_REGISTRY[(ROLLOUT, "async")] = f"{__package__}.rollout.CpuRollout"
    replica.RolloutReplicaRegistry.register(ROLLOUT, _load_replica)


def _load_replica() -> Any:
    from .rollout import CpuReplica  # Ray must be up before it is imported

    return CpuReplica


def name_gloo_once(init: Callable[..., Any]) -> Callable[..., Any]:
    """verl asks for `cpu:gloo,DEVICE:BACKEND`, which torch refuses where the device is the CPU itself."""

    def patched(backend: str | None = None, *words: Any, **options: Any) -> Any:
        return init("gloo" if backend == "cpu:gloo,cpu:gloo" else backend, *words, **options)

    return patched


def without_flash_attention(load: Callable[..., Any]) -> Callable[..., Any]:
    """verl loads a critic with attn_implementation="flash_attention_2", which a CPU has not, whatever it is told."""

    def patched(cls: type, *words: Any, **options: Any) -> Any:
        if options.get("attn_implementation") == "flash_attention_2":
            options["attn_implementation"] = "sdpa"
        return load(cls, *words, **options)

    return patched


def stay_unpinned(tensor: torch.Tensor, *_: object, **__: object) -> torch.Tensor:
    """verl offloads the reference model to the CPU and pins it there, which needs an accelerator."""
    return tensor


def patch() -> None:
    torch.distributed.init_process_group = name_gloo_once(torch.distributed.init_process_group)
    critic = transformers.AutoModelForTokenClassification
    critic.from_pretrained = classmethod(without_flash_attention(critic.from_pretrained.__func__))
    torch.Tensor.pin_memory = stay_unpinned


register()
patch()
