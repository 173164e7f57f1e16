"""bake verify REF: an image in a registry, without a daemon and without a byte on the disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bake.digest import Digest
from bake.image import LAYER, AddedLayer, Descriptor, append
from bake.layer import File, pack_entries
from bake.layout import Layout
from tests.cli.place import Bake, Place, Ran, error
from tests.cli.remote import NAME, compress_layers, put_layout, read_of, reference, spoil
from tests.entrypoint.files import FIRST, SECOND
from tests.registry.faults import PASSWORD, USER
from tests.registry.samples import add_image, encoded, write_config

if TYPE_CHECKING:
    from pathlib import Path

    from bake.image import Image
    from tests.registry.server import FakeRegistry

WHOLE = 1 << 20


@pytest.fixture
def image(built: Place, registry: FakeRegistry) -> Image:
    """`tiny@v1` in the registry, as `org/tiny:v1`. There is no lock, and no image on this machine."""
    return put_layout(registry, built.root / "dist" / "tiny-v1")


@pytest.mark.parametrize("level", ["quick", "full"])
@pytest.mark.parametrize("form", ["", "registry:"])
@pytest.mark.usefixtures("image")
def test_a_right_image_is_as_its_record(registry: FakeRegistry, bake: Bake, level: str, form: str) -> None:
    ran = bake("--json", "verify", form + reference(registry), "--level", level)

    assert ran.code == 0
    assert (ran.document["target"], ran.document["ok"], ran.document["unread_layers"]) == (reference(registry), True, 0)
    assert [(model["model"], model["against"], model["files"]) for model in ran.document["models"]] == [
        ("tiny@v1", "its record", 4)
    ]


@pytest.mark.usefixtures("image")
def test_it_goes_by_its_digest_and_needs_no_lock(
    place: Place, registry: FakeRegistry, image: Image, bake: Bake
) -> None:
    place.lock.unlink()

    ran = bake("-q", "verify", f"{registry.host}/{NAME}@{image.descriptor.digest}", "--level", "full")

    assert (ran.code, ran.out.splitlines()[0][:14]) == (0, "ok  tiny@v1: 4")


@pytest.mark.usefixtures("image")
def test_it_is_compared_with_the_lock_on_request(built: Place, registry: FakeRegistry, bake: Bake) -> None:
    assert bake("-q", "verify", reference(registry), "--against", "tiny@v1").code == 0
    (built.root / "m" / "config.json").write_text('{"model_type": "qwen2"}')
    bake("-q", "lock", "--upgrade", "tiny@v1")

    ran = bake("-q", "verify", reference(registry), "--against", "tiny@v1")

    assert (ran.code, ran.out) == (
        1,
        "the record in the image is not that of the lock: the image was built from another state of it\n",
    )


def test_quick_reads_the_headers_of_shards_and_not_their_bytes(
    place: Place, registry: FakeRegistry, bake: Bake
) -> None:
    place.add_large_model(*[4 << 20] * 12)
    bake("-q", "add", "tiny@v1", "dir://m", "--base", "scratch")
    bake("-q", "build", "tiny@v1")
    image = put_layout(registry, place.root / "dist" / "tiny-v1")

    ran = bake("--json", "verify", reference(registry))

    read = read_of(registry, image)
    assert (ran.code, ran.document["read_bytes"]) == (0, read + image.descriptor.size + image.manifest.config.size)
    assert 12 * (16 << 10) < read < 14 * (16 << 10) + image.manifest.layers[0].size + image.manifest.layers[-1].size


@pytest.mark.usefixtures("image")
def test_nothing_is_written_to_the_disk(built: Place, registry: FakeRegistry, bake: Bake) -> None:
    before = sorted((str(path), path.stat().st_mtime_ns) for path in built.root.parent.rglob("*"))

    bake("-q", "verify", reference(registry))
    bake("-q", "verify", reference(registry), "--level", "full")

    assert sorted((str(path), path.stat().st_mtime_ns) for path in built.root.parent.rglob("*")) == before


# --- faults


def test_a_layer_that_is_gone_is_told_with_its_files(registry: FakeRegistry, image: Image, bake: Bake) -> None:
    weights = image.manifest.layers[1].digest
    del registry.blobs[NAME][str(weights)]

    ran = bake("--json", "verify", reference(registry))

    assert ran.code == 1
    assert ran.document["image_faults"] == [f"blob {weights}: missing"]
    assert [(fault["path"], fault["kind"]) for fault in ran.document["models"][0]["faults"]] == [
        (FIRST, "missing"),
        (SECOND, "missing"),
    ]


def test_a_layer_of_another_size_is_told(registry: FakeRegistry, image: Image, bake: Bake) -> None:
    weights = image.manifest.layers[1]
    registry.blobs[NAME][str(weights.digest)] = b"short"

    ran = bake("--json", "verify", reference(registry))

    assert ran.code == 1
    assert (
        f"{registry.host}/{NAME}: blob {weights.digest}: expected {weights.size} bytes, found 5 in the registry"
        in ran.document["image_faults"]
    )


def test_full_finds_a_flipped_byte_and_names_the_file(registry: FakeRegistry, image: Image, bake: Bake) -> None:
    weights = image.manifest.layers[1].digest
    spoil(registry, weights, b"\x07", b"\x08")

    ran = bake("--json", "verify", reference(registry), "--level", "full")

    (fault,) = ran.document["image_faults"]
    assert ran.code == 1
    assert fault.startswith(f"layer {weights} is altered: its bytes have the digest sha256:")
    assert [(fault["path"], fault["kind"]) for fault in ran.document["models"][0]["faults"]] == [(FIRST, "altered")]


def test_a_config_file_that_is_altered_is_found_by_quick_already(
    registry: FakeRegistry, image: Image, bake: Bake
) -> None:
    spoil(registry, image.manifest.layers[0].digest, b"llama", b"lmaal")

    ran = bake("--json", "verify", reference(registry))

    assert ran.code == 1
    assert ran.document["image_faults"][0].startswith(f"{registry.host}/{NAME}: blob {image.manifest.layers[0].digest}")


def test_a_manifest_of_other_bytes_ends_it(registry: FakeRegistry, image: Image, bake: Bake) -> None:
    registry.fault(f"GET */manifests/{image.descriptor.digest}", content=b"{}")

    ran = bake("-q", "verify", f"{registry.host}/{NAME}@{image.descriptor.digest}")

    assert (ran.code, ran.out) == (6, "")
    assert f"expected {image.descriptor.digest}, found bytes of sha256:" in ran.err


# --- images of others


def test_an_image_that_bake_did_not_build_is_told(registry: FakeRegistry, bake: Bake) -> None:
    add_image(registry)

    assert bake("-q", "verify", f"{registry.host}/org/name:v1") == Ran(
        8,
        "",
        error(
            f"{registry.host}/org/name:v1 is no image that bake built: it has no label dev.bake.model",
            hint="name one that `bake build` or `bake push` made",
        ),
    )


def test_layers_that_docker_push_compressed_are_only_there_for_quick(
    registry: FakeRegistry, image: Image, bake: Bake
) -> None:
    compress_layers(registry, image, tag="zipped")

    quick = bake("--json", "verify", reference(registry, tag="zipped"))
    full = bake("--json", "verify", reference(registry, tag="zipped"), "--level", "full")

    assert (quick.code, quick.document["models"][0]["seen"], quick.document["unread_layers"]) == (0, False, 2)
    assert (full.code, full.document["models"][0]["seen"], full.document["unread_layers"]) == (0, True, 0)


def test_layers_on_top_of_bake_s_are_read_by_full_alone(registry: FakeRegistry, image: Image, bake: Bake) -> None:
    """As `FROM ghcr.io/org/tiny:v1` with a RUN that deletes a shard leaves them."""
    put_on_top(registry, image, pack_entries([File.of(f"opt/models/tiny/.wh.{FIRST}", b"")]))

    quick = bake("--json", "verify", reference(registry, tag="top"))
    full = bake("--json", "verify", reference(registry, tag="top"), "--level", "full")

    assert (quick.code, quick.document["unread_layers"]) == (0, 1)
    assert [(fault["path"], fault["kind"]) for fault in full.document["models"][0]["faults"]] == [(FIRST, "missing")]


def put_on_top(registry: FakeRegistry, image: Image, tar: bytes) -> None:
    layer = Descriptor(media_type=LAYER, digest=Digest.of(tar), size=len(tar))
    top = append(
        image,
        [AddedLayer(descriptor=layer, created_by="RUN")],
        environment={},
        labels={},
        entrypoint=(),
        command=(),
        workdir="",
    )
    registry.add_blob(NAME, tar)
    registry.add_blob(NAME, top.config.dumps())
    registry.add_manifest(NAME, "top", top.manifest.dumps(), media_type=top.descriptor.media_type)


# --- the registry


def test_a_tag_that_is_not_there_is_told(registry: FakeRegistry, bake: Bake) -> None:
    ran = bake("-q", "verify", reference(registry))

    assert (ran.code, ran.out) == (8, "")
    assert ran.err.startswith(f"error: {registry.host}/{NAME}: the registry has no manifest v1")


@pytest.mark.usefixtures("image")
def test_offline_it_is_refused(registry: FakeRegistry, bake: Bake) -> None:
    assert bake("-q", "--offline", "verify", reference(registry)) == Ran(
        4,
        "",
        error(
            f"{reference(registry)} is in a registry, and --offline allows no network", hint="run it without --offline"
        ),
    )
    assert registry.requests == []


@pytest.mark.usefixtures("image")
def test_a_stranger_is_told_to_log_in(registry: FakeRegistry, bake: Bake) -> None:
    registry.auth = "token"

    ran = bake("-q", "verify", reference(registry))

    assert (ran.code, ran.out) == (4, "")
    assert ran.err.endswith(f"hint: docker login {registry.host}\n")


@pytest.mark.parametrize("level", ["quick", "full"])
@pytest.mark.usefixtures("image")
def test_a_token_that_runs_out_meanwhile_is_renewed(
    registry: FakeRegistry, docker_config: Path, bake: Bake, level: str
) -> None:
    registry.auth = "token"
    write_config(docker_config, auths={registry.host: encoded(USER, PASSWORD)})
    registry.fault("GET */blobs/*", expire=True, skip=1)

    assert bake("-q", "verify", reference(registry), "--level", level).code == 0


@pytest.mark.usefixtures("image")
def test_a_connection_that_is_cut_is_taken_up_again(registry: FakeRegistry, bake: Bake) -> None:
    registry.fault("GET */blobs/*", cut_answer=700, times=3)

    assert bake("-q", "verify", reference(registry), "--level", "full").code == 0


def test_a_registry_without_range_is_read_all_the_same(place: Place, registry: FakeRegistry, bake: Bake) -> None:
    place.add_large_model(2 << 20, 2 << 20)
    bake("-q", "add", "tiny@v1", "dir://m", "--base", "scratch")
    bake("-q", "build", "tiny@v1")
    put_layout(registry, place.root / "dist" / "tiny-v1")
    registry.fault("GET */blobs/*", ignore_range=True, times=100)

    assert bake("-q", "verify", reference(registry)).code == 0


def test_a_path_is_never_taken_for_a_reference(place: Place, bake: Bake) -> None:
    ran = bake("-q", "verify", "dist/tiny-v1")

    assert (ran.code, ran.out) == (2, "")
    assert Layout(place.root / "dist" / "tiny-v1").size(Digest("0" * 64)) is None
