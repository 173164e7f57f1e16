"""GitHub Actions, as far as the workflow of images goes: events, jobs, steps, outputs, and the list of runs.

A `run:` step is run by bash as the runner does it, in a fresh clone with a fresh home for each job. The few actions are
played: a clone of the depth that is asked, and a login that is written where `docker login` writes it.
"""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tests.ci.expressions import Context, condition, environment, evaluate
from tests.ci.project import Project, job_environment
from tests.registry.faults import PASSWORD, USER

if TYPE_CHECKING:
    from tests.ci.api import Api
    from tests.registry.server import FakeRegistry

OWNER, NAME = "Org-With-Capitals", "images"
WORKFLOW = ".github/workflows/images.yml"
_SHELL = ("bash", "--noprofile", "--norc", "-eo", "pipefail")
"""What `shell: bash` is (GitHub's "Workflow syntax", jobs.<job_id>.steps[*].shell)."""


@dataclass(frozen=True, slots=True)
class Event:
    """Why the workflow runs: `base` is what the paths are compared with, None where they do not count.

    `head` is the commit that the list of runs has: that of a pull request is its branch's, and not the merge.
    """

    name: str
    ref: str
    commit: str
    head: str
    base: str | None = None


@dataclass(slots=True)
class Job:
    """What became of a job: its result, what its steps printed, and its summary."""

    name: str
    result: str
    log: str = ""
    summary: str = ""
    outputs: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GitHub:
    """The server: the project's repository, the registry in the place of ghcr.io, and the runs so far.

    `hub` is what the jobs have in the place of huggingface.co. Where no login is taken, the step that logs in fails.
    """

    project: Project
    registry: FakeRegistry
    runs: Api
    hub: str = "http://127.0.0.1:9"
    hub_token: str = ""
    takes_login: bool = True

    def push(self, *, base: str | None) -> dict[str, Job] | None:
        """Push what is committed, and run; None where no path of the workflow's is among the changed ones."""
        self.project.push()
        commit = self.project.history.run("rev-parse", "HEAD")
        return self.run(Event("push", "refs/heads/main", commit, commit, base))

    def dispatch(self) -> dict[str, Job] | None:
        commit = self.project.history.run("rev-parse", "HEAD")
        return self.run(Event("workflow_dispatch", "refs/heads/main", commit, commit))

    def pull_request(self, branch: str) -> dict[str, Job] | None:
        """The merge of a branch into main is what is checked out."""
        history = self.project.history
        history.run("checkout", "-q", "--detach", "main")
        history.run("merge", "-q", "--no-ff", "-m", "merge", branch)
        commit = history.run("rev-parse", "HEAD")
        self.project.push("main", "HEAD:refs/pull/1/merge")
        history.run("checkout", "-q", "main")
        head = history.run("rev-parse", branch)
        return self.run(Event("pull_request", "refs/pull/1/merge", commit, head, f"{commit}^1"))

    def run(self, event: Event) -> dict[str, Job] | None:
        workflow = read_texts(self.project.history.run("show", f"{event.commit}:{WORKFLOW}"))
        paths = (workflow["on"][event.name] or {}).get("paths") if event.base else None
        changed = self.project.changed(event.base, event.commit) if event.base else []
        if paths and not any(fnmatchcase(path, glob) for path in changed for glob in paths):
            return None
        context = Context(
            event=event.name, ref=event.ref, owner=OWNER, actor=USER, token=PASSWORD, hub_token=self.hub_token
        )
        jobs: dict[str, Job] = {}
        for name, job in workflow["jobs"].items():
            before = jobs.get(job.get("needs", ""))
            ready = replace(context, needs=before.outputs if before else {})
            if (before and before.result != "success") or not condition(job["if"], ready):
                jobs[name] = Job(name, "skipped")
            else:
                jobs |= {done.name: done for done in self._run_matrix(workflow, name, event, ready)}
        failed = any(job.result == "failure" for job in jobs.values())
        # a pull request's branch is that of its fork, and may be called main there
        branch = "main" if event.name == "pull_request" else event.ref.removeprefix("refs/heads/")
        conclusion = "failure" if failed else "success"
        self.runs.add(
            event=event.name, head_branch=branch, head_sha=event.head, status="completed", conclusion=conclusion
        )
        return jobs

    def _run_matrix(self, workflow: Any, name: str, event: Event, context: Context) -> list[Job]:
        job = workflow["jobs"][name]
        matrix = job.get("strategy", {}).get("matrix")
        each = evaluate(matrix, context)["include"] if matrix else [{}]
        return [self._run_job(workflow, name, event, replace(context, matrix=values)) for values in each]

    def _run_job(self, workflow: Any, name: str, event: Event, context: Context) -> Job:
        job = workflow["jobs"][name]
        assert evaluate(job["runs-on"], context) == "ubuntu-24.04"
        place = Path(self.project.root, "jobs", str(len(list(self.project.root.glob("jobs/*")))))
        environ = job_environment(self.project, place / "home") | self._variables(event, place)
        environ |= environment(workflow["env"], context) | environment(job.get("env", {}), context)
        environ["IMAGES"] = environ["IMAGES"].replace("ghcr.io", self.registry.host)
        done = Job(evaluate(job["name"], context) if context.matrix else name, "success")
        for step in job["steps"]:
            failed = self._run_step(step, done, event, context, place=place, environ=environ)
            if failed and step.get("continue-on-error") != "true":
                done.result = "failure"
                break
        named = replace(context, outputs=done.outputs)
        wanted = job.get("outputs", {}) if done.result == "success" else {}
        done.outputs = environment(wanted, named)
        done.summary = _text(place / "summary")
        shutil.rmtree(place / "work")
        return done

    def _run_step(
        self, step: Any, job: Job, event: Event, context: Context, *, place: Path, environ: dict[str, str]
    ) -> bool:
        if "uses" in step:
            options = environment(step.get("with", {}), context)
            return not _ACTIONS[step["uses"].partition("@")[0]](self, options, event, place)
        (place / "output").write_text("")
        (place / "step.sh").write_text(step["run"])
        done = subprocess.run(
            [*_SHELL, str(place / "step.sh")],
            cwd=place / "work",
            env=environ | environment(step.get("env", {}), context),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        job.log += done.stdout
        job.outputs |= dict(line.split("=", 1) for line in _text(place / "output").splitlines())
        return done.returncode != 0

    def _variables(self, event: Event, place: Path) -> dict[str, str]:
        """GitHub's "Default environment variables", as far as the steps use them."""
        return {
            "HF_ENDPOINT": self.hub,
            "GITHUB_API_URL": self.runs.url,
            "GITHUB_EVENT_NAME": event.name,
            "GITHUB_OUTPUT": str(place / "output"),
            "GITHUB_REF_NAME": event.ref.removeprefix("refs/heads/").removeprefix("refs/pull/"),
            "GITHUB_REPOSITORY": f"{OWNER}/{NAME}",
            "GITHUB_STEP_SUMMARY": str(place / "summary"),
            "GITHUB_WORKFLOW_REF": f"{OWNER}/{NAME}/{WORKFLOW}@{event.ref}",
        }

    def _check_out(self, options: dict[str, str], event: Event, place: Path) -> bool:
        assert options["persist-credentials"] == "false"
        self.project.checkout(place / "work", event.commit, depth=int(options.get("fetch-depth", "1")))
        return True

    def _set_up_python(self, options: dict[str, str], _event: Event, _place: Path) -> bool:
        assert options == {"python-version": "3.13"}
        return True

    def _log_in(self, options: dict[str, str], _event: Event, place: Path) -> bool:
        assert options["registry"] == "ghcr.io"
        if not self.takes_login:
            return False
        auth = base64.b64encode(f"{options['username']}:{options['password']}".encode()).decode()
        config = place / "home" / ".docker" / "config.json"
        config.parent.mkdir(parents=True)
        config.write_text(json.dumps({"auths": {self.registry.host: {"auth": auth}}}))
        return True


_ACTIONS = {
    "actions/checkout": GitHub._check_out,
    "actions/setup-python": GitHub._set_up_python,
    "docker/login-action": GitHub._log_in,
}


def read_texts(document: str) -> Any:
    """YAML in which every value is a text: to YAML 1.1, the key `on` is a boolean, and to GitHub it is not."""
    return yaml.load(document, Loader=yaml.BaseLoader)  # noqa: S506 - it makes nothing but texts, lists and dicts


def _text(path: Path) -> str:
    return path.read_text("utf-8") if path.exists() else ""
