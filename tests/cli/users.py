"""Another user, who owns nothing here. Only root can become one."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.cli.place import BAKE

if TYPE_CHECKING:
    from pathlib import Path

ROOT = os.geteuid() == 0
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


def can_be_nobody() -> bool:
    """Whether another user can run bake from where it is installed."""
    if not ROOT or not shutil.which("setpriv"):
        return False
    return subprocess.run([*NOBODY, BAKE, "--version"], capture_output=True, check=False).returncode == 0


needs_root = pytest.mark.skipif(not can_be_nobody(), reason="needs root, setpriv, and a bake that every user can run")


def free(folder: Path) -> str:
    """A folder that any user may write."""
    (folder / "free").mkdir()
    (folder / "free").chmod(0o777)
    return str(folder / "free" / "store")
