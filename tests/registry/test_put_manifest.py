"""The manifest, which comes last."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bake.digest import Digest
from bake.errors import DigestError, OutputError
from bake.image import MANIFEST
from bake.registry import Reference, Registry
from tests.registry.samples import NAME, Waits, fault_of, open_at

if TYPE_CHECKING:
    from tests.registry.server import FakeRegistry

CONTENT = b'{"schemaVersion":2}'
DIGEST = Digest.of(CONTENT)


def test_a_manifest_is_put_under_the_tag(registry: FakeRegistry, waits: Waits) -> None:
    with open_at(registry, waits) as opened:
        assert opened.put_manifest(CONTENT, media_type=MANIFEST) == DIGEST

    assert registry.manifests[NAME] == {"v1": (MANIFEST, CONTENT), str(DIGEST): (MANIFEST, CONTENT)}


def test_a_manifest_is_put_under_another_tag(registry: FakeRegistry, waits: Waits) -> None:
    with open_at(registry, waits) as opened:
        opened.put_manifest(CONTENT, media_type=MANIFEST, tag="latest")

    assert set(registry.manifests[NAME]) == {"latest", str(DIGEST)}


def test_a_fault_that_may_pass_is_waited_out(registry: FakeRegistry, waits: Waits) -> None:
    registry.fault("PUT *", times=2, status=500)

    with open_at(registry, waits) as opened:
        opened.put_manifest(CONTENT, media_type=MANIFEST)

    assert (waits.seconds, "v1" in registry.manifests[NAME]) == ([1.0, 2.0], True)


def test_a_registry_that_stores_something_else_is_found_out(registry: FakeRegistry, waits: Waits) -> None:
    other = f"sha256:{'1' * 64}"
    registry.fault("PUT *", claim=other)

    with open_at(registry, waits) as opened, pytest.raises(DigestError) as caught:
        opened.put_manifest(CONTENT, media_type=MANIFEST)

    assert caught.value.message == (
        f"{registry.host}/{NAME}:v1: put the manifest {DIGEST}, and the registry stored {other}"
    )


def test_a_reference_with_a_digest_takes_no_other_image(registry: FakeRegistry, waits: Waits) -> None:
    reference = Reference.parse(f"{registry.host}/{NAME}@sha256:{'1' * 64}")

    with (
        Registry.open(reference, access="push", patience=waits.patience()) as opened,
        pytest.raises(DigestError, match=f"the image to push there has the digest {DIGEST}"),
    ):
        opened.put_manifest(CONTENT, media_type=MANIFEST)

    assert registry.manifests == {}


def test_a_manifest_that_no_registry_takes_is_refused_before(registry: FakeRegistry, waits: Waits) -> None:
    with open_at(registry, waits) as opened, pytest.raises(OutputError, match="registries take 4194304 at most"):
        opened.put_manifest(bytes((4 << 20) + 1), media_type=MANIFEST)

    assert registry.lines() == []


def test_the_registrys_reason_is_told(registry: FakeRegistry, waits: Waits) -> None:
    body = b'{"errors": [{"code": "MANIFEST_BLOB_UNKNOWN", "message": "blob unknown to registry", "detail": {}}]}'
    registry.fault("PUT *", status=400, body=body)

    with open_at(registry, waits) as opened, pytest.raises(OutputError) as caught:
        opened.put_manifest(CONTENT, media_type=MANIFEST)

    assert fault_of(caught.value) == (
        OutputError,
        f"{registry.host}/{NAME}: manifest v1: {registry.host} answered 400 (blob unknown to registry)",
        None,
    )


def test_a_repository_that_must_be_made_first_is_named(registry: FakeRegistry, waits: Waits) -> None:
    from bake.registry import profile_of

    registry.fault("PUT *", status=404, body=b'{"errors": [{"code": "NAME_UNKNOWN", "message": "no such repository"}]}')
    ecr = profile_of("123456789012.dkr.ecr.eu-central-1.amazonaws.com")

    with open_at(registry, waits, profile=ecr) as opened, pytest.raises(OutputError) as caught:
        opened.put_manifest(CONTENT, media_type=MANIFEST)

    assert fault_of(caught.value) == (
        OutputError,
        f"{registry.host}/{NAME}: manifest v1: the registry has no place for it (no such repository)",
        f"create the repository {NAME} there first",
    )
