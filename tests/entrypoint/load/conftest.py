"""Real transformers: one process answers for all cases. Skipped without BAKE_VERL, failed with BAKE_REQUIRE_VERL=1."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.needs import verl_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[3]
CASES = Path(__file__).with_name("cases.py")


@pytest.fixture(scope="session")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """What verify and load find in each case of cases.py, under the transformers that verl 0.9.1 is installed with."""
    work = tmp_path_factory.mktemp("cases")
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "HF_HOME": str(work / "home")}
    command = [sys.executable, str(CASES), str(verl_folder() / "site"), str(work)]
    run = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    found: Mapping[str, Any] = json.loads(run.stdout)  # stdout holds nothing but this
    return found
