"""skopeo and umoci take what bake writes: they inspect, copy and unpack it, and find the files that went in."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bake.digest import Digest
from bake.folder import FolderSnapshot
from bake.image import LAYER, LAYER_GZIP, MANIFEST, Image, validate
from bake.layer import Directory, File, Link, pack_entries
from bake.layout import Layout
from tests.builders import TINY, Heap, base_image, locked, recorded, write_layout

if TYPE_CHECKING:
    from tests.tools.conftest import Tool

pytestmark = pytest.mark.tools

TINY_LLAMA = Path(__file__).parents[1] / "models" / "tiny-llama"
ODD = {
    "n" * 120 + ".json": b"1",
    "deep/" * 12 + "d" * 100 + "/" + "m" * 101: b"2",
    "a/b/c/nested.json": b"3",
    "modèle/漢字.json": b"4",
    "é" * 110 + ".txt": b"5",
    "with space 'and quote'.json": b"6",
    "-dash.json": b"",
}


@dataclass(frozen=True)
class Baked:
    """A layout that bake wrote, and the files that went in."""

    path: Path
    image: Image
    files: dict[str, bytes]

    @property
    def reference(self) -> str:
        return f"oci:{self.path}:v1"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """tiny-llama, and beside it files with every kind of name."""
    root = tmp_path_factory.mktemp("source")
    files = {path.name: path.read_bytes() for path in TINY_LLAMA.iterdir()} | ODD
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
    return root


@pytest.fixture(scope="module", params=["scratch", "base", "gzip base"])
def baked(request: pytest.FixtureRequest, source: Path, tmp_path_factory: pytest.TempPathFactory) -> Baked:
    snapshot = FolderSnapshot(source)
    files = {file.path: (source / file.path).read_bytes() for file in snapshot.files()}
    heap = Heap()
    lower = pack_entries([File.of("etc/base-release", b"tiny"), Directory("opt")])
    below = base_image(heap, tars=[lower], compress=request.param == "gzip base")
    path = tmp_path_factory.mktemp("layout") / "out"
    image = write_layout(
        path,
        locked([recorded(name, content) for name, content in files.items()]),
        snapshot,
        base=None if request.param == "scratch" else (below, heap),
        last=[File.of("opt/bake/record.json", b"{}"), Link("models", "opt/models/tiny")],
    )
    return Baked(path=path, image=image, files=files)


def test_skopeo_inspects_the_image(skopeo: Tool, baked: Baked) -> None:
    found = json.loads(skopeo("inspect", baked.reference))

    assert found["Digest"] == str(baked.image.descriptor.digest)
    assert found["Layers"] == [str(layer.digest) for layer in baked.image.manifest.layers]
    assert (found["Os"], found["Architecture"]) == ("linux", "amd64")


def test_skopeo_reads_the_config(skopeo: Tool, baked: Baked) -> None:
    found = json.loads(skopeo("inspect", "--config", baked.reference))

    assert found["rootfs"]["diff_ids"] == [str(diff_id) for diff_id in baked.image.config.diff_ids]
    assert len(found["history"]) == len(baked.image.manifest.layers)


def test_skopeo_copies_the_image_as_it_is(skopeo: Tool, baked: Baked, tmp_path: Path) -> None:
    skopeo("--insecure-policy", "copy", "--preserve-digests", baked.reference, f"oci:{tmp_path}/copy:v1")

    copy = Layout(tmp_path / "copy")
    assert copy.image().descriptor.digest == baked.image.descriptor.digest
    assert validate(copy.image(), copy, content=True) == ()


def test_skopeo_compresses_the_image_and_its_diff_ids_stay(skopeo: Tool, baked: Baked, tmp_path: Path) -> None:
    skopeo("--insecure-policy", "copy", baked.reference, f"oci:{tmp_path}/copy:v1")

    copy = Layout(tmp_path / "copy")
    assert {layer.media_type for layer in copy.image().manifest.layers} == {LAYER_GZIP}
    assert copy.image().config.diff_ids == baked.image.config.diff_ids
    assert validate(copy.image(), copy, content=True) == ()


def test_skopeo_copies_the_image_to_a_folder(skopeo: Tool, baked: Baked, tmp_path: Path) -> None:
    skopeo("--insecure-policy", "copy", baked.reference, f"dir:{tmp_path}/copy")

    assert Digest.of((tmp_path / "copy" / "manifest.json").read_bytes()) == baked.image.descriptor.digest
    assert json.loads((tmp_path / "copy" / "manifest.json").read_bytes())["mediaType"] == MANIFEST
    assert {layer.media_type for layer in baked.image.manifest.layers} <= {LAYER, LAYER_GZIP}


@pytest.fixture
def unpacked(umoci: Tool, baked: Baked, tmp_path: Path) -> Path:
    """The root file system that umoci makes of the image."""
    rootless = [] if os.geteuid() == 0 else ["--rootless"]
    umoci("unpack", *rootless, "--image", f"{baked.path}:v1", tmp_path / "bundle")
    return tmp_path / "bundle" / "rootfs"


def test_umoci_unpacks_the_files_that_went_in(baked: Baked, unpacked: Path) -> None:
    model = unpacked / "opt" / "models" / TINY.name
    found = {str(path.relative_to(model)): path.read_bytes() for path in model.rglob("*") if path.is_file()}

    assert found == baked.files


def test_umoci_unpacks_modes_that_any_user_can_read(unpacked: Path) -> None:
    below = list((unpacked / "opt").rglob("*"))
    modes = {(path.is_dir(), stat.S_IMODE(path.lstat().st_mode)) for path in [unpacked / "opt", *below]}

    assert modes == {(True, 0o755), (False, 0o444)}


def test_umoci_unpacks_files_that_are_as_old_as_the_epoch(unpacked: Path) -> None:
    assert {path.stat().st_mtime for path in (unpacked / "opt" / "models").rglob("*")} == {0}


def test_umoci_unpacks_the_link_to_the_model(unpacked: Path) -> None:
    assert (unpacked / "models").readlink() == Path("opt/models/tiny")
    assert (unpacked / "models" / "config.json").is_file()
