"""Installed: the verl that `python -m verl.trainer.main_ppo` will run. Found without importing it, or torch."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path

from bake.entrypoint.installed import version_of
from bake.errors import ImageError

CONFIG_NAME = "ppo_trainer"
MEGATRON_CONFIG_NAME = "ppo_megatron_trainer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """`folder` is the package's own; `release` as (0, 9), None where it does not say."""

    folder: Path
    release: tuple[int, int] | None

    @property
    def configuration(self) -> Path:
        return self.folder / "trainer/config"

    def since(self, *release: int) -> bool:
        """A release that is not known is taken for the newest: an old verl refuses a new key aloud, while a new one
        may ignore an old key in silence.
        """
        return self.release is None or self.release >= release

    def __str__(self) -> str:
        return "this verl" if self.release is None else f"verl {self.release[0]}.{self.release[1]}"


def find_verl() -> Installed:
    """Raises ImageError where verl, its configuration or Hydra is not there.

    `python -m` looks in the current folder first, where a checkout may be mounted, and so does this.
    """
    spec = PathFinder.find_spec("verl", [str(Path.cwd())])
    if spec is None or spec.origin is None:  # a folder without __init__.py is no package of verl's
        spec = find_spec("verl")
    if spec is None or spec.origin is None:
        raise ImageError(
            "verl is not installed in this image",
            hint="build the image with a base in models.lock that names a verl version",
        )
    folder = Path(spec.origin).parent
    installed = Installed(folder=folder, release=_release(folder))
    if not (installed.configuration / f"{CONFIG_NAME}.yaml").is_file():
        raise ImageError(
            f"verl in {folder} has no trainer/config/{CONFIG_NAME}.yaml",
            hint="install verl again: pip install --no-deps --force-reinstall verl==VERSION",
        )
    if not importable("hydra"):
        raise ImageError(
            "hydra is not installed in this image, and verl cannot start without it",
            hint="build on a base that has verl's needs, or pip install hydra-core",
        )
    return installed


def importable(name: str) -> bool:
    """Whether a top-level package is there; it is not imported, so that it may still fail when it is."""
    return find_spec(name) is not None


def _release(folder: Path) -> tuple[int, int] | None:
    """What the package says of itself comes before the metadata, which may be another copy's."""
    try:
        text = (folder / "version/version").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        text = version_of("verl") or ""
    found = re.match(r"\s*(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else None
