"""Settings: what the environment says, read at each call, as the Hub's own tools understand it.

huggingface_hub reads most of it once, while it is imported; a program that changes HF_ENDPOINT later is heard here.
"""

from __future__ import annotations

import os
import warnings
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from bake.errors import UsageError

if TYPE_CHECKING:
    from types import ModuleType


@cache
def library(module: str) -> ModuleType:
    """A module of huggingface_hub, imported at its first use.

    Quietly: on import the library warns of environment variables that it no longer heeds, and bake never set them.
    """
    timeout()  # what the library cannot read either is told in bake's words
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import_module("huggingface_hub.constants")
        except ValueError as error:
            raise UsageError(f"huggingface_hub cannot read the environment: {error}") from error
        return import_module(f"huggingface_hub.{module}")


def endpoint() -> str:
    """HF_ENDPOINT without a slash at its end. Raises UsageError if it is no http or https address."""
    found = (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")
    try:
        parts = urlsplit(found)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        secret = parts.username is not None or parts.password is not None
    except ValueError:
        usable, secret = False, False
    if secret:
        raise UsageError("HF_ENDPOINT holds a name or a password", hint="log in with `hf auth login`, or set HF_TOKEN")
    if not usable:
        raise UsageError("HF_ENDPOINT is not an http or https address", hint="the default is https://huggingface.co")
    return found


def offline() -> bool:
    value = os.environ.get("HF_HUB_OFFLINE") or os.environ.get("TRANSFORMERS_OFFLINE") or ""
    return value.upper() in {"1", "ON", "YES", "TRUE"}


def cache_folder() -> str | None:
    """Where the environment puts the cache; None leaves it to huggingface_hub."""
    if folder := os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE"):
        return folder
    home = os.environ.get("HF_HOME")
    return str(Path(home).expanduser() / "hub") if home else None


def timeout() -> float:
    """Seconds to wait for a connection, and for the next bytes of a body. Raises UsageError."""
    return _seconds("HF_HUB_DOWNLOAD_TIMEOUT", default=10)


def backoff() -> float:
    """Seconds before the first retry. Raises UsageError."""
    return _seconds("BAKE_HUB_BACKOFF", default=1)


def token_file() -> Path | None:
    """Where `hf auth login` keeps the token (huggingface_hub, "Environment variables"); None without a home folder."""
    if own := os.environ.get("HF_TOKEN_PATH"):
        return Path(own).expanduser()
    try:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return Path(os.environ.get("HF_HOME") or cache / "huggingface").expanduser() / "token"
    except RuntimeError:
        return None


def _seconds(variable: str, *, default: float) -> float:
    text = os.environ.get(variable) or str(default)
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{variable}: expected a number of seconds, found {text!r}") from None
