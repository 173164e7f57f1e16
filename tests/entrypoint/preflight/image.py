"""Packages as an image would have them: real files on the path, for what is looked up and not imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.entrypoint.files import write

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def packages(folder: Path, *names: str) -> Path:
    """A package for each name; a dotted one lies in a package without __init__.py, as megatron.core does."""
    return write(
        folder, {f"{name.replace('.', '/')}/__init__.py": b"raise AssertionError('imported')" for name in names}
    )


def verl(folder: Path, release: str = "0.9.1", *, requires: str = "") -> Path:
    """verl's configuration, and what its metadata says."""
    metadata = f"Metadata-Version: 2.1\nName: verl\nVersion: {release}\n{requires}\n"
    return write(
        folder,
        {
            "verl/__init__.py": b"raise AssertionError('imported')",
            "verl/version/version": release.encode(),
            "verl/trainer/config/ppo_trainer.yaml": b"{}",
            f"verl-{release}.dist-info/METADATA": metadata.encode(),
        },
    )


def distribution(folder: Path, name: str, version: str, *, plugin: str = "") -> Path:
    """A package's metadata; `plugin` is a group of entry points in which it has one."""
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    points = f"[{plugin}]\n{name} = {name}\n" if plugin else ""
    files = {"METADATA": metadata.encode(), "entry_points.txt": points.encode()}
    return write(folder, {f"{name}-{version}.dist-info/{file}": content for file, content in files.items()})


def install(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """First on the path, and away from the checkout that the tests are run in."""
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.chdir(folder)
