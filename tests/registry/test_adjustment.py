"""What somebody says of a registry is read, and counts for more than what is known of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from bake.errors import UsageError
from bake.registry import Adjustment, Profile, profile_of
from bake.registry.adjustment import parse_hosts
from bake.registry.profiles import GENERIC, PROFILES
from tests.registry.samples import Waits, fault_of, open_at

if TYPE_CHECKING:
    from tests.registry.server import FakeRegistry

GHCR = profile_of("ghcr.io")
OPTION = "--registry-profile"
HINT = "it is written [NAME,]KEY=VALUE,…, as in ghcr,layer=20GB,parallel=2; docs/registries.md has the names and keys"
HOSTS_HINT = HINT.replace("[NAME", "HOST[:PORT]:[NAME")


def adjusted(text: str, profile: Profile = GENERIC) -> Profile:
    return Adjustment.parse(text, source=OPTION).of(profile)


@pytest.mark.parametrize("text", ["ghcr", " ghcr ", "ghcr,layer=10GB", "layer=10GB,ghcr"])
def test_a_private_host_is_said_to_be_a_registry_of_a_kind(text: str) -> None:
    assert adjusted(text) == replace(GHCR, name="GHCR (as --registry-profile says)")


@pytest.mark.parametrize(
    ("name", "profile"),
    [
        ("ecr-public", "ECR Public"),
        ("docker-hub", "Docker Hub"),
        ("cloudflare", "Cloudflare"),
        ("generic", "the registry"),
    ],
)
def test_each_profile_has_a_name_that_can_be_typed(name: str, profile: str) -> None:
    assert adjusted(name, GHCR).name == f"{profile} (as --registry-profile says)"


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("layer=20GB", "max_layer_bytes", 20 * 10**9),
        ("layer=none", "max_layer_bytes", None),
        ("body=9.9 GB", "put_bytes", 9_900_000_000),
        ("body=none", "put_bytes", None),
        ("chunk=16MiB", "chunk_bytes", 16 << 20),
        ("time=30min", "upload_seconds", 1800),
        ("time=none", "upload_seconds", None),
        ("parallel=8", "parallel", 8),
        ("resumable=no", "resumable", False),
        ("creates=no", "creates", False),
    ],
)
def test_each_key_changes_one_thing_and_leaves_the_others(text: str, field: str, value: object) -> None:
    expected = replace(GHCR, name="GHCR (as --registry-profile says)", **{field: value})  # type: ignore[arg-type]

    assert adjusted(text, GHCR) == expected


def test_a_chunk_is_never_larger_than_a_body_may_be() -> None:
    assert adjusted("body=50MB").chunk_bytes == 50_000_000
    assert adjusted("body=50MB,chunk=1MB").chunk_bytes == 1_000_000
    assert adjusted("chunk=200MB", profile_of("r.example", headers={"server": "cloudflare"})).chunk_bytes == 96 << 20


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("ghrc", ["'ghrc': no such profile; did you mean ghcr?"]),
        ("layr=20GB", ["'layr=20GB': no such key; did you mean layer?"]),
        (
            "limit=20GB",
            [
                "'limit=20GB': no such key; there are layer, body, chunk, time, parallel, resumable and creates",
            ],
        ),
        ("layer=20", ["'layer=20': expected a size such as 5GB, 500MB or 4GiB, found '20'"]),
        ("chunk=none", ["'chunk=none': expected a size such as 5GB, 500MB or 4GiB, found 'none'"]),
        ("time=10", ["'time=10': expected a time such as 90s, 30min or 2h"]),
        ("parallel=9", ["'parallel=9': expected a number from 1 to 8"]),
        ("resumable=maybe", ["'resumable=maybe': expected yes or no"]),
        ("ghcr,ecr", ["'ecr': another profile stands before"]),
        ("layer=1GB,layer=2GB", ["'layer=2GB': another value for it stands before"]),
        (
            "",
            [
                (
                    "'': no such profile; there are generic, ghcr, ecr, ecr-public, docker-hub, artifact-registry, "
                    "acr, quay, harbor and cloudflare"
                ),
            ],
        ),
    ],
)
def test_what_cannot_be_read_is_told_with_what_can(text: str, faults: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        adjusted(text)

    assert fault_of(caught.value) == (
        UsageError,
        "\n  ".join(["--registry-profile: 1 fault:", *faults]),
        HINT,
    )


def test_all_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(UsageError) as caught:
        adjusted("ghrc,layr=20GB,parallel=2")

    assert caught.value.message.splitlines()[0] == "--registry-profile: 2 faults:"


# --- the environment


def test_the_environment_names_each_host_with_its_port() -> None:
    found = parse_hosts("R.example:5000:harbor,body=100MB  ghcr.io:layer=20GB [::1]:5000:ecr")

    assert {host: adjustment.of(GENERIC).name for host, adjustment in found.items()} == {
        "r.example:5000": "Harbor (as BAKE_REGISTRY_PROFILE says)",
        "ghcr.io": "the registry (as BAKE_REGISTRY_PROFILE says)",
        "[::1]:5000": "ECR (as BAKE_REGISTRY_PROFILE says)",
    }
    assert found["r.example:5000"].of(GENERIC).put_bytes == 100_000_000


def test_no_environment_says_nothing() -> None:
    assert parse_hosts("") == {}


def test_faults_of_the_environment_name_their_host() -> None:
    with pytest.raises(UsageError) as caught:
        parse_hosts("ghcr a.example:ghrc b.example:layr=1GB b.example:ecr a.example:ecr")

    assert fault_of(caught.value) == (
        UsageError,
        (
            "BAKE_REGISTRY_PROFILE: 5 faults:\n"
            "  'ghcr': expected HOST: before it\n"
            "  a.example: 'ghrc': no such profile; did you mean ghcr?\n"
            "  b.example: 'layr=1GB': no such key; did you mean layer?\n"
            "  'b.example:ecr': this host is named twice\n"
            "  'a.example:ecr': this host is named twice"
        ),
        HOSTS_HINT,
    )


def test_a_registry_is_opened_as_the_environment_says(
    registry: FakeRegistry, waits: Waits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BAKE_REGISTRY_PROFILE", f"{registry.host}:ghcr")

    with open_at(registry, waits) as opened:
        assert opened.profile.max_layer_bytes == 10 * 10**9


def test_what_is_given_counts_and_the_environment_does_not(
    registry: FakeRegistry, waits: Waits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BAKE_REGISTRY_PROFILE", f"{registry.host}:ghcr")

    with open_at(registry, waits, adjustment=Adjustment.parse("parallel=2", source=OPTION)) as opened:
        assert opened.profile == replace(GENERIC, name="the registry (as --registry-profile says)", parallel=2)


def test_another_host_s_word_is_not_taken(
    registry: FakeRegistry, waits: Waits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BAKE_REGISTRY_PROFILE", "127.0.0.1:ghcr")

    with open_at(registry, waits) as opened:
        assert opened.profile == GENERIC


def test_names_are_of_different_profiles() -> None:
    assert len({profile.name for profile in PROFILES}) == len(PROFILES)
