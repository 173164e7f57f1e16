"""Extensions: code that is not of a released verl, and may add to what verl knows. It is looked for, never imported."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from bake.entrypoint.launch.installed import find_verl
from bake.errors import ImageError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from bake.entrypoint.settings import Settings

_LOADED = (
    "actor_rollout_ref.model.external_lib",
    "critic.model.external_lib",
    "custom_reward_function.path",
    "reward.custom_reward_function.path",
    "reward.reward_manager.module.path",
    "data.custom_cls.path",
    "data.sampler.class_path",
    "data.datagen.path",
    "trainer.v1.sampler.custom_sampler.path",
)
"""Files and modules that verl loads while it trains (`load_extern_*` and `import_external_libs`, 0.5.0 to 0.9.1)."""


def registers(environ: Mapping[str, str]) -> bool:
    """Whether verl imports code at its very start, so that it may register what it brings (verl/__init__.py, 0.9.1)."""
    if environ.get("VERL_USE_EXTERNAL_MODULES"):
        return True
    plugins = environ.get("VERL_USE_EXTERNAL_PLUGINS", "auto").strip().lower()
    return plugins != "none" and bool(entry_points(group="verl.plugins"))


def loads(settings: Settings) -> bool:
    """Whether the settings name code of one's own, which may register a value before verl asks for it."""
    return settings.first(*_LOADED) is not None


def has_word(value: str) -> bool:
    """Whether the verl of this image has the value as a text in its code: a changed verl may know more than a release.

    Some hundred files, read in a fifth of a second: only where a value is not known.
    """
    try:
        folder = find_verl().folder
    except ImageError:
        return False
    words = tuple(f"{quote}{value}{quote}".encode() for quote in "'\"")
    return any(word in content for content in map(_read, folder.rglob("*.py")) for word in words)


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""
