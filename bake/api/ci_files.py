"""CI files: the workflow that builds the images of a lock, written into its repository once and then its owner's.

Nothing that is there is written over, and all of the files come, or none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from bake import disk
from bake.api import locking
from bake.api.pin import HERE, installed_requirement, parse_requirement
from bake.api.templates import read_template
from bake.api.workspace import shown_path
from bake.errors import OutputError, UsageError
from bake.git import Repository

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from bake.api.workspace import Workspace

System = Literal["github", "gitlab"]

FILES: dict[System, dict[str, str]] = {
    "github": {".github/workflows/images.yml": "images.github.yml.j2"},
    "gitlab": {".gitlab/bake.yml": "images.gitlab.yml.j2", ".gitlab/bake-job.yml": "images-job.gitlab.yml.j2"},
}
"""The files of each system, by their paths in the repository, with their templates."""

PINS: dict[System, str] = {"github": ".github/bake-requirements.txt", "gitlab": ".gitlab/bake-requirements.txt"}
"""The file that says which bake CI installs; it is not there where that is the checkout's own."""

ACTIONS = {
    "checkout": "actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1",
    "setup_python": "actions/setup-python@5fda3b95a4ea91299a34e894583c3862153e4b97 # v7.0.0",
    "login": "docker/login-action@4907a6ddec9925e35a0a9e82d7399ccc52663121 # v4.1.0",
}
"""Actions by commit, since a tag can be moved."""

_OWN_PATHS = ("bake/**", "templates/**", "pyproject.toml")
"""What decides images beside the lock in bake's own repository."""

_PLAIN = re.compile(r"[\w./-]+")
"""A path, or a branch, that means itself in YAML, to a shell and as a pattern of paths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Initiated:
    """What was written, in the repository `top`; `lock` among it where there was none. `branch` is what pushes."""

    system: System
    top: Path
    lock: Path
    files: tuple[Path, ...]
    branch: str

    def document(self) -> dict[str, object]:
        return {"lock": str(self.lock), "files": [str(path) for path in self.files]}

    def notes(self) -> list[str]:
        """What to do now, beside committing the files."""
        if not self.files:
            return ["nothing to write: all of it is there already, as it would be written"]
        where, secret = _NOTES[self.system]
        shown = shown_path(self.top / next(reversed(FILES[self.system])))
        return [f"next: commit them{where.format(branch=self.branch, shown=shown)}", secret]


_NOTES: dict[System, tuple[str, str]] = {
    "github": (
        "; {branch} then pushes the images to IMAGES in {shown}, with the workflow's own token",
        "gated models need the repository's secret HF_TOKEN: gh secret set HF_TOKEN",
    ),
    "gitlab": (
        ", and write `include: /.gitlab/bake.yml` into .gitlab-ci.yml; {branch} then pushes to IMAGES in {shown}",
        "gated models need the CI/CD variable HF_TOKEN, masked and protected (Settings, CI/CD, Variables)",
    ),
}
"""What is to be done before the images come, by system; and for models that need a token."""


def init_ci(workspace: Workspace, system: System, *, install: str | None = None) -> Initiated:
    """Write what lets CI build the images of a lock, and the lock where there is none.

    `install` is the requirement by which CI gets bake; without it, that by which the bake that runs was installed.
    Raises UsageError; OutputError, which names each file that is there already.
    """
    repository = _repository(workspace)
    top = repository.top
    lock = _plain(workspace.path.resolve().relative_to(top).as_posix(), what="the lock's path")
    branch = _plain(repository.default_branch(), what="the branch")
    requirement, note = parse_requirement(install) if install is not None else installed_requirement()
    contents = render_ci(system, lock=lock, branch=branch, requirement=requirement)
    files = {top / path: text for path, text in contents.items()}
    written = _write_all(workspace, _absent(files))
    if note:
        workspace.progress.warn(note)
    return Initiated(system=system, top=top, lock=workspace.path, files=written, branch=branch)


def render_ci(system: System, *, lock: str, branch: str, requirement: str) -> dict[str, str]:
    """Each file's text, by its path in the repository."""
    pin = None if requirement == HERE else PINS[system]
    install = f"python -m pip install {f'-r {pin}' if pin else requirement}"
    paths = [lock, *([pin] if pin else _OWN_PATHS), *FILES[system]]
    values: dict[str, object] = {
        "lock": lock,
        "branch": branch,
        "paths": paths,
        "install": install,
        "pin": f" --pin {pin}" if pin else "",
    }
    rendered = {path: _render(template, ACTIONS | values) for path, template in FILES[system].items()}
    return rendered | ({pin: f"{requirement}\n"} if pin else {})


def _repository(workspace: Workspace) -> Repository:
    """The repository that the lock is in: CI looks in its uppermost folder."""
    try:
        return Repository.around(workspace.path.resolve().parent)
    except UsageError as error:
        absent = error.message.startswith("expected a git repository")
        raise UsageError(error.message, hint="git init" if absent else error.hint) from error


def _render(template: str, values: Mapping[str, object]) -> str:
    """GitHub's expressions, and a shell's tests, are written as Jinja writes its own: so it is told to use others."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(  # noqa: S701 - no HTML; whatever goes in is plain
        variable_start_string="<@",
        variable_end_string="@>",
        block_start_string="<%",
        block_end_string="%>",
        comment_start_string="<#",
        comment_end_string="#>",
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.from_string(read_template(template)).render(values)


def _plain(text: str, *, what: str) -> str:
    if not _PLAIN.fullmatch(text):
        raise UsageError(
            f"{what}: expected letters, digits and ._/- alone, since it is written into a workflow: {text}"
        )
    return text


def _absent(files: Mapping[Path, str]) -> dict[Path, str]:
    """The files that are not there. Raises OutputError for all that are there and are others."""
    there = {path: text for path, text in files.items() if path.exists() or path.is_symlink()}
    if others := [path for path, text in there.items() if not path.is_file() or path.read_bytes() != text.encode()]:
        raise OutputError(
            f"there already, and never written over: {', '.join(map(shown_path, others))}",
            hint="move it away, write it anew, and compare the two; nothing was written now",
        )
    return {path: text for path, text in files.items() if path not in there}


def _write_all(workspace: Workspace, files: Mapping[Path, str]) -> tuple[Path, ...]:
    """All of them, or none: what was written is deleted where another one cannot be."""
    written: list[Path] = []
    try:
        if not workspace.path.exists():
            locking.init(workspace)
            written.append(workspace.path)
        for path, text in files.items():
            disk.write(path, text.encode())
            written.append(path)
    except BaseException:
        for path in written:
            path.unlink(missing_ok=True)
        raise
    return tuple(written)
