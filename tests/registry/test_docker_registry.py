"""Against Debian's docker-registry (distribution 2.8): the real protocol, with a real password.

It is started here, from the program that `.ci/engine up` installs. Tests are skipped where it is missing, and fail
instead if BAKE_REQUIRE_DOCKER=1.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NoReturn

import pytest

from bake.digest import Digest
from bake.errors import DigestError, ImageError, OutputError
from bake.image import CONFIG, LAYER, MANIFEST, Descriptor, ImageConfig, Manifest
from bake.patience import TransientError
from bake.registry import Patience, Profile, Reference, Registry, in_memory
from tests.registry.faults import PASSWORD, USER
from tests.registry.samples import BLOB, BYTES, CHUNKED, Counted, encoded, fault_of, write_config

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.docker

_PROGRAM = "docker-registry"
_HASH = "$2b$05$abcdefghijklmnopqrstuuaawI20eFRuOzOn6yaWJoSGK0iychT2G"
"""bcrypt of the password, as `htpasswd -B` writes it."""

_CONFIG = """\
version: 0.1
log: {{level: error, accesslog: {{disabled: true}}}}
storage: {{filesystem: {{rootdirectory: {folder}/data}}}}
http: {{addr: "127.0.0.1:{port}"}}
auth: {{htpasswd: {{realm: registry, path: {folder}/htpasswd}}}}
"""


class CutOnce:
    """A source that breaks off in the middle of the first request: the registry sees its connection cut."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._rest: list[Iterator[bytes]] = [self._broken()]

    def __call__(self, offset: int) -> Iterator[bytes]:
        return self._rest.pop() if self._rest else iter((self._content[offset:],))

    def _broken(self) -> Iterator[bytes]:
        yield self._content[:600_000]
        raise TransientError("cut on purpose")


def missing(why: str) -> NoReturn:
    if os.environ.get("BAKE_REQUIRE_DOCKER") == "1":
        pytest.fail(f"{why}, and BAKE_REQUIRE_DOCKER=1 is set")
    pytest.skip(f"{why} (.ci/engine up installs it)")


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A registry that asks for a password."""
    if shutil.which(_PROGRAM) is None:
        missing(f"no {_PROGRAM} on the PATH")
    folder = tmp_path_factory.mktemp("registry")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "htpasswd").write_text(f"{USER}:{_HASH}\n")
    (folder / "config.yml").write_text(_CONFIG.format(folder=folder, port=port))
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([_PROGRAM, "serve", folder / "config.yml"], stdout=log, stderr=log)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


@pytest.fixture
def logged_in(host: str, docker_config: Path) -> None:
    write_config(docker_config, auths={host: encoded(USER, PASSWORD)})


def fresh(host: str) -> Reference:
    return Reference.parse(f"{host}/org/{secrets.token_hex(8)}:v1")


def open_at(reference: Reference, *, profile: Profile | None = None) -> Registry:
    return Registry.open(reference, access="push", patience=Patience(base=0.1), profile=profile)


@pytest.mark.usefixtures("logged_in")
def test_an_image_is_pushed_and_read_back(host: str) -> None:
    contents = [BYTES[start : start + 500_000] for start in range(0, 2_500_000, 500_000)]
    layers = tuple(Descriptor(media_type=LAYER, digest=Digest.of(one), size=len(one)) for one in contents)
    content = ImageConfig(diff_ids=tuple(layer.digest for layer in layers)).dumps()
    config = Descriptor(media_type=CONFIG, digest=Digest.of(content), size=len(content))
    manifest = Manifest(config=config, layers=layers)

    with open_at(fresh(host)) as registry, ThreadPoolExecutor(registry.profile.parallel) as pool:
        blobs = [*layers, config]
        arrivals = list(pool.map(registry.push_blob, blobs, map(in_memory, [*contents, content])))
        digest = registry.put_manifest(manifest.dumps(), media_type=MANIFEST)
        image = registry.image()
        read = [b"".join(registry.open_blob(layer)) for layer in layers]
        found, tags = registry.resolve(), registry.tags()

    assert arrivals == ["uploaded"] * 6
    assert (image.manifest, image.descriptor.digest, read) == (manifest, digest, contents)
    assert (found, tags) == (image.descriptor, ("v1",))


@pytest.mark.usefixtures("logged_in")
def test_chunks_are_taken(host: str) -> None:
    with open_at(fresh(host), profile=CHUNKED) as registry:
        assert registry.push_blob(BLOB, in_memory(BYTES)) == "uploaded"
        assert b"".join(registry.open_blob(BLOB, offset=1_700_000)) == BYTES[1_700_000:]


@pytest.mark.usefixtures("logged_in")
def test_a_blob_is_mounted(host: str) -> None:
    first, second = fresh(host), fresh(host)
    with open_at(first) as registry:
        registry.push_blob(BLOB, in_memory(BYTES))

    with open_at(second) as registry:
        assert not registry.mount(BLOB, "org/nowhere")
        assert registry.mount(BLOB, first.repository)
        assert registry.has_blob(BLOB)


@pytest.mark.usefixtures("logged_in")
@pytest.mark.parametrize("profile", [None, CHUNKED])
def test_an_upload_that_a_broken_source_leaves_can_be_made_again(host: str, profile: Profile | None) -> None:
    reference = fresh(host)
    with open_at(reference, profile=profile) as registry:
        with pytest.raises(DigestError, match="expected 2500000 bytes to push, found 2000000"):
            registry.push_blob(BLOB, in_memory(BYTES[:2_000_000]))
        assert registry.push_blob(BLOB, in_memory(BYTES)) == "uploaded"


@pytest.mark.usefixtures("logged_in")
@pytest.mark.parametrize("profile", [None, CHUNKED])
def test_an_upload_that_was_cut_arrives_although_this_registry_forgets_it(host: str, profile: Profile | None) -> None:
    source = CutOnce(BYTES)

    with open_at(fresh(host), profile=profile) as registry:
        assert registry.push_blob(BLOB, source) == "uploaded"
        assert registry.has_blob(BLOB)


@pytest.mark.usefixtures("logged_in")
def test_other_bytes_are_refused(host: str) -> None:
    with open_at(fresh(host)) as registry, pytest.raises(DigestError, match="provided digest did not match uploaded"):
        registry.push_blob(BLOB, in_memory(bytes(len(BYTES))))


@pytest.mark.usefixtures("logged_in")
def test_a_manifest_before_its_blobs_is_refused_in_the_registrys_words(host: str) -> None:
    config = Descriptor(media_type=CONFIG, digest=Digest.of(b"{}"), size=2)
    reference = fresh(host)

    with open_at(reference) as registry, pytest.raises(OutputError) as caught:
        registry.put_manifest(Manifest(config=config, layers=()).dumps(), media_type=MANIFEST)

    assert fault_of(caught.value) == (
        OutputError,
        f"{reference.name}: manifest v1: {host} answered 400 (blob unknown to registry)",
        None,
    )


@pytest.mark.usefixtures("logged_in")
def test_an_image_that_is_not_there_is_named(host: str) -> None:
    reference = fresh(host)

    with Registry.open(reference, access="pull") as registry, pytest.raises(ImageError) as caught:
        registry.image()

    assert caught.value.message == f"{reference.name}: the registry has no manifest v1 (manifest unknown)"


def test_a_stranger_may_not_push(host: str) -> None:
    reference = fresh(host)
    source = Counted(BYTES)

    with open_at(reference) as registry, pytest.raises(OutputError) as caught:
        registry.push_blob(BLOB, source)

    assert fault_of(caught.value) == (
        OutputError,
        f"{host} lets no stranger push to {reference.repository}",
        f"docker login {host}",
    )
    assert source.offsets == []
