"""The one step that the other tests play: pip installs bake from its pin, and that bake writes the same files."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bake.api.ci_files import render_ci
from tests.ci.github import read_texts
from tests.ci.project import REQUIREMENT, base_environment
from tests.entrypoint.files import write
from tests.history import History

ROOT = Path(__file__).parents[2]
WORKFLOW = ".github/workflows/images.yml"

pytestmark = pytest.mark.slow


def run(*words: str | Path, cwd: Path, **environ: str) -> str:
    done = subprocess.run(words, cwd=cwd, env=os.environ | environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def pin(tmp_path: Path) -> str:
    """A requirement that leads to a wheel of this bake, by its digest."""
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", tmp_path / "wheels", ROOT, cwd=tmp_path)
    (wheel,) = (tmp_path / "wheels").iterdir()
    return f"bake @ {wheel.as_uri()}#sha256={hashlib.sha256(wheel.read_bytes()).hexdigest()}"


def test_the_step_that_installs_bake_gives_one_that_writes_these_very_files(pin: str, tmp_path: Path) -> None:
    files = render_ci("github", lock="models.lock", branch="main", requirement=pin)
    work = History.begin(write(tmp_path / "work", {path: text.encode() for path, text in files.items()})).top
    run(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    path = f"{tmp_path / 'venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    (install,) = {
        step["run"]
        for step in read_texts(files[WORKFLOW])["jobs"]["push"]["steps"]
        if step.get("name") == "Install bake"
    }

    run("bash", "-eo", "pipefail", "-c", install, cwd=work, PATH=path)
    other = History.begin(tmp_path / "other").top
    environ = base_environment(tmp_path / "home") | {"PATH": path}
    run("bake", "-q", "init", "--ci", "gitlab", "--install", REQUIREMENT, cwd=other, **environ)

    written = render_ci("gitlab", lock="models.lock", branch="main", requirement=REQUIREMENT)
    assert {name: (other / name).read_text("utf-8") for name in written} == written
