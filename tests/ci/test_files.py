"""The workflows of this repository, and what `bake init --ci` writes: valid, safe, and shell that a linter takes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from bake.api.ci_files import FILES, PINS, System, render_ci
from tests.ci.github import read_texts
from tests.ci.project import REQUIREMENT

if TYPE_CHECKING:
    from _pytest.mark.structures import ParameterSet

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
OWN = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def rendered(system: System) -> dict[str, str]:
    return render_ci(system, lock="models/models.lock", branch="trunk", requirement=REQUIREMENT)


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A folder with what is written for both systems."""
    for path, text in (rendered("github") | rendered("gitlab")).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, "utf-8")
    return tmp_path


def check(*words: str | Path) -> tuple[int, str]:
    """A linter's exit code, and what it says."""
    done = subprocess.run([BIN / words[0], *words[1:]], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def scripts_of_github(text: str) -> list[str]:
    jobs = read_texts(text)["jobs"].values()
    return [step["run"] for job in jobs for step in job["steps"] if "run" in step]


def scripts_of_gitlab(text: str) -> list[str]:
    jobs = [job for job in yaml.safe_load(text).values() if isinstance(job, dict)]
    return ["\n".join([*job.get("before_script", []), *job["script"]]) for job in jobs if "script" in job]


def scripts(name: str, found: list[str]) -> list[ParameterSet]:
    return [pytest.param(script, id=f"{name}-{at}") for at, script in enumerate(found)]


SCRIPTS = [
    *(case for path in OWN for case in scripts(path.name, scripts_of_github(path.read_text("utf-8")))),
    *(case for path in FILES["github"] for case in scripts(path, scripts_of_github(rendered("github")[path]))),
    *(case for path in FILES["gitlab"] for case in scripts(path, scripts_of_gitlab(rendered("gitlab")[path]))),
]


def test_this_repository_s_own_workflow_is_the_one_that_is_written() -> None:
    own = render_ci("github", lock="models.lock", branch="main", requirement=".")

    assert {path: (ROOT / path).read_text("utf-8") for path in own} == own


def test_a_pin_is_a_file_of_its_own_and_starts_the_workflow() -> None:
    files = rendered("github")
    workflow = read_texts(files[".github/workflows/images.yml"])

    assert files[PINS["github"]] == f"{REQUIREMENT}\n"
    assert workflow["on"]["push"] == {
        "branches": ["trunk"],
        "paths": ["models/models.lock", ".github/bake-requirements.txt", ".github/workflows/images.yml"],
    }
    assert workflow["on"]["pull_request"] == {"paths": workflow["on"]["push"]["paths"]}
    assert workflow["env"]["BAKE_LOCK"] == "models/models.lock"


def test_only_the_job_that_pushes_may_write_packages_and_nothing_may_write_the_repository() -> None:
    jobs = read_texts(rendered("github")[".github/workflows/images.yml"])["jobs"]

    assert {name: job["permissions"] for name, job in jobs.items()} == {
        "check": {"contents": "read", "packages": "read"},
        "changes": {"contents": "read", "actions": "read"},
        "push": {"contents": "read", "packages": "write"},
    }


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_the_workflows_of_this_repository_are_valid(path: Path) -> None:
    assert check("check-jsonschema", "--builtin-schema", "vendor.github-workflows", path) == (
        0,
        "ok -- validation done\n",
    )


def test_the_workflow_that_is_written_is_valid(written: Path) -> None:
    paths = [written / path for path in FILES["github"]]

    assert check("check-jsonschema", "--builtin-schema", "vendor.github-workflows", *paths) == (
        0,
        "ok -- validation done\n",
    )


def test_the_pipeline_that_is_written_is_valid(written: Path) -> None:
    paths = [written / path for path in FILES["gitlab"]]
    schema = ("--builtin-schema", "vendor.gitlab-ci", "--data-transform", "gitlab-ci")

    assert check("check-jsonschema", *schema, *paths) == (0, "ok -- validation done\n")


def test_no_workflow_has_anything_that_zizmor_warns_of(written: Path) -> None:
    """Offline: what an online audit would say of an action's commit is not asked."""
    code, said = check("zizmor", "--offline", "--pedantic", "--no-progress", *OWN, written)

    assert (code, "No findings to report" in said) == (0, True), said


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_shell_of_every_step_is_sound(script: str, tmp_path: Path) -> None:
    (tmp_path / "step.sh").write_text(script, "utf-8")

    assert check("shellcheck", "--shell=bash", "--severity=style", tmp_path / "step.sh") == (0, "")
