"""Templates: what files that bake writes look like, as text. They are files of `templates/`, and read nowhere else."""

from __future__ import annotations

from pathlib import Path

import bake


def read_template(name: str) -> str:
    """A file of `templates/`: beside the package in a checkout, inside it once installed."""
    package = Path(bake.__file__).parent
    for folder in (package / "templates", package.parent / "templates"):
        if (folder / name).is_file():
            return (folder / name).read_text(encoding="utf-8")
    raise FileNotFoundError(f"templates/{name}")
