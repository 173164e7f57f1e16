"""Loggers: those that want a key or a package, and have none. verl starts them after all models are loaded.

The table follows verl/utils/tracking.py, 0.5.0 to 0.9.1. The check is called `wandb`, which is verl's default.
"""

from __future__ import annotations

import netrc
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from bake.entrypoint.finding import Finding
from bake.entrypoint.launch.installed import importable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from bake.entrypoint.preflight.situation import Situation

_SINCE = {
    "wandb": (0, 5),
    "tracking": (0, 5),
    "mlflow": (0, 5),
    "swanlab": (0, 5),
    "vemlp_wandb": (0, 5),
    "tensorboard": (0, 5),
    "console": (0, 5),
    "clearml": (0, 5),
    "trackio": (0, 6),
    "file": (0, 6),
    "rl_insight": (0, 9),
}
"""The first release that knows each; `tracking` is an old name of wandb."""

_PACKAGES = {
    "wandb": "wandb",
    "tracking": "wandb",
    "mlflow": "mlflow",
    "swanlab": "swanlab",
    "vemlp_wandb": "volcengine_ml_platform",
    "tensorboard": "tensorboard",
    "clearml": "clearml",
    "trackio": "trackio",
    "file": "orjson",
    "rl_insight": "rl_insight",
}

_NEWEST = (0, 9)


def check_loggers(situation: Situation) -> Iterator[Finding]:
    for name in dict.fromkeys(situation.settings.texts("trainer.logger")):
        since = _SINCE.get(name)
        if situation.release is not None and situation.release <= _NEWEST and (since or (1, 0)) > situation.release:
            yield _unknown(name, situation.release)
        elif since and (package := _PACKAGES.get(name)) and not importable(package):
            yield _not_installed(name, package)
        elif name in _KEYS and (lacks := _KEYS[name](situation.environ)):
            yield _no_key(name, lacks)


def _unknown(name: str, release: tuple[int, int]) -> Finding:
    known = [other for other, since in _SINCE.items() if since <= release and other != "tracking"]
    return Finding(
        check="wandb",
        severity="error",
        what=f"trainer.logger names {name!r}, which verl {release[0]}.{release[1]} does not know",
        why=f"after all models are loaded, verl stops: {name} is not supported",
        todo=f"trainer.logger=['console'], or of {', '.join(known)}",
    )


def _not_installed(name: str, package: str) -> Finding:
    return Finding(
        check="wandb",
        severity="error",
        what=f"trainer.logger names {name!r}, and {package} is not installed",
        why=f"after all models are loaded, verl stops: No module named {package!r}",
        todo=f"trainer.logger=['console'], or an image that has it (pip install {package})",
    )


def _no_key(name: str, lacks: tuple[str, str]) -> Finding:
    return Finding(
        check="wandb",
        severity="error",
        what=f"trainer.logger names {name!r}, and {lacks[0]}",
        why="after all models are loaded, verl stops for want of it",
        todo=f"{lacks[1]}; or trainer.logger=['console']",
    )


def _wandb(environ: Mapping[str, str]) -> tuple[str, str] | None:
    """wandb reads a key from the environment or netrc, and asks for none when it keeps its runs to itself."""
    if environ.get("WANDB_MODE", "online") not in {"online", "shared", ""}:
        return None
    if environ.get("WANDB_API_KEY") or environ.get("WANDB_IDENTITY_TOKEN_FILE"):
        return None
    host = urlsplit(environ.get("WANDB_BASE_URL", "")).hostname or "api.wandb.ai"
    home = Path(environ.get("HOME") or "/")
    files = [Path(environ["NETRC"])] if environ.get("NETRC") else [home / ".netrc", home / "_netrc"]
    if any(_knows(file, host) for file in files):
        return None
    return (
        f"there is no key for {host}: no WANDB_API_KEY, and none in {files[0]}",
        "docker run -e WANDB_API_KEY=…, or -e WANDB_MODE=offline",
    )


def _knows(file: Path, host: str) -> bool:
    try:
        return netrc.netrc(file).authenticators(host) is not None
    except (OSError, netrc.NetrcParseError, UnicodeError):
        return False


def _swanlab(environ: Mapping[str, str]) -> tuple[str, str] | None:
    """verl asks for the mode `cloud` unless SWANLAB_MODE says another; `swanlab login` keeps a key in a file."""
    kept = Path(environ.get("SWANLAB_SAVE_DIR") or Path(environ.get("HOME") or "/") / ".swanlab") / ".netrc"
    if environ.get("SWANLAB_MODE", "cloud") != "cloud" or environ.get("SWANLAB_API_KEY") or kept.exists():
        return None
    return "SWANLAB_API_KEY is not set", "docker run -e SWANLAB_API_KEY=…, or -e SWANLAB_MODE=local"


def _volcano(environ: Mapping[str, str]) -> tuple[str, str] | None:
    names = ("VOLC_ACCESS_KEY_ID", "VOLC_SECRET_ACCESS_KEY", "MLP_TRACKING_REGION")
    missing = [name for name in names if name not in environ]
    if not missing:
        return None
    return f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not set", f"set {', '.join(missing)}"


def _clearml(environ: Mapping[str, str]) -> tuple[str, str] | None:
    settings = Path(environ.get("CLEARML_CONFIG_FILE") or Path(environ.get("HOME") or "/") / "clearml.conf")
    names = ("CLEARML_API_ACCESS_KEY", "CLEARML_API_SECRET_KEY")
    if environ.get("CLEARML_OFFLINE_MODE") or settings.exists() or all(environ.get(name) for name in names):
        return None
    return f"there is neither {settings} nor {' and '.join(names)}", f"set {' and '.join(names)}"


_KEYS: Mapping[str, Callable[[Mapping[str, str]], tuple[str, str] | None]] = {
    "wandb": _wandb,
    "tracking": _wandb,
    "swanlab": _swanlab,
    "vemlp_wandb": _volcano,
    "clearml": _clearml,
}
"""What each lacks, and what to do about it; None where nothing is lacking."""
