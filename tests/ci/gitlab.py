"""GitLab CI, as far as the pipeline of images goes: rules, `extends`, `needs`, artifacts, deployments, a child.

The lines of a job are run by bash as the runner does it, one script for all of them, in a fresh clone and a fresh home.
"""

from __future__ import annotations

import json
import shutil
import string
import subprocess
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tests.ci.project import Project, job_environment
from tests.registry.faults import PASSWORD, USER

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.ci.api import Api
    from tests.registry.server import FakeRegistry

FILE = ".gitlab/bake.yml"
SKIPPED = "skipped"
STAGES = (".pre", "build", "test", "deploy", ".post")
"""Those of a pipeline that names none ("stages"). A child's are its own: it knows none of its parent's."""

_ON_MAIN = "$CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH"
_CONDITIONS: dict[str, Callable[[dict[str, str]], bool]] = {
    '$CI_PIPELINE_SOURCE == "merge_request_event"': lambda known: known["CI_PIPELINE_SOURCE"] == "merge_request_event",
    f'{_ON_MAIN} && $BAKE_ALL == "true"': lambda known: (
        known.get("CI_COMMIT_BRANCH") == "main" and known.get("BAKE_ALL") == "true"
    ),
    f'{_ON_MAIN} && $CI_PIPELINE_SOURCE == "push"': lambda known: (
        known.get("CI_COMMIT_BRANCH") == "main" and known["CI_PIPELINE_SOURCE"] == "push"
    ),
}
"""What the conditions of rules mean; one that is not here fails the test that meets it."""


@dataclass(slots=True)
class Job:
    """What became of a job, what its lines printed, and the files that it left for others."""

    result: str
    log: str = ""
    artifacts: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GitLab:
    """The server: the project's repository, its registry, and the deployments so far.

    `stages` are those of the project's own `.gitlab-ci.yml`.
    """

    project: Project
    registry: FakeRegistry
    deployments: Api
    stages: tuple[str, ...] = STAGES

    def push(self, *, base: str | None, **variables: str) -> dict[str, Job]:
        """Push what is committed, and run the pipeline of main."""
        self.project.push()
        commit = self.project.history.run("rev-parse", "HEAD")
        known = {"CI_PIPELINE_SOURCE": "push", "CI_COMMIT_BRANCH": "main", "CI_COMMIT_SHA": commit} | variables
        return self._run(known, changed=self.project.changed(base, commit))

    def by_hand(self, **variables: str) -> dict[str, Job]:
        commit = self.project.history.run("rev-parse", "HEAD")
        known = {"CI_PIPELINE_SOURCE": "web", "CI_COMMIT_BRANCH": "main", "CI_COMMIT_SHA": commit}
        return self._run(known | variables, changed=[])

    def merge_request(self, branch: str, **variables: str) -> dict[str, Job]:
        """The pipeline of a branch, for GitLab checks out the branch itself unless results are merged first."""
        history = self.project.history
        self.project.push("main", branch)
        commit, base = history.run("rev-parse", branch), history.run("merge-base", "main", branch)
        known = {"CI_PIPELINE_SOURCE": "merge_request_event", "CI_MERGE_REQUEST_DIFF_BASE_SHA": base}
        return self._run(known | {"CI_COMMIT_SHA": commit} | variables, changed=self.project.changed(base, commit))

    def _run(self, known: dict[str, str], *, changed: list[str]) -> dict[str, Job]:
        known = self._predefined() | known
        document = self._read(known["CI_COMMIT_SHA"], FILE)
        jobs: dict[str, Job] = {}
        for name, job in _jobs(document, stages=self.stages).items():
            if not _applies(job["rules"], known, changed):
                continue
            if any(jobs[before].result != "success" for before in job.get("needs", [])):
                jobs[name] = Job(SKIPPED)
            elif "trigger" in job:
                jobs |= self._run_child(name, job["trigger"], jobs, known)
            else:
                jobs[name] = self._run_job(job, known)
        return jobs

    def _run_child(self, name: str, trigger: Any, before: dict[str, Job], known: dict[str, str]) -> dict[str, Job]:
        """The child's jobs, and that which triggered it; it waits for them (`strategy: depend`) and ends as they do."""
        (include,) = trigger["include"]
        assert trigger["strategy"] == "depend"
        document = json.loads(before[include["job"]].artifacts[include["artifact"]])
        for other in document.pop("include", []):
            document = self._read(known["CI_COMMIT_SHA"], other["local"]) | document
        done = {title: self._run_job(job, known) for title, job in _jobs(document, stages=STAGES).items()}
        failed = any(job.result != "success" for job in done.values())
        return done | {name: Job("failed" if failed else "success")}

    def _read(self, commit: str, path: str) -> dict[str, Any]:
        document = yaml.safe_load(self.project.history.run("show", f"{commit}:{path.lstrip('/')}"))
        for other in document.pop("include", []):
            document = self._read(commit, other["local"]) | document
        return dict(document)

    def _run_job(self, job: Any, known: dict[str, str]) -> Job:
        place = Path(self.project.root, "jobs", str(len(list(self.project.root.glob("jobs/*")))))
        variables = {name: str(value) for name, value in job.get("variables", {}).items()}
        environ = job_environment(self.project, place / "home") | known
        environ |= {name: string.Template(value).substitute(environ) for name, value in variables.items()}
        work = place / "work"
        if variables.get("GIT_STRATEGY") == "none":
            work.mkdir()
        else:
            self.project.checkout(work, known["CI_COMMIT_SHA"], depth=int(variables.get("GIT_DEPTH", "20")))
        (place / "script.sh").write_text("\n".join([*job.get("before_script", []), *job["script"]]))
        done = subprocess.run(
            ["bash", "-eo", "pipefail", str(place / "script.sh")],
            cwd=work,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        good = done.returncode == 0
        left = job.get("artifacts", {})
        paths = left.get("paths", []) if good or left.get("when") == "always" else []
        ended = Job("success" if good else "failed", done.stdout, _files(work, paths))
        if "environment" in job:
            status = "success" if good else "failed"
            self.deployments.add(environment=job["environment"], status=status, sha=known["CI_COMMIT_SHA"])
        shutil.rmtree(work)
        return ended

    def _predefined(self) -> dict[str, str]:
        """GitLab's "Predefined CI/CD variables", as far as the jobs use them."""
        return {
            "CI_API_V4_URL": self.deployments.url,
            "CI_PROJECT_ID": "42",
            "CI_JOB_TOKEN": PASSWORD,
            "CI_DEFAULT_BRANCH": "main",
            "CI_REGISTRY": self.registry.host,
            "CI_REGISTRY_IMAGE": f"{self.registry.host}/group/project",
            "CI_REGISTRY_USER": USER,
            "CI_REGISTRY_PASSWORD": PASSWORD,
        }


def _jobs(document: dict[str, Any], *, stages: tuple[str, ...]) -> dict[str, Any]:
    """The jobs that run, each with what it extends: mappings are merged, all else is replaced ("extends").

    GitLab refuses a pipeline in which a job is of a stage that is not among its stages.
    """
    jobs = {
        name: _merged(document[job["extends"]], job) if "extends" in job else job
        for name, job in document.items()
        if not name.startswith(".")
    }
    assert {job.get("stage", "test") for job in jobs.values()} <= set(stages)
    return jobs


def _merged(below: Any, above: Any) -> Any:
    if not (isinstance(below, dict) and isinstance(above, dict)):
        return above
    return below | {key: _merged(below.get(key), value) for key, value in above.items()}


def _applies(rules: Any, known: dict[str, str], changed: list[str]) -> bool:
    return any(
        _CONDITIONS[rule["if"]](known)
        and ("changes" not in rule or any(fnmatchcase(path, glob) for path in changed for glob in rule["changes"]))
        for rule in rules
    )


def _files(work: Path, globs: list[str]) -> dict[str, str]:
    found = (path for glob in globs for path in work.glob(glob) if path.is_file())
    return {str(path.relative_to(work)): path.read_text("utf-8") for path in found}
