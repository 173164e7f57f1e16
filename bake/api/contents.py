"""What an image holds beside weights: the record, the entrypoint, and a folder that any user may write into."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

from bake.layer import Directory, File, Link
from bake.plan import RECORD, WORKDIR

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

    from bake.plan import ImagePlan

ROOT = "opt/bake"
_MODULES = ("__init__.py", "errors.py", "digest.py", "record.py")
_MAIN = b"""from bake.entrypoint.__main__ import run

run()
"""

ENTRYPOINT = ("python3", f"/{ROOT}")
COMMAND = ("train",)


def image_entries(image_plan: ImagePlan) -> list[Directory | File | Link]:
    """The entries of an image's last layer. On scratch there is no Python to run: the record alone, and `models`.

    `models` leads to the model from wherever the image is mounted: as a Kubernetes image volume, or as a model car.
    """
    record = File.of(RECORD, image_plan.record.dumps())
    if image_plan.base is None:
        return [record, Link("models", image_plan.models[0].folder)]
    return [
        record,
        Directory(WORKDIR.lstrip("/"), mode=0o1777),
        File.of(f"{ROOT}/__main__.py", _MAIN),
        *(File.of(f"{ROOT}/bake/{path}", content) for path, content in _package()),
    ]


def _package() -> Iterator[tuple[str, bytes]]:
    package = resources.files("bake")
    for name in _MODULES:
        yield name, (package / name).read_bytes()
    yield from _below(package / "entrypoint", "entrypoint")


def _below(folder: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
    for item in sorted(folder.iterdir(), key=lambda item: item.name):
        if item.is_dir() and item.name != "__pycache__":
            yield from _below(item, f"{path}/{item.name}")
        elif item.name.endswith(".py"):
            yield f"{path}/{item.name}", item.read_bytes()
