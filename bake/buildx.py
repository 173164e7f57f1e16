"""`docker buildx`: BuildKit builds a rendered Dockerfile. docker-py knows no BuildKit, so this drives the command."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bake.errors import DaemonError, DigestError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_TOKEN_VARIABLE = "BAKE_BUILD_SECRET"  # noqa: S105 - the name of a variable, not a secret
_TAIL = 60

_OTHER_BYTES = re.compile(r"digest mismatch (sha256:[0-9a-f]{64}): (sha256:[0-9a-f]{64})")
"""BuildKit looks at no status where a checksum is given (its source/http): a refusal is a file with other bytes."""

_FAULTS = (
    (
        re.compile(r"OCI exporter is not supported"),
        "this builder cannot write an OCI layout",
        "docker buildx create --name bake --driver docker-container, then --buildx-builder bake; or --builder direct",
    ),
    (re.compile(r"no builder .* found"), "there is no such builder", "docker buildx ls shows those there are"),
    (re.compile(r"no space left on device"), "the builder has no space left", "docker buildx prune; docker system df"),
    (
        re.compile(r"401 Unauthorized|403 Forbidden|invalid response status 40[13]"),
        "the Hub refused the builder",
        "ask for access on the model's page, then `hf auth login`, or set HF_TOKEN",
    ),
    (
        re.compile(r"permission denied while trying to connect"),
        "no permission to use the Docker daemon",
        "join the docker group, or use --builder direct --to oci:PATH",
    ),
    (
        re.compile(r"Cannot connect to the Docker daemon|failed to connect to the docker API"),
        "no Docker daemon answers",
        "start Docker, or use --builder direct --to oci:PATH",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One build: a context folder, named contexts, and where the image goes.

    `output` is an `--output` value of buildx. `secret` is the id of a build secret, and `token` its value, which goes
    to BuildKit through the environment and stands on no command line.
    """

    context: Path
    contexts: Mapping[str, str]
    output: str
    tag: str
    builder: str | None = None
    quiet: bool = False
    secret: str | None = None
    token: str | None = field(default=None, repr=False)


def build(request: Request) -> None:
    """Run a build, with buildx's own progress on stderr. Raises DaemonError, DigestError."""
    command = [docker_command(), "buildx", "build", *_words(request), str(request.context)]
    environment = os.environ | {"SOURCE_DATE_EPOCH": "0"}
    environment |= {_TOKEN_VARIABLE: request.token} if request.secret and request.token else {}
    tail: list[str] = []
    drawn = sys.stderr.isatty()  # buildx draws on a terminal only if it has it to itself
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=None if drawn else subprocess.PIPE, text=True
    ) as run:
        try:
            for line in run.stderr or ():
                tail = [*tail[-_TAIL:], line]
                if not request.quiet:
                    sys.stderr.write(line)
            run.wait()
        except BaseException:  # buildx has not had the signal where it did not come from the terminal
            run.terminate()
            run.wait()
            raise
    if run.returncode:
        raise _fault("".join(tail))


def docker_command(*, plugin: bool = True) -> str:
    """The docker command, with its buildx plugin unless that is not needed. Raises DaemonError where one is missing."""
    command = shutil.which("docker")
    if command is None:
        raise DaemonError("no docker command on the PATH", hint="install Docker's CLI")
    if plugin and subprocess.run([command, "buildx", "version"], capture_output=True, check=False).returncode:
        raise DaemonError(
            "docker has no buildx", hint="install the docker-buildx plugin, or use --builder direct, which needs none"
        )
    return command


def _words(request: Request) -> list[str]:
    words = ["--progress", "quiet" if request.quiet else "auto", "--provenance=false", "--sbom=false"]
    words += ["--tag", request.tag, "--output", request.output]
    for name, place in request.contexts.items():
        words += ["--build-context", f"{name}={place}"]
    if request.secret and request.token:
        words += ["--secret", f"id={request.secret},env={_TOKEN_VARIABLE}"]
    if request.builder:
        words += ["--builder", request.builder]
    return words


def _fault(text: str) -> DaemonError | DigestError:
    if found := _OTHER_BYTES.search(text):
        return DigestError(
            f"docker buildx: a file that it fetched is not as locked: expected {found[2]}, found {found[1]}",
            hint="a Hub that refuses a file sends its refusal instead: ask for access on the model's page, then "
            "`hf auth login`, or set HF_TOKEN; otherwise find out who changed the file",
        )
    for pattern, what, hint in _FAULTS:
        if pattern.search(text):
            return DaemonError(f"docker buildx: {what}", hint=hint)
    lines = [line.strip() for line in text.splitlines() if line.startswith(("ERROR", "error"))]
    return DaemonError(f"docker buildx failed: {lines[-1] if lines else 'see the lines above'}")
