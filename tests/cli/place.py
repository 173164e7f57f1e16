"""A folder in which bake is at work: a lock, a store, models; and the `bake` command, run as a person runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from bake.image import validate
from bake.layout import Layout
from tests.entrypoint.files import model_files, safetensors, write

if TYPE_CHECKING:
    from collections.abc import Mapping

BAKE = str(Path(sys.executable).with_name("bake"))
SOON = 15.0
"""Seconds in which an interrupted bake has ended, on a busy machine too; what it waits for takes a minute or more."""

EMPTY_LOCK = "version = 1\n"
TINY = Path(__file__).parents[1] / "models" / "tiny-llama"


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command left behind: its exit code, stdout and stderr."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """stdout as JSON."""
        return json.loads(self.out)

    @property
    def digest(self) -> str:
        """The digest in a reference that `bake build` printed."""
        return self.out.strip().rpartition("@")[2]


class Bake(Protocol):
    def __call__(self, *words: str) -> Ran: ...


@dataclass(frozen=True, slots=True)
class Place:
    """`root` is where bake runs and its lock is; `store` is BAKE_CACHE; `started` are the commands that were run."""

    root: Path
    store: Path
    started: list[Started] = field(default_factory=list)

    @property
    def lock(self) -> Path:
        return self.root / "models.lock"

    def write_lock(self, text: str = EMPTY_LOCK) -> None:
        self.lock.write_text(text, "utf-8")

    def add_model(self, name: str = "m") -> Path:
        """A folder with a right model of a few hundred bytes in two shards."""
        return write(self.root / name, model_files())

    def add_large_model(self, *sizes: int, name: str = "m") -> Path:
        """A folder with a model of shards of so many bytes, holes in the disk all but their headers."""
        folder = write(self.root / name, {"config.json": b'{"model_type": "llama"}'})
        for number, size in enumerate(sizes, start=1):
            _write_shard(folder / f"part-{number}.safetensors", f"t{number}", size=size)
        return folder

    def start(
        self,
        *words: str,
        cwd: Path | None = None,
        before: tuple[str, ...] = (),
        environ: Mapping[str, str] = MappingProxyType({}),
    ) -> Started:
        """Start the real command; `before` goes in front of it, as `setpriv …` does."""
        process = subprocess.Popen(
            [*before, BAKE, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=cwd or self.root,
            env={**os.environ, "PYTHONWARNINGS": "error", **environ},
        )
        self.started.append(process)
        return process

    def end(self) -> None:
        """End what a failed test has left running."""
        for process in self.started:
            with process:
                process.kill()

    def run(
        self,
        *words: str,
        cwd: Path | None = None,
        before: tuple[str, ...] = (),
        environ: Mapping[str, str] = MappingProxyType({}),
    ) -> Ran:
        """Run the real command to its end."""
        return finish(self.start(*words, cwd=cwd, before=before, environ=environ))


Started = subprocess.Popen[str]


def finish(started: Started) -> Ran:
    out, err = started.communicate(timeout=60)
    return Ran(started.returncode, out, err)


def error(message: str, *, hint: str | None = None) -> str:
    """What stderr holds when a command fails."""
    return f"error: {message}\n" + (f"hint: {hint}\n" if hint else "")


def whole(path: Path) -> tuple[str, ...]:
    """Every fault of the one image in a layout, each byte read."""
    layout = Layout(path)
    return validate(layout.image(), layout, content=True)


def files_below(folder: Path) -> dict[str, bytes]:
    """Every file below a folder with its bytes, to be compared with what is there later."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def weight_layers(path: Path) -> list[str]:
    """The digests of a layout's layers, but for the last, which holds record and entrypoint."""
    return [str(layer.digest) for layer in Layout(path).image().manifest.layers[:-1]]


def without_layers(lock: str) -> str:
    """The text of a lock of one model, as it is before any layer was packed."""
    return lock[: lock.index("  [[model.layer]]")].rstrip().replace("packer = 1\n", "") + "\n"


def _write_shard(path: Path, tensor: str, *, size: int) -> None:
    head = safetensors({tensor: ("U8", [0])})
    count = size - len(head) - 40
    head = json.dumps({tensor: {"dtype": "U8", "shape": [count], "data_offsets": [0, count]}}).encode()
    head = head.ljust(size - 8 - count)
    with path.open("wb") as stream:
        stream.write(len(head).to_bytes(8, "little") + head)
        stream.truncate(size)
