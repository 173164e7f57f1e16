"""bake verify: every fault of a folder or an image, all at once, and the exit code 1."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from bake.layout import Layout
from tests.cli.place import TINY, Bake, Place, error
from tests.entrypoint.files import FIRST, INDEX, SECOND

if TYPE_CHECKING:
    from pathlib import Path

    from bake.digest import Digest


def image_of(place: Place) -> Path:
    return place.root / "dist" / "tiny-v1"


def weights_of(place: Place) -> Path:
    """The blob of the layer that holds both shards."""
    layout = Layout(image_of(place))
    return layout.blob(layout.image().manifest.layers[1].digest)


def rewrite(path: Path, old: bytes, new: bytes) -> None:
    """Change bytes in a file whose mode forbids it."""
    content = path.read_bytes()
    assert old in content
    path.chmod(0o644)
    path.write_bytes(content.replace(old, new, 1))


# --- folders


@pytest.mark.usefixtures("tiny")
def test_a_right_source_is_as_in_the_lock(bake: Bake) -> None:
    ran = bake("--json", "verify", "m", "--level", "full")

    assert ran.code == 0
    assert [(model["model"], model["against"]) for model in ran.document["models"]] == [
        ("tiny@v1", "tiny@v1 in models.lock")
    ]


def test_every_fault_of_a_folder_is_listed_at_once(tiny: Place, bake: Bake) -> None:
    folder = tiny.root / "m"
    (folder / "config.json").unlink()
    (folder / "extra.safetensors").write_bytes(b"x")
    (folder / FIRST).write_bytes((folder / FIRST).read_bytes()[:-1])
    rewrite(folder / SECOND, b"\x07", b"\x08")

    ran = bake("--json", "verify", "m", "--level", "full")

    (model,) = ran.document["models"]
    assert ran.code == 1
    assert [(fault["path"], fault["kind"]) for fault in model["faults"]] == [
        ("config.json", "missing"),
        ("extra.safetensors", "extra"),
        (FIRST, "truncated"),
        (SECOND, "altered"),
    ]


def test_a_fault_is_told_in_four_lines_and_counted(tiny: Place, bake: Bake) -> None:
    (tiny.root / "m" / "config.json").unlink()

    ran = bake("-q", "verify", "m")

    assert ran.out.splitlines() == [
        "m/config.json: missing",
        "  expected: 23 bytes",
        "  found:    no such file",
        "  to do:    fetch or copy this file again, and mount nothing over it",
    ]
    assert (ran.code, ran.err) == (1, error("m: 1 fault"))


def test_full_finds_what_quick_does_not(tiny: Place, bake: Bake) -> None:
    rewrite(tiny.root / "m" / SECOND, b"\x07", b"\x08")

    assert bake("-q", "verify", "m").code == 0
    assert bake("-q", "verify", "m", "--level", "full").code == 1


def test_an_lfs_pointer_is_named_as_one(tiny: Place, bake: Bake) -> None:
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 1234\n"
    (tiny.root / "m" / FIRST).write_text(pointer)

    ran = bake("--json", "verify", "m")

    assert [fault["kind"] for fault in ran.document["models"][0]["faults"]] == ["lfs-pointer"]


def test_a_folder_of_which_nothing_is_known_has_its_structure_checked(place: Place, bake: Bake) -> None:
    place.add_model()

    assert "structure only: there is no record to compare with" in bake("verify", "m").out
    (place.root / "m" / SECOND).unlink()
    ran = bake("--json", "verify", "m")
    assert (ran.code, ran.document["models"][0]["faults"][0]["path"]) == (1, INDEX)


def test_a_folder_is_verified_without_any_lock(place: Place, bake: Bake) -> None:
    place.lock.unlink()

    assert bake("-q", "verify", str(TINY), "--level", "full").code == 0


def test_an_empty_folder_has_a_fault(place: Place, bake: Bake) -> None:
    (place.root / "m").mkdir()

    assert bake("-q", "verify", "m").code == 1


def test_a_source_of_several_models_needs_a_choice(tiny: Place, bake: Bake) -> None:
    bake("-q", "add", "tiny@v2", "dir://m")

    ran = bake("verify", "m")

    assert (ran.code, ran.err) == (
        2,
        error(
            f"{tiny.root}/m is the source of several models: tiny@v1, tiny@v2",
            hint="say which, with --against NAME@VERSION",
        ),
    )
    assert bake("verify", "m", "--against", "tiny@v2").code == 0


def test_any_folder_can_be_compared_with_a_model_of_the_lock(tiny: Place, bake: Bake) -> None:
    shutil.copytree(tiny.root / "m", tiny.root / "copy")
    (tiny.root / "copy" / "config.json").unlink()

    assert bake("-q", "verify", "copy", "--against", "tiny@v1").code == 1


def test_an_unpacked_image_is_compared_with_the_record_in_it(built: Place, bake: Bake) -> None:
    unpack(built, built.root / "rootfs")

    assert bake("-q", "verify", "rootfs", "--level", "full").code == 0
    assert bake("-q", "verify", "rootfs/opt/models/tiny", "--level", "full").code == 0
    (built.root / "rootfs" / "opt" / "models" / "tiny" / "config.json").unlink()
    assert bake("-q", "verify", "rootfs").code == 1
    assert bake("-q", "verify", "rootfs/opt/models/tiny").code == 1


def unpack(place: Place, folder: Path) -> None:
    layout = Layout(image_of(place))
    folder.mkdir()
    for layer in layout.image().manifest.layers:
        subprocess.run(["tar", "-C", str(folder), "-xf", str(layout.blob(layer.digest))], check=True)


# --- images


@pytest.mark.parametrize("target", ["tiny@v1", "oci:dist/tiny-v1", "dist/tiny-v1"])
@pytest.mark.usefixtures("built")
def test_an_image_goes_by_its_model_or_its_place(bake: Bake, target: str) -> None:
    assert bake("-q", "verify", target, "--level", "full").code == 0


def test_an_image_goes_by_its_digest(built: Place, bake: Bake) -> None:
    digest = Layout(image_of(built)).image().descriptor.digest

    assert bake("-q", "verify", f"oci:dist/tiny-v1@{digest}").code == 0
    assert bake("-q", "verify", f"oci:dist/tiny-v1@sha256:{'0' * 64}").code == 8
    assert bake("-q", "verify", "oci:dist/tiny-v1@sha256:zz").code == 2


def test_a_flipped_byte_of_a_layer_is_found_by_full(built: Place, bake: Bake) -> None:
    rewrite(weights_of(built), b"\x07", b"\x08")

    ran = bake("--json", "verify", "tiny@v1", "--level", "full")

    assert ran.code == 1
    assert len(ran.document["image_faults"]) == 1
    assert [(fault["path"], fault["kind"]) for fault in ran.document["models"][0]["faults"]] == [(FIRST, "altered")]


def test_a_layer_that_full_found_altered_is_written_anew(built: Place, bake: Bake) -> None:
    """The bytes went bad below the file system: its times say nothing of it."""
    blob = weights_of(built)
    status = blob.stat()
    rewrite(blob, b"\x07", b"\x08")
    os.utime(blob, ns=(status.st_atime_ns, status.st_mtime_ns))

    assert bake("-q", "verify", "tiny@v1", "--level", "full").code == 1
    assert bake("-q", "build", "tiny@v1").code == 0
    assert bake("-q", "verify", "tiny@v1", "--level", "full").code == 0


def test_a_layer_that_is_cut_off_is_found_by_quick(built: Place, bake: Bake) -> None:
    blob = weights_of(built)
    rewrite(blob, blob.read_bytes(), blob.read_bytes()[:1500])

    ran = bake("--json", "verify", "tiny@v1")

    assert ran.code == 1
    assert any(f"blob sha256:{blob.name}: expected " in fault for fault in ran.document["image_faults"])


def test_a_layer_that_is_gone_is_found_and_so_are_its_files(built: Place, bake: Bake) -> None:
    blob = weights_of(built)
    blob.unlink()

    ran = bake("--json", "verify", "tiny@v1")

    assert ran.code == 1
    assert f"blob sha256:{blob.name}: missing" in ran.document["image_faults"]
    assert [fault["path"] for fault in ran.document["models"][0]["faults"]] == [FIRST, SECOND]


def test_an_edited_manifest_is_refused(built: Place, bake: Bake) -> None:
    layout = Layout(image_of(built))
    rewrite(layout.blob(layout.image().descriptor.digest), b"tiny", b"tinz")

    ran = bake("-q", "verify", "tiny@v1")

    assert ran.code in {1, 8}
    assert "is altered: its bytes have the digest sha256:" in ran.err + ran.out


def test_an_edited_config_is_refused(built: Place, bake: Bake) -> None:
    layout = Layout(image_of(built))
    rewrite(layout.blob(layout.image().manifest.config.digest), b"tiny", b"tinz")

    ran = bake("-q", "verify", "tiny@v1")

    assert ran.code in {1, 8}
    assert "is altered: its bytes have the digest sha256:" in ran.err + ran.out


def test_a_layout_without_an_index_is_no_image(built: Place, bake: Bake) -> None:
    (image_of(built) / "index.json").unlink()

    ran = bake("-q", "verify", "tiny@v1")

    assert (ran.code, ran.out) == (8, "")
    assert "has no index.json" in ran.err


@pytest.mark.parametrize("text", ["", "{", "[]", '{"manifests": 3}', '{"manifests": [{}]}', '{"manifests": []}'])
def test_an_index_that_is_no_index_is_told(built: Place, bake: Bake, text: str) -> None:
    (image_of(built) / "index.json").write_text(text)

    ran = bake("-q", "verify", "tiny@v1")

    assert (ran.code, ran.out) == (8, "")
    assert ran.err.startswith("error: ")
    assert "Traceback" not in ran.err


def test_a_replaced_record_is_told_against_the_lock(built: Place, bake: Bake) -> None:
    """An image whose every digest is right, and whose record is not that of the lock."""
    layout = Layout(image_of(built))
    layout.prepare("tiny@v1")
    image = layout.image()
    last = image.manifest.layers[-1]
    content = layout.blob(last.digest).read_bytes().replace(b'"tiny"', b'"tinz"')
    added = layout.add(content, media_type=last.media_type)
    forge(layout, last.digest, added.digest)

    ran = bake("-q", "verify", "tiny@v1")

    assert ran.code == 1
    assert (
        "the record in the image is not that of the lock: the image was built from another state of it"
        in ran.out.splitlines()
    )


def forge(layout: Layout, old: Digest, new: Digest) -> None:
    """Rewrite config, manifest and index so that they name another layer, all digests right."""
    image = layout.image()
    config = layout.blob(image.manifest.config.digest).read_bytes().replace(old.hex.encode(), new.hex.encode())
    added = layout.add(config, media_type=image.manifest.config.media_type)
    layers = [replace(layer, digest=new) if layer.digest == old else layer for layer in image.manifest.layers]
    manifest = replace(image.manifest, config=added, layers=tuple(layers)).dumps()
    described = layout.add(manifest, media_type=image.descriptor.media_type)
    index = json.loads((layout.path / "index.json").read_text())
    index["manifests"][0] |= {"digest": str(described.digest), "size": described.size}
    (layout.path / "index.json").write_text(json.dumps(index))


@pytest.mark.usefixtures("tiny")
def test_a_model_that_is_not_built_says_how(bake: Bake) -> None:
    assert bake("verify", "tiny@v1").err == error(
        "tiny@v1 is not in a folder: no dist/tiny-v1",
        hint="bake build tiny@v1 --to oci; or in Docker: bake run tiny@v1 --gpus none -- verify --level full",
    )
    assert bake("verify", "tiny@v1").code == 8


def test_an_image_of_an_older_state_of_the_lock_has_a_fault(built: Place, bake: Bake) -> None:
    (built.root / "m" / "config.json").write_text('{"model_type": "qwen2"}')
    bake("-q", "lock", "--upgrade", "tiny@v1")

    ran = bake("-q", "verify", "tiny@v1")

    assert (ran.code, ran.out) == (
        1,
        "the record in the image is not that of the lock: the image was built from another state of it\n",
    )


def test_an_image_is_verified_without_any_lock(built: Place, bake: Bake) -> None:
    built.lock.unlink()

    assert bake("-q", "verify", "oci:dist/tiny-v1", "--level", "full").code == 0
    assert bake("-q", "verify", "dist/tiny-v1", "--level", "full").code == 0


@pytest.mark.parametrize("target", ["nothing-here", "oci:nothing-here", "oci:m", "oci:", "", "tiny@v9", "models.lock"])
@pytest.mark.usefixtures("tiny")
def test_a_target_that_is_nothing_of_the_kind_is_told(bake: Bake, target: str) -> None:
    ran = bake("-q", "verify", target)

    assert ran.code in {2, 3, 8}
    assert (ran.out, ran.err.startswith("error: ")) == ("", True)


def test_verify_writes_nothing(built: Place, bake: Bake) -> None:
    before = sorted(path.stat().st_mtime_ns for path in built.root.rglob("*"))

    bake("-q", "verify", "tiny@v1", "--level", "full")
    bake("-q", "verify", "m", "--level", "full")

    assert sorted(path.stat().st_mtime_ns for path in built.root.rglob("*")) == before
