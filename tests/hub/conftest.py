"""A Hub with one repository, and an environment that knows no other."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from huggingface_hub import close_session, constants

from bake.hub import HubSnapshot, resolve
from tests.hub.samples import FILES, REPO, Waits
from tests.hub_server import FakeHub

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session", autouse=True)
def closed_session() -> Iterator[None]:
    yield
    close_session()


@pytest.fixture
def waits() -> Waits:
    return Waits()


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeHub]:
    """A Hub with one repository, and an environment that knows no other Hub, token or cache."""
    for name in [name for name in os.environ if _steers_a_client(name)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf-home"))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "hf-home" / "token"))  # read once, on import
    with FakeHub() as fake:
        fake.add_repo(REPO, FILES, card={"license": "llama3.1"})
        monkeypatch.setenv("HF_ENDPOINT", fake.endpoint)
        yield fake


@pytest.fixture
def snapshot(hub: FakeHub, waits: Waits) -> HubSnapshot:
    """The repository, resolved; the log begins after it."""
    found = resolve(REPO, patience=waits.patience())
    hub.requests.clear()
    return found


def _steers_a_client(name: str) -> bool:
    return name.startswith(("HF_", "HUGGING", "TRANSFORMERS_", "BAKE_")) or name.upper().endswith("_PROXY")
