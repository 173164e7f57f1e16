"""A real verl for the tests that ask for it: its sources, and a process that has it imported."""

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
    from collections.abc import Callable, Iterator

_ANSWERING = Path(__file__).with_name("verl_answers.py")


@pytest.fixture(scope="session")
def verl_home() -> Path:
    return verl_folder()


@pytest.fixture(scope="session")
def verl(verl_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Any]]:
    """verl 0.9.1 in a process of its own, since its import takes ten seconds: verl("what", key=value, …)."""
    home = tmp_path_factory.mktemp("verl-home")
    environ = {
        **os.environ,
        "PYTHONPATH": str(verl_home / "site"),
        "HOME": str(home),
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
    }
    with (home / "stderr").open("w") as stderr:
        process = subprocess.Popen(
            [sys.executable, str(_ANSWERING)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env=environ,
            cwd=home,
        )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def ask(what: str, **arguments: Any) -> Any:
            stdin.write(json.dumps({"what": what, **arguments}) + "\n")
            stdin.flush()
            answer = stdout.readline()
            assert answer, (home / "stderr").read_text()
            return json.loads(answer)

        yield ask
        stdin.close()
