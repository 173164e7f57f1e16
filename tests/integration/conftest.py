"""Docker Engines, one of each image store. Tests are skipped where one is missing, and fail if BAKE_REQUIRE_DOCKER=1.

`.ci/engine up` starts both, and a registry, on a bare machine; a Docker that is there already serves as the one it is.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NoReturn

import docker
import pytest
import requests
from docker.errors import DockerException
from filelock import FileLock
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer

from tests.entrypoint.files import model_files
from tests.hub_server import FakeHub
from tests.integration.engine import Engine, Shop
from tests.integration.training import bake_tiny, put_verl_base, write_data
from tests.needs import verl_folder, without

if TYPE_CHECKING:
    from collections.abc import Iterator

Store = Literal["classic", "containerd"]

_BASE = "bake-test/base:python"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_HOSTS: dict[Store, str | None] = {
    "classic": os.environ.get("BAKE_TEST_DOCKER_CLASSIC"),
    "containerd": os.environ.get("BAKE_TEST_DOCKER_CONTAINERD"),
}
_OWN = os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
_REGISTRY = os.environ.get("BAKE_TEST_REGISTRY")
_TAR = os.environ.get("BAKE_TEST_BASE")

testcontainers_config.ryuk_disabled = True  # its image is not to be had everywhere; every container here is removed


def _missing(why: str) -> NoReturn:
    without(f"{why} (.ci/engine up starts what is needed)", required="DOCKER")


def _connect(store: Store) -> tuple[docker.DockerClient, str]:
    host = _HOSTS[store] or _OWN
    if host.startswith("unix://") and not Path(host.removeprefix("unix://")).exists():
        _missing(f"no Docker Engine answers at {host}")  # docker-py would leave its socket open
    try:
        client = docker.DockerClient(base_url=host, timeout=120)
        about = client.info()
    except (DockerException, requests.RequestException, OSError) as error:
        _missing(f"no Docker Engine answers at {host}: {error}")
    found = "containerd" if "snapshotter" in str(about.get("DriverStatus")) else "classic"
    if found != store:
        client.close()
        _missing(f"no Docker Engine with the {store} image store: the one at {host} has the {found} store")
    return client, host


def _put_base(client: docker.DockerClient) -> None:
    """An image with Python: from the tar of .ci/engine, or else from the registry that the engine pulls from."""
    with FileLock(Path(tempfile.gettempdir()) / "bake-test-base.lock"):
        if client.images.list(name=_BASE):
            return
        name, _, tag = _BASE.partition(":")
        if _TAR:
            client.api.import_image_from_file(_TAR, repository=name, tag=tag, changes=[f"ENV PATH={_PATH}"])
            return
        try:
            client.images.pull("python", tag="3.12-slim").tag(name, tag=tag)
        except DockerException as error:
            _missing(
                f"no base image with Python: BAKE_TEST_BASE is not set, and python:3.12-slim is not there: {error}"
            )


def _open_engine(store: Store) -> Iterator[Engine]:
    client, host = _connect(store)
    try:
        _put_base(client)
        yield Engine(store=store, host=host, client=client, base=_BASE)
    finally:
        client.close()


@pytest.fixture(scope="session")
def classic() -> Iterator[Engine]:
    """The engine with the classic image store."""
    yield from _open_engine("classic")


@pytest.fixture(scope="session")
def containerd() -> Iterator[Engine]:
    """The engine with the containerd image store, the only one whose own builder exports OCI layouts."""
    yield from _open_engine("containerd")


@pytest.fixture(scope="session", params=["classic", "containerd"])
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each engine in turn."""
    found: Engine = request.getfixturevalue(request.param)
    return found


@pytest.fixture(scope="session")
def registry() -> Iterator[str]:
    """The address of a registry that asks for no login."""
    if _REGISTRY:
        yield _REGISTRY
        return
    try:
        with DockerContainer("registry:2").with_exposed_ports(5000) as container:
            yield f"{container.get_container_host_ip()}:{container.get_exposed_port(5000)}"
    except (DockerException, requests.RequestException) as error:
        _missing(f"no registry: BAKE_TEST_REGISTRY is not set, and registry:2 is not to be had: {error}")


@pytest.fixture
def shop(engine: Engine, tmp_path: Path) -> Iterator[Shop]:
    """An empty folder to bake in, with each engine in turn."""
    yield from _open_shop(engine, tmp_path)


@pytest.fixture
def containerd_shop(containerd: Engine, tmp_path: Path) -> Iterator[Shop]:
    yield from _open_shop(containerd, tmp_path)


@pytest.fixture
def classic_shop(classic: Engine, tmp_path: Path) -> Iterator[Shop]:
    yield from _open_shop(classic, tmp_path)


@pytest.fixture(scope="session")
def baked(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """A model on a base with Python, built into each engine once. Tests only run it."""
    for shop in _open_shop(engine, tmp_path_factory.mktemp("baked")):
        shop.add()
        shop.build()
        yield shop


@pytest.fixture(scope="session")
def verl_site() -> Path:
    """The packages that `.ci/verl` installed, verl 0.9.1 among them."""
    return verl_folder() / "site"


@pytest.fixture(scope="session")
def trainer(verl_site: Path, classic: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """A small Llama on a base with real verl, built once, and data beside it. Tests only run it, or derive from it."""
    for shop in _open_shop(classic, tmp_path_factory.mktemp("trainer")):
        bake_tiny(shop, put_verl_base(classic, verl_site))
        write_data(shop.root / "data")
        yield shop


def _open_shop(engine: Engine, folder: Path) -> Iterator[Shop]:
    shop = Shop(folder / "work", engine)
    shop.root.mkdir()
    try:
        yield shop
    finally:
        shop.clear()


@pytest.fixture(scope="session")
def base_layout(containerd: Engine, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The base with Python as an OCI layout."""
    folder = tmp_path_factory.mktemp("base") / "layout"
    output = f"type=oci,dest={folder},tar=false"
    containerd.docker("buildx", "build", "-q", "--output", output, "-", stdin=f"FROM {containerd.base}\n".encode())
    return folder


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    """A Hub on the loopback, where an engine on this machine reaches it too. It has a small model, `org/name`."""
    with FakeHub() as fake:
        fake.add_repo("org/name", model_files())
        yield fake
