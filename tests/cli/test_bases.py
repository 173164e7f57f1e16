"""Images on a base: another OCI layout below, its layers as they are, bake's layers on top."""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
from typing import TYPE_CHECKING

import pytest

from bake.image import LAYER, LAYER_GZIP, AddedLayer, Descriptor, append
from bake.layer import Directory, File, pack_entries
from bake.layout import Layout
from tests.cli.place import EMPTY_LOCK, Bake, Place, Ran, error, weight_layers, whole

if TYPE_CHECKING:
    from pathlib import Path

    from bake.digest import Digest

FOREIGN = {"PATH": "/usr/bin:/bin", "HF_HOME": "/root/.cache", "LANG": "C.UTF-8"}


def make_base(folder: Path, content: bytes = b"#!/bin/sh\n") -> Digest:
    """A small image with an entrypoint, a command, environment and labels of its own."""
    layout = Layout(folder)
    layout.prepare("base")
    tar = pack_entries([Directory("usr/bin"), File.of("usr/bin/python3", content)])
    added = AddedLayer(descriptor=layout.add(tar, media_type=LAYER), created_by="base")
    image = append(
        None,
        [added],
        environment=FOREIGN,
        labels={"maintainer": "someone"},
        entrypoint=("vllm", "serve"),
        command=("--help",),
        workdir="/app",
    )
    layout.stage(image)
    layout.publish(image, model="base", tag="latest")
    return image.descriptor.digest


@pytest.fixture
def based(place: Place, bake: Bake) -> Place:
    """`tiny@v1` on the base `py`, which lies in bases/py and is locked."""
    digest = make_base(place.root / "bases" / "py")
    place.write_lock(f'{EMPTY_LOCK}\n[base.py]\nimage = "oci:bases/py"\ndigest = "{digest}"\n')
    place.add_model()
    assert bake("-q", "add", "tiny@v1", "dir://m").code == 0
    return place


def built_on(place: Place) -> Layout:
    return Layout(place.root / "dist" / "tiny-v1")


def test_the_base_s_layers_come_first_and_unchanged(based: Place, bake: Bake) -> None:
    base = Layout(based.root / "bases" / "py").image()

    assert bake("-q", "build", "tiny@v1").code == 0

    image = built_on(based).image()
    assert image.manifest.layers[:1] == base.manifest.layers
    assert image.config.diff_ids[:1] == base.config.diff_ids
    assert whole(built_on(based).path) == ()
    assert bake("-q", "verify", "tiny@v1", "--level", "full").code == 0


def test_environment_and_labels_are_merged_and_the_entrypoint_is_bake_s(based: Place, bake: Bake) -> None:
    bake("-q", "build", "tiny@v1")

    config = built_on(based).image().config
    assert dict(config.environment) == FOREIGN | {
        "HF_HOME": "/tmp/huggingface",  # noqa: S108
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_OFFLINE": "1",
        "RAY_AUTH_MODE": "disabled",
        "TRANSFORMERS_OFFLINE": "1",
        "VERL_MODEL_PATH": "/opt/models/tiny",
    }
    assert (config.labels["maintainer"], config.labels["dev.bake.model"]) == ("someone", "tiny@v1")
    assert (config.entrypoint, config.command) == (("python3", "/opt/bake"), ("train",))


def test_another_base_reads_no_weight_byte(based: Place, bake: Bake) -> None:
    bake("-q", "build", "tiny@v1")
    weights = weight_layers(built_on(based).path)[1:]
    shutil.rmtree(based.root / "m")
    digest = make_base(based.root / "bases" / "other", b"#!/bin/bash\n")
    old = Layout(based.root / "bases" / "py").image().descriptor.digest
    based.write_lock(based.lock.read_text().replace("oci:bases/py", "oci:bases/other").replace(str(old), str(digest)))

    ran = bake("build", "tiny@v1")

    assert ran.code == 0
    assert "packed 0 layers (0 B), the others were there" in ran.err
    assert weight_layers(built_on(based).path)[1:] == weights
    assert whole(built_on(based).path) == ()


def test_the_same_layers_lie_in_an_image_on_scratch(based: Place, bake: Bake) -> None:
    bake("-q", "add", "tiny@v2", "dir://m", "--base", "scratch")
    bake("-q", "build", "tiny@v1")
    bake("-q", "build", "tiny@v2")

    assert weight_layers(based.root / "dist" / "tiny-v2") == weight_layers(built_on(based).path)[1:]


def test_a_base_that_is_compressed_is_left_so(based: Place, bake: Bake) -> None:
    """Its diff_id is that of the tar, its digest that of the gzip."""
    layout = Layout(based.root / "bases" / "zipped")
    layout.prepare("base")
    tar = pack_entries([File.of("usr/bin/python3", b"#!/bin/sh\n")])
    blob = layout.add(gzip.compress(tar, mtime=0), media_type=LAYER_GZIP)
    config: dict[str, object] = {
        "os": "linux",
        "architecture": "amd64",
        "config": {"User": "1000"},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(tar).hexdigest()}"]},
    }
    write_image(layout, config, blob)
    use_base(based, "oci:bases/zipped", layout.image().descriptor.digest)

    assert bake("-q", "build", "tiny@v1").code == 0
    image = built_on(based).image()
    assert image.manifest.layers[0] == blob
    assert image.config.rest["config"] == {"User": "1000"}
    assert whole(built_on(based).path) == ()
    assert bake("-q", "verify", "tiny@v1", "--level", "full").code == 0


def write_image(layout: Layout, config: dict[str, object], *layers: Descriptor) -> None:
    described = layout.add(json.dumps(config).encode(), media_type="application/vnd.oci.image.config.v1+json")
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": described.document(),
        "layers": [layer.document() for layer in layers],
    }
    entry = layout.add(json.dumps(manifest).encode(), media_type=str(manifest["mediaType"]))
    (layout.path / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [entry.document()]}))


def use_base(place: Place, image: str, digest: Digest | str) -> None:
    old = Layout(place.root / "bases" / "py").image().descriptor.digest
    place.write_lock(place.lock.read_text().replace("oci:bases/py", image).replace(str(old), str(digest)))


def test_lock_fills_in_a_base_s_digest(place: Place, bake: Bake) -> None:
    digest = make_base(place.root / "bases" / "py")
    place.write_lock(f'{EMPTY_LOCK}\n[base.py]\nimage = "oci:bases/py"\n')

    assert bake("-q", "lock", "--check").out == "base py: no digest\nmodels.lock: not in canonical form\n"
    assert bake("-q", "lock").code == 0
    assert f'digest = "{digest}"' in place.lock.read_text()


def refused(place: Place, bake: Bake) -> Ran:
    """A build that fails because of the base; it may leave no image."""
    ran = bake("-q", "build", "tiny@v1")
    assert not (place.root / "dist" / "tiny-v1" / "index.json").exists()
    return ran


def test_a_base_that_is_missing(based: Place, bake: Bake) -> None:
    shutil.rmtree(based.root / "bases")

    ran = refused(based, bake)

    assert (ran.code, ran.out) == (8, "")
    assert ran.err.startswith(f"error: {based.root}/bases/py does not exist\n")


def test_a_base_of_another_digest(based: Place, bake: Bake) -> None:
    found = make_base(based.root / "bases" / "py", b"other")

    ran = refused(based, bake)

    assert ran.code == 8
    assert f"found {found}" in ran.err


def test_a_base_that_is_not_locked(based: Place, bake: Bake) -> None:
    digest = Layout(based.root / "bases" / "py").image().descriptor.digest
    based.write_lock(based.lock.read_text().replace(f'digest = "{digest}"\n', ""))

    ran = refused(based, bake)

    assert (ran.code, ran.err) == (3, error("base py (oci:bases/py) has no digest yet", hint="bake lock"))


def test_a_base_with_an_altered_layer(based: Place, bake: Bake) -> None:
    layout = Layout(based.root / "bases" / "py")
    blob = layout.blob(layout.image().manifest.layers[0].digest)
    content = blob.read_bytes()
    blob.unlink()
    blob.write_bytes(content.replace(b"#!/bin/sh", b"#!/bin/xx"))

    ran = refused(based, bake)

    assert ran.code == 8
    assert ran.err == error(f"base py: the bytes of {blob} are not those of sha256:{blob.name}")


def test_a_base_with_a_missing_layer(based: Place, bake: Bake) -> None:
    layout = Layout(based.root / "bases" / "py")
    blob = layout.blob(layout.image().manifest.layers[0].digest)
    blob.unlink()

    ran = refused(based, bake)

    assert ran.code == 8
    assert f"blob sha256:{blob.name}: missing" in ran.err


def test_plan_of_a_model_on_a_base_that_is_missing(based: Place, bake: Bake) -> None:
    shutil.rmtree(based.root / "bases")

    ran = bake("plan", "tiny@v1")

    assert (ran.code, ran.err) == (0, "")
    assert "(size not known here)" in ran.out


def test_show_of_a_model_on_a_base_that_is_missing(based: Place, bake: Bake) -> None:
    shutil.rmtree(based.root / "bases")

    assert bake("show", "tiny@v1").code == 0


def flip_base(place: Place) -> Path:
    """Put other bytes of the same size in the place of the base's layer in the image, and there alone."""
    layout = built_on(place)
    blob = layout.blob(layout.image().manifest.layers[0].digest)
    content = blob.read_bytes()
    blob.unlink()
    blob.write_bytes(content.replace(b"#!/bin/sh", b"#!/bin/xx"))
    return blob


def test_a_flipped_byte_of_a_base_s_layer_is_found_by_full(based: Place, bake: Bake) -> None:
    bake("-q", "build", "tiny@v1")
    blob = flip_base(based)

    ran = bake("-q", "verify", "tiny@v1", "--level", "full")

    found = hashlib.sha256(blob.read_bytes()).hexdigest()
    assert ran == Ran(
        1,
        f"layer sha256:{blob.name} is altered: its bytes have the digest sha256:{found}; "
        "the next build writes it anew\n",
        error(f"oci:{built_on(based).path}: 1 fault"),
    )


def test_a_base_s_layer_that_is_altered_in_the_image_is_written_anew(based: Place, bake: Bake) -> None:
    first = bake("-q", "build", "tiny@v1")
    flip_base(based)

    assert bake("-q", "build", "tiny@v1") == first
    assert whole(built_on(based).path) == ()
    assert bake("-q", "verify", "tiny@v1", "--level", "full").code == 0


def test_a_base_that_bake_built_is_refused(based: Place, bake: Bake) -> None:
    bake("-q", "add", "other@v1", "dir://m", "--base", "scratch")
    bake("-q", "build", "other@v1")
    use_base(based, "oci:dist/other-v1", Layout(based.root / "dist" / "other-v1").image().descriptor.digest)

    ran = refused(based, bake)

    assert ran == Ran(
        8,
        "",
        error(
            "base py (oci:dist/other-v1) is itself an image that bake built, of other@v1",
            hint="name the image that it was built on",
        ),
    )
