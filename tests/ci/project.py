"""A repository of somebody who bakes: models in folders, a lock, the CI files, and the server that it is pushed to."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from bake.lock.dump import dumps
from bake.lock.parse import parse
from tests.entrypoint.files import safetensors, write
from tests.history import SETTINGS, History

if TYPE_CHECKING:
    from collections.abc import Sequence

REQUIREMENT = "bake @ git+https://git.example/org/bake@0e9e39f249a16976918f6564b8830bc894c89659"
BAKE = Path(sys.executable).with_name("bake")
WEIGHTS = 3000
"""Bytes of the one tensor of each model: more than all else that an image of it on no base holds."""

_PYTHON = f"""#!/bin/bash
if [[ "$1 $2 $3" == "-m pip install" ]]; then
    echo "${{*:4}}" >> "$INSTALLED"
else
    exec {sys.executable} "$@"
fi
"""
"""The python of a CI job: what it would install is written down, since the bake that is tested is there already."""


@dataclass(frozen=True, slots=True)
class Project:
    """`root` holds a person's clone, `work`; the server's repository, `origin.git`; and folders for each job."""

    root: Path

    @classmethod
    def begin(cls, root: Path, system: str, *, requirement: str = REQUIREMENT) -> Project:
        """With a lock of no models, and the files of a CI system, committed and not pushed yet."""
        project = cls(root)
        subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(project.origin)], check=True)
        subprocess.run(
            ["git", "-C", str(project.origin), "config", "uploadpack.allowAnySHA1InWant", "true"], check=True
        )
        History.begin(project.work).run("remote", "add", "origin", "../origin.git")
        project.bake("init", "--ci", system, "--install", requirement)
        (write(root / "bin", {"python": _PYTHON.encode()}) / "python").chmod(0o755)
        (root / "bin" / "bake").symlink_to(BAKE)
        project.history.commit()
        return project

    def copy(self, root: Path) -> Project:
        """The same in another folder, with what it holds by now, but for what jobs have left."""
        shutil.copytree(self.root, root, symlinks=True, ignore=shutil.ignore_patterns("jobs", "installed"))
        return Project(root)

    @property
    def work(self) -> Path:
        return self.root / "work"

    @property
    def origin(self) -> Path:
        return self.root / "origin.git"

    @property
    def history(self) -> History:
        return History(self.work)

    @property
    def lock(self) -> Path:
        return self.work / "models.lock"

    @property
    def installed(self) -> list[str]:
        """What the jobs would have installed, as pip was told."""
        path = self.root / "installed"
        return path.read_text("utf-8").splitlines() if path.exists() else []

    def bake(self, *words: str, **more: str) -> str:
        """A command of the person's, with more in its environment."""
        environ = base_environment(self.root / "person") | {"BAKE_CACHE": str(self.root / "person" / "store")} | more
        done = subprocess.run(
            [BAKE, "-q", *words], cwd=self.work, env=environ, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def add_model(self, name: str, version: str = "v1") -> None:
        """A model whose weights no other has, in the lock and in a folder."""
        number = sum(name.encode() + version.encode())
        files = {
            "config.json": f'{{"model_type": "llama", "name": "{name}-{version}"}}'.encode(),
            "model.safetensors": safetensors({f"t{number}": ("U8", [WEIGHTS])}),
        }
        write(self.work / "models" / f"{name}-{version}", files)
        self.bake("add", f"{name}@{version}", f"dir://models/{name}-{version}", "--base", "scratch")

    def spoil(self, model: str) -> None:
        """Change a byte of a model behind the lock's back; once more, and it is right again."""
        path = self.work / "models" / model / "model.safetensors"
        content = path.read_bytes()
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))

    def forget_layers(self) -> None:
        """Make the lock one that was never built from, as it is after `bake add` of a model of the Hub."""
        lock = parse(self.lock.read_text("utf-8"))
        models = tuple(replace(model, packer=None, layers=()) for model in lock.models)
        self.lock.write_text(dumps(replace(lock, models=models)), "utf-8")

    def commit(self) -> str:
        return self.history.commit()

    def push(self, *refs: str) -> None:
        self.history.run("push", "-q", "--force", "origin", *(refs or ("main",)))

    def changed(self, base: str | None, head: str) -> list[str]:
        """The files that are others in two commits."""
        words = ("diff", "--name-only", base, head) if base else ("ls-tree", "-r", "--name-only", head)
        return self.history.run(*words).splitlines()

    def checkout(self, folder: Path, commit: str, *, depth: int) -> None:
        """What the checkout of a CI system leaves: one commit and so many before it, or with 0 all branches."""
        History.begin(folder).run("remote", "add", "origin", f"file://{self.origin}")
        wanted: Sequence[str] = ("+refs/heads/*:refs/remotes/origin/*", commit) if not depth else (commit,)
        History(folder).run("fetch", "-q", *([f"--depth={depth}"] if depth else []), "origin", *wanted)
        History(folder).run("checkout", "-q", "--detach", commit)


def base_environment(home: Path) -> dict[str, str]:
    """An environment that knows no store, Hub, token or cache of whoever runs the tests."""
    home.mkdir(parents=True, exist_ok=True)
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return kept | SETTINGS | {"HOME": str(home), "NO_COLOR": "1"}


def job_environment(project: Project, home: Path) -> dict[str, str]:
    """That of a job of a CI system, on a machine that is new for it."""
    environ = base_environment(home)
    path = f"{project.root / 'bin'}{os.pathsep}{environ['PATH']}"
    quick = {"BAKE_REGISTRY_BACKOFF": "0.001", "BAKE_HUB_BACKOFF": "0.001"}
    return environ | quick | {"PATH": path, "CI": "true", "INSTALLED": str(project.root / "installed")}
