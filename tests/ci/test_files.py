"""The workflows of this repository, and what `bake init --ci` writes: valid, safe, and shell that a linter takes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from bake.api.ci_files import FILES, PINS, System, render_ci
from tests.ci.github import read_texts
from tests.ci.project import REQUIREMENT

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


def scripts() -> dict[str, str]:
    """The shell of every step and job, by where it is."""
    github = {path.name: path.read_text("utf-8") for path in OWN} | written_for("github")
    found = {path: scripts_of_github(text) for path, text in github.items()}
    found |= {path: scripts_of_gitlab(text) for path, text in written_for("gitlab").items()}
    return {f"{path.replace('/', '-')}-{at}.sh": text for path, texts in found.items() for at, text in enumerate(texts)}


def written_for(system: System) -> dict[str, str]:
    return {path: text for path, text in rendered(system).items() if path in FILES[system]}


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


def test_the_workflows_of_this_repository_and_the_one_that_is_written_are_valid(written: Path) -> None:
    paths = [*OWN, *(written / path for path in FILES["github"])]

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


def test_the_shell_of_every_step_is_sound(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in scripts()]
    for path, script in zip(paths, scripts().values(), strict=True):
        path.write_text(script, "utf-8")

    assert check("shellcheck", "--shell=bash", "--severity=style", *paths) == (0, "")
