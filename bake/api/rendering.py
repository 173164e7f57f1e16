"""`render`: the Dockerfile of a model, and the few files that it needs beside it, from the lock alone."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bake import disk, hub, plan, render
from bake.api import contents
from bake.api.templates import read_template
from bake.api.wheels import requirements
from bake.errors import OutputError, UsageError
from bake.layer import File, Link

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bake.api.workspace import Workspace
    from bake.lock import ModelId
    from bake.plan import ImagePlan

DOCKERFILE = "Dockerfile"
_MARK = "# Rendered by bake "
BAKE_FILE = "docker-bake.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """A Dockerfile, and its build context: files by path, and links by path with their targets."""

    id: ModelId
    dockerfile: str
    files: dict[str, bytes]
    links: dict[str, str]
    contexts: dict[str, str]
    secret_id: str
    gated: bool


def render_model(workspace: Workspace, model: ModelId, *, base_layers: int | None = None) -> Rendered:
    """Render one model. Needs neither network nor weights. Raises LockError, UsageError."""
    image_plan = plan.plan_image(workspace.load(), model)
    return render_plan(workspace, image_plan, base_layers=base_layers)


def render_plan(workspace: Workspace, image_plan: ImagePlan, *, base_layers: int | None = None) -> Rendered:
    """Render a plan; `base_layers` is how many layers its base has, where that is known."""
    entries = contents.image_entries(image_plan)
    files = {entry.path: entry.read() for entry in entries if isinstance(entry, File)}
    links = {f"link/{entry.path}": entry.target for entry in entries if isinstance(entry, Link)}
    if image_plan.base and image_plan.base.wheels:
        files["requirements.txt"] = requirements(image_plan.base.wheels).encode()
    rendering = render.Rendering(
        endpoint=hub.endpoint(),
        entrypoint=contents.ENTRYPOINT,
        command=contents.COMMAND,
        program=[path for path in files if "/" in path],
        labels=image_plan.labels | ({} if base_layers is None else {plan.BASE_LAYERS: str(base_layers)}),
    )
    gated = any(planned.model.gated for planned in image_plan.models)
    folders = render.contexts(image_plan)
    return Rendered(
        id=image_plan.id,
        dockerfile=render.render(image_plan, read_template("Dockerfile.j2"), rendering),
        files=files,
        links=links,
        contexts={name: str(workspace.source_folder(model).absolute()) for name, model in folders.items()},
        secret_id=render.secret_id(rendering.endpoint),
        gated=gated,
    )


def write_rendered(rendered: Rendered, folder: Path) -> None:
    """Write a Dockerfile and its context into a folder. Raises OutputError where that holds anything else."""
    _check_ours(folder)
    with disk.writing(folder):
        shutil.rmtree(folder / contents.ROOT, ignore_errors=True)  # what an older bake wrote there
        for path, target in rendered.links.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).unlink(missing_ok=True)
            (folder / path).symlink_to(target)
    for path, content in rendered.files.items():
        disk.write(folder / path, content)
    disk.write(folder / DOCKERFILE, rendered.dockerfile.encode())


def _check_ours(folder: Path) -> None:
    with disk.writing(folder):
        if folder.exists() and any(folder.iterdir()) and not _is_ours(folder):
            raise OutputError(
                f"{folder} exists and holds no {DOCKERFILE} that bake rendered",
                hint="give another folder, or remove it",
            )


def _is_ours(folder: Path) -> bool:
    dockerfile = folder / DOCKERFILE
    return dockerfile.is_file() and _MARK in dockerfile.read_text(encoding="utf-8", errors="replace")


def write_renderings(rendered: Sequence[Rendered], folder: Path | None, *, form: str) -> str:
    """Write what was rendered into a folder, if there is one; returns the Dockerfile's text, or the Bake file's."""
    if form == "dockerfile":
        (item,) = rendered
        if folder is not None:
            write_rendered(item, folder)
        return item.dockerfile
    text = json.dumps(bake_file(rendered, folder or Path()), indent=2) + "\n"
    if folder is not None:
        for item in rendered:
            _check_ours(folder / folder_name(item.id))
        for item in rendered:
            write_rendered(item, folder / folder_name(item.id))
        disk.write(folder / BAKE_FILE, text.encode())
    return text


def bake_file(rendered: Sequence[Rendered], folder: Path) -> dict[str, Any]:
    """A docker-bake.json of some models, each with its context in a folder of its own (Bake file reference)."""
    targets = {_target(item.id): _target_document(item, folder) for item in rendered}
    if len(targets) < len(rendered) or len({folder_name(item.id) for item in rendered}) < len(rendered):
        names = ", ".join(str(item.id) for item in rendered)
        raise UsageError(
            f"two of {names} would have one name in a Bake file", hint="render them into folders of their own"
        )
    return {"group": {"default": {"targets": list(targets)}}, "target": targets}


def folder_name(model: ModelId) -> str:
    return f"{model.name}-{model.version}"


def _target(model: ModelId) -> str:
    return f"{model.name}_{model.version}".replace(".", "_")


def _target_document(item: Rendered, folder: Path) -> dict[str, Any]:
    document: dict[str, Any] = {"context": folder_name(item.id), "tags": [f"{item.id.name}:{item.id.version}"]}
    if item.contexts:
        document["contexts"] = {name: _literal(os.path.relpath(place, folder)) for name, place in item.contexts.items()}
    if item.gated:
        document["secret"] = [f"id={item.secret_id},env=HF_TOKEN"]
    return document


def _literal(text: str) -> str:
    """A text in a Bake file, in which `${` and `%{` begin an expression (HCL, "Template Literals")."""
    return text.replace("${", "$${").replace("%{", "%%{")
