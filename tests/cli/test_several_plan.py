"""`bake plan` of several models: each by itself, all together, and what a registry refuses or lets nobody push."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.place import Bake, Place, Ran, error
from tests.cli.pushed import weights_sent
from tests.entrypoint.files import model_files, write

if TYPE_CHECKING:
    from tests.registry.server import FakeRegistry

DENIED = b'{"errors": [{"code": "DENIED", "message": "requested access to the resource is denied"}]}'
UNKNOWN = b'{"errors": [{"code": "NAME_UNKNOWN", "message": "repository name not known to registry"}]}'


@pytest.fixture
def two(place: Place, bake: Bake) -> Place:
    """`tiny@v1` and `tiny@v2` in the lock, of the same bytes."""
    place.add_model()
    assert bake("-q", "add", "tiny@v1", "dir://m").code + bake("-q", "add", "tiny@v2", "dir://m").code == 0
    return place


def to(registry: FakeRegistry, place: str = "org/{name}-{version}") -> tuple[str, str]:
    return "--to", f"{registry.host}/{place}"


def arrivals(ran: Ran) -> list[list[str]]:
    return [[layer["arrival"] for layer in item["push"]["layers"]] for item in ran.document]


@pytest.mark.usefixtures("two")
def test_what_they_share_is_to_be_sent_once_and_mounted(bake: Bake, registry: FakeRegistry) -> None:
    ran = bake("--json", "plan", "--all", *to(registry))

    assert (ran.code, arrivals(ran)) == (0, [["upload", "upload", "upload"], ["mount", "mount", "upload"]])
    assert [item["push"]["upload"] for item in ran.document] == [3 * 4608, 4608]


@pytest.mark.usefixtures("two")
def test_in_one_repository_what_they_share_is_there_by_then(bake: Bake, registry: FakeRegistry) -> None:
    ran = bake("--json", "plan", "--all", *to(registry, "org/{name}"))

    assert arrivals(ran) == [["upload", "upload", "upload"], ["there", "there", "upload"]]


@pytest.mark.usefixtures("two")
def test_a_plan_says_what_a_build_then_sends(bake: Bake, registry: FakeRegistry) -> None:
    planned = bake("--json", "plan", "--all", *to(registry)).document
    built = bake("-q", "--json", "build", "--all", *to(registry)).document

    assert [item["push"]["digest"] for item in planned] == [item["digest"] for item in built]
    assert [item["push"]["upload"] for item in planned] == [item["sent_bytes"] for item in built]
    assert sum(item["sent_bytes"] for item in built) <= weights_sent(registry)


@pytest.mark.usefixtures("two")
def test_people_see_each_and_then_all_together(bake: Bake, registry: FakeRegistry) -> None:
    lines = bake("plan", "--all", *to(registry)).out.splitlines()

    assert [line for line in lines if not line.startswith(" ")][:2] == [
        f"tiny@v1 -> {registry.host}/org/tiny-v1:v1",
        "base     scratch: an image of weights alone",
    ]
    assert [line for line in lines if line.startswith("to do")] == [
        "to do    upload 13.8 kB, fetch 0 B",
        "to do    upload 4.6 kB, fetch 0 B",
    ]
    assert lines[-2:] == ["", "together 2 images: upload 18.4 kB, fetch 0 B"]


@pytest.mark.usefixtures("two")
def test_into_folders_a_layer_that_is_packed_for_one_is_in_the_store_for_the_other(bake: Bake) -> None:
    ran = bake("plan", "--all")

    assert ran.out.splitlines()[-1] == "together 2 images: fetch 0 B, read 417 B, write 9.2 kB"


@pytest.mark.usefixtures("two")
def test_a_model_that_is_too_large_is_left_out(bake: Bake, registry: FakeRegistry) -> None:
    ran = bake("plan", "--all", "--max-size", "400B", *to(registry))

    assert (ran.code, ran.out.splitlines()) == (
        0,
        [
            f"tiny@v1 -> {registry.host}/org/tiny-v1:v1",
            "left out 417 B, too large",
            "",
            f"tiny@v2 -> {registry.host}/org/tiny-v2:v2",
            "left out 417 B, too large",
            "",
            "together 0 images: fetch 0 B, read 0 B, write 0 B",
        ],
    )
    assert registry.requests == []


def test_one_that_cannot_be_told_stops_no_other(two: Place, bake: Bake, registry: FakeRegistry) -> None:
    assert two.lock.exists()
    registry.fault("HEAD /v2/org/tiny-v1/*", times=99, status=400)

    ran = bake("--json", "plan", "--all", *to(registry))

    assert [item["outcome"] for item in ran.document] == ["failed", "planned"]
    assert (ran.code, ran.document[0]["error"]["exit_code"]) == (7, 7)
    assert ran.err.splitlines()[-1] == "error: 1 of 2 images cannot be built so"


@pytest.mark.usefixtures("two")
def test_a_plan_is_summarised_for_a_page_of_ci(place: Place, bake: Bake, registry: FakeRegistry) -> None:
    bake("plan", "--all", *to(registry), "--summary", "summary.md")

    text = (place.root / "summary.md").read_text()
    assert text.splitlines()[:4] == [
        "### bake plan",
        "",
        "| model | image | to do | layers |",
        "| --- | --- | --- | --- |",
    ]
    assert "| upload 13.8 kB | 3 upload |" in text
    assert "| upload 4.6 kB | 2 mount, 1 upload |" in text
    assert "\nTogether 2 images: upload 18.4 kB, fetch 0 B\n" in text


@pytest.mark.usefixtures("two")
def test_a_rate_is_for_registries_alone(bake: Bake) -> None:
    assert bake("plan", "--all", "--rate", "1Gbit") == Ran(
        2, "", error("--rate is that of the line to a registry", hint="add --to REF")
    )


# --- where one may read, and not push


@pytest.fixture
def tiny_there(tiny: Place, bake: Bake, registry: FakeRegistry) -> Place:
    """`tiny@v1` in the registry, to which strangers may not push any more."""
    assert bake("-q", "push", "tiny@v1", f"{registry.host}/org/tiny").code == 0
    registry.auth, registry.anonymous = "token", True
    return tiny


@pytest.mark.usefixtures("tiny_there")
def test_whoever_may_only_read_is_told_so_and_told_the_rest(bake: Bake, registry: FakeRegistry) -> None:
    registry.fault("GET /token", status=403, body=DENIED)

    ran = bake("--json", "plan", "tiny@v1", *to(registry, "org/tiny"))

    push = ran.document["push"]
    assert (ran.code, push["upload"], push["is_there"]) == (0, 0, True)
    why = "requested access to the resource is denied"
    assert push["notes"] == [f"not allowed to push here: {registry.host} lets no stranger push to org/tiny: {why}"]


@pytest.mark.usefixtures("tiny_there")
def test_a_package_that_is_not_there_and_is_denied_is_taken_as_empty(bake: Bake, registry: FakeRegistry) -> None:
    registry.fault("GET /token", times=99, status=403, body=DENIED)

    ran = bake("--json", "plan", "tiny@v1", *to(registry, "org/new"))

    push = ran.document["push"]
    assert (ran.code, push["upload"], push["is_there"]) == (0, 3 * 4608, False)
    assert push["notes"][1:] == [f"{registry.host}/org/new is not there yet, or not to be read: taken as empty"]


@pytest.mark.usefixtures("tiny")
def test_a_repository_that_the_registry_does_not_know_is_taken_as_empty(bake: Bake, registry: FakeRegistry) -> None:
    registry.fault("GET */tags/list", status=404, body=UNKNOWN)

    ran = bake("plan", "tiny@v1", *to(registry, "org/new"))

    assert (ran.code, ran.out.splitlines()[-1]) == (
        0,
        f"note     {registry.host}/org/new is not there yet: taken as empty",
    )


@pytest.mark.usefixtures("tiny")
def test_a_wrong_login_is_an_error_still(bake: Bake, registry: FakeRegistry) -> None:
    registry.auth = "token"

    ran = bake("plan", "tiny@v1", *to(registry, "org/tiny"))

    assert (ran.code, ran.out) == (7, "")
    assert "lets no stranger push to org/tiny" in ran.err


def test_models_that_share_nothing_add_up(place: Place, bake: Bake, registry: FakeRegistry) -> None:
    for name in ("a", "b"):
        write(place.root / name, model_files() | {"config.json": b'{"model_type": "%s"}' % name.encode()})
        assert bake("-q", "add", f"{name}@v1", f"dir://{name}").code == 0

    ran = bake("plan", "a@v1", "b@v1", *to(registry))

    assert ran.out.splitlines()[-1] == "together 2 images: upload 27.6 kB, fetch 0 B"
