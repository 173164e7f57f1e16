"""Program: whether the bake that goes into images, or that makes them, is another than at a git revision.

Where bake has its source in the repository, its own files tell. Elsewhere only the pins do: files that say which bake
is installed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import bake
from bake.api.contents import ROOT, image_entries
from bake.errors import UsageError
from bake.git import blob_id
from bake.layer import File
from bake.plan import plan_image

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bake.git import Repository
    from bake.lock import Lock
    from bake.reasons import Program

_RULES = ("api/contents.py", "image.py", "plan.py")
"""What decides the rest of an image: its entries, settings and labels. The packer has a version of its own."""


def find_program(repository: Repository, commit: str, *, now: Lock, pins: Sequence[Path]) -> Program:
    """What of bake is another than at a commit. What runs is compared, committed or not. Raises UsageError."""
    pinned = [_is_other(repository, commit, pin) for pin in pins]  # all are looked at: one may be mistyped
    if any(pinned):
        return "any"
    package = Path(bake.__file__).resolve().parent
    source = _source(repository, package)
    if source is None:
        return "same"
    then = {path.relative_to(source).as_posix(): name for path, name in repository.blobs(commit, source).items()}
    if any(_differs((package / path).read_bytes(), then.get(path)) for path in _RULES):
        return "any"
    return "in images on a base" if _is_other_program(now, then) else "same"


def _is_other(repository: Repository, commit: str, pin: Path) -> bool:
    path = pin.resolve()
    then = repository.blobs(commit, path).get(path)
    try:
        return _differs(path.read_bytes(), then)
    except FileNotFoundError as error:
        if then is not None:
            return True
        raise UsageError(
            f"--pin {pin}: no such file, neither now nor then", hint="it is the file that pins bake"
        ) from error
    except OSError as error:
        raise UsageError(
            f"--pin {pin}: cannot read it: {error.strerror}", hint="it is the file that pins bake"
        ) from error


def _differs(content: bytes, then: str | None) -> bool:
    return then is None or blob_id(content, like=then) != then


def _source(repository: Repository, package: Path) -> Path | None:
    """The package in this repository: where bake runs from, or was installed from (`pip install .`).

    Git must watch over it. It does not over a virtual environment that it ignores, nor over what is in a submodule.
    """
    for folder in (package, _installed_from(package)):
        if folder and folder.is_relative_to(repository.top) and repository.is_tracked(folder / "__init__.py"):
            return folder
    return None


def _installed_from(package: Path) -> Path | None:
    """The package in the folder that an installer took it from (PEP 610, `dir_info`)."""
    from importlib import metadata

    try:
        installed = metadata.distribution("bake")
    except metadata.PackageNotFoundError:
        return None
    text = installed.read_text("direct_url.json")
    if text is None or Path(str(installed.locate_file(""))).resolve() != package.parent:
        return None
    document = json.loads(text)
    folder = Path(unquote(urlsplit(document["url"]).path)).resolve() / package.name
    return folder if "dir_info" in document and folder.is_dir() else None


def _is_other_program(now: Lock, then: Mapping[str, str]) -> bool:
    """Whether bake's files that go into images are others than those of the commit, by path in the package."""
    based = next((model for model in now.models if now.find_base(model.base)), None)
    if based is None:
        return False
    prefix = f"{ROOT}/bake/"
    entries = (entry for entry in image_entries(plan_image(now, based.id)) if isinstance(entry, File))
    held = {entry.path.removeprefix(prefix): entry.read() for entry in entries if entry.path.startswith(prefix)}
    gone = {path for path in then if path.startswith("entrypoint/") and path.endswith(".py")} - set(held)
    return bool(gone) or any(_differs(content, then.get(path)) for path, content in held.items())
