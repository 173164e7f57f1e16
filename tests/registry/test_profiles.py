"""What is known of registries, and by what they are told apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bake.digest import Digest
from bake.image import LAYER, Descriptor
from bake.registry import profile_of
from bake.registry.profiles import PROFILES
from tests.registry.samples import Waits, open_at

if TYPE_CHECKING:
    from tests.registry.server import FakeRegistry


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("ghcr.io", "GHCR"),
        ("123456789012.dkr.ecr.eu-central-1.amazonaws.com", "ECR"),
        ("123456789012.dkr-ecr.us-east-1.on.aws", "ECR"),
        ("public.ecr.aws", "ECR Public"),
        ("docker.io", "Docker Hub"),
        ("europe-docker.pkg.dev", "Artifact Registry"),
        ("eu.gcr.io", "Artifact Registry"),
        ("mine.azurecr.io", "ACR"),
        ("quay.io", "Quay"),
        ("harbor.corp.example:8443", "Harbor"),
        ("localhost:5000", "the registry"),
        ("ghcr.io.evil.com", "the registry"),
    ],
)
def test_a_registry_is_known_by_its_host(host: str, name: str) -> None:
    assert profile_of(host).name == name


@pytest.mark.parametrize(
    ("headers", "name"),
    [
        ({"server": "cloudflare"}, "Cloudflare"),
        ({"www-authenticate": 'Bearer realm="https://r/service/token",service="harbor-registry"'}, "Harbor"),
        ({"server": "nginx"}, "the registry"),
    ],
)
def test_a_registry_of_ones_own_is_known_by_its_first_answer(headers: dict[str, str], name: str) -> None:
    assert profile_of("registry.corp.example", headers=headers).name == name


def test_every_limit_names_its_source() -> None:
    assert [profile.name for profile in PROFILES if not profile.source] == []


def test_ghcr_refuses_layers_above_ten_gigabytes() -> None:
    blobs = [Descriptor(media_type=LAYER, digest=Digest("0" * 64), size=size) for size in (10**10, 10**10 + 1)]

    assert profile_of("ghcr.io").faults(blobs) == (
        f"sha256:{'0' * 64}: 10.0 GB, and GHCR takes at most 10.0 GB a layer",
    )


def test_the_profile_is_chosen_when_a_registry_is_opened(registry: FakeRegistry, waits: Waits) -> None:
    registry.fault("GET /v2/", status=200, headers={"server": "cloudflare"})

    with open_at(registry, waits) as opened:
        assert opened.profile.name == "Cloudflare"
