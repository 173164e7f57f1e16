"""bake rebase: another base, or a newer entrypoint, under the same weights, by manifest alone."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from bake.api import contents
from bake.digest import Digest
from bake.image import LAYER, Descriptor
from bake.layer import pack_entries
from tests.cli.place import EMPTY_LOCK, Bake, Place, error
from tests.cli.remote import NAME, compress_layers, put_again, put_layout, read_of, reference
from tests.cli.test_bases import make_base
from tests.registry.server import FakeRegistry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bake.image import Image


@pytest.fixture
def image(place: Place, registry: FakeRegistry, bake: Bake) -> Image:
    """`tiny@v1` in the registry, on the base `old` that lies there too. Its files are nowhere else.

    The lock has another base, `new`, in the same registry.
    """
    bases = {name: make_base(place.root / "bases" / name, f"#!/bin/{name}\n".encode()) for name in ("old", "new")}
    lock = EMPTY_LOCK
    for name, digest in sorted(bases.items()):
        put_layout(registry, place.root / "bases" / name, name=f"org/{name}")
        lock += f'\n[base.{name}]\nimage = "{registry.host}/org/{name}:v1"\ndigest = "{digest}"\n'
    place.write_lock(lock)
    place.add_model()
    assert bake("-q", "add", "tiny@v1", "dir://m", "--base", "old").code == 0
    assert bake("-q", "build", "tiny@v1").code == 0
    image = put_layout(registry, place.root / "dist" / "tiny-v1")
    forget(place)
    return image


def forget(place: Place) -> None:
    """Move everything that is known of the model's bytes out of reach."""
    (place.root / "m").rename(place.root / "away")
    shutil.rmtree(place.root / "dist")
    shutil.rmtree(place.store)


def fresh_build(place: Place, bake: Bake) -> str:
    """The digest that a build of the lock has as it is now."""
    (place.root / "away").rename(place.root / "m")
    built = bake("-q", "build", "tiny@v1", "--to", "oci:dist/fresh")
    assert built.code == 0
    return built.digest


def on_new(place: Place) -> None:
    """Let the lock have the other base for the model."""
    place.write_lock(place.lock.read_text().replace('base = "old"', 'base = "new"'))


def uploads(registry: FakeRegistry) -> int:
    return len(registry.lines("PUT */blobs/uploads/*"))


# --- what comes out


def test_a_new_base_gives_the_image_of_a_fresh_build_and_moves_no_weight(
    place: Place, registry: FakeRegistry, image: Image, bake: Bake
) -> None:
    on_new(place)

    ran = bake("--json", "rebase", reference(registry))

    assert ran.code == 0
    assert (ran.document["sent_weight_bytes"], uploads(registry)) == (0, 1)
    assert ran.document["before"] == str(image.descriptor.digest)
    assert ran.document["digest"] == fresh_build(place, bake)
    assert bake("-q", "verify", reference(registry), "--level", "full").code == 0


@pytest.mark.usefixtures("image")
def test_a_base_is_chosen_by_its_name(place: Place, registry: FakeRegistry, bake: Bake) -> None:
    ran = bake("rebase", reference(registry), "--base", "new", "--to", f"{registry.host}/{NAME}:v1-new")

    on_new(place)
    digest = fresh_build(place, bake)
    assert ran.out == f"{registry.host}/{NAME}:v1-new@{digest}\n"
    assert "models.lock has another base for tiny@v1: set base = 'new' there, or the next push undoes this" in ran.err


def test_the_old_tag_stays_where_the_new_image_goes_elsewhere(registry: FakeRegistry, image: Image, bake: Bake) -> None:
    bake("-q", "rebase", reference(registry), "--base", "new", "--to", f"{registry.host}/{NAME}:v1-new")

    assert registry.manifests[NAME]["v1"][1] == image.manifest.dumps()


@pytest.mark.usefixtures("place")
def test_a_newer_entrypoint_goes_on_top_of_the_same_weights(
    place: Place, registry: FakeRegistry, bake: Bake, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    with monkeypatch.context() as older:
        older.setattr(contents, "_MAIN", b"print('an older bake')\n")
        image: Image = request.getfixturevalue("image")

    ran = bake("--json", "rebase", reference(registry))

    assert (ran.code, ran.document["sent_layers"], ran.document["sent_weight_bytes"]) == (0, 1, 0)
    assert ran.document["digest"] != str(image.descriptor.digest)
    assert ran.document["digest"] == fresh_build(place, bake)


def test_an_image_that_is_as_the_lock_says_stays_as_it_is(registry: FakeRegistry, image: Image, bake: Bake) -> None:
    ran = bake("rebase", reference(registry))

    assert ran.out == f"{reference(registry)}@{image.descriptor.digest}\n"
    assert f"tiny@v1: {image.descriptor.digest} is what models.lock says already" in ran.err
    assert uploads(registry) == 0


def test_no_byte_of_a_weight_layer_is_read_but_its_headers(place: Place, registry: FakeRegistry, bake: Bake) -> None:
    place.add_large_model(3 << 20, 3 << 20)
    digest = make_base(place.root / "bases" / "py")
    put_layout(registry, place.root / "bases" / "py", name="org/py")
    base = f'\n[base.py]\nimage = "{registry.host}/org/py:v1"\ndigest = "{digest}"\n'
    place.write_lock(EMPTY_LOCK + base)
    bake("-q", "add", "tiny@v1", "dir://m", "--base", "scratch")
    bake("-q", "build", "tiny@v1")
    image = put_layout(registry, place.root / "dist" / "tiny-v1")

    assert bake("-q", "rebase", reference(registry), "--base", "py").code == 0

    assert read_of(registry, image) < 100_000


# --- from where to where


@pytest.mark.usefixtures("image")
def test_another_repository_of_the_registry_has_the_weights_mounted(
    place: Place, registry: FakeRegistry, bake: Bake
) -> None:
    ran = bake("--json", "rebase", reference(registry), "--base", "new", "--to", f"{registry.host}/org/other")

    on_new(place)
    assert (ran.code, ran.document["sent_weight_bytes"], ran.document["mounted_layers"]) == (0, 0, 3)
    assert ran.document["reference"] == f"{registry.host}/org/other:v1@{fresh_build(place, bake)}"


@pytest.fixture
def second() -> Iterator[FakeRegistry]:
    with FakeRegistry() as fake:
        yield fake


@pytest.mark.usefixtures("image")
def test_another_registry_has_the_weights_streamed_across(
    place: Place, registry: FakeRegistry, second: FakeRegistry, bake: Bake
) -> None:
    ran = bake("--json", "rebase", reference(registry), "--base", "new", "--to", f"{second.host}/{NAME}")

    on_new(place)
    assert (ran.code, ran.document["sent_weight_bytes"]) == (0, 2 * 4608)
    assert ran.document["digest"] == fresh_build(place, bake)
    assert bake("-q", "verify", f"{second.host}/{NAME}:v1", "--level", "full").code == 0


def test_the_empty_layer_that_buildkit_puts_on_top_is_left_behind(
    place: Place, registry: FakeRegistry, image: Image, bake: Bake
) -> None:
    put_again(registry, with_workdir_layer(registry, image), tag="buildkit")

    ran = bake("--json", "rebase", reference(registry, tag="buildkit"))

    assert (ran.code, ran.document["digest"]) == (0, fresh_build(place, bake))


def with_workdir_layer(registry: FakeRegistry, image: Image) -> Image:
    tar = pack_entries([])
    empty = Descriptor(media_type=LAYER, digest=Digest.of(tar), size=len(tar))
    registry.add_blob(NAME, tar)
    config = replace(
        image.config,
        diff_ids=(*image.config.diff_ids, empty.digest),
        history=(*image.config.history, {"created_by": "WORKDIR /outputs"}),
    )
    return replace(image, config=config, manifest=replace(image.manifest, layers=(*image.manifest.layers, empty)))


# --- refusals


def test_other_files_than_the_lock_s_are_refused(
    place: Place, registry: FakeRegistry, image: Image, bake: Bake
) -> None:
    (place.root / "away").rename(place.root / "m")
    (place.root / "m" / "config.json").write_text('{"model_type": "qwen2"}')
    bake("-q", "lock", "--upgrade", "tiny@v1")

    ran = bake("-q", "rebase", reference(registry))

    assert (ran.code, ran.err) == (
        8,
        error(
            f"{reference(registry)} does not hold the files that models.lock has for tiny@v1",
            hint=f"make it anew: bake push tiny@v1 {reference(registry)}",
        ),
    )
    assert registry.manifests[NAME]["v1"][1] == image.manifest.dumps()


def test_compressed_weights_are_refused(registry: FakeRegistry, image: Image, bake: Bake) -> None:
    compress_layers(registry, image, tag="zipped")

    ran = bake("-q", "rebase", reference(registry, tag="zipped"))

    name = reference(registry, tag="zipped")
    assert (ran.code, ran.err) == (
        8,
        error(
            f"{name}: its weights are in layers that are compressed, or not as bake packs them",
            hint=f"make it anew: bake push tiny@v1 {name}",
        ),
    )


def test_an_image_with_a_fault_is_refused_and_keeps_its_tag(
    place: Place, registry: FakeRegistry, image: Image, bake: Bake
) -> None:
    del registry.blobs[NAME][str(image.manifest.layers[2].digest)]
    on_new(place)

    ran = bake("-q", "rebase", reference(registry))

    assert (ran.code, ran.out) == (1, "")
    assert f"blob {image.manifest.layers[2].digest}: missing" in ran.err
    assert registry.manifests[NAME]["v1"][1] == image.manifest.dumps()


def test_a_digest_needs_to_be_told_where_the_new_image_goes(registry: FakeRegistry, image: Image, bake: Bake) -> None:
    fixed = f"{registry.host}/{NAME}@{image.descriptor.digest}"

    assert bake("-q", "rebase", fixed, "--base", "new").err == error(
        f"{fixed}: a digest names one image for good",
        hint=f"say where the new one goes: --to {registry.host}/{NAME}:TAG",
    )
    assert bake("-q", "rebase", fixed, "--base", "new", "--to", reference(registry, tag="v1-new")).code == 0


@pytest.mark.usefixtures("image")
def test_a_base_that_the_lock_does_not_have_is_told(registry: FakeRegistry, bake: Bake) -> None:
    ran = bake("-q", "rebase", reference(registry), "--base", "knew")

    assert (ran.code, ran.err) == (
        3,
        error("the lock has no base 'knew': it has new, old", hint="add [base.knew], then: bake lock"),
    )


@pytest.mark.usefixtures("image")
def test_offline_it_is_refused(registry: FakeRegistry, bake: Bake) -> None:
    before = len(registry.requests)

    assert bake("-q", "--offline", "rebase", reference(registry)).code == 4
    assert len(registry.requests) == before
