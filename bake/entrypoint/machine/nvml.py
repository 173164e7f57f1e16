"""NVML: NVIDIA's management library, called through ctypes. https://docs.nvidia.com/deploy/nvml-api/

Only calls that every driver since 450 has are needed; what a driver does not answer beyond them is left unknown.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bake.entrypoint.machine.gpu import Gpu

if TYPE_CHECKING:
    from collections.abc import Iterator

_TEXT = 96
"""Bytes for a name or a UUID (NVML_DEVICE_NAME_V2_BUFFER_SIZE)."""

_MIG_ON = 1


class NvmlError(Exception):
    """A call that the library lacks or refuses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    gpus: tuple[Gpu, ...]
    driver: str | None
    cuda: tuple[int, int] | None


class _Memory(ctypes.Structure):
    """nvmlMemory_t: bytes."""

    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


def ask(library: Any) -> Answer:
    """Everything that is asked of the library, which is initialised and shut down. Raises NvmlError."""
    _call(library, "nvmlInit_v2")
    try:
        return Answer(
            gpus=tuple(gpu for index in range(_count(library)) for gpu in _device(library, index)),
            driver=_text(library, "nvmlSystemGetDriverVersion"),
            cuda=_cuda(library),
        )
    finally:
        _call(library, "nvmlShutdown")


def _call(library: Any, name: str, *arguments: Any) -> None:
    """Call, or raise NvmlError. The numbers are nvmlReturn_t's."""
    try:
        function = getattr(library, name)
    except AttributeError as error:
        raise NvmlError(f"{name} is not in this driver's library") from error
    if code := function(*arguments):
        raise NvmlError(f"{name} failed with {code}")


def _count(library: Any) -> int:
    count = ctypes.c_uint()
    _call(library, "nvmlDeviceGetCount_v2", ctypes.byref(count))
    return count.value


def _cuda(library: Any) -> tuple[int, int] | None:
    """nvmlSystemGetCudaDriverVersion: 12080 is CUDA 12.8."""
    number = ctypes.c_int()
    try:
        _call(library, "nvmlSystemGetCudaDriverVersion_v2", ctypes.byref(number))
    except NvmlError:
        return None
    return number.value // 1000, number.value % 1000 // 10


def _device(library: Any, index: int) -> Iterator[Gpu]:
    """The GPU, or the instances that MIG has cut it into. One that is lost or may not be used is left out."""
    handle = ctypes.c_void_p()
    try:
        _call(library, "nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(handle))
    except NvmlError:
        return
    parts = tuple(_instances(library, handle)) if _is_cut(library, handle) else (handle,)
    capability = _capability(library, handle)
    for part in parts:
        total, free = _memory(library, part)
        yield Gpu(
            index=index,
            name=_text(library, "nvmlDeviceGetName", part) or "GPU",
            memory=total,
            free=free,
            capability=capability,
            uuid=_text(library, "nvmlDeviceGetUUID", part) or "",
        )


def _is_cut(library: Any, handle: ctypes.c_void_p) -> bool:
    now, later = ctypes.c_uint(), ctypes.c_uint()
    try:
        _call(library, "nvmlDeviceGetMigMode", handle, ctypes.byref(now), ctypes.byref(later))
    except NvmlError:  # this kind of GPU cannot be cut
        return False
    return now.value == _MIG_ON


def _instances(library: Any, handle: ctypes.c_void_p) -> Iterator[ctypes.c_void_p]:
    most = ctypes.c_uint()
    _call(library, "nvmlDeviceGetMaxMigDeviceCount", handle, ctypes.byref(most))
    for place in range(most.value):
        part = ctypes.c_void_p()
        try:
            _call(library, "nvmlDeviceGetMigDeviceHandleByIndex", handle, ctypes.c_uint(place), ctypes.byref(part))
        except NvmlError:  # no instance at this place
            continue
        yield part


def _memory(library: Any, handle: ctypes.c_void_p) -> tuple[int, int]:
    """Total and free; zeros where memory is shared with the CPU and the driver does not tell."""
    memory = _Memory()
    try:
        _call(library, "nvmlDeviceGetMemoryInfo", handle, ctypes.byref(memory))
    except NvmlError:
        return 0, 0
    return memory.total, memory.free


def _capability(library: Any, handle: ctypes.c_void_p) -> tuple[int, int] | None:
    major, minor = ctypes.c_int(), ctypes.c_int()
    try:
        _call(library, "nvmlDeviceGetCudaComputeCapability", handle, ctypes.byref(major), ctypes.byref(minor))
    except NvmlError:
        return None
    return major.value, minor.value


def _text(library: Any, name: str, *handle: ctypes.c_void_p) -> str | None:
    text = ctypes.create_string_buffer(_TEXT)
    try:
        _call(library, name, *handle, text, ctypes.c_uint(_TEXT))
    except NvmlError:
        return None
    return text.value.decode(errors="replace")
