"""How long a registry is waited for. Several uploads go at once, so that waits are not all the same."""

from __future__ import annotations

import os
import random

from bake.errors import UsageError
from bake.patience import Patience


def usual_patience() -> Patience:
    """BAKE_REGISTRY_BACKOFF sets `base`. Raises UsageError."""
    text = os.environ.get("BAKE_REGISTRY_BACKOFF") or "1"
    try:
        return Patience(tries=6, base=float(text), jitter=random.random)
    except ValueError:
        raise UsageError(f"BAKE_REGISTRY_BACKOFF: expected a number of seconds, found {text!r}") from None
