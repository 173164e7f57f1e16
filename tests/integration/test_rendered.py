"""What `bake render` writes builds without bake, and the linters find nothing in it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bake.layout import Layout
from tests.cli.place import TINY
from tests.entrypoint.files import model_files, write
from tests.integration.engine import DOCKER, Engine, Shop, run_container

if TYPE_CHECKING:
    from tests.hub_server import FakeHub

pytestmark = DOCKER

REPOSITORY = Path(__file__).parents[2]
HADOLINT = Path(sys.executable).with_name("hadolint")
WHEELS = f'wheels = [{{ name = "verl", version = "0.9.1", sha256 = "{"0" * 64}" }}]\n'


def rendered(shop: Shop) -> Path:
    """The folder that `bake render -o` writes."""
    shop.do("render", shop.model, "-o", "context")
    return shop.root / "context"


def lint(text: str) -> str:
    done = subprocess.run([HADOLINT, "-"], input=text, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def check(engine: Engine, folder: Path, *words: str) -> str:
    """What `docker build --check` finds."""
    done = engine.try_docker("buildx", "build", "--check", *words, folder)
    assert "Check complete, no warnings found." in done.out + done.err, done.out + done.err
    return done.out


@pytest.mark.parametrize("base", ["scratch", "base"])
def test_a_rendered_folder_builds_without_bake(shop: Shop, base: str) -> None:
    shop.add(base="" if base == "base" else None)
    folder = rendered(shop)
    shop.do("build", shop.model, "--to", f"docker:{shop.name}:direct", "-q")

    plain = f"{shop.name}:plain"
    shop.engine.docker("build", "-q", "--build-context", f"model={shop.root / 'm'}", "-t", plain, folder)

    assert shop.engine.files(plain, "/opt") == shop.engine.files(f"{shop.name}:direct", "/opt")


def test_a_rendered_folder_of_a_gated_model_builds_with_the_command_in_it(shop: Shop, hub: FakeHub) -> None:
    hub.token = "hf_" + "q" * 34
    hub.add_repo("org/name", model_files(), gated=True)
    shop.environ.update({"HF_ENDPOINT": hub.endpoint, "HF_TOKEN": hub.token})
    shop.write_lock(base=f"docker:{shop.engine.base}")
    shop.do("lock", "-q")
    shop.do("add", shop.model, "hf://org/name", "-q")
    folder = rendered(shop)
    words = command_in(folder / "Dockerfile")

    assert words == ["build", "--secret", "id=HTTP_AUTH_TOKEN_127.0.0.1,env=HF_TOKEN", "-t", shop.image, "."]
    shop.engine.docker(*words[:-1], folder, environ={"HF_TOKEN": hub.token})

    assert run_container(shop.engine, shop.image, "verify", "--level", "full").code == 0
    assert hub.token.encode() not in shop.engine.saved(shop.image)


def command_in(dockerfile: Path) -> list[str]:
    """The words after `docker` in the command that a Dockerfile's first comment gives."""
    lines = [line.lstrip("# ").rstrip(" \\") for line in dockerfile.read_text().splitlines()]
    start = next(number for number, line in enumerate(lines) if line.startswith("docker build"))
    end = next(number for number in range(start, len(lines)) if not lines[number])
    return " ".join(lines[start:end]).split()[1:]


def test_a_rendered_folder_gives_the_same_layout_each_time(containerd_shop: Shop) -> None:
    containerd_shop.add(base=None)
    folder = rendered(containerd_shop)

    for name in ("one", "two"):
        output = (
            f"type=oci,dest={containerd_shop.root / name},tar=false,rewrite-timestamp=true,"
            "compression=uncompressed,force-compression=true"
        )
        context = f"model={containerd_shop.root / 'm'}"
        containerd_shop.engine.docker(
            *("buildx", "build", "-q", "--no-cache", "--provenance=false", "--build-context", context),
            *("--output", output, folder),
            environ={"SOURCE_DATE_EPOCH": "0"},
        )

    one, two = (Layout(containerd_shop.root / name).image().descriptor.digest for name in ("one", "two"))
    assert one == two


def test_a_bake_file_is_accepted_and_builds(shop: Shop) -> None:
    shop.add()
    shop.do("render", "--format", "bake", "-o", "images")
    images = shop.root / "images"

    read = json.loads(shop.engine.docker("buildx", "bake", "--print", "-f", images / "docker-bake.json"))
    (target,) = read["target"].values()
    assert target["tags"] == [shop.image]
    done = subprocess.run(
        ["docker", "buildx", "bake", "--load", "--allow", f"fs.read={shop.root}"],
        cwd=images,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "DOCKER_HOST": shop.engine.host},
    )

    assert done.returncode == 0, done.stderr
    assert run_container(shop.engine, shop.image, "verify", "--level", "full").code == 0


# --- linters


def test_the_linters_find_nothing_in_a_model_on_scratch(classic_shop: Shop) -> None:
    classic_shop.write_lock()
    shutil.copytree(TINY, classic_shop.root / "tiny-llama")
    classic_shop.do("add", classic_shop.model, "dir://tiny-llama", "-q")
    folder = rendered(classic_shop)

    assert lint((folder / "Dockerfile").read_text()) == ""
    check(classic_shop.engine, folder, "--build-context", f"model={TINY}")
    check(classic_shop.engine, folder)


def test_the_linters_find_nothing_in_a_model_on_a_base(classic_shop: Shop) -> None:
    classic_shop.add()
    folder = rendered(classic_shop)

    assert lint((folder / "Dockerfile").read_text()) == ""
    check(classic_shop.engine, folder)


def test_the_linters_find_nothing_in_a_model_with_wheels_critic_and_reward_model(classic_shop: Shop) -> None:
    shop = classic_shop
    shop.add(more=WHEELS)
    for role in ("critic", "judge"):
        write(shop.root / role, model_files())
        shop.do("add", f"{role}@v1", f"dir://{role}", "-q")
    shop.do("add", f"{shop.name}@v2", "dir://m", "--critic", "critic@v1", "--reward-model", "judge@v1", "-q")
    shop.do("render", f"{shop.name}@v2", "-o", "context")
    folder = shop.root / "context"

    assert lint((folder / "Dockerfile").read_text()) == ""
    check(shop.engine, folder)


def test_the_linters_find_nothing_in_the_repositorys_own_example(classic_shop: Shop) -> None:
    """Its base is in a registry that need not be in reach: another image stands in for it."""
    shutil.copy(REPOSITORY / "models.lock", classic_shop.lock)
    classic_shop.do("render", "llama3-8b@v1.0.0", "-o", "context")
    text = (classic_shop.root / "context" / "Dockerfile").read_text()
    base = next(line.split()[1] for line in text.splitlines() if line.startswith("FROM verlai/"))

    assert lint(text) == ""
    check(
        classic_shop.engine,
        classic_shop.root / "context",
        "--build-context",
        f"docker.io/{base}=docker-image://{classic_shop.engine.base}",
    )
