"""`bake build` of several models into a registry: what they share is sent once, and mounted for the others."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest

from bake.lock.parse import parse
from tests.cli.place import Bake, Place, Ran, error
from tests.cli.pushed import faults_in, image_in, tags_in, weights_sent
from tests.cli.several import add_models
from tests.cli.test_bases import make_base
from tests.entrypoint.files import model_files

if TYPE_CHECKING:
    from tests.hub_server import FakeHub
    from tests.registry.server import FakeRegistry

LAYER = 4608
"""Bytes of each small layer of these models."""


def to(registry: FakeRegistry, place: str = "org/{name}-{version}") -> tuple[str, str]:
    return "--to", f"{registry.host}/{place}"


def layers_of(ran: Ran) -> dict[str, tuple[int, int]]:
    """How many layers of each image were sent, and how many mounted."""
    return {item["model"]: (item["sent_layers"], item["mounted_layers"]) for item in ran.document}


def mounts(registry: FakeRegistry) -> list[str]:
    """The blobs that were asked to be mounted."""
    asked = [parse_qs(urlsplit(request.path).query) for request in registry.requests if request.method == "POST"]
    return sorted(query["mount"][0] for query in asked if "mount" in query)


def uploads(registry: FakeRegistry) -> list[str]:
    """The digest of each upload that was ended."""
    asked = [parse_qs(urlsplit(request.path).query) for request in registry.requests if request.method == "PUT"]
    return sorted(query["digest"][0] for query in asked if "digest" in query)


@pytest.fixture
def two(place: Place, bake: Bake) -> Place:
    """`tiny@v1` and `tiny@v2` in the lock, of the same bytes."""
    place.add_model()
    assert bake("-q", "add", "tiny@v1", "dir://m").code + bake("-q", "add", "tiny@v2", "dir://m").code == 0
    return place


@pytest.fixture
def three(place: Place, bake: Bake) -> Place:
    """`a@v1`, `b@v1` and `c@v1` in the lock, which share nothing."""
    add_models(place, bake, "a", "b", "c")
    return place


@pytest.mark.usefixtures("two")
def test_layers_that_two_models_share_are_sent_once_and_mounted_once(bake: Bake, registry: FakeRegistry) -> None:
    ran = bake("-q", "--json", "build", "--all", *to(registry))

    image = image_in(registry, name="org/tiny-v1")
    shared = sorted(str(layer.digest) for layer in image.manifest.layers[:2])
    assert layers_of(ran) == {"tiny@v1": (3, 0), "tiny@v2": (1, 2)}
    assert mounts(registry) == shared
    assert [digest for digest in uploads(registry) if digest in shared] == shared
    assert faults_in(registry, name="org/tiny-v1") + faults_in(registry, name="org/tiny-v2", tag="v2") == ()


@pytest.mark.usefixtures("two")
def test_what_the_registry_does_not_mount_is_sent(bake: Bake, registry: FakeRegistry) -> None:
    registry.mounts = False

    ran = bake("-q", "--json", "build", "--all", *to(registry))

    assert layers_of(ran) == {"tiny@v1": (3, 0), "tiny@v2": (3, 0)}
    assert faults_in(registry, name="org/tiny-v1") + faults_in(registry, name="org/tiny-v2", tag="v2") == ()


@pytest.mark.usefixtures("two")
def test_in_one_repository_what_they_share_is_there_already(bake: Bake, registry: FakeRegistry) -> None:
    ran = bake("-q", "--json", "build", "--all", *to(registry, "org/{name}"))

    assert layers_of(ran) == {"tiny@v1": (3, 0), "tiny@v2": (1, 0)}
    assert mounts(registry) == []


def test_a_base_is_sent_once_though_the_images_go_at_the_same_time(
    three: Place, bake: Bake, registry: FakeRegistry
) -> None:
    digest = make_base(three.root / "bases" / "py")
    text = three.lock.read_text().replace('base = "scratch"', 'base = "py"')
    three.write_lock(
        text.replace("version = 1\n", f'version = 1\n\n[base.py]\nimage = "oci:bases/py"\ndigest = "{digest}"\n', 1)
    )

    ran = bake("-q", "--json", "build", "--all", "--jobs", "3", *to(registry))

    base = str(image_in(registry, name="org/a-v1").manifest.layers[0].digest)
    assert ran.code == 0
    assert uploads(registry).count(base) == 1
    assert mounts(registry).count(base) == 2
    assert [faults_in(registry, name=f"org/{name}-v1") for name in "abc"] == [(), (), ()]


def test_a_layer_whose_digest_nobody_knew_is_fetched_and_sent_once(
    hub: FakeHub, place: Place, bake: Bake, registry: FakeRegistry
) -> None:
    for version in ("v1", "v2"):
        assert bake("-q", "add", f"tiny@{version}", "hf://org/name", "--base", "scratch").code == 0
    hub.requests.clear()

    ran = bake("-q", "--json", "build", "--all", "--jobs", "4", *to(registry))

    assert layers_of(ran) == {"tiny@v1": (3, 0), "tiny@v2": (1, 2)}
    assert len(hub.requested("cdn/*")) == 2
    assert [len(model.layers) for model in parse(place.lock.read_text(), where="lock").models] == [2, 2]


def test_images_at_the_same_time_lose_no_digest_that_another_has_learned(
    hub: FakeHub, place: Place, bake: Bake, registry: FakeRegistry
) -> None:
    names = [f"m{number}" for number in range(8)]
    for name in names:
        hub.add_repo(f"org/{name}", model_files() | {"config.json": b'{"model_type": "%s"}' % name.encode()})
        assert bake("-q", "add", f"{name}@v1", f"hf://org/{name}", "--base", "scratch").code == 0

    ran = bake("-q", "--json", "build", "--all", "--jobs", "8", *to(registry))

    assert (ran.code, [item["lock_changed"] for item in ran.document]) == (0, [True] * 8)
    assert [len(model.layers) for model in parse(place.lock.read_text(), where="lock").models] == [2] * 8


@pytest.mark.usefixtures("three")
def test_where_nothing_changed_no_byte_is_sent(bake: Bake, registry: FakeRegistry) -> None:
    assert bake("-q", "build", "--all", *to(registry)).code == 0
    registry.requests.clear()

    ran = bake("-q", "--json", "build", "--all", *to(registry))

    assert [item["outcome"] for item in ran.document] == ["there already"] * 3
    assert weights_sent(registry) == 0
    assert {request.method for request in registry.requests} == {"GET", "HEAD"}


@pytest.mark.usefixtures("three")
def test_a_tag_that_was_moved_is_no_image_that_was_there(bake: Bake, registry: FakeRegistry) -> None:
    assert bake("-q", "build", "--all", *to(registry)).code == 0
    del registry.manifests["org/a-v1"]["v1"]

    ran = bake("-q", "--json", "build", "--all", *to(registry))

    assert [item["outcome"] for item in ran.document] == ["built", "there already", "there already"]


def test_one_of_three_that_fails_leaves_the_others_there_and_the_next_run_completes_it(
    three: Place, bake: Bake, registry: FakeRegistry
) -> None:
    shard = three.root / "b" / "model-00001-of-00002.safetensors"
    before = shard.read_bytes()
    shard.write_bytes(before[:-1] + b"x")

    failed = bake("-q", "build", "--all", *to(registry))
    there = [tags_in(registry, name=f"org/{name}-v1")[:1] for name in "abc"]
    shard.write_bytes(before)
    registry.requests.clear()
    ran = bake("-q", "--json", "build", "--all", *to(registry))

    assert (failed.code, len(failed.out.splitlines()), there) == (6, 2, [["v1"], [], ["v1"]])
    assert [item["outcome"] for item in ran.document] == ["there already", "built", "there already"]
    assert weights_sent(registry) <= 4 * LAYER


@pytest.mark.usefixtures("three")
def test_a_table_says_what_was_sent(bake: Bake, registry: FakeRegistry) -> None:
    lines = bake("build", "--all", "--jobs", "1", *to(registry)).err.splitlines()

    assert lines[:3] == [f"{name}@v1: pushing: 9.2 kB" for name in "abc"]
    assert lines[3].split() == ["MODEL", "OUTCOME", "LAYERS", "BYTES", "SECONDS"]
    assert lines[4].split()[:6] == ["a@v1", "built", "3", "sent", "13.8", "kB"]
    assert lines[7].startswith("3 images: 3 built; 9 sent, 41.")


# --- where each goes


@pytest.mark.usefixtures("two")
def test_two_images_at_one_tag_are_refused(bake: Bake, registry: FakeRegistry) -> None:
    ran = bake("build", "--all", *to(registry, "org/{name}:latest"))

    assert ran == Ran(
        2,
        "",
        error(
            f"--to: tiny@v1 and tiny@v2 would both go to {registry.host}/org/tiny:latest",
            hint=f"--to '{registry.host}/org/{{name}}:{{version}}'",
        ),
    )
    assert registry.requests == []


@pytest.mark.usefixtures("three")
def test_offline_no_registry_is_asked_and_each_is_told(bake: Bake, registry: FakeRegistry) -> None:
    ran = bake("-q", "--offline", "build", "--all", *to(registry))

    assert (ran.code, ran.out, registry.requests) == (4, "", [])
    assert ran.err.splitlines()[-1] == "error: 3 of 3 images failed"


@pytest.mark.usefixtures("three")
def test_buildkit_builds_into_no_registry(bake: Bake, registry: FakeRegistry) -> None:
    ran = bake("build", "--all", "--builder", "docker", *to(registry))

    assert (ran.code, ran.out, registry.requests) == (2, "", [])
