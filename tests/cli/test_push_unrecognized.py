"""A push of a model whose layers nobody remembers: what lies under its tag and is not right is made anew."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.cli.pushed import NAME, faults_in, image_in, reference, tags_in, weights_sent
from tests.cli.remote import spoil
from tests.cli.test_bases import make_base
from tests.cli.test_push_recognized import CONFIG, PROGRAM, SHARD, WEIGHTS, fixed_tag, push_and_forget, use_base

if TYPE_CHECKING:
    from bake.image import Image
    from tests.cli.place import Bake, Place
    from tests.registry.server import FakeRegistry


@pytest.fixture
def image(place: Place, bake: Bake, registry: FakeRegistry) -> Image:
    """`tiny@v1` as an image of weights alone, pushed and forgotten."""
    push_and_forget(place, bake, registry)
    return image_in(registry)


def pushed_anew(bake: Bake, registry: FakeRegistry) -> list[str]:
    """Push, and see that all of the weights were read and sent; what was said before that."""
    ran = bake("push", "tiny@v1", reference(registry), "--frozen")

    assert ran.code == 0
    assert weights_sent(registry) > 2 * SHARD
    assert faults_in(registry) == ()
    return ran.err[: ran.err.index(f"{reference(registry)}: pushing: ")].splitlines()


def not_right(registry: FakeRegistry, reason: str, *, tag: str) -> str:
    return (
        f"{registry.host}/{NAME}:{tag} is there, and is not right: {reason}; "
        "a push of tiny@v1 reads and sends its layers"
    )


@pytest.mark.usefixtures("image")
def test_without_its_tag_it_is_made_anew_and_nothing_is_said(bake: Bake, registry: FakeRegistry) -> None:
    fixed = fixed_tag(registry)
    del registry.manifests[NAME][fixed]

    assert pushed_anew(bake, registry) == []
    assert fixed_tag(registry) == fixed


def test_a_layer_of_weights_that_is_gone_is_sent_again(image: Image, bake: Bake, registry: FakeRegistry) -> None:
    digest = image.manifest.layers[WEIGHTS].digest
    del registry.blobs[NAME][str(digest)]

    told = pushed_anew(bake, registry)

    assert told == [not_right(registry, f"blob {digest}: missing, and 2 more faults", tag=fixed_tag(registry))]
    assert image_in(registry) == image


def test_a_small_layer_that_is_gone_is_sent_again(image: Image, bake: Bake, registry: FakeRegistry) -> None:
    digest = image.manifest.layers[PROGRAM].digest
    del registry.blobs[NAME][str(digest)]

    (told,) = pushed_anew(bake, registry)

    assert f"is not right: blob {digest}: missing, and " in told
    assert image_in(registry) == image


def test_weights_with_another_header_are_sent_again(image: Image, bake: Bake, registry: FakeRegistry) -> None:
    spoil(registry, image.manifest.layers[WEIGHTS].digest, b'"dtype": "U8"', b'"dtype": "X8"')

    (told,) = pushed_anew(bake, registry)

    assert told.startswith(
        f"{registry.host}/{NAME}:{fixed_tag(registry)} is there, and is not right: part-1.safetensors: safetensors: "
    )


def test_a_small_layer_of_other_bytes_is_sent_again(image: Image, bake: Bake, registry: FakeRegistry) -> None:
    digest = image.manifest.layers[CONFIG].digest
    spoil(registry, digest, b"llama", b"lmaal")

    (told,) = pushed_anew(bake, registry)

    assert f"is not right: {registry.host}/{NAME}: blob {digest}: found bytes of sha256:" in told


@pytest.mark.usefixtures("image")
def test_a_manifest_that_is_none_is_left_alone(bake: Bake, registry: FakeRegistry) -> None:
    fixed = fixed_tag(registry)
    other = registry.add_manifest(NAME, fixed, b"{}", media_type="application/vnd.oci.image.manifest.v1+json")

    told = pushed_anew(bake, registry)

    reason = f"manifest {other}: expected an image manifest: KeyError('schemaVersion')"
    assert told == [not_right(registry, reason, tag=fixed)]
    assert registry.manifests[NAME][fixed][1] == b"{}"


@pytest.mark.usefixtures("image")
def test_an_index_of_several_platforms_is_left_alone(bake: Bake, registry: FakeRegistry) -> None:
    fixed = fixed_tag(registry)
    other = registry.add_manifest(NAME, fixed, b"{}", media_type="application/vnd.oci.image.index.v1+json")

    assert pushed_anew(bake, registry) == [
        not_right(registry, f"another image, {other}, of several platforms", tag=fixed)
    ]


@pytest.mark.usefixtures("image")
def test_a_registry_that_gives_no_blobs_out_is_pushed_to(bake: Bake, registry: FakeRegistry) -> None:
    registry.fault(f"GET /v2/{NAME}/blobs/*", times=99, status=403)

    (told,) = pushed_anew(bake, registry)

    assert told.startswith(f"{registry.host}/{NAME}:{fixed_tag(registry)} is there, and is not right: ")


def test_an_image_on_another_base_is_not_taken_for_it(place: Place, bake: Bake, registry: FakeRegistry) -> None:
    use_base(place, "oci:bases/py", make_base(place.root / "bases" / "py", b"#!/bin/other\n"))
    push_and_forget(place, bake, registry)
    before, other = fixed_tag(registry), image_in(registry)
    shutil.rmtree(place.root / "bases")
    use_base(place, "oci:bases/py", make_base(place.root / "bases" / "py"))
    push_and_forget(place, bake, registry)
    after, right = (tag for tag in tags_in(registry) if tag not in {before, "v1"}), image_in(registry)
    (fixed,) = after
    registry.manifests[NAME][fixed] = registry.manifests[NAME][before]

    told = pushed_anew(bake, registry)

    assert told == [not_right(registry, f"another image, {other.descriptor.digest}", tag=fixed)]
    assert image_in(registry) == right


def test_a_plan_for_an_image_with_a_fault_says_what_must_be_sent(
    image: Image, bake: Bake, registry: FakeRegistry
) -> None:
    digest = image.manifest.layers[WEIGHTS].digest
    del registry.blobs[NAME][str(digest)]

    ran = bake("--json", "plan", "tiny@v1", "--to", reference(registry))

    assert (ran.document["push"]["digest"], ran.document["push"]["upload"] > 2 * SHARD) == (None, True)
    assert ran.err.splitlines() == [
        not_right(registry, f"blob {digest}: missing, and 2 more faults", tag=fixed_tag(registry))
    ]
