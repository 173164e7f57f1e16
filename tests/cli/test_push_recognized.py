"""A push of a model whose layers nobody remembers, as in CI: what is there is known by its tag that never moves."""

from __future__ import annotations

import hashlib
import shutil
from typing import TYPE_CHECKING

import pytest

from bake.lock.parse import parse
from tests.cli.place import EMPTY_LOCK, Bake, Place, Ran, without_layers
from tests.cli.pushed import NAME, faults_in, image_in, reference, tags_in, weights_sent
from tests.cli.remote import put_layout, read_of
from tests.cli.several import add_models, states
from tests.cli.test_bases import make_base
from tests.cli.test_wheels import GOOD, wheel

if TYPE_CHECKING:
    from bake.image import Image
    from tests.registry.server import FakeRegistry

SHARD = 3 << 20
"""Bytes of each of two shards, which share a layer: too large to be read whole by a quick verification."""

HEADERS = 128 << 10
"""More than the bytes of two headers and of the small layers, and far less than a shard."""

CONFIG, WEIGHTS, PROGRAM = 0, 1, 2


def fixed_tag(registry: FakeRegistry) -> str:
    (tag,) = (tag for tag in tags_in(registry) if tag != "v1")
    return tag


def reached(registry: FakeRegistry, *, name: str = NAME) -> str:
    return f"{registry.host}/{name}@{image_in(registry, name=name).descriptor.digest}"


def unread(place: str) -> str:
    return f"there already: its layers were not read (bake verify {place} --level full reads every byte)"


def push_and_forget(place: Place, bake: Bake, registry: FakeRegistry) -> None:
    """`tiny@v1` on the base of the lock, in the lock and in the registry, which alone knows its layers' digests."""
    place.add_large_model(SHARD, SHARD)
    assert bake("-q", "add", "tiny@v1", "dir://m").code == 0
    assert bake("-q", "push", "tiny@v1", reference(registry)).code == 0
    place.write_lock(without_layers(place.lock.read_text()))
    shutil.rmtree(place.store)
    registry.requests.clear()


def use_base(place: Place, image: str, digest: object, *, more: str = "") -> None:
    place.write_lock(f'{EMPTY_LOCK}\n[base.py]\nimage = "{image}"\ndigest = "{digest}"\n{more}')


@pytest.fixture
def pushed(place: Place, bake: Bake, registry: FakeRegistry) -> Place:
    """`tiny@v1` as an image of weights alone, pushed and forgotten."""
    push_and_forget(place, bake, registry)
    return place


@pytest.fixture
def image(pushed: Place, registry: FakeRegistry) -> Image:  # noqa: ARG001 - it must be there
    return image_in(registry)


# --- an image that is there


def test_nothing_is_sent_and_the_model_is_not_needed(pushed: Place, bake: Bake, registry: FakeRegistry) -> None:
    shutil.rmtree(pushed.root / "m")

    ran = bake("-q", "build", "tiny@v1", "--to", reference(registry), "--frozen")

    digest = image_in(registry).descriptor.digest
    assert ran == Ran(0, f"{reference(registry)}@{digest}\n", "")
    assert {request.method for request in registry.requests} == {"GET", "HEAD"}


def test_of_its_weights_the_headers_alone_are_read(image: Image, bake: Bake, registry: FakeRegistry) -> None:
    assert bake("-q", "push", "tiny@v1", reference(registry), "--frozen").code == 0

    assert 0 < read_of(registry, image) < HEADERS


def test_what_was_not_proven_is_recorded_nowhere(pushed: Place, bake: Bake, registry: FakeRegistry) -> None:
    lock = pushed.lock.read_bytes()

    ran = bake("-q", "--json", "push", "tiny@v1", reference(registry))

    assert (ran.document["recognized"], ran.document["lock_changed"]) == (True, False)
    assert (pushed.lock.read_bytes(), pushed.store.exists()) == (lock, False)


@pytest.mark.usefixtures("pushed")
def test_people_are_told_that_its_layers_were_not_read(bake: Bake, registry: FakeRegistry) -> None:
    ran = bake("push", "tiny@v1", reference(registry))

    image = image_in(registry)
    size = sum(layer.size for layer in image.manifest.layers)
    assert ran.err.splitlines() == [
        f"tiny@v1: {unread(reached(registry))}",
        f"tiny@v1: {image.descriptor.digest}, {size / 1e6:.1f} MB in 3 layers",
        "sent 0 layers (0 B), 3 were there",
        f"tags {fixed_tag(registry)}, v1",
        "no token in the config, the history, or any layer that was sent but the base's and the weights' own",
    ]


@pytest.mark.usefixtures("pushed")
def test_what_people_are_told_to_type_reads_every_byte(bake: Bake, registry: FakeRegistry) -> None:
    assert bake("-q", "verify", reached(registry), "--level", "full").code == 0


@pytest.mark.usefixtures("pushed")
def test_a_tag_that_does_not_lead_to_it_yet_is_put(bake: Bake, registry: FakeRegistry) -> None:
    fixed = fixed_tag(registry)

    assert bake("-q", "push", "tiny@v1", reference(registry, tag="v1"), "--tag", "latest").code == 0

    assert registry.lines("PUT *") + registry.lines("P*ST *") == [f"PUT /v2/{NAME}/manifests/latest"]
    assert tags_in(registry) == ["latest", "v1", fixed]
    assert faults_in(registry, tag="latest") == ()


def test_no_tag_is_looked_for_where_every_layer_is_known(tiny: Place, bake: Bake, registry: FakeRegistry) -> None:
    bake("-q", "push", "tiny@v1", reference(registry))
    shutil.rmtree(tiny.store)
    registry.requests.clear()

    ran = bake("-q", "--json", "push", "tiny@v1", reference(registry))

    tags = [fixed_tag(registry), "v1"]
    assert ran.document["recognized"] is False
    assert registry.lines("* */manifests/*") == [f"HEAD /v2/{NAME}/manifests/{tag}" for tag in tags]
    assert registry.lines("GET *") == []


def test_a_lock_that_contradicts_what_was_packed_is_told_all_the_same(
    tiny: Place, bake: Bake, registry: FakeRegistry
) -> None:
    bake("-q", "push", "tiny@v1", reference(registry))
    (model,) = parse(tiny.lock.read_text()).models
    tiny.write_lock(tiny.lock.read_text().replace(str(model.layers[-1].diff_id), f"sha256:{'1' * 64}"))

    ran = bake("-q", "push", "tiny@v1", reference(registry))

    assert (ran.code, ran.out) == (3, "")
    assert ran.err.startswith(f"error: tiny@v1: expected a layer of diff_id sha256:{'1' * 64}, found sha256:")


# --- on a base


@pytest.fixture
def on_base(place: Place, bake: Bake, registry: FakeRegistry) -> Image:
    """`tiny@v1` on a base in the same registry, pushed and forgotten; the base's image."""
    digest = make_base(place.root / "bases" / "py")
    base = put_layout(registry, place.root / "bases" / "py", name="org/base")
    use_base(place, f"{registry.host}/org/base:v1", digest)
    push_and_forget(place, bake, registry)
    return base


def test_on_a_base_in_a_registry_no_layer_of_it_is_read(on_base: Image, bake: Bake, registry: FakeRegistry) -> None:
    ran = bake("-q", "--json", "push", "tiny@v1", reference(registry))

    assert (ran.document["recognized"], weights_sent(registry)) == (True, 0)
    assert read_of(registry, on_base) == 0


def test_on_a_base_in_a_layout_it_is_recognized(place: Place, bake: Bake, registry: FakeRegistry) -> None:
    use_base(place, "oci:bases/py", make_base(place.root / "bases" / "py"))
    push_and_forget(place, bake, registry)

    ran = bake("-q", "--json", "push", "tiny@v1", reference(registry))

    assert (ran.document["recognized"], weights_sent(registry)) == (True, 0)


@pytest.fixture
def with_wheels(place: Place, bake: Bake, registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch) -> Place:
    """`tiny@v1` on a base that lacks a wheel, which pip finds in a folder; pushed and forgotten."""
    content = wheel("tinywheel", GOOD)
    (place.root / "wheels").mkdir()
    (place.root / "wheels" / "tinywheel-1.0-py3-none-any.whl").write_bytes(content)
    monkeypatch.setenv("PIP_FIND_LINKS", str(place.root / "wheels"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    listed = f'name = "tinywheel"\nversion = "1.0"\nsha256 = "{hashlib.sha256(content).hexdigest()}"\n'
    digest = make_base(place.root / "bases" / "py")
    use_base(place, "oci:bases/py", digest, more=f"\n[[base.py.wheels]]\n{listed}")
    push_and_forget(place, bake, registry)
    return place


@pytest.mark.usefixtures("with_wheels")
def test_on_a_base_with_wheels_it_is_recognized(bake: Bake, registry: FakeRegistry) -> None:
    ran = bake("-q", "--json", "push", "tiny@v1", reference(registry))

    assert (ran.document["recognized"], weights_sent(registry)) == (True, 0)


@pytest.mark.usefixtures("with_wheels")
def test_a_plan_fetches_no_wheel_to_recognize_it(bake: Bake, registry: FakeRegistry) -> None:
    ran = bake("--json", "plan", "tiny@v1", "--to", reference(registry))

    assert (ran.document["push"]["digest"], ran.document["push"]["is_there"]) == (None, False)
    assert registry.lines("GET *") == []


# --- several


@pytest.fixture
def three(place: Place, bake: Bake, registry: FakeRegistry) -> Place:
    """`a@v1`, `b@v1` and `c@v1` in the lock and in the registry; only the registry knows their layers."""
    add_models(place, bake, "a", "b", "c")
    before = place.lock.read_text()
    assert bake("-q", "build", "--all", "--to", f"{registry.host}/org/{{name}}").code == 0
    blocks = [without_layers(f"[[model]]{block}") for block in before.split("[[model]]")[1:]]
    place.write_lock(EMPTY_LOCK + "\n" + "\n".join(blocks))
    shutil.rmtree(place.store)
    registry.requests.clear()
    return place


def test_several_are_there_already_and_each_is_told(three: Place, bake: Bake, registry: FakeRegistry) -> None:
    shutil.rmtree(three.root / "a")

    ran = bake("--json", "build", "--all", "--frozen", "--to", f"{registry.host}/org/{{name}}")

    assert states(ran) == [(f"{name}@v1", "there already") for name in "abc"]
    assert (weights_sent(registry), registry.lines("PUT *")) == (0, [])
    assert sorted(ran.err.splitlines()[:3]) == [
        f"{name}@v1: {unread(reached(registry, name=f'org/{name}'))}" for name in "abc"
    ]


@pytest.mark.usefixtures("three")
def test_of_several_only_that_which_is_not_there_is_sent(bake: Bake, registry: FakeRegistry) -> None:
    del registry.manifests["org/b"], registry.blobs["org/b"]

    ran = bake("-q", "--json", "build", "--all", "--frozen", "--to", f"{registry.host}/org/{{name}}")

    assert states(ran) == [("a@v1", "there already"), ("b@v1", "built"), ("c@v1", "there already")]
    assert [item["sent_layers"] for item in ran.document] == [0, 3, 0]
    assert faults_in(registry, name="org/b") == ()


def test_a_base_is_mounted_from_an_image_that_was_recognized(place: Place, bake: Bake, registry: FakeRegistry) -> None:
    use_base(place, "oci:bases/py", make_base(place.root / "bases" / "py"))
    push_and_forget(place, bake, registry)
    place.add_model("n")
    assert bake("-q", "add", "zeta@v1", "dir://n").code == 0

    ran = bake("-q", "--json", "build", "--all", "--jobs", "1", "--frozen", "--to", f"{registry.host}/org/{{name}}")

    assert [(item["model"], item["recognized"], item["mounted_layers"]) for item in ran.document] == [
        ("tiny@v1", True, 0),
        ("zeta@v1", False, 1),
    ]


# --- plan


@pytest.mark.usefixtures("pushed")
def test_a_plan_tells_what_the_push_will_find(bake: Bake, registry: FakeRegistry) -> None:
    ran = bake("plan", "tiny@v1", "--to", reference(registry))

    image = image_in(registry)
    digests = [str(layer.digest)[:19] for layer in image.manifest.layers]
    assert ran.out.splitlines() == [
        f"tiny@v1 -> {reference(registry)}",
        "base     scratch: an image of weights alone",
        f"  1  3.6 kB  {digests[CONFIG]}  there  tiny@v1: config.json",
        f"  2  6.3 MB  {digests[WEIGHTS]}  there  tiny@v1: part-1.safetensors and 1 more",
        f"  3  4.1 kB  {digests[PROGRAM]}  there  record and entrypoint",
        "to do    upload 0 B, fetch 0 B",
        f"image    {image.descriptor.digest}, which is there: nothing to do",
        f"note     {unread(reached(registry))}",
    ]


@pytest.mark.usefixtures("pushed")
def test_a_plan_for_another_tag_knows_the_digest_and_sends_nothing(bake: Bake, registry: FakeRegistry) -> None:
    push = bake("--json", "plan", "tiny@v1", "--to", reference(registry, tag="new")).document["push"]

    digest = str(image_in(registry).descriptor.digest)
    assert (push["digest"], push["is_there"], push["upload"], push["fetch"]) == (digest, False, 0, 0)
