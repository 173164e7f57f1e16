"""What goes wrong between bake and Docker: one clear error each, a documented exit code, and the old tag in place."""

from __future__ import annotations

import os
import shutil
import signal
import stat
from typing import TYPE_CHECKING

import pytest

from tests.cli.users import NOBODY, needs_root
from tests.entrypoint.files import model_files
from tests.integration.engine import DOCKER, Shop

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

pytestmark = DOCKER

BUILDERS = pytest.mark.parametrize("builder", ["direct", "docker"])
LEAKY = {"PYTHONWARNINGS": "ignore::ResourceWarning"}
"""docker-py forgets to close a socket that it could not connect."""

GONE = "sha256:" + "0" * 64


def refuse(shop: Shop, *words: str, **options: object) -> tuple[int, str]:
    """Build, which must fail without a word on stdout; returns the exit code and the error."""
    ran = shop.run("build", shop.model, "--to", f"docker:{shop.image}", "-q", *words, **options)  # type: ignore[arg-type]
    assert ran.out == ""
    return ran.code, ran.err


@BUILDERS
def test_a_name_that_another_image_holds_is_left_alone(shop: Shop, builder: str) -> None:
    shop.add()
    shop.engine.docker("tag", shop.engine.base, shop.image)

    code, message = refuse(shop, "--builder", builder)

    held = shop.engine.id(shop.engine.base)
    assert code == 9
    assert message == (
        f"error: {shop.image} is another image in the daemon ({held}), not one of {shop.model}\n"
        "hint: give another name: --to docker:REPOSITORY:TAG; "
        f"or remove it: docker image rm {shop.image}\n"
    )
    assert shop.engine.id(shop.image) == held


@BUILDERS
def test_no_daemon(shop: Shop, builder: str) -> None:
    shop.add()
    host = f"unix://{shop.root}/nothing.sock"

    code, message = refuse(shop, "--builder", builder, environ={"DOCKER_HOST": host, **LEAKY})

    assert code == 9
    assert message == (
        f"error: no Docker daemon answers at {host}\nhint: start Docker, or build into a folder: --to oci:PATH\n"
    )


def test_a_host_that_is_no_address(classic_shop: Shop) -> None:
    classic_shop.add()

    code, message = refuse(classic_shop, environ={"DOCKER_HOST": "nonsense", **LEAKY})

    assert (code, message.count("\n")) == (9, 2)


@needs_root
@BUILDERS
def test_a_user_without_permission_on_the_socket(classic_shop: Shop, builder: str) -> None:
    classic_shop.add()
    socket = classic_shop.root / "docker.sock"
    open_up(classic_shop.root)
    os.link(classic_shop.engine.host.removeprefix("unix://"), socket)

    code, message = refuse(
        classic_shop,
        "--builder",
        builder,
        before=NOBODY,
        environ={"DOCKER_HOST": f"unix://{socket}", "HOME": "/", **LEAKY},
    )

    assert code == 9
    assert message == (
        f"error: no permission to use the Docker daemon at unix://{socket}\n"
        "hint: join the docker group, or build into a folder: --to oci:PATH\n"
    )


def open_up(folder: Path) -> None:
    """Let every user reach and write a folder of pytest's, and what is in it."""
    for path in (folder.parent, *folder.parent.rglob("*")):
        path.chmod(path.stat().st_mode | 0o777 if path.is_dir() else path.stat().st_mode | 0o666)
    for above in folder.parent.parents[:4]:
        above.chmod(above.stat().st_mode | stat.S_IXOTH | stat.S_IROTH)


def test_a_docker_without_buildx(classic_shop: Shop, tmp_path: Path) -> None:
    """buildx stands in the folder of DOCKER_CONFIG, unless a package of the system has put it elsewhere."""
    empty = tmp_path / "config"
    empty.mkdir()
    if not classic_shop.engine.try_docker("buildx", "version", environ={"DOCKER_CONFIG": str(empty)}).code:
        pytest.skip("this docker finds buildx outside of DOCKER_CONFIG")
    classic_shop.add()

    code, message = refuse(classic_shop, "--builder", "docker", environ={"DOCKER_CONFIG": str(empty)})

    assert code == 9
    assert message == (
        "error: docker has no buildx\n"
        "hint: install the docker-buildx plugin, or use --builder direct, which needs none\n"
    )


def test_the_direct_builder_needs_no_docker_command(classic_shop: Shop) -> None:
    classic_shop.add()

    classic_shop.build(environ={"PATH": str(classic_shop.root)})

    assert classic_shop.engine.has(classic_shop.image)


def test_the_docker_builder_needs_the_docker_command(classic_shop: Shop) -> None:
    classic_shop.add()

    code, message = refuse(classic_shop, "--builder", "docker", environ={"PATH": str(classic_shop.root)})

    assert code == 9
    assert message == ("error: no docker command on the PATH\nhint: install Docker's CLI\n")


@BUILDERS
def test_a_base_that_has_gone(shop: Shop, builder: str) -> None:
    name = f"{shop.name}-base:v1"
    shop.engine.docker("build", "-q", "-t", name, "-", stdin=f"FROM {shop.engine.base}\nENV GONE=1\n".encode())
    shop.add(base=f"docker:{name}")
    shop.engine.docker("image", "rm", name)

    code, message = refuse(shop, "--builder", builder)

    assert code == 8
    assert message == (f"error: base test: the daemon has no image {name}\nhint: build, load or pull {name} first\n")


@BUILDERS
def test_a_base_that_has_moved(shop: Shop, builder: str) -> None:
    name = f"{shop.name}-base:v1"
    shop.engine.docker("tag", shop.engine.base, name)
    shop.add(base=f"docker:{name}")
    shop.engine.docker("build", "-q", "-t", name, "-", stdin=f"FROM {shop.engine.base}\nENV MOVED=1\n".encode())

    code, message = refuse(shop, "--builder", builder)

    assert code == 8
    assert message.startswith(f"error: base test: expected {name} to be sha256:")
    assert message.endswith("hint: the name has moved; delete digest below [base.test] and run: bake lock\n")


@BUILDERS
def test_a_base_that_no_registry_has(shop: Shop, registry: str, builder: str) -> None:
    image = f"{registry}/nobody/nothing:v1"
    shop.add(base=image, more=f'digest = "{GONE}"\n')

    code, message = refuse(shop, "--builder", builder)

    assert code == {"direct": 8, "docker": 9}[builder]
    assert f"{registry}/nobody/nothing" in message
    assert not shop.engine.has(shop.image)


def test_a_base_in_a_registry_is_pulled(shop: Shop, registry: str) -> None:
    pushed = f"{registry}/{shop.name}/base:v1"
    shop.engine.docker("tag", shop.engine.base, pushed)
    shop.engine.docker("push", "-q", pushed)
    (digest,) = shop.engine.client.images.get(pushed).attrs["RepoDigests"][-1:]
    shop.add(base=pushed, more=f'digest = "{digest.partition("@")[2]}"\n')

    shop.build()

    assert shop.engine.has(shop.image)


@BUILDERS
def test_a_base_of_another_architecture(shop: Shop, builder: str) -> None:
    name = f"{shop.name}-arm:v1"
    shop.engine.docker("import", "--platform", "linux/arm64", "-", name, stdin=bytes(10240))
    shop.add(base=f"docker:{name}")

    code, message = refuse(shop, "--builder", builder)

    assert code == 8
    assert message == (
        "error: base test: expected an image for linux/amd64, which is what Docker runs here, found linux/arm64\n"
        "hint: name a base for linux/amd64 in [base.test]\n"
    )


@BUILDERS
def test_a_folder_that_is_not_as_locked_keeps_the_old_image(shop: Shop, builder: str) -> None:
    shop.add()
    shop.build()
    old = shop.engine.id(shop.image)
    (shop.root / "m" / "config.json").write_text('{"model_type": "other"}')
    shutil.rmtree(shop.root.parent / "store")

    code, message = refuse(shop, "--builder", builder)

    assert code == {"direct": 6, "docker": 4}[builder]
    assert "config.json: expected sha256:" in message
    assert shop.engine.id(shop.image) == old
    assert not unchecked(shop)


def unchecked(shop: Shop) -> list[str]:
    """Names that builds of this shop gave before they had checked what they made."""
    return [name for name in shop.engine.names() if name.startswith(f"bake-unchecked/{shop.name}:")]


def grown(shop: Shop) -> str:
    """A small image of a version, and the same version locked anew with a large file; returns the image's id."""
    shop.add(base=None)
    shop.build()
    with (shop.root / "m" / "tokenizer.model").open("wb") as stream:
        stream.truncate(1 << 30)
    shop.do("lock", "--upgrade", shop.model, "-q")
    return shop.engine.id(shop.image)


def test_a_load_that_is_interrupted_keeps_the_old_image(shop: Shop) -> None:
    old = grown(shop)
    started = shop.start("build", shop.model, "--to", f"docker:{shop.image}")
    read_until(started, "loading into Docker")

    started.send_signal(signal.SIGINT)

    out, err = started.communicate(timeout=30)
    assert (started.returncode, out) == (130, "")
    assert "\ninterrupted\n" in err  # a socket that the SDK drops may be told of behind it
    assert shop.engine.id(shop.image) == old
    shop.build()
    assert shop.engine.id(shop.image) != old


def read_until(started: subprocess.Popen[str], text: str) -> None:
    """Wait until a command has said something on stderr."""
    assert started.stderr
    for line in started.stderr:
        if text in line:
            return
    raise AssertionError(f"it never said {text!r}")


def test_models_of_a_wrong_kind_never_reach_docker(classic_shop: Shop) -> None:
    classic_shop.add({**model_files(), "x.bin": b""})

    code, message = refuse(classic_shop, "--to", "docker:UPPER")

    assert code == 2
    assert message.startswith("error: --to: expected docker:REPOSITORY:TAG, found ")
