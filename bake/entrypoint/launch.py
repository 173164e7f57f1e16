"""Launch: the command that starts verl's PPO training on the baked models. Decides only; `__main__` executes it.

VERL_MODEL_PATH and its like are bake's own words, which verl reads nowhere: they become verl's Hydra overrides here.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from importlib import metadata
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from bake.errors import ImageError, UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

ACTOR_PATH = "VERL_MODEL_PATH"
CRITIC_PATH = "VERL_CRITIC_MODEL_PATH"
REWARD_PATH = "VERL_REWARD_MODEL_PATH"

_ACTOR_KEY = "actor_rollout_ref.model.path"
_CRITIC_KEY = "critic.model.path"


@dataclass(frozen=True, slots=True)
class Override:
    """One Hydra override that the image decides. `text` is what verl is given for `value`."""

    key: str
    value: str

    def __str__(self) -> str:
        """`key='value'`: quoted, since Hydra reads `=`, `,`, `(`, `!`, a leading `~` and numbers in a bare value."""
        doubled = re.sub(r"(\\+)(?='|$)", r"\1\1", self.value)  # a backslash counts only before a quote
        quoted = doubled.replace("'", r"\'")
        return f"{self.key}='{quoted}'"


def train_command(overrides: Sequence[str], environ: Mapping[str, str], *, baked: Collection[str] | None) -> list[str]:
    """The command that replaces the entrypoint.

    `baked` are the folders that the record names; None accepts any. Raises UsageError for an override or a variable
    that contradicts them, ImageError when the image does not say where the model is.
    """
    ours = path_overrides(environ, baked=baked)
    for override in overrides:
        _refuse_contradiction(override, ours)
    flags = next((index for index, word in enumerate(overrides) if _is_override(word)), len(overrides))
    # Hydra's argparse takes all overrides in one run, so that its own flags must stay in front of ours.
    return [
        sys.executable,
        "-m",
        "verl.trainer.main_ppo",
        *overrides[:flags],
        *(str(override) for override in ours),
        *overrides[flags:],
    ]


def path_overrides(environ: Mapping[str, str], *, baked: Collection[str] | None) -> tuple[Override, ...]:
    """The models' folders in verl's keys. verl does not derive the critic's from the actor's, so both are said."""
    actor = _folder(ACTOR_PATH, environ, baked)
    if actor is None:
        raise ImageError(f"{ACTOR_PATH} is not set", hint="the image sets it; start the image without emptying it")
    critic = _folder(CRITIC_PATH, environ, baked) or actor
    reward = _folder(REWARD_PATH, environ, baked)
    return (
        Override(_ACTOR_KEY, actor),
        Override(_CRITIC_KEY, critic),
        *([Override(_reward_key(), reward)] if reward else []),
    )


def _folder(variable: str, environ: Mapping[str, str], baked: Collection[str] | None) -> str | None:
    value = environ.get(variable)
    if value and baked is not None and value not in baked:
        raise UsageError(
            f"{variable} is {value!r}, and this image was baked with {' and '.join(sorted(baked))}",
            hint=f"leave {variable} as the image sets it; to train another model, bake it",
        )
    return value or None


def _reward_key() -> str:
    """verl 0.7 moved the reward model. An unknown version is taken for a new one: an old verl refuses the new key
    aloud, while a new verl ignores the old one.
    """
    try:
        version = metadata.version("verl")
    except metadata.PackageNotFoundError:
        version = ""
    release = re.match(r"0\.(\d+)", version)
    old = release is not None and int(release[1]) < 7
    return "reward_model.model.path" if old else "reward.reward_model.model_path"


def _refuse_contradiction(override: str, ours: Sequence[Override]) -> None:
    """Compare keys as Hydra does: `+`, `++` and `~` before a key change how it is set, not what it names."""
    key, _, value = override.lstrip("+~").partition("=")
    for baked in ours:
        replaced = baked.key == key and (override.startswith("~") or _unquoted(value) != baked.value)
        removed = override.startswith("~") and baked.key.startswith(f"{key}.")
        nested = baked.key.startswith(f"{key}.") and re.search(r"\bpath['\"]?\s*:", value) is not None
        if replaced or removed or nested:
            raise UsageError(
                f"{override!r} contradicts the model that this image carries, {baked.key}={baked.value!r}",
                hint="leave this override out; to train another model, bake it",
            )


def _unquoted(value: str) -> str:
    value = value.strip()
    if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        return value[1:-1].replace("\\" + value[0], value[0])
    return value


def _is_override(word: str) -> bool:
    return word.startswith("~") or ("=" in word and not word.startswith("-"))


def require_verl() -> None:
    """Raise ImageError when verl cannot be imported. Looks where the new process will: on the path, and in the
    current folder, where a checkout may be mounted.
    """
    spec = find_spec("verl") or PathFinder.find_spec("verl", [str(Path.cwd())])
    if spec is None or spec.origin is None:  # a folder without __init__.py is no package of verl's
        raise ImageError(
            "verl is not installed in this image",
            hint="build the image with a base in models.lock that names a verl version",
        )
