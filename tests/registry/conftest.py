"""An empty registry on the loopback, and an environment that knows no other, no login and no proxy."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.registry.samples import Waits
from tests.registry.server import FakeRegistry

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def waits() -> Waits:
    return Waits()


@pytest.fixture
def docker_config(tmp_path: Path) -> Path:
    """The folder of DOCKER_CONFIG, which is not there yet."""
    return tmp_path / "docker"


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch, docker_config: Path) -> None:
    for name in [name for name in os.environ if _steers_a_client(name)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("DOCKER_CONFIG", str(docker_config))


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with FakeRegistry() as fake:
        yield fake


def _steers_a_client(name: str) -> bool:
    return name.startswith(("BAKE_REGISTRY_", "BAKE_PLAIN_HTTP", "SSL_CERT", "REQUESTS_CA")) or name.upper().endswith(
        "_PROXY"
    )
