"""Driver: new enough for the CUDA that the image was built with, on GPUs that this CUDA and verl's kernels know.

Nothing is imported: torch/version.py is read as text. Whatever neither it nor the driver tells is left unsaid.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from bake.entrypoint.finding import Finding
from bake.entrypoint.preflight.asked import on_cuda
from bake.entrypoint.preflight.flash import needs_flash
from bake.entrypoint.preflight.torch_build import torch_version

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bake.entrypoint.preflight.situation import Situation

_OLDEST_DRIVER = {11: "450.80", 12: "525.60", 13: "580.65"}
"""The first that runs each major version of CUDA (CUDA release notes, table of minor version compatibility)."""

_OLDEST_CUDA = {(8, 9): (11, 8), (9, 0): (11, 8), (10, 0): (12, 8), (12, 0): (12, 8)}
"""The first CUDA that compiles for a GPU's generation (CUDA release notes): Ada and Hopper, Blackwell."""

_DROPPED = ((13, 0), (7, 5))
"""CUDA 13.0 dropped Maxwell, Pascal and Volta: everything below 7.5 (its release notes)."""

_WITHOUT = re.compile(r"^cuda\b.*=\s*None(?s:.*)^hip\b.*=\s*None", re.MULTILINE)
"""How torch/version.py says that it was built for no GPU at all."""

_COMPATIBILITY = "usr/local/cuda/compat/libcuda.so.1"
"""NVIDIA's forward compatibility package, with which a data center GPU's older driver runs a newer CUDA."""


def check_driver(situation: Situation) -> Iterator[Finding]:
    if not on_cuda(situation):
        return
    text = torch_version()
    needed = _built_for(text) or _stated(situation.environ)
    if _WITHOUT.search(text) and situation.machine.gpus:
        yield _cpu_only()
    elif needed is not None:
        yield from _driver_findings(situation, needed)
        yield from _generation_findings(situation, needed)
    yield from _precision_findings(situation)


def _built_for(text: str) -> tuple[int, int] | None:
    """Of a line such as `cuda: Optional[str] = '12.8'`."""
    return _pair(re.search(r"^cuda\b.*=\s*['\"](\d{1,3})\.(\d{1,3})", text, re.MULTILINE))


def _stated(environ: Mapping[str, str]) -> tuple[int, int] | None:
    """What NVIDIA's base images say of themselves."""
    return _pair(re.match(r"(\d{1,3})\.(\d{1,3})", environ.get("CUDA_VERSION", "")))


def _pair(found: re.Match[str] | None) -> tuple[int, int] | None:
    return (int(found[1]), int(found[2])) if found else None


def _cpu_only() -> Finding:
    return Finding(
        check="driver",
        severity="error",
        what="the PyTorch in this image was built without CUDA",
        why="GPUs are here and PyTorch cannot use them",
        todo="pip install a PyTorch build for CUDA, or build on a base that has one",
    )


def _driver_findings(situation: Situation, needed: tuple[int, int]) -> Iterator[Finding]:
    """Within one major version of CUDA any driver of that version will do ("minor version compatibility")."""
    machine = situation.machine
    if machine.cuda is None or machine.cuda[0] >= needed[0]:
        return
    packaged = (situation.root / _COMPATIBILITY).exists()
    oldest = _OLDEST_DRIVER.get(needed[0])
    yield Finding(
        check="driver",
        severity="warning" if packaged else "error",
        what=f"the GPU driver {machine.driver or ''} runs CUDA up to {_dotted(machine.cuda)}, "
        f"and this image's PyTorch was built with {_dotted(needed)}".replace("  ", " "),
        why="the image brings NVIDIA's compatibility package, which helps on data center GPUs alone"
        if packaged
        else "PyTorch would see no GPU: The NVIDIA driver on your system is too old",
        todo=f"a driver from {oldest} on the host, or an image built with CUDA {machine.cuda[0]}"
        if oldest
        else f"a newer driver on the host, or an image built with CUDA {machine.cuda[0]}",
    )


def _generation_findings(situation: Situation, needed: tuple[int, int]) -> Iterator[Finding]:
    for name, capability in sorted({(gpu.name, gpu.capability) for gpu in situation.machine.gpus if gpu.capability}):
        known = [cuda for first, cuda in _OLDEST_CUDA.items() if capability >= first]
        dropped = needed >= _DROPPED[0] and capability < _DROPPED[1]
        if not dropped and (not known or needed >= max(known)):
            continue
        wanted = (
            "an image built with CUDA 12" if dropped else f"an image built with CUDA {_dotted(max(known))} or later"
        )
        yield Finding(
            check="driver",
            severity="error",
            what=f"{name} is of compute capability {_dotted(capability)}, and this image's CUDA is {_dotted(needed)}",
            why="PyTorch has no code for it: no kernel image is available for execution on the device",
            todo=f"{wanted}, or other GPUs",
        )


def _precision_findings(situation: Situation) -> Iterator[Finding]:
    """flash-attn 2 and vLLM's bfloat16 both want 8.0, which Ampere has."""
    old = sorted({(gpu.name, gpu.capability) for gpu in situation.machine.gpus if (gpu.capability or (8, 0)) < (8, 0)})
    bfloat = situation.settings.get("actor_rollout_ref.rollout.dtype") == "bfloat16"
    reasons = [
        *(["the rollout's bfloat16 (rollout.dtype)"] if bfloat else []),
        *(["flash-attn 2"] if needs_flash(situation) else []),
    ]
    for name, capability in old if reasons else []:
        yield Finding(
            check="driver",
            severity="error",
            what=f"{name} is of compute capability {_dotted(capability or (0, 0))}",
            why=f"{' and '.join(reasons)} need 8.0 (A100, L4, H100, …); verl finds out once it has read the models",
            todo="newer GPUs; or actor_rollout_ref.rollout.dtype=float16 and "
            "+actor_rollout_ref.model.override_config.attn_implementation=sdpa, without a critic",
        )


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
