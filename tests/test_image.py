"""The OCI documents, putting layers on a base, and every invariant that validate knows. Values in, values out."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from bake.digest import Digest
from bake.errors import ImageError
from bake.image import (
    CONFIG,
    EPOCH,
    INDEX,
    LAYER,
    LAYER_GZIP,
    LAYER_ZSTD,
    MANIFEST,
    AddedLayer,
    Descriptor,
    Image,
    ImageConfig,
    Manifest,
    Platform,
    canonical,
    parse_json,
    validate,
)
from bake.layer import File, pack_entries
from tests.builders import Heap, appended, base_image, zipped

if TYPE_CHECKING:
    from collections.abc import Callable

ONE, TWO = Digest.of(b"1"), Digest.of(b"2")
TAR = pack_entries([File.of("etc/base", b"base")])
OWN = pack_entries([File.of("opt/models/tiny/config.json", b"{}")])

BASE_CONFIG = {
    "os": "linux",
    "architecture": "arm64",
    "variant": "v8",
    "author": "someone",
    "created": "2024-05-01T10:00:00Z",
    "config": {
        "User": "app",
        "Healthcheck": {"Test": ["CMD", "true"]},
        "Env": ["PATH=/usr/bin", "LD=a=b", "BAD"],
        "Labels": {"vendor": "x", "shared": "base"},
        "Entrypoint": ["serve"],
        "Cmd": ["--port", "80"],
        "WorkingDir": "/srv",
    },
    "rootfs": {"type": "layers", "diff_ids": [str(Digest.of(TAR))]},
    "history": [{"created_by": "step 0"}, {"created_by": "ENV", "empty_layer": True}],
}


def added(heap: Heap, tar: bytes = OWN) -> AddedLayer:
    return AddedLayer(descriptor=heap.add(tar, media_type=LAYER), created_by="bake tiny@v1")


def put(heap: Heap, image: Image) -> Image:
    """Lay the documents of an image among its blobs."""
    heap.add(image.config.dumps(), media_type=CONFIG)
    heap.add(image.manifest.dumps(), media_type=MANIFEST)
    return image


def base(heap: Heap, **changes: Any) -> Image:
    config = ImageConfig.parse(json.dumps(BASE_CONFIG | changes).encode(), where="config")
    return base_image(heap, tars=[TAR], config=config)


def written(image: Image) -> dict[str, Any]:
    """The configuration as it will be read by others."""
    document: dict[str, Any] = json.loads(image.config.dumps())
    return document


# --- documents


def test_json_is_canonical() -> None:
    assert canonical({"b": [1, "é"], "a": {"d": None, "c": ""}}) == '{"a":{"c":"","d":null},"b":[1,"é"]}'.encode()


@pytest.mark.parametrize(
    ("docker", "oci"),
    [
        ("application/vnd.docker.distribution.manifest.v2+json", MANIFEST),
        ("application/vnd.docker.distribution.manifest.list.v2+json", INDEX),
        ("application/vnd.docker.container.image.v1+json", CONFIG),
        ("application/vnd.docker.image.rootfs.diff.tar", LAYER),
        ("application/vnd.docker.image.rootfs.diff.tar.gzip", LAYER_GZIP),
        ("application/vnd.docker.image.rootfs.diff.tar.zstd", LAYER_ZSTD),
    ],
)
def test_docker_s_media_types_read_as_oci_s(docker: str, oci: str) -> None:
    assert Descriptor.parse({"mediaType": docker, "digest": str(ONE), "size": 1}).media_type == oci


def test_a_descriptor_is_read_as_it_was_written() -> None:
    descriptor = Descriptor(
        media_type=MANIFEST, digest=ONE, size=7, annotations={"a": "b"}, platform=Platform("linux", "arm64")
    )

    assert Descriptor.parse(descriptor.document()) == descriptor


def test_a_manifest_is_read_as_it_was_written() -> None:
    manifest = Manifest(
        config=Descriptor(media_type=CONFIG, digest=ONE, size=1),
        layers=(Descriptor(media_type=LAYER, digest=TWO, size=2),),
        annotations={"a": "b"},
    )

    assert Manifest.parse(manifest.dumps(), where="manifest") == manifest


def test_a_config_is_read_as_it_was_written() -> None:
    config = ImageConfig.parse(json.dumps(BASE_CONFIG).encode(), where="config")

    assert ImageConfig.parse(config.dumps(), where="config").dumps() == config.dumps()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[]", "X: expected a JSON object: TypeError('found list')"),
        (b"{", "X: expected a JSON object: JSONDecodeError("),
        (b"\xff", "X: expected a JSON object: UnicodeDecodeError("),
        (b"[" * 100_000, "X: expected a JSON object: RecursionError("),
    ],
    ids=["list", "cut", "no text", "deep"],
)
def test_what_is_no_json_object_is_told_with_its_place(content: bytes, message: str) -> None:
    with pytest.raises(ImageError) as caught:
        parse_json(content, where="X")

    assert caught.value.message.startswith(message)


@pytest.mark.parametrize(
    "change",
    [
        {"schemaVersion": 1},
        {"schemaVersion": None},
        {"layers": None},
        {"layers": [{}]},
        {"layers": [{"mediaType": LAYER, "digest": "md5:1", "size": 1}]},
        {"layers": [{"mediaType": LAYER, "digest": str(ONE), "size": "1"}]},
        {"layers": [{"mediaType": LAYER, "digest": str(ONE), "size": -1}]},
        {"layers": [{"mediaType": LAYER, "digest": str(ONE), "size": 1.5}]},
        {"layers": [{"mediaType": [], "digest": str(ONE), "size": 1}]},
        {"config": "x"},
    ],
    ids=str,
)
def test_a_malformed_manifest_is_refused(change: dict[str, Any]) -> None:
    document = {"schemaVersion": 2, "config": {"mediaType": CONFIG, "digest": str(ONE), "size": 1}, "layers": []}

    with pytest.raises(ImageError, match=r"^M: expected an image manifest: "):
        Manifest.parse(json.dumps(document | change).encode(), where="M")


@pytest.mark.parametrize("absent", ["os", "architecture", "rootfs"])
def test_a_config_that_lacks_what_it_must_have_is_refused(absent: str) -> None:
    document = {key: value for key, value in BASE_CONFIG.items() if key != absent}

    with pytest.raises(ImageError, match=f"^C: expected an image config: KeyError\\('{absent}'\\)"):
        ImageConfig.parse(json.dumps(document).encode(), where="C")


# --- append


def test_the_first_layers_of_an_image_are_its_base_s() -> None:
    heap = Heap()
    below = base(heap)
    own = added(heap)

    image = put(heap, appended(below, [own]))

    assert image.manifest.layers == (*below.manifest.layers, own.descriptor)
    assert image.config.diff_ids == (Digest.of(TAR), Digest.of(OWN))
    assert validate(image, heap, content=True) == ()


def test_what_a_base_says_of_itself_is_kept() -> None:
    heap = Heap()

    document = written(appended(base(heap), [added(heap)]))

    assert document == BASE_CONFIG | {
        "created": EPOCH,
        "config": BASE_CONFIG["config"] | {"Env": ["PATH=/usr/bin", "LD=a=b", "BAD="]},  # type: ignore[operator]
        "rootfs": {"type": "layers", "diff_ids": [str(Digest.of(TAR)), str(Digest.of(OWN))]},
        "history": [
            {"created_by": "step 0"},
            {"created_by": "ENV", "empty_layer": True},
            {"created": EPOCH, "created_by": "bake tiny@v1", "comment": "bake"},
        ],
    }


def test_what_is_asked_goes_before_what_a_base_says() -> None:
    heap = Heap()

    image = appended(
        base(heap),
        [added(heap)],
        environment={"PATH": "/opt/bin", "NEW": "1"},
        labels={"shared": "own", "org.opencontainers.image.title": "tiny"},
        entrypoint=["python3", "/opt/bake"],
        command=["train"],
        workdir="/outputs",
    )

    assert written(image)["config"] == {
        "User": "app",
        "Healthcheck": {"Test": ["CMD", "true"]},
        "Env": ["PATH=/opt/bin", "LD=a=b", "BAD=", "NEW=1"],
        "Labels": {"vendor": "x", "shared": "own", "org.opencontainers.image.title": "tiny"},
        "Entrypoint": ["python3", "/opt/bake"],
        "Cmd": ["train"],
        "WorkingDir": "/outputs",
    }
    assert image.manifest.annotations == {"org.opencontainers.image.title": "tiny"}


def test_a_base_s_command_does_not_outlive_its_entrypoint() -> None:
    heap = Heap()

    assert "Cmd" not in written(appended(base(heap), [added(heap)], entrypoint=["run"]))["config"]


def test_layers_of_a_base_without_history_are_told_all_the_same() -> None:
    heap = Heap()

    image = put(heap, appended(base(heap, history=[]), [added(heap)]))

    assert [entry["created_by"] for entry in image.config.history] == [
        "a layer of the base that has no history",
        "bake tiny@v1",
    ]
    assert validate(image, heap, content=True) == ()


def test_an_image_on_scratch_is_for_linux_and_holds_what_is_given() -> None:
    heap = Heap()

    image = put(heap, appended(None, [added(heap)], environment={"A": "1"}))

    assert written(image) == {
        "os": "linux",
        "architecture": "amd64",
        "created": EPOCH,
        "config": {"Env": ["A=1"], "Labels": {}},
        "rootfs": {"type": "layers", "diff_ids": [str(Digest.of(OWN))]},
        "history": [{"created": EPOCH, "created_by": "bake tiny@v1", "comment": "bake"}],
    }
    assert image.descriptor.platform == Platform("linux", "amd64")
    assert validate(image, heap, content=True) == ()


def test_an_image_has_the_platform_of_its_base() -> None:
    heap = Heap()

    assert str(appended(base(heap), []).descriptor.platform) == "linux/arm64"


def test_a_base_is_not_changed() -> None:
    heap = Heap()
    below = base(heap)
    before = below.config.dumps()

    appended(below, [added(heap)], environment={"PATH": "x"}, labels={"vendor": "y"})

    assert below.config.dumps() == before


# --- validate: one broken invariant a case


def with_manifest(image: Image, **changes: Any) -> Image:
    return replace(image, manifest=replace(image.manifest, **changes))


def with_config(image: Image, **changes: Any) -> Image:
    return replace(image, config=replace(image.config, **changes))


def with_layer(image: Image, **changes: Any) -> Image:
    *others, last = image.manifest.layers
    return with_manifest(image, layers=(*others, replace(last, **changes)))


LAST, FIRST = Digest.of(OWN), Digest.of(zipped(TAR))

MUTATIONS: dict[str, tuple[Callable[[Image], Image], list[str]]] = {
    "size": (lambda image: with_layer(image, size=1), [f"blob {LAST}: expected 1 bytes, found {len(OWN)}"]),
    "missing": (
        lambda image: with_layer(with_config(image, diff_ids=(Digest.of(TAR), ONE)), digest=ONE),
        [f"blob {ONE}: missing"],
    ),
    "diff_id": (
        lambda image: with_config(image, diff_ids=(Digest.of(TAR), ONE)),
        [f"layer[1]: expected diff_id {ONE} to be the uncompressed blob's digest {LAST}"],
    ),
    "diff_id of gzip": (
        lambda image: with_config(image, diff_ids=(ONE, LAST)),
        [f"layer[0]: expected diff_id {ONE}, found {Digest.of(TAR)} when decompressed"],
    ),
    "order": (
        lambda image: with_config(image, diff_ids=image.config.diff_ids[::-1]),
        [
            f"layer[1]: expected diff_id {Digest.of(TAR)} to be the uncompressed blob's digest {LAST}",
            f"layer[0]: expected diff_id {LAST}, found {Digest.of(TAR)} when decompressed",
        ],
    ),
    "fewer diff_ids": (
        lambda image: with_config(image, diff_ids=image.config.diff_ids[:1]),
        ["expected a diff_id for each of 2 layers, found 1"],
    ),
    "layer's media type": (
        lambda image: with_layer(image, media_type="text/plain"),
        ["layer[1]: not a layer's media type: text/plain"],
    ),
    "layer that is no gzip": (
        lambda image: with_layer(image, media_type=LAYER_GZIP),
        ["layer[1]: no whole gzip: Not a gzipped file (b'op')"],
    ),
    "config's media type": (
        lambda image: with_manifest(image, config=replace(image.manifest.config, media_type=LAYER)),
        [f"config: expected media type {CONFIG}, found {LAYER}"],
    ),
    "manifest's media type": (
        lambda image: replace(image, descriptor=replace(image.descriptor, media_type=INDEX)),
        [f"manifest: expected media type {MANIFEST}, found {INDEX}"],
    ),
    "history": (
        lambda image: with_config(image, history=image.config.history[:1]),
        ["expected a history entry for each of 2 layers, found 1"],
    ),
}


@pytest.fixture
def heap() -> Heap:
    return Heap()


@pytest.fixture
def whole(heap: Heap) -> Image:
    return put(heap, appended(base_image(heap, tars=[TAR], compress=True), [added(heap)]))


@pytest.mark.parametrize(("change", "faults"), MUTATIONS.values(), ids=list(MUTATIONS))
def test_a_broken_invariant_is_named(
    heap: Heap, whole: Image, change: Callable[[Image], Image], faults: list[str]
) -> None:
    assert list(validate(change(whole), heap, content=True)) == faults


def test_a_whole_image_has_no_fault(heap: Heap, whole: Image) -> None:
    assert validate(whole, heap, content=True) == ()


def test_history_may_be_absent(heap: Heap, whole: Image) -> None:
    assert validate(with_config(whole, history=()), heap) == ()


def test_altered_bytes_are_found_where_content_is_asked_for(heap: Heap, whole: Image) -> None:
    altered = b"?" * len(OWN)
    heap.held[LAST] = altered

    assert validate(whole, heap) == ()
    assert validate(whole, heap, content=True) == (f"blob {LAST}: its bytes have the digest {Digest.of(altered)}",)


def test_a_gzip_layer_that_is_cut_off_is_found(heap: Heap, whole: Image) -> None:
    heap.held[FIRST] = heap.held[FIRST][:-4] + b"1234"

    assert [fault.partition(":")[0] for fault in validate(whole, heap, content=True)] == [
        "blob sha256",
        "layer[0]",
    ]
