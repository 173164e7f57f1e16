"""An image as one tar: a layout and a `docker save` archive at once, with the layers that the other side lacks."""

from __future__ import annotations

import io
import json
import tarfile
from typing import TYPE_CHECKING

import pytest

from bake.archive import archive_size, stream_archive
from bake.digest import Digest
from bake.errors import ImageError
from bake.image import LAYER, AddedLayer, Image
from tests.builders import Heap, appended, foreign_tar

if TYPE_CHECKING:
    from collections.abc import Collection

NAME = "tiny:v1"


def made(*contents: bytes) -> tuple[Image, Heap]:
    """An image on scratch with a layer for each content, and its blobs."""
    heap = Heap()
    layers = [
        AddedLayer(descriptor=heap.add(foreign_tar((f"f{number}", content)), media_type=LAYER), created_by="bake")
        for number, content in enumerate(contents)
    ]
    return appended(None, layers, labels={"dev.bake.model": "tiny@v1"}), heap


def members(
    image: Image, heap: Heap, *, send: Collection[Digest], name: str = NAME, oci: bool = True
) -> dict[str, bytes]:
    """Every file of an archive, as tarfile reads it."""
    chunks = b"".join(stream_archive(image, heap, name=name, send=send, oci=oci))
    with tarfile.open(fileobj=io.BytesIO(chunks), mode="r:") as archive:
        return {info.name: stream.read() for info in archive if (stream := archive.extractfile(info))}


def everything(image: Image) -> set[Digest]:
    return {layer.digest for layer in image.manifest.layers}


def test_both_manifests_name_the_same_config_and_layers() -> None:
    image, heap = made(b"1", b"2")

    files = members(image, heap, send=everything(image))

    (docker,) = json.loads(files["manifest.json"])
    (entry,) = json.loads(files["index.json"])["manifests"]
    manifest = json.loads(files[blob(entry["digest"])])
    assert docker["RepoTags"] == [NAME]
    assert docker["Config"] == blob(manifest["config"]["digest"])
    assert docker["Layers"] == [blob(layer["digest"]) for layer in manifest["layers"]]
    assert files[docker["Config"]] == image.config.dumps()
    assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}


def blob(digest: str) -> str:
    return "blobs/" + digest.replace(":", "/")


def test_every_blob_is_what_its_name_says() -> None:
    image, heap = made(b"1" * 1000, b"2" * 512, b"")

    files = members(image, heap, send=everything(image))

    blobs = {name: content for name, content in files.items() if name.startswith("blobs/")}
    assert len(blobs) == 5
    assert all(name.endswith(Digest.of(content).hex) for name, content in blobs.items())


def test_layers_that_are_known_are_left_out() -> None:
    image, heap = made(b"1", b"2")
    kept = image.manifest.layers[1].digest

    files = members(image, heap, send={kept})

    assert f"blobs/sha256/{kept.hex}" in files
    assert f"blobs/sha256/{image.manifest.layers[0].digest.hex}" not in files
    assert archive_size(image, send={kept}) == image.manifest.layers[1].size


def test_a_layer_that_an_image_has_twice_is_sent_once() -> None:
    image, heap = made(b"1")
    (layer,) = image.manifest.layers
    twice = appended(image, [AddedLayer(descriptor=layer, created_by="again")])

    names = [info.name for info in tar_of(twice, heap)]

    assert names.count(f"blobs/sha256/{layer.digest.hex}") == 1
    assert archive_size(twice, send={layer.digest}) == layer.size


def tar_of(image: Image, heap: Heap) -> tarfile.TarFile:
    chunks = b"".join(stream_archive(image, heap, name=NAME, send=everything(image)))
    return tarfile.open(fileobj=io.BytesIO(chunks), mode="r:")


def test_the_classic_store_gets_no_index() -> None:
    image, heap = made(b"1")

    files = members(image, heap, send=everything(image), oci=False)

    assert "index.json" not in files
    assert "oci-layout" not in files
    assert "manifest.json" in files


@pytest.mark.parametrize(
    ("name", "full", "tag"),
    [
        ("tiny:v1", "docker.io/library/tiny:v1", "v1"),
        ("registry.example:5000/org/tiny:v2", "registry.example:5000/org/tiny:v2", "v2"),
    ],
)
def test_containerd_is_told_the_full_name(name: str, full: str, tag: str) -> None:
    image, heap = made(b"1")

    (entry,) = json.loads(members(image, heap, send=(), name=name)["index.json"])["manifests"]

    assert entry["annotations"] == {"io.containerd.image.name": full, "org.opencontainers.image.ref.name": tag}


def test_the_same_image_is_the_same_archive() -> None:
    image, heap = made(b"1", b"2")

    first, second = (b"".join(stream_archive(image, heap, name=NAME, send=everything(image))) for _ in range(2))

    assert first == second
    assert len(first) % 512 == 0


def test_progress_counts_the_bytes_of_layers() -> None:
    image, heap = made(b"1" * 3000)
    counted: list[int] = []

    for _ in stream_archive(image, heap, name=NAME, send=everything(image), advance=counted.append):
        pass

    assert sum(counted) == archive_size(image, send=everything(image))


def test_a_blob_that_was_cut_off_is_refused() -> None:
    image, heap = made(b"1" * 3000)
    (layer,) = image.manifest.layers
    heap.held[layer.digest] = heap.held[layer.digest][:100]

    with pytest.raises(ImageError) as caught:
        members(image, heap, send=everything(image))

    assert caught.value.message == f"layer {layer.digest}: expected {layer.size} bytes, found 100"
