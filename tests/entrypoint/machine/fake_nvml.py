"""A stand-in for libnvidia-ml.so.1, since no GPU is here: real C functions, made by ctypes, that speak its calls.

Only the driver behind them is not real: pointers, structures and return codes go through ctypes as they do with NVML.
"""

from __future__ import annotations

import ctypes
from ctypes import CFUNCTYPE, POINTER, c_char, c_int, c_uint, c_ulonglong, c_void_p
from dataclasses import dataclass, field
from typing import Any

NOT_SUPPORTED, NOT_FOUND, LOST = 3, 6, 15


@dataclass(frozen=True)
class Device:
    """A GPU, or a MIG instance: its memory in bytes as total and free, None where it does not tell."""

    name: str
    uuid: str
    memory: tuple[int, int] | None = (80, 60)
    capability: tuple[int, int] | None = (9, 0)
    mig: bool | None = None
    instances: tuple[Device | None, ...] = ()
    lost: bool = False


@dataclass(frozen=True)
class Driver:
    devices: tuple[Device, ...] = ()
    version: str = "580.65.06"
    cuda: int = 13000
    init: int = 0
    without: frozenset[str] = field(default=frozenset())


class FakeNvml:
    """Attributes are the library's functions. A handle is 1 + the place of a device among all."""

    def __init__(self, driver: Driver) -> None:
        self.calls: list[str] = []
        self._all = [*driver.devices, *(part for device in driver.devices for part in device.instances if part)]
        self._driver = driver
        self._functions: dict[str, Any] = {}
        text = (POINTER(c_char), c_uint)
        self._add("nvmlInit_v2", lambda: driver.init)
        self._add("nvmlShutdown", lambda: 0)
        self._add("nvmlSystemGetDriverVersion", lambda to, _: _write(to, driver.version), *text)
        self._add("nvmlSystemGetCudaDriverVersion_v2", lambda to: _set(to, driver.cuda), POINTER(c_int))
        self._add("nvmlDeviceGetCount_v2", lambda to: _set(to, len(driver.devices)), POINTER(c_uint))
        self._add("nvmlDeviceGetHandleByIndex_v2", self._handle, c_uint, POINTER(c_void_p))
        self._add("nvmlDeviceGetName", lambda at, to, _: _write(to, self._at(at).name), c_void_p, *text)
        self._add("nvmlDeviceGetUUID", lambda at, to, _: _write(to, self._at(at).uuid), c_void_p, *text)
        self._add("nvmlDeviceGetMemoryInfo", self._memory, c_void_p, c_void_p)
        self._add("nvmlDeviceGetCudaComputeCapability", self._capability, c_void_p, POINTER(c_int), POINTER(c_int))
        self._add("nvmlDeviceGetMigMode", self._mig, c_void_p, POINTER(c_uint), POINTER(c_uint))
        self._add(
            "nvmlDeviceGetMaxMigDeviceCount",
            lambda at, to: _set(to, len(self._at(at).instances)),
            c_void_p,
            POINTER(c_uint),
        )
        self._add("nvmlDeviceGetMigDeviceHandleByIndex", self._instance, c_void_p, c_uint, POINTER(c_void_p))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("nvml") and name in self._functions and name not in self._driver.without:
            self.calls.append(name)
            return self._functions[name]
        raise AttributeError(name)

    def _add(self, name: str, function: Any, *types: Any) -> None:
        self._functions[name] = CFUNCTYPE(c_int, *types)(function)

    def _at(self, handle: int) -> Device:
        return self._all[handle - 1]

    def _handle(self, index: int, to: Any) -> int:
        return LOST if self._all[index].lost else _set(to, index + 1)

    def _memory(self, handle: int, to: Any) -> int:
        memory = self._at(handle).memory
        if memory is None:
            return NOT_SUPPORTED
        total_free_used = (c_ulonglong * 3)(*memory, memory[0] - memory[1])
        ctypes.memmove(to, total_free_used, ctypes.sizeof(total_free_used))
        return 0

    def _capability(self, handle: int, major: Any, minor: Any) -> int:
        capability = self._at(handle).capability
        return NOT_SUPPORTED if capability is None else _set(major, capability[0]) or _set(minor, capability[1])

    def _mig(self, handle: int, now: Any, later: Any) -> int:
        mig = self._at(handle).mig
        return NOT_SUPPORTED if mig is None else _set(now, int(mig)) or _set(later, int(mig))

    def _instance(self, handle: int, place: int, to: Any) -> int:
        part = self._at(handle).instances[place]
        return NOT_FOUND if part is None else _set(to, self._all.index(part) + 1)


def _set(to: Any, value: int) -> int:
    to[0] = value
    return 0


def _write(to: Any, text: str) -> int:
    content = text.encode() + b"\0"
    ctypes.memmove(to, content, len(content))
    return 0
