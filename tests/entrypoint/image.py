"""The entrypoint as it lies in an image: a copy of its files alone."""

from __future__ import annotations

import shutil
from pathlib import Path

import bake

_IN_IMAGE = ("__init__.py", "errors.py", "digest.py", "record.py", "entrypoint")
_MAIN = "from bake.entrypoint.__main__ import run\n\nrun()\n"


def put_entrypoint(root: Path) -> None:
    """What `python3 /opt/bake` runs, below another root."""
    package = root / "opt/bake/bake"
    package.mkdir(parents=True)
    source = Path(bake.__file__).parent
    for name in _IN_IMAGE:
        copy = shutil.copytree if (source / name).is_dir() else shutil.copy
        copy(source / name, package / name)
    (root / "opt/bake/__main__.py").write_text(_MAIN, "utf-8")
