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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import_module("huggingface_hub.constants")
        return import_module(f"huggingface_hub.{module}")


def endpoint() -> str:
    """HF_ENDPOINT without a slash at its end. Raises UsageError if it is no http or https address."""
    found = (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")
    try:
        parts = urlsplit(found)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
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
    """Seconds to wait for a connection, and for the next bytes of a body."""
    return float(os.environ.get("HF_HUB_DOWNLOAD_TIMEOUT") or 10)


def backoff() -> float:
    """Seconds before the first retry."""
    return float(os.environ.get("BAKE_HUB_BACKOFF") or 1)
