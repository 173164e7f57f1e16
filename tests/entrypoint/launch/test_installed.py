"""Which verl will run, found without importing it."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

import pytest

from bake.entrypoint.launch.installed import Installed, find_verl, importable
from bake.errors import ImageError
from tests.entrypoint.files import write
from tests.entrypoint.launch.stage import write_verl

if TYPE_CHECKING:
    from pathlib import Path

    from tests.entrypoint.launch.stage import Stage


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, where nothing lies yet."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def test_verl_is_found_and_not_imported(packages: Path) -> None:
    write_verl(packages, release="0.7.1")

    assert find_verl() == Installed(folder=packages / "verl", release=(0, 7))
    assert "verl" not in sys.modules


def test_planning_imports_neither_verl_nor_torch(stage: Stage) -> None:
    stage.plan()

    assert not {"verl", "torch", "transformers", "ray", "vllm"} & set(sys.modules)


def test_a_checkout_in_the_current_folder_comes_first_as_python_has_it(packages: Path, elsewhere: Path) -> None:
    write_verl(packages, release="0.7.1")
    write_verl(elsewhere, release="0.9.1")

    assert find_verl() == Installed(folder=elsewhere / "verl", release=(0, 9))


def test_a_folder_of_that_name_is_no_verl(packages: Path, elsewhere: Path) -> None:
    write_verl(packages)
    (elsewhere / "verl").mkdir()

    assert find_verl().folder == packages / "verl"


def test_the_metadata_says_the_release_where_the_package_does_not(packages: Path) -> None:
    write_verl(packages)
    shutil.rmtree(packages / "verl/version")
    write(packages, {"verl-0.8.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: verl\nVersion: 0.8.0\n"})

    assert find_verl().release == (0, 8)


@pytest.mark.parametrize("version", ["", "main", "\n"])
def test_a_release_that_is_not_said_is_taken_for_the_newest(packages: Path, version: str) -> None:
    write_verl(packages, release=version)

    installed = find_verl()

    assert (installed.release, installed.since(0, 9), str(installed)) == (None, True, "this verl")


def test_no_verl_makes_the_image_not_whole(packages: Path) -> None:  # noqa: ARG001
    with pytest.raises(ImageError) as caught:
        find_verl()

    assert (caught.value.message, caught.value.hint, caught.value.code) == (
        "verl is not installed in this image",
        "build the image with a base in models.lock that names a verl version",
        8,
    )


def test_neither_is_one_without_its_configuration(packages: Path) -> None:
    write_verl(packages, configuration={})

    with pytest.raises(ImageError, match=r"has no trainer/config/ppo_trainer\.yaml"):
        find_verl()


def test_nor_one_whose_configuration_is_broken(stage: Stage) -> None:
    write(stage.packages, {"verl/trainer/config/engine/dp.yaml": b"a: [\n"})

    with pytest.raises(ImageError, match="verl/trainer/config: while parsing a flow"):
        stage.plan()


def test_a_package_is_found_without_being_imported(packages: Path) -> None:
    write(packages, {"flash_attn/__init__.py": b"raise AssertionError\n"})

    assert (importable("flash_attn"), importable("no_such_package")) == (True, False)
