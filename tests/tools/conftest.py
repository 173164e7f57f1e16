"""Other people's tools. A test is skipped where its tool is missing, and fails there if BAKE_REQUIRE_TOOLS=1 is set."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.needs import program

if TYPE_CHECKING:
    from collections.abc import Callable

    Tool = Callable[..., str]


def _tool(name: str) -> Tool:
    path = program(name)

    def run(*arguments: object) -> str:
        done = subprocess.run([path, *map(str, arguments)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture
def skopeo() -> Tool:
    return _tool("skopeo")


@pytest.fixture
def umoci() -> Tool:
    return _tool("umoci")
