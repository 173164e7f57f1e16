"""ImagePlan + template text -> Dockerfile text. Pure, and no name that comes in can become an instruction.

BuildKit makes the same layers of it as the direct builder writes, byte for byte: docs/dockerfile.md says how.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from bake import __version__, plan
from bake.errors import UsageError
from bake.units import size_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bake.lock import LockedModel
    from bake.plan import ImagePlan, LayerPlan

_PLAIN = re.compile(r"[A-Za-z0-9._/:%@+-]+")
_SPECIAL = re.compile(r"([\\'\"$])")
_GLOB = re.compile(r"[*?\[\]]")
_DIRECT = "build with --builder direct, which has no such limit"

CONTEXTS = {"actor": "model", "critic": "critic", "reward_model": "reward_model"}
"""The named build context that a model from a folder is read from, by the model's first role."""

BASE = "base"
WHEELS = "wheels"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendering:
    """What a Dockerfile of a plan needs beside itself.

    `endpoint` is the Hub that files come from, `entrypoint` and `command` are what a container runs, and `program` are
    the files of the record and the entrypoint, by their paths in the image: the build context has them at the same.
    """

    endpoint: str
    entrypoint: Sequence[str]
    command: Sequence[str]
    program: Sequence[str]
    labels: Mapping[str, str]


def render(image_plan: ImagePlan, template: str, rendering: Rendering) -> str:
    """The Dockerfile of a plan. Raises UsageError for what a Dockerfile cannot say, or not on one line."""
    from jinja2 import Environment, StrictUndefined

    check(image_plan)
    environment = Environment(  # noqa: S701 - a Dockerfile is no HTML; every value goes through a filter of its own
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    environment.filters |= {"word": _word, "words": _words, "comment": _comment, "array": _array, "size": size_text}
    return environment.from_string(template).render(
        plan=image_plan,
        version=__version__,
        base=_base(image_plan),
        scratch=image_plan.base is None,
        stages=[_stage(image_plan, layer, rendering) for layer in image_plan.layers],
        program=_by_folder(rendering.program),
        wheels=bool(image_plan.base and image_plan.base.wheels),
        contexts=list(contexts(image_plan)),
        search_path=list(image_plan.search_path),
        environment=_environment(image_plan),
        labels=rendering.labels,
        entrypoint=list(rendering.entrypoint),
        command=list(rendering.command),
        workdir=plan.WORKDIR,
        usage=_usage(image_plan, rendering),
    )


def check(image_plan: ImagePlan) -> None:
    """Raise UsageError where a file must be made of another: ADD and COPY take files as they are."""
    for planned in image_plan.models:
        if whole := [item.source.path for item in planned.model.resharded]:
            raise UsageError(
                f"a Dockerfile cannot re-shard {planned.model.id}: its files are made of {', '.join(whole)}, "
                "and ADD takes a file as it is",
                hint="bake build and bake push can, with --builder direct (the default)",
            )


def secret_id(endpoint: str) -> str:
    """The id of the build secret that BuildKit sends to a host as a bearer token (since 0.23, moby/buildkit#6023)."""
    return f"HTTP_AUTH_TOKEN_{urlsplit(endpoint).hostname}"


def contexts(image_plan: ImagePlan) -> dict[str, LockedModel]:
    """The named build contexts that a build must be given: models that lie in folders."""
    return {
        CONTEXTS[planned.roles[0]]: planned.model
        for planned in image_plan.models
        if planned.model.source.startswith("dir://")
    }


def _base(image_plan: ImagePlan) -> str:
    base = image_plan.base
    if base is None:
        return "scratch"
    if base.image.startswith("oci:"):
        return BASE
    if base.image.startswith("docker:"):
        return base.image.removeprefix("docker:")
    return f"{base.image.partition('@')[0]}@{base.digest}" if base.digest else base.image


def _environment(image_plan: ImagePlan) -> dict[str, str]:
    """Variables by name, each value ready to stand in an ENV instruction."""
    given = {key: _word(value) for key, value in image_plan.environment.items()}
    return given | {key: f"{_word(value)}${{{key}:+:${key}}}" for key, value in image_plan.search_path.items()}


def _stage(image_plan: ImagePlan, layer: LayerPlan, rendering: Rendering) -> dict[str, Any]:
    (planned,) = (planned for planned in image_plan.models if planned.model.id == layer.model)
    hub = planned.model.source.startswith("hf://")
    return {
        "title": ", ".join(file.path for file in layer.files[:3]) + (", …" if len(layer.files) > 3 else ""),
        "size": layer.size,
        "folders": _folders(layer),
        "context": None if hub else CONTEXTS[planned.roles[0]],
        "files": [
            {
                "source": _source(planned.model, file.path, rendering.endpoint),
                "target": f"./{file.path}",
                "digest": file.digest,
            }
            for file in layer.files
        ],
    }


def _folders(layer: LayerPlan) -> list[str]:
    """The folders to make before files go in, the model's own last: WORKDIR makes them 0755, ADD would take 0444."""
    below = [folder for folder in layer.directories if folder.startswith(layer.folder + "/")]
    innermost = [folder for folder in below if not any(other.startswith(folder + "/") for other in below)]
    return [f"/{folder}" for folder in (*innermost, layer.folder)]


def _url(model: LockedModel, path: str, endpoint: str) -> str:
    repo_id = model.source.removeprefix("hf://")
    return f"{endpoint.rstrip('/')}/{repo_id}/resolve/{model.commit}/{quote(path)}"


def _usage(image_plan: ImagePlan, rendering: Rendering) -> list[str]:
    lines = ["docker build"]
    if any(planned.model.source.startswith("hf://") for planned in image_plan.models):
        gated = any(planned.model.gated for planned in image_plan.models)
        lines += [f"--secret id={secret_id(rendering.endpoint)},env=HF_TOKEN"] if gated else []
    lines += [f"--build-context {name}=FOLDER" for name in contexts(image_plan)]
    if image_plan.base and image_plan.base.image.startswith("oci:"):
        lines.append(f"--build-context {BASE}=oci-layout://FOLDER@{image_plan.base.digest}")
    return [*lines, f"-t {image_plan.id.name}:{image_plan.id.version}", "."]


def _by_folder(paths: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Folders, outermost first, each with patterns of what the context holds for it: Python files by one pattern."""
    folders: dict[str, set[str]] = {}
    for path in paths:
        folder, _, name = path.rpartition("/")
        folders.setdefault(folder, set()).add(f"{folder}/*.py" if name.endswith(".py") else path)
    return [(f"/{folder}", sorted(patterns)) for folder, patterns in sorted(folders.items())]


def _source(model: LockedModel, path: str, endpoint: str) -> str:
    """Where a file is copied from: its address, or its place in a build context. Raises UsageError.

    BuildKit trims both for the names that it looks for, and takes a context's for patterns, escaped or not.
    """
    local = not model.source.startswith("hf://")
    if any(name != name.strip() for name in (path, path.rpartition("/")[2])):
        raise UsageError(f"BuildKit does not find {path!r}: it drops the space at the end of a name", hint=_DIRECT)
    if local and (_GLOB.search(path) or path.startswith("!")):
        raise UsageError(f"BuildKit does not find {path!r} in a folder: it takes the name for a pattern", hint=_DIRECT)
    return f"/{path}" if local else _url(model, path, endpoint)


def _word(text: str) -> str:
    """One word of an instruction, quoted where it must be. The builder expands `$` even inside an array's strings."""
    _check(text)
    return text if _PLAIN.fullmatch(text) else '"' + re.sub(r'([\\"$`])', r"\\\1", text) + '"'


def _words(texts: Sequence[str]) -> str:
    """The words of ADD and COPY: as they are, or as a JSON array where one of them needs it."""
    for text in texts:
        _check(text)
    if all(_PLAIN.fullmatch(text) for text in texts):
        return " ".join(texts)
    return _array([_SPECIAL.sub(r"\\\1", text) for text in texts])


def _array(texts: Sequence[str]) -> str:
    """The exec form, which is JSON."""
    return json.dumps(list(texts), ensure_ascii=False)


def _comment(text: object) -> str:
    """A text in a comment line: whatever might end the line is shown as its escape."""
    shown = str(text)
    return shown if shown.isprintable() else ascii(shown)[1:-1]


def _check(text: str) -> None:
    if not text.isprintable():
        raise UsageError(
            f"a Dockerfile cannot hold {text!r}: it has characters that are not printable",
            hint=_DIRECT,
        )
