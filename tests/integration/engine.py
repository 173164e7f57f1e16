"""A Docker Engine as the tests meet it, a folder in which bake works with it, and containers that run and end."""

from __future__ import annotations

import hashlib
import io
import os
import secrets
import subprocess
import tarfile
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import pytest
from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import LogMessageWaitStrategy

from tests.cli.place import BAKE, Ran
from tests.entrypoint.files import model_files, write

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import docker

DOCKER = pytest.mark.docker
"""The mark of a module that needs an engine. Tests may share one: each gives its images a name of its own."""

_STEERING = ("HF_", "HUGGING", "TRANSFORMERS_", "BAKE_", "XDG_", "LC_", "NO_COLOR", "FORCE_COLOR", "TTY_", "PYTHON")
_SECONDS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """An engine that answers at `host`, a value of DOCKER_HOST. `base` is an image in it that has Python."""

    store: Literal["classic", "containerd"]
    host: str
    client: docker.DockerClient
    base: str

    def docker(self, *words: object, stdin: bytes | None = None, environ: Mapping[str, str] | None = None) -> str:
        """Run the docker command, which must work; returns its stdout."""
        done = self.try_docker(*words, stdin=stdin, environ=environ)
        assert done.code == 0, done.err
        return done.out

    def try_docker(self, *words: object, stdin: bytes | None = None, environ: Mapping[str, str] | None = None) -> Ran:
        done = subprocess.run(
            ["docker", *map(str, words)],
            input=stdin or b"",
            capture_output=True,
            timeout=_SECONDS,
            check=False,
            env={**os.environ, "DOCKER_HOST": self.host, **(environ or {})},
        )
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())

    def has(self, name: str) -> bool:
        return name in self.names()

    def names(self) -> list[str]:
        return [name for image in self.client.api.images() for name in image["RepoTags"] or []]

    def id(self, name: str) -> str:
        return str(self.client.images.get(name).id)

    def config(self, name: str) -> dict[str, Any]:
        """What a container starts with: environment by name, entrypoint, command, folder, labels."""
        config = self.client.images.get(name).attrs["Config"]
        return {
            "Env": dict(entry.split("=", 1) for entry in config["Env"] or []),
            "Labels": config.get("Labels") or {},
            "Entrypoint": config.get("Entrypoint") or [],
            "Cmd": config.get("Cmd") or [],
            "WorkingDir": config.get("WorkingDir") or "",
        }

    def files(self, name: str, *folders: str) -> dict[str, tuple[str, int, int, int, str]]:
        """Type, mode, owner, group and content of everything below some folders of an image."""
        container = self.client.api.create_container(name, command=["-"])["Id"]
        try:
            return {path: about for folder in folders for path, about in self._below(container, folder)}
        finally:
            self.client.api.remove_container(container, force=True)

    def _below(self, container: str, folder: str) -> list[tuple[str, tuple[str, int, int, int, str]]]:
        chunks, _ = self.client.api.get_archive(container, folder)
        with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as archive:
            return [(f"{folder}: {info.name}", _about(archive, info)) for info in archive]

    def saved(self, name: str) -> bytes:
        """All that the engine hands out of an image: every layer, the config, the history."""
        return b"".join(self.client.api.get_image(name))


def _about(archive: tarfile.TarFile, info: tarfile.TarInfo) -> tuple[str, int, int, int, str]:
    stream = archive.extractfile(info) if info.isfile() else None
    content = hashlib.sha256(stream.read()).hexdigest() if stream else info.linkname
    return info.type.decode(), info.mode, info.uid, info.gid, content


def run_container(engine: Engine, image: str, *command: str, **options: Any) -> Ran:
    """Run a container to its end, without a network."""
    with start_container(engine, image, *command, **options) as container:
        code = container.wait()
        out, err = container.get_logs()
    return Ran(code, out.decode(), err.decode())


def start_container(
    engine: Engine,
    image: str,
    *command: str,
    until: str | None = None,
    seconds: int = 60,
    mounts: Mapping[str, Path] | None = None,
    writable: Mapping[str, Path] | None = None,
    environ: Mapping[str, str] = MappingProxyType({}),
    **options: Any,
) -> DockerContainer:
    """A container that is about to start: a context that begins when it has printed `until`, and ends with its removal.

    It has so many seconds to print it, and fails at once where it ends before. `mounts` are folders by their place in
    the container, which cannot write to them; it can to those of `writable`.
    """
    where = {"environment": {"DOCKER_HOST": engine.host}}
    container = DockerContainer(image, docker_client_kw=where, **{"network_mode": "none", **options})
    for target, folder in (mounts or {}).items():
        container.with_volume_mapping(folder, target, "ro")
    for target, folder in (writable or {}).items():
        container.with_volume_mapping(folder, target, "rw")
    container.with_envs(**environ)
    if until:
        container.waiting_for(LogMessageWaitStrategy(until).with_startup_timeout(seconds))
    return container.with_command(list(command))


@dataclass(frozen=True, slots=True)
class Shop:
    """A folder with a lock and models, where bake works with one engine. `name` is no other test's."""

    root: Path
    engine: Engine
    name: str = field(default_factory=lambda: f"t-{secrets.token_hex(4)}")
    environ: dict[str, str] = field(default_factory=dict)

    @property
    def model(self) -> str:
        return f"{self.name}@v1"

    @property
    def image(self) -> str:
        return f"{self.name}:v1"

    @property
    def lock(self) -> Path:
        return self.root / "models.lock"

    def write_lock(self, *, base: str | None = None, more: str = "") -> None:
        """A lock that knows one base; without one, models are baked on scratch."""
        text = f'[base.test]\nimage = "{base}"\n{more}' if base else ""
        self.lock.write_text(f"version = 1\n{text}")

    def add(self, files: Mapping[str, bytes] | None = None, *, base: str | None = "", more: str = "") -> None:
        """Lock a model of a few hundred bytes, or of these files, on the engine's own base if no other is named."""
        self.write_lock(base=f"docker:{self.engine.base}" if base == "" else base, more=more)
        write(self.root / "m", files or model_files())
        self.do("lock", "-q")
        self.do("add", self.model, "dir://m", "-q")

    def do(self, *words: str, environ: Mapping[str, str] = MappingProxyType({})) -> Ran:
        """Run bake, which must work."""
        ran = self.run(*words, environ=environ)
        assert ran.code == 0, ran.err
        return ran

    def build(self, *words: str, environ: Mapping[str, str] = MappingProxyType({})) -> Ran:
        return self.do("build", self.model, "--to", f"docker:{self.image}", *words, environ=environ)

    def run(self, *words: str, before: tuple[str, ...] = (), environ: Mapping[str, str] = MappingProxyType({})) -> Ran:
        started = self.start(*words, before=before, environ=environ)
        out, err = started.communicate(timeout=_SECONDS)
        return Ran(started.returncode, out, err)

    def start(
        self, *words: str, before: tuple[str, ...] = (), environ: Mapping[str, str] = MappingProxyType({})
    ) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*before, BAKE, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.root,
            env=self.environment | dict(environ),
        )

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_STEERING)}
        return kept | {
            "DOCKER_HOST": self.engine.host,
            "BAKE_CACHE": str(self.root.parent / "store"),
            "BAKE_HUB_BACKOFF": "0.001",
            "HF_HOME": str(self.root.parent / "hf-home"),
            "PYTHONWARNINGS": "error",
            **self.environ,
        }

    def clear(self) -> None:
        """Delete the images that this shop's tests left."""
        for name in [name for name in self.engine.names() if self.name in name]:
            self.engine.client.images.remove(name, force=True)
