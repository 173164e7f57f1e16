"""bake plan --to REF: what a registry has, what it lacks, and the digest that will come out."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from bake.api.foreseeing import Arrival, ForeseenLayer, asked_for, refusals
from bake.layout import Layout
from bake.registry import profile_of
from tests.cli.place import EMPTY_LOCK, Bake, Place, Ran, error, without_layers
from tests.cli.remote import NAME, put_layout, reference
from tests.cli.test_bases import make_base
from tests.entrypoint.files import INDEX, model_files

if TYPE_CHECKING:
    from tests.registry.server import FakeRegistry


def arrivals(ran: Ran) -> list[tuple[str, str]]:
    return [(layer["part"], layer["arrival"]) for layer in ran.document["push"]["layers"]]


def push(ran: Ran, *names: str) -> list[Any]:
    return [ran.document["push"][name] for name in names]


@pytest.mark.usefixtures("tiny")
def test_nothing_is_there_at_first_and_nothing_is_sent(registry: FakeRegistry, bake: Bake) -> None:
    ran = bake("--json", "plan", "tiny@v1", "--to", reference(registry))

    assert ran.code == 0
    assert arrivals(ran) == [("weights", "upload"), ("weights", "upload"), ("program", "upload")]
    assert push(ran, "upload", "fetch") == [3 * 4608, 0]
    assert registry.lines("POST*") + registry.lines("PUT*") == []


def test_the_digest_that_is_told_is_that_of_the_build(built: Place, registry: FakeRegistry, bake: Bake) -> None:
    ran = bake("--json", "plan", "tiny@v1", "--to", reference(registry))

    digest = Layout(built.root / "dist" / "tiny-v1").image().descriptor.digest
    assert push(ran, "digest", "is_there") == [str(digest), False]


def test_what_the_registry_has_is_not_to_be_sent(built: Place, registry: FakeRegistry, bake: Bake) -> None:
    image = put_layout(registry, built.root / "dist" / "tiny-v1")
    del registry.blobs[NAME][str(image.manifest.layers[1].digest)]
    shutil.rmtree(built.root / "m")

    ran = bake("--json", "plan", "tiny@v1", "--to", reference(registry))

    assert arrivals(ran) == [("weights", "there"), ("weights", "upload"), ("program", "there")]
    assert push(ran, "upload") == [4608]


def test_an_image_that_is_there_leaves_nothing_to_do(built: Place, registry: FakeRegistry, bake: Bake) -> None:
    image = put_layout(registry, built.root / "dist" / "tiny-v1")

    ran = bake("plan", "tiny@v1", "--to", reference(registry))

    digest = image.descriptor.digest
    layers = [str(layer.digest)[:19] for layer in image.manifest.layers]
    assert ran.out.splitlines() == [
        f"tiny@v1 -> {reference(registry)}",
        "base     scratch: an image of weights alone",
        f"  1  4.6 kB  {layers[0]}  there  tiny@v1: config.json and 1 more",
        f"  2  4.6 kB  {layers[1]}  there  tiny@v1: model-00001-of-00002.safetensors and 1 more",
        f"  3  4.6 kB  {layers[2]}  there  record and entrypoint",
        "to do    upload 0 B, fetch 0 B",
        f"image    {digest}, which is there: nothing to do",
    ]


@pytest.mark.usefixtures("hub")
def test_what_must_come_from_the_hub_is_told_and_has_no_digest_yet(registry: FakeRegistry, bake: Bake) -> None:
    bake("-q", "add", "tiny@v1", "hf://org/name", "--base", "scratch")
    fetched = len(model_files()["config.json"]) + len(model_files()[INDEX])

    ran = bake("--json", "plan", "tiny@v1", "--to", reference(registry))

    assert push(ran, "digest", "fetch") == [None, sum(map(len, model_files().values())) - fetched]


@pytest.mark.usefixtures("hub")
def test_a_digest_that_is_not_known_is_told_in_words(registry: FakeRegistry, bake: Bake) -> None:
    bake("-q", "add", "tiny@v1", "hf://org/name", "--base", "scratch")

    ran = bake("plan", "tiny@v1", "--to", reference(registry))

    assert ran.out.splitlines()[-1] == "image    its digest is not known before 2 layers are packed"


# --- bases


@pytest.fixture
def on_base(place: Place, registry: FakeRegistry, bake: Bake) -> Place:
    """`tiny@v1` on a base that lies in the registry as `org/base:v1`, built in another place."""
    digest = make_base(place.root / "bases" / "py")
    put_layout(registry, place.root / "bases" / "py", name="org/base")
    place.write_lock(f'{EMPTY_LOCK}\n[base.py]\nimage = "{registry.host}/org/base:v1"\ndigest = "{digest}"\n')
    place.add_model()
    assert bake("-q", "add", "tiny@v1", "dir://m").code == 0
    return place


@pytest.mark.usefixtures("on_base")
def test_a_base_in_the_same_registry_is_mounted(registry: FakeRegistry, bake: Bake) -> None:
    ran = bake("--json", "plan", "tiny@v1", "--to", reference(registry))

    assert arrivals(ran)[:1] == [("base", "mount")]
    assert push(ran, "fetch") == [0]


def test_a_base_in_a_layout_is_sent(place: Place, on_base: Place, registry: FakeRegistry, bake: Bake) -> None:
    on_base.write_lock(place.lock.read_text().replace(f"{registry.host}/org/base:v1", "oci:bases/py"))

    assert arrivals(bake("--json", "plan", "tiny@v1", "--to", reference(registry)))[:1] == [("base", "upload")]


def test_the_digest_is_that_of_a_build_on_the_base(on_base: Place, registry: FakeRegistry, bake: Bake) -> None:
    built = bake("-q", "build", "tiny@v1", "--to", "oci:dist/image")

    assert push(bake("--json", "plan", "tiny@v1", "--to", reference(registry)), "digest") == [built.digest]
    assert without_layers(on_base.lock.read_text()) != on_base.lock.read_text()


# --- limits and time

GHCR = profile_of("ghcr.io")


def layer(what: str, size: int, arrival: Arrival = "upload") -> ForeseenLayer:
    return ForeseenLayer(part="weights", what=what, size=size, digest=None, arrival=arrival)


def test_a_layer_that_the_registry_would_refuse_is_named() -> None:
    layers = [layer("a.safetensors", 12 * 10**9), layer("b.safetensors", 9 * 10**9), layer("c", 11 * 10**9, "there")]

    assert refusals(GHCR, layers, rate=None) == ("a.safetensors: 12.0 GB, and GHCR takes at most 10.0 GB a layer",)


def test_an_upload_that_takes_longer_than_the_registry_waits_is_named() -> None:
    assert refusals(GHCR, [layer("a", 9 * 10**9)], rate=12.5e6) == (
        "a: GHCR ends an upload after 10 minutes: 9.0 GB need 15.0 MB/s at least, and the line has 12.5 MB/s",
    )


def test_what_a_registry_asks_for_is_told_beforehand() -> None:
    assert asked_for(GHCR, [layer("a.safetensors", 9 * 10**9)]) == (
        "GHCR takes at most 10.0 GB a layer",
        "GHCR ends an upload after 10 minutes: 9.0 GB need 15.0 MB/s at least",
    )
    assert asked_for(profile_of("europe-docker.pkg.dev"), []) == (
        "Artifact Registry makes no repository by itself: create it first",
    )


@pytest.mark.parametrize(
    ("rate", "bytes_a_second"),
    [("100MB/s", 100e6), ("1Gbit", 125e6), ("300Mbps", 37.5e6), ("1.5 GB/s", 1.5e9), ("800 kb/s", 1e5)],
)
@pytest.mark.usefixtures("tiny")
def test_the_time_is_told_for_a_rate(registry: FakeRegistry, bake: Bake, rate: str, bytes_a_second: float) -> None:
    ran = bake("--json", "plan", "tiny@v1", "--to", reference(registry), "--rate", rate)

    assert push(ran, "rate", "seconds") == [bytes_a_second, 3 * 4608 / bytes_a_second]


@pytest.mark.parametrize("rate", ["", "fast", "0MB", "10", "-1MB", "1XB"])
@pytest.mark.usefixtures("tiny")
def test_a_rate_that_is_none_is_refused(registry: FakeRegistry, bake: Bake, rate: str) -> None:
    ran = bake("plan", "tiny@v1", "--to", reference(registry), "--rate", rate)

    assert (ran.code, ran.err.splitlines()[0]) == (
        2,
        f"error: Invalid value for '--rate': expected a rate such as 100MB/s, 1Gbit/s or 300Mbps, found {rate!r}",
    )


@pytest.mark.usefixtures("tiny")
def test_a_rate_is_for_a_registry_alone(bake: Bake) -> None:
    assert bake("plan", "tiny@v1", "--rate", "1Gbit") == Ran(
        2, "", error("--rate is that of the line to a registry", hint="add --to REF")
    )


# --- the registry


@pytest.mark.usefixtures("tiny")
def test_whoever_may_not_push_is_told_now(registry: FakeRegistry, bake: Bake) -> None:
    registry.auth = "token"

    ran = bake("plan", "tiny@v1", "--to", reference(registry))

    assert (ran.code, ran.err.splitlines()[-1]) == (7, f"hint: docker login {registry.host}")


@pytest.mark.usefixtures("tiny")
def test_offline_no_registry_is_asked(registry: FakeRegistry, bake: Bake) -> None:
    ran = bake("--offline", "plan", "tiny@v1", "--to", reference(registry))

    assert (ran.code, registry.requests) == (4, [])
