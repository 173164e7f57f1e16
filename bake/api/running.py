"""`run`: docker run with what verl needs. The command is plain to read, and `--print` only shows it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bake import buildx
from bake.errors import DaemonError, Terminated, UsageError
from bake.lock import ModelId
from bake.plan import WORKDIR

if TYPE_CHECKING:
    from pathlib import Path

    from bake.api.workspace import Workspace

DATA = "/data"
_TAIL = 4096
_ENGINE_FAULT = frozenset({125, 126, 127})
"""What docker run exits with where the container was not started (docker run, "Exit status")."""

_NO_LIMITS = re.compile(r"error setting rlimit")

_FAULTS = (
    (
        re.compile(r"could not select device driver|nvidia-container|libnvidia-container|unresolvable CDI devices"),
        "Docker cannot give a container GPUs here",
        "install the NVIDIA Container Toolkit, see that nvidia-smi works, and restart Docker; or run with --gpus none",
    ),
    (
        re.compile(r"No such image|Unable to find image|pull access denied|failed to resolve reference"),
        "the Docker daemon has no such image",
        "bake build NAME@VERSION --to docker",
    ),
    (
        re.compile(r"permission denied while trying to connect|Cannot connect to the Docker daemon|docker API at"),
        "no Docker daemon answers",
        "start Docker, and see that you may use it: docker info",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A container to start. Paths are on this machine; `words` are the entrypoint's, training overrides among them.

    Without `limits`, those of memory and stack stay as Docker has them.
    """

    image: str
    gpus: str = "all"
    data: Path | None = None
    output: Path | None = None
    shm_size: str = "10g"
    name: str | None = None
    interactive: bool = False
    words: tuple[str, ...] = ()
    limits: bool = True


def image_name(workspace: Workspace, target: str) -> str:
    """The image that a NAME@VERSION of the lock is built as, or the image that was named. Raises LockError."""
    try:
        model = ModelId.parse(target)
    except ValueError:
        return target
    return f"{workspace.load().find(model).id.name}:{model.version}"


def run_command(run: Run) -> list[str]:
    """The docker command line.

    --init reaps the processes that Ray leaves and passes signals on; /dev/shm is 64 MiB otherwise, which kills Ray's
    object store and data loaders; locked memory and stack are what NCCL and GPU drivers ask for. Raises UsageError.
    """
    words = ["docker", "run", "--rm", "--init", "--pull", "never", f"--shm-size={run.shm_size}"]
    words += ["--ulimit", "memlock=-1", "--ulimit", "stack=67108864"] if run.limits else []
    words += [] if run.gpus == "none" else ["--gpus", run.gpus]
    words += ["-it"] if run.interactive else []
    words += ["--name", run.name] if run.name else []
    words += _mount(run.data, DATA, read_only=True) if run.data else []
    words += _mount(run.output, WORKDIR, read_only=False) if run.output else []
    return [*words, run.image, *run.words]


def run(container: Run) -> int:
    """Start a container and wait for it; returns its exit code. Raises DaemonError where Docker could not start it."""
    docker = buildx.docker_command(plugin=False)
    code, tail = _start([docker, *run_command(container)[1:]])
    if code in _ENGINE_FAULT and container.limits and _NO_LIMITS.search(tail):
        sys.stderr.write("warning: Docker may not raise limits here, as where it is rootless; starting without them\n")
        code, tail = _start([docker, *run_command(replace(container, limits=False))[1:]])
    if code in _ENGINE_FAULT and (fault := _fault(tail)):
        raise fault
    return code


def _start(command: list[str]) -> tuple[int, str]:
    """Run a command with this process's own stdin and stdout; its exit code, and the end of what it said on stderr."""
    tail = b""
    with subprocess.Popen(command, stderr=subprocess.PIPE) as started:
        try:
            while started.stderr and (part := os.read(started.stderr.fileno(), _TAIL)):
                tail = (tail + part)[-_TAIL:]
                sys.stderr.buffer.write(part)  # as it comes: progress bars draw with what is not yet a line
                sys.stderr.flush()
        except KeyboardInterrupt as error:  # docker has had Ctrl-C too, and passes it on
            if isinstance(error, Terminated):
                started.terminate()
            started.wait()
            raise
    return started.returncode, tail.decode(errors="replace")


def _mount(folder: Path, target: str, *, read_only: bool) -> list[str]:
    if not folder.is_dir():
        raise UsageError(f"no folder {folder} to mount at {target}", hint=f"mkdir -p {folder}")
    path = str(folder.absolute())
    if "," in path or '"' in path:
        raise UsageError(f"docker cannot mount {path}: it has a comma or a quote in it", hint="give it another name")
    return ["--mount", f"type=bind,source={path},target={target}{',readonly' if read_only else ''}"]


def _fault(text: str) -> DaemonError | None:
    for pattern, what, hint in _FAULTS:
        if pattern.search(text):
            return DaemonError(what, hint=hint)
    return None
