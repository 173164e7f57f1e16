"""Bases in registries: what the lock asks for, what a build fetches, and what a push moves."""

from __future__ import annotations

import gzip
import json
import shutil
from typing import TYPE_CHECKING

import pytest

from bake.image import INDEX, LAYER, LAYER_GZIP, AddedLayer, append
from bake.layer import Directory, File, pack_entries
from bake.layout import Layout
from tests.cli.place import EMPTY_LOCK, Bake, Place, Ran, error, weight_layers, whole
from tests.cli.pushed import NAME, faults_in, image_in, reference, tags_in
from tests.cli.remote import put_layout
from tests.cli.test_bases import make_base
from tests.registry.samples import index_of
from tests.registry.server import FakeRegistry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bake.digest import Digest
    from bake.image import Image

BASE = "org/base"


@pytest.fixture
def elsewhere() -> Iterator[FakeRegistry]:
    """A second registry."""
    with FakeRegistry() as fake:
        yield fake


def put_base(place: Place, registry: FakeRegistry) -> Image:
    """A base of one layer in a registry, and nowhere else."""
    folder = place.root.parent / "base"
    make_base(folder)
    image = put_layout(registry, folder, tag="latest", name=BASE)
    shutil.rmtree(folder)
    return image


def use_base(place: Place, bake: Bake, image: str, digest: Digest | None = None) -> None:
    """`tiny@v1` in the lock, on a base."""
    pinned = f'digest = "{digest}"\n' if digest else ""
    place.write_lock(f'{EMPTY_LOCK}\n[base.py]\nimage = "{image}"\n{pinned}')
    place.add_model()
    assert bake("-q", "add", "tiny@v1", "dir://m").code == 0


@pytest.fixture
def based(place: Place, bake: Bake, registry: FakeRegistry) -> Image:
    """`tiny@v1` on a base in the registry; its image. The registry's log is empty."""
    image = put_base(place, registry)
    use_base(place, bake, f"{registry.host}/{BASE}:latest", image.descriptor.digest)
    registry.requests.clear()
    return image


def blobs_read(registry: FakeRegistry) -> int:
    return len(registry.lines("GET */blobs/*"))


# --- the lock


def test_lock_asks_the_registry_what_a_tag_is(place: Place, bake: Bake, registry: FakeRegistry) -> None:
    image = put_base(place, registry)
    place.write_lock(f'{EMPTY_LOCK}\n[base.py]\nimage = "{registry.host}/{BASE}:latest"\n')

    assert bake("-q", "lock").code == 0
    assert f'digest = "{image.descriptor.digest}"' in place.lock.read_text()
    assert registry.lines() == [f"HEAD /v2/{BASE}/manifests/latest"]


def test_lock_pins_the_index_of_several_platforms(place: Place, bake: Bake, registry: FakeRegistry) -> None:
    image = put_base(place, registry)
    index = index_of((image.manifest, image.config.platform))
    digest = registry.add_manifest(BASE, "all", index, media_type="application/vnd.oci.image.index.v1+json")
    use_base(place, bake, f"{registry.host}/{BASE}:all")

    assert bake("-q", "lock").code == 0
    assert f'digest = "{digest}"' in place.lock.read_text()
    assert bake("-q", "build", "tiny@v1").code == 0
    assert whole(place.root / "dist" / "tiny-v1") == ()


def test_lock_of_a_base_that_is_not_there(place: Place, bake: Bake, registry: FakeRegistry) -> None:
    place.write_lock(f'{EMPTY_LOCK}\n[base.py]\nimage = "{registry.host}/{BASE}:gone"\n')

    assert bake("-q", "lock") == Ran(
        8,
        "",
        error(
            f"base py: the registry has no image {registry.host}/{BASE}:gone",
            hint="check name and tag; docker login HOST",
        ),
    )


def test_lock_offline_leaves_the_base_and_says_so(place: Place, bake: Bake, registry: FakeRegistry) -> None:
    image = f"{registry.host}/{BASE}:latest"
    place.write_lock(f'{EMPTY_LOCK}\n[base.py]\nimage = "{image}"\n')

    ran = bake("-q", "--offline", "lock")

    assert ran.code == 0
    assert ran.err == (
        f"warning: base py: --offline allows no network to ask what {image} is now; run it without, "
        'or write digest = "sha256:…" below [base.py]\n'
    )
    assert registry.requests == []


# --- a build into a layout


def test_a_layout_holds_the_base_s_layers_too(based: Image, place: Place, bake: Bake) -> None:
    assert bake("-q", "build", "tiny@v1").code == 0

    assert whole(place.root / "dist" / "tiny-v1") == ()
    assert Layout(place.root / "dist" / "tiny-v1").image().manifest.layers[:1] == based.manifest.layers
    assert bake("-q", "verify", "tiny@v1", "--level", "full").code == 0


@pytest.mark.usefixtures("based")
def test_a_base_s_layer_is_fetched_once_for_all_images(place: Place, bake: Bake, registry: FakeRegistry) -> None:
    bake("-q", "build", "tiny@v1", "--to", "oci:one")
    registry.requests.clear()

    assert bake("-q", "build", "tiny@v1", "--to", "oci:two").code == 0
    assert blobs_read(registry) == 1  # the config
    assert weight_layers(place.root / "one") == weight_layers(place.root / "two")


@pytest.mark.usefixtures("based")
def test_a_base_s_layer_that_broke_off_is_gone_on_with(place: Place, bake: Bake, registry: FakeRegistry) -> None:
    registry.fault("GET */blobs/*", skip=1, cut_answer=1000)

    assert bake("-q", "build", "tiny@v1").code == 0
    assert registry.lines("GET */blobs/*")[-1] == f"GET /v2/{BASE}/blobs/sha256:… bytes=1000-"
    assert whole(place.root / "dist" / "tiny-v1") == ()


@pytest.mark.usefixtures("based")
def test_other_bytes_of_a_base_s_layer_are_refused(place: Place, bake: Bake, registry: FakeRegistry) -> None:
    registry.fault("GET */blobs/*", skip=1, times=9, content=b"\x00" * 4096)

    ran = bake("-q", "build", "tiny@v1")

    assert (ran.code, ran.out) == (6, "")
    assert not (place.root / "dist").exists()


@pytest.mark.usefixtures("based")
def test_a_base_that_is_gone_from_its_registry(place: Place, bake: Bake, registry: FakeRegistry) -> None:
    registry.manifests.clear()

    ran = bake("-q", "build", "tiny@v1")

    assert (ran.code, ran.out) == (8, "")
    assert ran.err.startswith(f"error: {registry.host}/{BASE}: the registry has no manifest sha256:")
    assert not (place.root / "dist").exists()


@pytest.mark.usefixtures("based")
def test_a_base_that_asks_for_a_login(bake: Bake, registry: FakeRegistry) -> None:
    registry.auth = "basic"

    assert bake("-q", "build", "tiny@v1") == Ran(
        4,
        "",
        error(
            f"{registry.host} lets no stranger read {BASE}: authentication required",
            hint=f"docker login {registry.host}",
        ),
    )


def test_a_build_offline_is_refused_where_the_base_was_never_read(
    based: Image, bake: Bake, registry: FakeRegistry
) -> None:
    base = f"base {registry.host}/{BASE}:latest@{based.descriptor.digest}"

    assert bake("-q", "--offline", "build", "tiny@v1") == Ran(
        4,
        "",
        error(f"{base} is not in the store, and --offline allows no network", hint="run it without --offline"),
    )


@pytest.mark.usefixtures("based")
def test_what_a_build_has_read_is_enough_offline(place: Place, bake: Bake, registry: FakeRegistry) -> None:
    built = bake("-q", "build", "tiny@v1")
    shutil.rmtree(place.root / "dist")
    registry.requests.clear()

    assert bake("-q", "--offline", "build", "tiny@v1") == built
    assert whole(place.root / "dist" / "tiny-v1") == ()
    assert registry.requests == []


def test_an_index_is_enough_offline_too(place: Place, bake: Bake, registry: FakeRegistry) -> None:
    image = put_base(place, registry)
    index = index_of((image.manifest, image.config.platform))
    registry.add_manifest(BASE, "many", index, media_type=INDEX)
    use_base(place, bake, f"{registry.host}/{BASE}:many")
    assert bake("-q", "lock").code == 0
    built = bake("-q", "build", "tiny@v1")
    shutil.rmtree(place.root / "dist")

    assert bake("-q", "--offline", "build", "tiny@v1") == built


def test_a_layer_that_the_store_lost_is_missed_offline(place: Place, based: Image, bake: Bake) -> None:
    assert bake("-q", "build", "tiny@v1").code == 0
    (layer,) = based.manifest.layers
    (place.store / "files" / layer.digest.hex[:2] / layer.digest.hex[2:]).unlink()
    shutil.rmtree(place.root / "dist")

    assert bake("-q", "--offline", "build", "tiny@v1") == Ran(
        4,
        "",
        error(
            "base py (3.1 kB in 1 layer) is not in the store, and --offline allows no network",
            hint="run it without --offline",
        ),
    )


def test_a_kept_manifest_that_was_altered_is_not_taken(place: Place, based: Image, bake: Bake) -> None:
    assert bake("-q", "build", "tiny@v1").code == 0
    digest = based.descriptor.digest
    kept = place.store / "files" / digest.hex[:2] / digest.hex[2:]
    kept.chmod(0o644)
    kept.write_bytes(kept.read_bytes() + b" ")

    ran = bake("-q", "--offline", "build", "tiny@v1")

    assert (ran.code, kept.exists()) == (4, False)


def test_a_base_that_is_compressed_is_left_so(place: Place, bake: Bake, registry: FakeRegistry) -> None:
    layout = Layout(place.root.parent / "zipped")
    layout.prepare("base")
    tar = pack_entries([File.of("usr/bin/python3", b"#!/bin/sh\n")])
    raw = layout.add(tar, media_type=LAYER)
    zipped = layout.add(gzip.compress(tar, mtime=0), media_type=LAYER_GZIP)
    image = append(
        None,
        [AddedLayer(descriptor=raw, created_by="base")],
        environment={},
        labels={},
        entrypoint=(),
        command=(),
        workdir="",
    )
    layout.add(image.config.dumps(), media_type=image.manifest.config.media_type)
    document = json.loads(image.manifest.dumps()) | {"layers": [zipped.document()]}
    entry = layout.add(json.dumps(document).encode(), media_type=image.descriptor.media_type)
    (layout.path / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [entry.document()]}))
    put_layout(registry, layout.path, tag="zipped", name=BASE)
    use_base(place, bake, f"{registry.host}/{BASE}:zipped")
    assert bake("-q", "lock").code == 0

    assert bake("-q", "build", "tiny@v1").code == 0
    assert whole(place.root / "dist" / "tiny-v1") == ()
    assert bake("-q", "push", "tiny@v1", reference(registry)).code == 0
    assert faults_in(registry) == ()


# --- a push


def test_a_base_from_the_same_registry_is_mounted_and_never_read(
    based: Image, bake: Bake, registry: FakeRegistry
) -> None:
    ran = bake("--json", "push", "tiny@v1", reference(registry))

    assert ran.code == 0
    assert ran.document["mounted_layers"] == 1
    assert blobs_read(registry) == 1  # the config
    assert image_in(registry).manifest.layers[:1] == based.manifest.layers
    assert faults_in(registry) == ()


def test_a_base_from_another_registry_is_streamed_across(
    place: Place, bake: Bake, registry: FakeRegistry, elsewhere: FakeRegistry
) -> None:
    image = put_base(place, elsewhere)
    use_base(place, bake, f"{elsewhere.host}/{BASE}:latest", image.descriptor.digest)

    assert bake("-q", "push", "tiny@v1", reference(registry)).code == 0
    assert faults_in(registry) == ()
    assert not (place.store / "files").exists()


def test_what_the_registry_has_of_a_base_elsewhere_is_not_read_there(
    place: Place, bake: Bake, registry: FakeRegistry, elsewhere: FakeRegistry
) -> None:
    image = put_base(place, elsewhere)
    use_base(place, bake, f"{elsewhere.host}/{BASE}:latest", image.descriptor.digest)
    bake("-q", "push", "tiny@v1", reference(registry))
    elsewhere.requests.clear()

    assert bake("-q", "push", "tiny@v1", reference(registry)).code == 0
    assert blobs_read(elsewhere) == 1  # the config


def test_a_base_that_breaks_off_while_it_is_streamed_across(
    place: Place, bake: Bake, registry: FakeRegistry, elsewhere: FakeRegistry
) -> None:
    image = put_base(place, elsewhere)
    use_base(place, bake, f"{elsewhere.host}/{BASE}:latest", image.descriptor.digest)
    elsewhere.fault("GET */blobs/*", skip=1, cut_answer=1000)
    registry.fault("PUT */blobs/uploads/*", cut=2000)

    assert bake("-q", "push", "tiny@v1", reference(registry)).code == 0
    assert faults_in(registry) == ()


def test_other_bytes_of_a_base_elsewhere_are_never_named(
    place: Place, bake: Bake, registry: FakeRegistry, elsewhere: FakeRegistry
) -> None:
    image = put_base(place, elsewhere)
    use_base(place, bake, f"{elsewhere.host}/{BASE}:latest", image.descriptor.digest)
    registry.verifies = False
    elsewhere.fault("GET */blobs/*", skip=1, times=9, content=b"\x00" * image.manifest.layers[0].size)

    ran = bake("-q", "push", "tiny@v1", reference(registry))

    assert (ran.code, ran.out) == (6, "")
    assert tags_in(registry) == []
    assert str(image.manifest.layers[0].digest) not in registry.blobs.get(NAME, {})


def test_a_base_in_a_layout_is_pushed_with_it(place: Place, bake: Bake, registry: FakeRegistry) -> None:
    digest = make_base(place.root / "bases" / "py")
    use_base(place, bake, "oci:bases/py", digest)

    ran = bake("-q", "push", "tiny@v1", reference(registry))

    assert ran.code == 0
    assert faults_in(registry) == ()
    assert bake("-q", "build", "tiny@v1").digest == ran.digest


@pytest.mark.usefixtures("based")
def test_a_push_and_a_layout_are_the_same_image(bake: Bake, registry: FakeRegistry) -> None:
    assert bake("-q", "push", "tiny@v1", reference(registry)).digest == bake("-q", "build", "tiny@v1").digest


def test_a_base_in_the_daemon_is_refused_with_what_to_do(place: Place, bake: Bake, registry: FakeRegistry) -> None:
    use_base(place, bake, "docker:python:3.12", make_base(place.root / "bases" / "py"))

    assert bake("-q", "push", "tiny@v1", reference(registry)) == Ran(
        8,
        "",
        error(
            "base py is docker:python:3.12: a daemon hands no layer out, so nothing on it can be pushed from here",
            hint="docker push it, and name it by its reference in [base.py]; "
            'or: skopeo copy docker-daemon:python:3.12 oci:bases/py, and image = "oci:bases/py"',
        ),
    )


def test_an_image_that_bake_built_is_no_base(place: Place, bake: Bake, registry: FakeRegistry) -> None:
    place.add_model()
    bake("-q", "add", "first@v1", "dir://m")
    digest = bake("-q", "push", "first@v1", reference(registry, name=BASE)).digest
    use_base(place, bake, f"{registry.host}/{BASE}:v1", digest)  # type: ignore[arg-type]

    ran = bake("-q", "push", "tiny@v1", reference(registry))

    assert ran.code == 8
    assert "is itself an image that bake built, of first@v1" in ran.err


def test_a_token_in_a_base_s_history_is_found(place: Place, bake: Bake, registry: FakeRegistry) -> None:
    layout = Layout(place.root / "bases" / "leaky")
    layout.prepare("base")
    tar = pack_entries([Directory("usr")])
    added = AddedLayer(descriptor=layout.add(tar, media_type=LAYER), created_by=f"ENV HF_TOKEN=hf_{'abcdefghij' * 4}")
    image = append(None, [added], environment={}, labels={}, entrypoint=(), command=(), workdir="")
    layout.stage(image)
    layout.publish(image, model="base", tag="latest")
    use_base(place, bake, "oci:bases/leaky", image.descriptor.digest)

    ran = bake("-q", "push", "tiny@v1", reference(registry))

    assert ran.code == 1
    assert ran.err.startswith("error: a token lies in the image's config and history\n")
    assert tags_in(registry) == []
