"""`--registry-profile` and BAKE_REGISTRY_PROFILE: what a registry takes, where bake does not know it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.place import Bake, Place, Ran, error
from tests.cli.pushed import NAME, faults_in, reference
from tests.cli.remote import put_layout

if TYPE_CHECKING:
    from tests.registry.server import FakeRegistry

SPLIT = (
    "bake divides large files, and this layer holds small ones; or push to another registry; if this one takes more: "
    "--registry-profile layer=SIZE"
)


def bodies(registry: FakeRegistry) -> list[int]:
    """How long the bodies were that carried blobs, the shortest first."""
    return sorted(
        int(request.headers["content-length"])
        for request in registry.requests
        if request.method in {"PUT", "PATCH"} and "/blobs/uploads/" in request.path
    )


def too_large(registry: FakeRegistry, *, source: str) -> str:
    """What is told of the two layers of `tiny@v1`, where a registry takes 2 kB."""
    files = ("config.json and 1 more", "model-00001-of-00002.safetensors and 1 more")
    return error(
        f"{registry.host}/{NAME}: 2 layers too large for the registry (as {source} says):\n"
        + "\n".join(
            f"  tiny@v1: {what}: 4.6 kB, and the registry (as {source} says) takes at most 2.0 kB a layer"
            for what in files
        ),
        hint=SPLIT,
    )


@pytest.mark.usefixtures("tiny")
def test_layers_go_in_the_chunks_that_are_asked_for(bake: Bake, registry: FakeRegistry) -> None:
    registry.largest_body = 2000

    ran = bake("-q", "push", "tiny@v1", reference(registry), "--registry-profile", "body=2kB")

    assert (ran.code, faults_in(registry)) == (0, ())
    assert max(bodies(registry)) == 2000


@pytest.mark.usefixtures("tiny")
def test_a_chunk_of_the_profile_is_made_smaller(bake: Bake, registry: FakeRegistry) -> None:
    profile = ("--registry-profile", "cloudflare", "--registry-profile", "body=4kB,chunk=3kB")

    assert bake("-q", "push", "tiny@v1", reference(registry), *profile).code == 0
    assert bodies(registry)[-1] == 3000


@pytest.mark.usefixtures("tiny")
def test_a_layer_above_the_limit_is_refused_before_a_byte_is_sent(bake: Bake, registry: FakeRegistry) -> None:
    ran = bake("-q", "push", "tiny@v1", reference(registry), "--registry-profile", "layer=2kB")

    assert ran == Ran(7, "", too_large(registry, source="--registry-profile"))
    assert (registry.lines(), registry.blobs) == ([], {})


@pytest.mark.usefixtures("tiny")
def test_build_is_the_same_word(bake: Bake, registry: FakeRegistry) -> None:
    ran = bake("-q", "build", "tiny@v1", "--to", reference(registry), "--registry-profile", "layer=2kB")

    assert ran == Ran(7, "", too_large(registry, source="--registry-profile"))


@pytest.mark.usefixtures("tiny")
def test_the_environment_says_it_for_good(bake: Bake, registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAKE_REGISTRY_PROFILE", f"{registry.host}:layer=2kB ghcr.io:layer=20GB")

    assert bake("-q", "push", "tiny@v1", reference(registry)) == Ran(
        7, "", too_large(registry, source="BAKE_REGISTRY_PROFILE")
    )


@pytest.mark.usefixtures("tiny")
def test_what_is_typed_counts_and_the_environment_does_not(
    bake: Bake, registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BAKE_REGISTRY_PROFILE", f"{registry.host}:layer=2kB")

    ran = bake("-q", "push", "tiny@v1", reference(registry), "--registry-profile", "layer=none")

    assert (ran.code, faults_in(registry)) == (0, ())


@pytest.mark.usefixtures("tiny")
def test_plan_tells_what_the_registry_is_said_to_take(bake: Bake, registry: FakeRegistry) -> None:
    ran = bake("plan", "tiny@v1", "--to", reference(registry), "--registry-profile", "ecr,layer=2GB")

    assert (ran.code, ran.out.splitlines()[-2:]) == (
        0,
        [
            "note     ECR (as --registry-profile says) takes at most 2.0 GB a layer",
            "note     ECR (as --registry-profile says) makes no repository by itself: create it first",
        ],
    )


@pytest.mark.usefixtures("tiny")
def test_plan_finds_what_would_be_refused(bake: Bake, registry: FakeRegistry) -> None:
    ran = bake("--json", "plan", "tiny@v1", "--to", reference(registry), "--registry-profile", "layer=2kB")

    assert (ran.code, len(ran.document["push"]["faults"])) == (1, 3)


def test_rebase_is_about_the_registry_that_it_writes_to(built: Place, bake: Bake, registry: FakeRegistry) -> None:
    put_layout(registry, built.root / "dist" / "tiny-v1")

    ran = bake(
        "-q", "rebase", reference(registry), "--to", f"{registry.host}/org/new:v1", "--registry-profile", "layer=2kB"
    )

    assert (ran.code, ran.err.splitlines()[0]) == (
        7,
        f"error: {registry.host}/org/new: 1 layer too large for the registry (as --registry-profile says):",
    )
    assert "org/new" not in registry.manifests


@pytest.mark.parametrize("command", ["plan", "build"])
@pytest.mark.usefixtures("tiny")
def test_it_is_for_a_registry_alone(bake: Bake, command: str) -> None:
    assert bake(command, "tiny@v1", "--to", "oci:out", "--registry-profile", "ghcr") == Ran(
        2, "", error("--registry-profile is about a registry that is pushed to", hint="add --to REF")
    )


@pytest.mark.usefixtures("tiny")
def test_what_cannot_be_read_is_refused_before_the_registry_is_asked(bake: Bake, registry: FakeRegistry) -> None:
    ran = bake("push", "tiny@v1", reference(registry), "--registry-profile", "ghrc")

    assert (ran, registry.requests) == (
        Ran(
            2,
            "",
            error(
                "--registry-profile: 1 fault:\n  'ghrc': no such profile; did you mean ghcr?",
                hint="it is written [NAME,]KEY=VALUE,…, as in ghcr,layer=20GB,parallel=2; "
                "docs/registries.md has the names and keys",
            ),
        ),
        [],
    )


@pytest.mark.usefixtures("tiny")
def test_an_environment_that_cannot_be_read_is_refused(
    bake: Bake, registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BAKE_REGISTRY_PROFILE", "ghcr")

    ran = bake("push", "tiny@v1", reference(registry))

    assert (ran.code, ran.err.splitlines()[:2], registry.requests) == (
        2,
        ["error: BAKE_REGISTRY_PROFILE: 1 fault:", "  'ghcr': expected HOST: before it"],
        [],
    )
