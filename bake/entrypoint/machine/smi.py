"""nvidia-smi: asked where the driver's library cannot be loaded. `nvidia-smi --help-query-gpu` lists the fields."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass

from bake.entrypoint.machine.gpu import Gpu

_SECONDS = 30
_MIB = 1 << 20
_FIELDS = ("index", "memory.total", "memory.free", "compute_cap", "driver_version", "uuid", "name")
"""The name comes last, since it alone may hold a comma."""

_QUERY = ("nvidia-smi", f"--query-gpu={','.join(_FIELDS)}", "--format=csv,noheader,nounits")


class SmiError(Exception):
    """The program is not there, does not answer, or says no."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    gpus: tuple[Gpu, ...]
    driver: str | None
    cuda: tuple[int, int] | None


def ask() -> Answer:
    """Raises SmiError."""
    rows = [
        row for line in _run(*_QUERY).splitlines() if len(row := line.split(", ", len(_FIELDS) - 1)) == len(_FIELDS)
    ]
    return Answer(
        gpus=tuple(gpu for row in rows if (gpu := _gpu(row)) is not None),
        driver=rows[0][4] if rows else None,
        cuda=_pair(re.search(r"CUDA Version:\s*(\d{1,3})\.(\d{1,3})", _run("nvidia-smi"))),
    )


def _gpu(row: list[str]) -> Gpu | None:
    index, total, free, capability, _, uuid, name = row
    if not index.isdecimal():
        return None
    return Gpu(
        index=int(index),
        name=name,
        memory=_mebibytes(total),
        free=_mebibytes(free),
        capability=_pair(re.fullmatch(r"(\d{1,3})\.(\d{1,3})", capability)),
        uuid=uuid,
    )


def _mebibytes(text: str) -> int:
    """Bytes; 0 for `[N/A]`."""
    return int(text) * _MIB if text.isdecimal() else 0


def _pair(found: re.Match[str] | None) -> tuple[int, int] | None:
    return (int(found[1]), int(found[2])) if found else None


def _run(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise SmiError(f"nvidia-smi did not answer in {_SECONDS} seconds") from error
    except OSError as error:
        raise SmiError(f"nvidia-smi: {error.strerror}") from error
    if done.returncode:
        said = (done.stdout + done.stderr).strip().splitlines()
        raise SmiError(f"nvidia-smi: {said[0] if said else f'exit code {done.returncode}'}")
    return done.stdout
