"""A base that lacks packages: both builders unpack the same wheels in front of the base's own."""

from __future__ import annotations

import hashlib
import io
import shutil
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pip
import pytest

from tests.integration.engine import DOCKER, Shop, run_container

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = DOCKER

NAME = "tinywheel-1.0-py3-none-any.whl"


def wheel(files: Mapping[str, bytes]) -> bytes:
    """A wheel of the package `tinywheel` (PEP 427), the same bytes each time."""
    metadata = {
        "tinywheel-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: tinywheel\nVersion: 1.0\n",
        "tinywheel-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        listed = {**files, **metadata}
        listed["tinywheel-1.0.dist-info/RECORD"] = "".join(f"{path},,\n" for path in listed).encode()
        for path, content in listed.items():
            archive.writestr(zipfile.ZipInfo(path), content)
    return stream.getvalue()


GOOD = {"tinywheel/__init__.py": b"WHERE = __file__\n", "tinywheel/deep/data.txt": b"1"}


def add_with_wheel(shop: Shop, content: bytes, *, sha256: str | None = None, base: str = "") -> None:
    """Lock a model on a base that lacks `tinywheel`, which pip finds in a folder and nowhere else."""
    folder = shop.root / "wheels"
    folder.mkdir()
    (folder / NAME).write_bytes(content)
    shop.environ.update({"PIP_FIND_LINKS": str(folder), "PIP_NO_INDEX": "1"})
    digest = sha256 or hashlib.sha256(content).hexdigest()
    listed = f'wheels = [{{ name = "tinywheel", version = "1.0", sha256 = "{digest}" }}]\n'
    shop.add(base=base, more=listed)


@pytest.mark.parametrize("builder", ["direct", "docker"])
def test_a_wheel_can_be_imported_in_front_of_the_bases_own(shop: Shop, builder: str) -> None:
    base = f"{shop.name}-base:v1"
    shop.engine.docker("build", "-q", "-t", base, "-", stdin=f"FROM {shop.engine.base}\nENV PYTHONPATH=/own\n".encode())
    add_with_wheel(shop, wheel(GOOD), base=f"docker:{base}")

    shop.build("--builder", builder)

    assert shop.engine.config(shop.image)["Env"]["PYTHONPATH"] == "/opt/bake/site:/own"
    script = "import tinywheel; print(tinywheel.WHERE)"
    ran = run_container(shop.engine, shop.image, "exec", "python3", "-B", "-c", script)
    assert ran.out == "/opt/bake/site/tinywheel/__init__.py\n"


def test_both_builders_put_the_same_files_into_the_image(shop: Shop) -> None:
    add_with_wheel(shop, wheel(GOOD))
    shop.do("build", shop.model, "--to", f"docker:{shop.name}:direct", "-q")
    shop.do("build", shop.model, "--to", f"docker:{shop.name}:buildkit", "-q", "--builder", "docker")

    direct, buildkit = f"{shop.name}:direct", f"{shop.name}:buildkit"
    assert shop.engine.files(direct, "/opt") == shop.engine.files(buildkit, "/opt")
    assert shop.engine.config(direct) == shop.engine.config(buildkit)
    assert shop.engine.config(direct)["Env"]["PYTHONPATH"] == "/opt/bake/site"


@pytest.mark.parametrize("builder", ["direct", "docker"])
def test_a_wheel_with_other_bytes_is_refused(shop: Shop, builder: str) -> None:
    add_with_wheel(shop, wheel(GOOD), sha256="0" * 64)

    ran = shop.run("build", shop.model, "--to", f"docker:{shop.image}", "-q", "--builder", builder)

    assert (ran.code, ran.out) == (5, "")
    assert ran.err.startswith("error: pip could not fetch wheel tinywheel 1.0: ERROR: ")
    assert not shop.engine.has(shop.image)


def test_a_wheel_that_writes_outside_the_site_folder_is_refused(classic_shop: Shop) -> None:
    add_with_wheel(classic_shop, wheel({"tinywheel-1.0.data/scripts/run": b"#!python\n"}))

    ran = classic_shop.run("build", classic_shop.model, "--to", "docker", "-q")

    assert (ran.code, ran.out) == (8, "")
    assert ran.err == (
        "error: wheel tinywheel 1.0: tinywheel-1.0.data/scripts/run goes outside the site folder\n"
        "hint: use a base image that holds this package, and leave it out of wheels\n"
    )


def test_the_rendered_folder_installs_the_wheel_by_its_hash_without_bake(shop: Shop, tmp_path: Path) -> None:
    """The base gets the tests' own pip, and a folder that stands for an index."""
    shutil.copytree(Path(pip.__file__).parent, tmp_path / "pip")
    base = f"{shop.name}-base:v1"
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels" / NAME).write_bytes(wheel(GOOD))
    dockerfile = (
        f"FROM {shop.engine.base}\nCOPY pip /usr/lib/python3/dist-packages/pip\nCOPY wheels /wheels\n"
        "ENV PIP_FIND_LINKS=/wheels PIP_NO_INDEX=1\n"
    )
    (tmp_path / "Dockerfile").write_text(dockerfile)
    shop.engine.docker("build", "-q", "-t", base, tmp_path)
    add_with_wheel(shop, wheel(GOOD), base=f"docker:{base}")
    shop.do("render", shop.model, "-o", "context")

    context = f"model={shop.root / 'm'}"
    shop.engine.docker(
        "build", "-q", "--network", "none", "--build-context", context, "-t", shop.image, shop.root / "context"
    )

    script = "import tinywheel; print(tinywheel.WHERE)"
    ran = run_container(shop.engine, shop.image, "exec", "python3", "-B", "-c", script)
    assert ran.out == "/opt/bake/site/tinywheel/__init__.py\n"
