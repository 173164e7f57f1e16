"""Needs: what a test cannot do without. Where it is not there the test is skipped with the reason, and CI fails."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest


def verl_folder() -> Path:
    """What `.ci/verl up` made: `site`, and a folder for each release. BAKE_VERL names it."""
    folder = os.environ.get("BAKE_VERL")
    return Path(folder) if folder else without("BAKE_VERL is not set: `.ci/verl up` prints it", required="VERL")


def program(name: str) -> str:
    """Where a program of other people's is that bake's work is shown to. BAKE_REQUIRE_TOOLS=1 says that it must be."""
    return shutil.which(name) or without(f"{name} is not on the PATH", required="TOOLS")


def without(why: str, *, required: str) -> NoReturn:
    """Skip the test; where BAKE_REQUIRE_VERL=1 (or DOCKER, TOOLS) is set, as in CI, fail it."""
    variable = f"BAKE_REQUIRE_{required}"
    if os.environ.get(variable) == "1":
        pytest.fail(f"{why} ({variable}=1 is set)")
    pytest.skip(why)
