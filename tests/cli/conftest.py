"""A place to bake in, with an environment that knows no other store, Hub, token or cache."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from huggingface_hub import close_session, constants

from bake.cli import run
from tests.cli.place import Bake, Place, Ran
from tests.entrypoint.files import model_files
from tests.hub_server import FakeHub
from tests.registry.server import FakeRegistry

if TYPE_CHECKING:
    from collections.abc import Iterator

_STEERING = ("HF_", "HUGGING", "TRANSFORMERS_", "BAKE_", "XDG_", "LC_", "NO_COLOR", "FORCE_COLOR", "TTY_", "PYTHON")


@pytest.fixture(scope="session", autouse=True)
def closed_session() -> Iterator[None]:
    yield
    close_session()


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder that other users can reach too, unlike pytest's own."""
    with TemporaryDirectory(prefix="bake-test-") as name:
        path = Path(name).resolve()
        path.chmod(0o755)
        yield path


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """An empty lock; it is the working folder too."""
    for name in [name for name in os.environ if name.startswith(_STEERING) or name.upper().endswith("_PROXY")]:
        monkeypatch.delenv(name)
    place = Place(tmp_path / "work", tmp_path / "store")
    place.root.mkdir()
    place.write_lock()
    monkeypatch.setenv("BAKE_CACHE", str(place.store))
    monkeypatch.setenv("BAKE_HUB_BACKOFF", "0.001")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf-home"))
    monkeypatch.setenv("BAKE_TO", "oci")  # what builds do where no daemon answers
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "hf-home" / "token"))  # read once, on import
    monkeypatch.chdir(place.root)
    yield place
    place.end()


@pytest.fixture
def bake(place: Place, capsys: pytest.CaptureFixture[str]) -> Bake:  # noqa: ARG001 - it must be there first
    """The command line in this process; it writes where the command would."""

    def call(*words: str) -> Ran:
        code = run(words)
        return Ran(code, *capsys.readouterr())

    return call


@pytest.fixture
def tiny(place: Place, bake: Bake) -> Place:
    """`tiny@v1` in the lock, from the folder `m`."""
    place.add_model()
    assert bake("-q", "add", "tiny@v1", "dir://m").code == 0
    return place


@pytest.fixture
def built(tiny: Place, bake: Bake) -> Place:
    """`tiny@v1` in the lock, and its image in dist/tiny-v1."""
    assert bake("-q", "build", "tiny@v1").code == 0
    return tiny


@pytest.fixture
def hub(place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:  # noqa: ARG001 - it forgets other Hubs
    """The Hub at HF_ENDPOINT. It has a small model, `org/name`."""
    with FakeHub() as fake:
        fake.add_repo("org/name", model_files())
        monkeypatch.setenv("HF_ENDPOINT", fake.endpoint)
        yield fake


@pytest.fixture
def docker_config(tmp_path: Path) -> Path:
    """The folder of DOCKER_CONFIG, which is not there yet."""
    return tmp_path / "docker"


@pytest.fixture
def registry(place: Place, docker_config: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeRegistry]:  # noqa: ARG001
    """An empty registry on the loopback, to which nobody is logged in."""
    monkeypatch.setenv("DOCKER_CONFIG", str(docker_config))
    monkeypatch.setenv("BAKE_REGISTRY_BACKOFF", "0.001")
    with FakeRegistry() as fake:
        yield fake
