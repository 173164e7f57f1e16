"""Manifests and indexes out of a registry: proven, and of a kind that is known."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from bake.digest import Digest
from bake.errors import DigestError, ImageError, NetworkError
from bake.image import INDEX, MANIFEST, Descriptor, Platform
from bake.registry.documents import DOCKER_INDEX, DOCKER_MANIFEST
from tests.registry.faults import digest_of
from tests.registry.samples import (
    BLOB,
    NAME,
    Waits,
    add_image,
    index_of,
    open_at,
)

if TYPE_CHECKING:
    from tests.registry.server import FakeRegistry


@pytest.mark.parametrize("media_type", [MANIFEST, DOCKER_MANIFEST])
def test_an_image_is_read_with_its_config(registry: FakeRegistry, waits: Waits, media_type: str) -> None:
    manifest = add_image(registry)
    registry.add_manifest(NAME, "v1", manifest.dumps(), media_type=media_type)

    with open_at(registry, waits, access="pull") as opened:
        image = opened.image()

    assert (image.manifest, image.config.diff_ids) == (manifest, (BLOB.digest,))
    assert image.descriptor == Descriptor(
        media_type=MANIFEST, digest=Digest.of(manifest.dumps()), size=len(manifest.dumps())
    )


@pytest.mark.parametrize("media_type", [INDEX, DOCKER_INDEX])
@pytest.mark.parametrize("platform", [Platform("linux", "amd64"), Platform("linux", "arm64")])
def test_an_index_gives_the_image_of_the_platform(
    registry: FakeRegistry, waits: Waits, media_type: str, platform: Platform
) -> None:
    platforms = (Platform("linux", "arm64"), Platform("linux", "amd64"))
    entries = [(add_image(registry, one, tag=one.architecture), one) for one in platforms]
    registry.add_manifest(NAME, "v1", index_of(*entries), media_type=media_type)

    with open_at(registry, waits, access="pull") as opened:
        image = opened.image(platform)

    assert image.config.platform == platform


def test_a_platform_that_an_index_lacks_is_told_with_those_that_it_has(registry: FakeRegistry, waits: Waits) -> None:
    arm = Platform("linux", "arm64")
    index = index_of((add_image(registry, arm), arm))
    registry.add_manifest(NAME, "v1", index, media_type=INDEX)

    with open_at(registry, waits, access="pull") as opened, pytest.raises(ImageError) as caught:
        opened.image()

    assert caught.value.message == (
        f"{registry.host}/{NAME}: index {digest_of(index)}: expected an image for linux/amd64, found linux/arm64"
    )


def test_a_tag_is_resolved_without_reading_a_document(registry: FakeRegistry, waits: Waits) -> None:
    manifest = add_image(registry)

    with open_at(registry, waits, access="pull") as opened:
        found = opened.resolve()

    content = manifest.dumps()
    assert found == Descriptor(media_type=MANIFEST, digest=Digest.of(content), size=len(content))
    assert registry.lines() == [f"HEAD /v2/{NAME}/manifests/v1"]


def test_a_registry_that_names_no_digest_is_asked_for_the_document(registry: FakeRegistry, waits: Waits) -> None:
    manifest = add_image(registry)
    registry.fault("HEAD *", claim="")

    with open_at(registry, waits, access="pull") as opened:
        found = opened.resolve()

    assert found is not None
    assert found.digest == Digest.of(manifest.dumps())


def test_a_tag_that_is_not_there_resolves_to_nothing(registry: FakeRegistry, waits: Waits) -> None:
    with open_at(registry, waits, access="pull") as opened:
        assert opened.resolve() is None


def test_an_image_that_is_not_there_is_named(registry: FakeRegistry, waits: Waits) -> None:
    with open_at(registry, waits, access="pull") as opened, pytest.raises(ImageError) as caught:
        opened.image()

    assert caught.value.message == f"{registry.host}/{NAME}: the registry has no manifest v1 (manifest unknown)"


def test_a_document_that_is_not_that_of_its_digest_is_refused(registry: FakeRegistry, waits: Waits) -> None:
    digest = Digest.of(add_image(registry).dumps())
    registry.fault("GET */manifests/*", content=b"{}")

    with open_at(registry, waits, access="pull") as opened, pytest.raises(DigestError) as caught:
        opened.manifest(str(digest))

    assert caught.value.message == (
        f"{registry.host}/{NAME}: manifest {digest}: expected {digest}, found bytes of {digest_of(b'{}')}"
    )


def test_a_media_type_that_says_nothing_leaves_it_to_the_document(registry: FakeRegistry, waits: Waits) -> None:
    manifest = add_image(registry)
    registry.add_manifest(NAME, "v1", manifest.dumps(), media_type="application/json; charset=utf-8")

    with open_at(registry, waits, access="pull") as opened:
        assert opened.manifest().media_type == MANIFEST


def test_an_image_of_dockers_first_schema_is_refused(registry: FakeRegistry, waits: Waits) -> None:
    content = json.dumps({"schemaVersion": 1, "name": NAME}).encode()
    media_type = "application/vnd.docker.distribution.manifest.v1+prettyjws"
    registry.add_manifest(NAME, "v1", content, media_type=media_type)

    with open_at(registry, waits, access="pull") as opened, pytest.raises(ImageError, match="Docker's first schema"):
        opened.image()


def test_a_login_page_in_the_registrys_place_is_told(registry: FakeRegistry, waits: Waits) -> None:
    registry.add_manifest(NAME, "v1", b"<html>Sign in</html>", media_type="text/html")

    with open_at(registry, waits, access="pull") as opened, pytest.raises(NetworkError) as caught:
        opened.manifest()

    assert caught.value.message == (
        f"{registry.host}/{NAME}: manifest v1: {registry.host} answered with something other than a registry's answer"
    )


def test_a_document_of_more_than_four_mebibytes_is_refused(registry: FakeRegistry, waits: Waits) -> None:
    registry.add_manifest(NAME, "v1", b"{" + b" " * (4 << 20), media_type=MANIFEST)

    with open_at(registry, waits, access="pull") as opened, pytest.raises(ImageError, match="at most 4194304 bytes"):
        opened.manifest()


def test_tags_are_read_page_by_page(registry: FakeRegistry, waits: Waits) -> None:
    registry.page_size = 2
    for tag in ("v1", "v2", "v3", "v4", "v5"):
        add_image(registry, tag=tag)

    with open_at(registry, waits, access="pull") as opened:
        assert opened.tags() == ("v1", "v2", "v3", "v4", "v5")

    assert len(registry.lines()) == 3
