"""verl on the path: a small one, or each real release in turn, from the folder that `.ci/verl up` makes.

Tests of the releases are skipped without BAKE_VERL, and fail instead with BAKE_REQUIRE_VERL=1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.entrypoint.launch.stage import Stage, bake, write_verl
from tests.needs import verl_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RELEASES = ("0.5.0", "0.6.1", "0.7.1", "0.8.0", "0.9.1")


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder on the path of Python, before all that is installed."""
    folder = tmp_path / "packages"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    return folder


@pytest.fixture
def baking(tmp_path: Path, packages: Path) -> Callable[..., Stage]:
    """`bake` for an image with the small verl in it."""
    write_verl(packages)
    return partial(bake, tmp_path, packages)


@pytest.fixture
def stage(baking: Callable[..., Stage]) -> Stage:
    """One model, the small verl, and vllm."""
    return baking().having("vllm")


@dataclass(frozen=True)
class Release:
    """A real release: `version` as 0.9.1, `folder` the unpacked wheel."""

    version: str
    folder: Path
    bake: Callable[..., Stage]

    def since(self, *release: int) -> bool:
        return tuple(map(int, self.version.split(".")[:2])) >= release


@pytest.fixture(params=[pytest.param(version, marks=pytest.mark.verl) for version in RELEASES])
def release(request: pytest.FixtureRequest, tmp_path: Path, packages: Path, monkeypatch: pytest.MonkeyPatch) -> Release:
    folder = verl_folder() / request.param
    monkeypatch.syspath_prepend(folder)
    return Release(request.param, folder, partial(bake, tmp_path, packages))
