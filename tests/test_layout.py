"""OCI layouts on disk: what a folder may hold before a build, what is there after one, and what is read from one."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from bake.digest import CHUNK, Digest
from bake.errors import DigestError, ImageError, OutputError
from bake.folder import FolderSnapshot
from bake.image import CONFIG, INDEX, LAYER, LAYER_GZIP, MANIFEST, Descriptor, Image, Platform, canonical, validate
from bake.layer import File, pack, pack_entries
from bake.layout import Layout
from bake.lock import LockedModel, ModelId
from tests.builders import TINY, Heap, appended, base_image, layer_of, locked, recorded, write_layout

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FILES = {"config.json": b"{}", "model.safetensors": b"weights" * 100}
ELSEWHERE = "give another path, as --to oci:PATH, or remove it"
ONE = Digest.of(b"1")


def model(version: str = "v1", *, files: dict[str, bytes] = FILES) -> LockedModel:
    return locked([recorded(path, content) for path, content in files.items()], model=ModelId("tiny", version))


def blobs(path: Path) -> set[str]:
    return {blob.name for blob in (path / "blobs" / "sha256").iterdir()}


def used(image: Image) -> set[str]:
    found = (image.descriptor, image.manifest.config, *image.manifest.layers)
    return {blob.digest.hex for blob in found}


def built(path: Path, *, version: str = "v1", files: dict[str, bytes] = FILES) -> Image:
    """An image in a layout, from a folder of files."""
    folder = path.parent / f"source-{path.name}-{version}"
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return write_layout(path, model(version, files=files), FolderSnapshot(folder))


def tar_of_weights() -> bytes:
    name = "opt/models/tiny/model.safetensors"
    return pack_entries([File.of(name, FILES["model.safetensors"])])


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A layout that is ready to be written to."""
    made = Layout(tmp_path / "out")
    made.prepare(str(TINY))
    return made


# --- a whole image


def test_an_image_is_written_and_read_back(tmp_path: Path) -> None:
    image = built(tmp_path / "out")

    assert Layout(tmp_path / "out").image().descriptor.digest == image.descriptor.digest
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["blobs", "index.json", "oci-layout"]
    assert sorted(path.name for path in (tmp_path / "out" / "blobs").iterdir()) == ["sha256"]
    assert blobs(tmp_path / "out") == used(image)


def test_the_index_names_the_image_for_every_tool(tmp_path: Path) -> None:
    image = built(tmp_path / "out")

    assert json.loads((tmp_path / "out" / "index.json").read_bytes()) == {
        "schemaVersion": 2,
        "mediaType": INDEX,
        "manifests": [
            {
                "mediaType": MANIFEST,
                "digest": str(image.descriptor.digest),
                "size": image.descriptor.size,
                "platform": {"os": "linux", "architecture": "amd64"},
                "annotations": {
                    "org.opencontainers.image.ref.name": "v1",
                    "dev.bake.model": "tiny@v1",
                    "io.containerd.image.name": "tiny:v1",
                },
            }
        ],
    }
    assert (tmp_path / "out" / "oci-layout").read_bytes() == b'{"imageLayoutVersion":"1.0.0"}'


def test_an_image_on_a_base_is_whole(tmp_path: Path) -> None:
    heap = Heap()
    base = base_image(heap, tars=[pack_entries([File.of("etc/base", b"1")])], compress=True)
    (tmp_path / "config.json").write_bytes(b"{}")
    folder = FolderSnapshot(tmp_path)

    image = write_layout(tmp_path / "out", model(files={"config.json": b"{}"}), folder, base=(base, heap))

    assert [layer.media_type for layer in image.manifest.layers] == [LAYER_GZIP, LAYER]


# --- prepare


def prepared(path: Path, name: str = "tiny@v1") -> tuple[str, str | None]:
    """How a folder is refused."""
    with pytest.raises(OutputError) as caught:
        Layout(path).prepare(name)
    return caught.value.message.replace(str(path), "OUT"), caught.value.hint


def index_of(*entries: dict[str, Any]) -> bytes:
    return canonical({"schemaVersion": 2, "mediaType": INDEX, "manifests": list(entries)})


def entry(digest: Digest, size: int = 1, *, media_type: str = MANIFEST, **rest: Any) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": str(digest), "size": size, **rest}


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A folder that says it is a layout."""
    path = tmp_path / "out"
    (path / "blobs" / "sha256").mkdir(parents=True)
    (path / "oci-layout").write_bytes(b"{}")
    return path


def test_a_missing_folder_is_made(tmp_path: Path) -> None:
    Layout(tmp_path / "a" / "b").prepare("tiny@v1")

    assert (tmp_path / "a" / "b" / "oci-layout").is_file()


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    Layout(tmp_path).prepare("tiny@v1")

    assert (tmp_path / "oci-layout").is_file()


def test_a_folder_that_holds_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_bytes(b"")

    assert prepared(tmp_path) == ("OUT exists and is no OCI layout", ELSEWHERE)


def test_a_file_in_the_way_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(b"")

    assert prepared(tmp_path / "out") == ("OUT exists and is no OCI layout", ELSEWHERE)


def test_another_model_s_image_is_refused_and_stays(tmp_path: Path) -> None:
    image = built(tmp_path / "out")

    assert prepared(tmp_path / "out", "tiny@v2") == ("OUT holds another image, tiny@v1, not tiny@v2", ELSEWHERE)
    assert blobs(tmp_path / "out") == used(image)


@pytest.mark.parametrize(
    ("listed", "name"),
    [
        (entry(ONE), str(ONE)),
        (entry(ONE, annotations={"org.opencontainers.image.ref.name": "latest"}), "latest"),
        (entry(ONE, media_type=INDEX), str(ONE)),
        (entry(ONE, media_type="application/vnd.example.artifact+json"), str(ONE)),
    ],
    ids=["image", "named image", "index", "artifact"],
)
def test_another_tool_s_layout_is_refused(out: Path, listed: dict[str, Any], name: str) -> None:
    (out / "index.json").write_bytes(index_of(listed))

    assert prepared(out) == (f"OUT holds another image, {name}, not tiny@v1", ELSEWHERE)


def test_an_index_that_cannot_be_read_is_refused(out: Path) -> None:
    (out / "index.json").write_bytes(b"")

    message, hint = prepared(out)

    assert message.startswith("OUT/index.json: expected a JSON object: ")
    assert hint == ELSEWHERE


@pytest.mark.parametrize("content", [index_of(), b'{"manifests": null}'], ids=["empty", "null"])
def test_a_layout_that_lists_nothing_is_taken(out: Path, content: bytes) -> None:
    (out / "index.json").write_bytes(content)

    Layout(out).prepare("tiny@v1")


def test_a_build_that_was_killed_is_taken_up_again(tmp_path: Path) -> None:
    whole = built(tmp_path / "out")
    (tmp_path / "out" / "index.json").unlink()
    (tmp_path / "out" / "blobs" / ".partial").mkdir()
    (tmp_path / "out" / "blobs" / ".partial" / "tmp1").write_bytes(b"half")
    (tmp_path / "out" / "blobs" / "sha256" / f".{'a' * 64}.12").write_bytes(b"half")

    again = built(tmp_path / "out")

    assert again == whole
    assert blobs(tmp_path / "out") == used(again)


def test_what_is_half_written_is_no_image(layout: Layout) -> None:
    with pytest.raises(ImageError) as caught:
        layout.image()

    assert caught.value.message == f"{layout.path} is an unfinished OCI layout: it has no index.json"
    assert caught.value.hint == "build it again"


# --- publish


def test_older_blobs_are_deleted_and_used_ones_stay(tmp_path: Path) -> None:
    old = built(tmp_path / "out")
    new = built(tmp_path / "out", files=FILES | {"config.json": b'{"a": 1}'})

    assert blobs(tmp_path / "out") == used(new)
    assert used(new) & used(old) == {Digest.of(tar_of_weights()).hex}


def test_a_build_that_is_given_up_leaves_the_older_image(tmp_path: Path) -> None:
    old = built(tmp_path / "out")
    layout = Layout(tmp_path / "out")
    layout.prepare("tiny@v1")
    layout.add(b"a new blob", media_type=LAYER)

    assert validate(layout.image(), layout, content=True) == ()
    assert layout.image().descriptor.digest == old.descriptor.digest


# --- blobs


def test_a_blob_counts_for_nothing_until_it_is_committed(layout: Layout) -> None:
    with layout.writer() as writer:
        writer.write(b"half")

    assert blobs(layout.path) == set()
    assert list((layout.path / "blobs" / ".partial").iterdir()) == []


def test_a_committed_blob_is_read_only(layout: Layout) -> None:
    descriptor = layout.add(b"whole", media_type=LAYER)

    assert layout.size(descriptor.digest) == 5
    assert layout.blob(descriptor.digest).stat().st_mode & 0o777 == 0o444


def test_a_blob_is_what_was_written_and_has_its_name_once_committed(layout: Layout) -> None:
    content = bytes(range(256)) * (CHUNK // 256) + b"tail"

    with layout.writer() as writer:
        writer.write(b"head")
        writer.write(memoryview(content))
        path = writer.commit(ONE)

    assert (path, path.read_bytes()) == (layout.blob(ONE), b"head" + content)


def test_a_layer_on_disk_is_the_layer_in_memory(layout: Layout, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(FILES["model.safetensors"])
    plan = layer_of({"model.safetensors": FILES["model.safetensors"]})

    with layout.writer() as writer:
        path = writer.commit(pack(plan, FolderSnapshot(tmp_path), writer))

    assert path.read_bytes() == tar_of_weights()


def rewrite(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:-1] + b"!")


def shorten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:CHUNK])


def lengthen(path: Path) -> None:
    with path.open("ab") as stream:
        stream.write(b"more")


@pytest.mark.parametrize("change", [rewrite, shorten, lengthen])
def test_a_file_that_changes_while_it_is_packed_leaves_no_blob(
    layout: Layout, tmp_path: Path, change: Callable[[Path], None]
) -> None:
    source = tmp_path / "model.bin"
    source.write_bytes(bytes(CHUNK + 10))
    plan = layer_of({"model.bin": bytes(CHUNK + 10)})
    once = iter([change])

    with pytest.raises(DigestError), layout.writer() as writer:
        pack(plan, FolderSnapshot(tmp_path), writer, advance=lambda _: next(once, lambda _: None)(source))

    assert blobs(layout.path) == set()


def test_threads_write_blobs_at_once(layout: Layout) -> None:
    contents = [bytes([number]) * 100_000 for number in range(8)]

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda content: layout.add(content, media_type=LAYER), contents))

    assert blobs(layout.path) == {Digest.of(content).hex for content in contents}


def test_a_proven_blob_is_taken_in_by_a_second_name(layout: Layout, tmp_path: Path) -> None:
    (tmp_path / "blob").write_bytes(b"1")

    layout.take(tmp_path / "blob", ONE)

    assert layout.blob(ONE).samefile(tmp_path / "blob")


# --- reading


def store(path: Path, content: bytes, *, media_type: str = MANIFEST, **rest: Any) -> dict[str, Any]:
    """Put a blob into a layout by hand; returns the entry that names it."""
    digest = Digest.of(content)
    (path / "blobs" / "sha256" / digest.hex).write_bytes(content)
    return entry(digest, len(content), media_type=media_type, **rest)


def image_entry(path: Path, architecture: str = "amd64", **rest: Any) -> dict[str, Any]:
    """An image of no layers for one platform."""
    image = appended(None, [])
    config = replace(image.config, platform=Platform("linux", architecture))
    stored = store(path, config.dumps(), media_type=CONFIG)
    manifest = replace(image.manifest, config=Descriptor.parse(stored))
    platform = {"os": "linux", "architecture": architecture}
    return store(path, manifest.dumps(), **{"platform": platform, **rest})


ATTESTATION: dict[str, Any] = {
    "platform": {"os": "unknown", "architecture": "unknown"},
    "annotations": {"vnd.docker.reference.type": "attestation-manifest"},
}


@pytest.fixture
def many(out: Path) -> Layout:
    """A layout as BuildKit writes one: an index within the index, two platforms, and an attestation."""
    attestation = entry(ONE, **ATTESTATION)
    nested = index_of(image_entry(out, "amd64"), image_entry(out, "arm64"), attestation)
    (out / "index.json").write_bytes(index_of(store(out, nested, media_type=INDEX)))
    return Layout(out)


def test_images_of_nested_indexes_are_found_and_attestations_are_none(many: Layout) -> None:
    assert [str(image.platform) for image in many.images()] == ["linux/amd64", "linux/arm64"]


def test_an_image_is_chosen_by_its_platform(many: Layout) -> None:
    assert many.image(platform=Platform("linux", "arm64")).config.platform == Platform("linux", "arm64")


def test_an_image_is_chosen_by_its_digest(many: Layout) -> None:
    arm = many.images()[1]

    assert many.image(digest=arm.digest).descriptor == arm


def test_an_image_is_chosen_by_the_digest_of_its_index(many: Layout) -> None:
    (index,) = json.loads((many.path / "index.json").read_bytes())["manifests"]
    digest = Digest.parse(index["digest"])

    assert many.image(digest=digest, platform=Platform("linux", "arm64")).descriptor == many.images()[1]


def test_several_images_are_not_chosen_from(many: Layout) -> None:
    held = ", ".join(str(image.digest) for image in many.images())

    with pytest.raises(ImageError) as caught:
        many.image()

    assert caught.value.message == f"{many.path}: expected one image, found several: {held}"
    assert caught.value.hint == "name one by its digest"


def test_a_platform_that_is_not_there_is_told_with_those_that_are(many: Layout) -> None:
    held = ", ".join(f"{image.digest} {image.platform}" for image in many.images())

    with pytest.raises(ImageError) as caught:
        many.image(platform=Platform("linux", "s390x"))

    assert caught.value.message == f"{many.path}: expected one image for linux/s390x, found {held}"


def test_an_image_that_is_listed_twice_is_one_image(out: Path) -> None:
    listed = image_entry(out)
    (out / "index.json").write_bytes(index_of(listed, listed))

    assert Layout(out).image().config.platform == Platform("linux", "amd64")


def test_an_altered_manifest_is_not_believed(out: Path) -> None:
    listed = image_entry(out)
    digest = Digest.parse(listed["digest"])
    (out / "index.json").write_bytes(index_of(listed))
    (out / "blobs" / "sha256" / digest.hex).write_bytes(b"{}")

    with pytest.raises(ImageError) as caught:
        Layout(out).image()

    assert caught.value.message == (f"{out}: blob {digest} is altered: its bytes have the digest {Digest.of(b'{}')}")


def test_a_document_of_many_megabytes_is_not_read(out: Path) -> None:
    (out / "index.json").write_bytes(index_of(entry(ONE, 5 << 20)))

    with pytest.raises(ImageError, match="expected at most 4194304 bytes of JSON"):
        Layout(out).image()


def test_a_missing_manifest_is_told(out: Path) -> None:
    (out / "index.json").write_bytes(index_of(entry(ONE)))

    with pytest.raises(ImageError) as caught:
        Layout(out).image()

    assert caught.value.message == f"{out}: cannot read blob {ONE}: No such file or directory"


@pytest.mark.parametrize(("name", "what"), [("", "is no OCI image layout"), ("none", "does not exist")])
def test_a_folder_that_is_no_layout_is_told(tmp_path: Path, name: str, what: str) -> None:
    with pytest.raises(ImageError) as caught:
        Layout(tmp_path / name).image()

    assert caught.value.message == f"{tmp_path / name} {what}"
    assert caught.value.hint == "bake build NAME@VERSION --to oci:PATH writes one"
