"""`bake push`, and `bake build --to` a registry: what is sent, what is not, and what is there in the end."""

from __future__ import annotations

import re
import shutil
import sys
from typing import TYPE_CHECKING

import pytest

from bake.api import Workspace, choose_output
from bake.console import Silent
from bake.lock import ModelId
from bake.lock.parse import parse
from bake.store import Store
from tests.cli.place import Bake, Place, Ran, error
from tests.cli.pushed import NAME, faults_in, image_in, reference, tags_in, weights_sent
from tests.entrypoint.files import FIRST, model_files, safetensors

if TYPE_CHECKING:
    from pathlib import Path

    from tests.hub_server import FakeHub
    from tests.registry.server import FakeRegistry

LARGE = 66 << 20
TOKEN = "hf_" + "abcdefghij" * 4


def size_of(folder: Path) -> int:
    """Bytes that the files below a folder take on the disk."""
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def pushed(tiny: Place, bake: Bake, registry: FakeRegistry) -> Place:
    """`tiny@v1` in the lock, and its image in the registry; the registry's log is empty again."""
    assert bake("-q", "push", "tiny@v1", reference(registry)).code == 0
    registry.requests.clear()
    return tiny


# --- what is there in the end


@pytest.mark.usefixtures("tiny")
def test_the_image_is_whole_and_what_is_printed_leads_to_it(bake: Bake, registry: FakeRegistry) -> None:
    ran = bake("-q", "push", "tiny@v1", reference(registry))

    image = image_in(registry)
    assert ran == Ran(0, f"{registry.host}/{NAME}:v1@{image.descriptor.digest}\n", "")
    assert faults_in(registry) == ()


@pytest.mark.usefixtures("tiny")
def test_it_is_the_image_that_is_built_into_a_layout(bake: Bake, registry: FakeRegistry) -> None:
    pushed = bake("-q", "push", "tiny@v1", reference(registry))

    assert bake("-q", "build", "tiny@v1", "--to", "oci:dist/other").digest == pushed.digest


@pytest.mark.usefixtures("tiny")
def test_build_with_a_reference_is_the_same_word(bake: Bake, registry: FakeRegistry) -> None:
    built = bake("build", "tiny@v1", "--to", reference(registry, name="org/one"))
    pushed = bake("push", "tiny@v1", reference(registry, name="org/two"))

    assert built.digest == pushed.digest
    assert built.out == pushed.out.replace("org/two", "org/one")
    assert tags_in(registry, name="org/one") == tags_in(registry, name="org/two")


def test_what_a_build_left_is_pushed_without_the_source(built: Place, bake: Bake, registry: FakeRegistry) -> None:
    shutil.rmtree(built.root / "m")

    assert bake("-q", "push", "tiny@v1", reference(registry)).code == 0
    assert faults_in(registry) == ()


@pytest.mark.usefixtures("tiny")
def test_people_are_told_what_was_sent_and_what_to_type_next(bake: Bake, registry: FakeRegistry) -> None:
    ran = bake("push", "tiny@v1", reference(registry))

    image = image_in(registry)
    (fixed,) = (tag for tag in tags_in(registry) if tag != "v1")
    size = sum(layer.size for layer in image.manifest.layers)
    assert ran.err.splitlines() == [
        f"{registry.host}/{NAME}:v1: pushing: 9.2 kB",
        f"tiny@v1: {image.descriptor.digest}, {size / 1000:.1f} kB in 3 layers",
        f"sent 3 layers ({size / 1000:.1f} kB), 0 were there",
        f"tags {fixed}, v1",
        "no token in the config, the history, or any layer that was sent but the base's and the weights' own",
    ]


@pytest.mark.usefixtures("tiny")
def test_json_says_it_to_a_program(bake: Bake, registry: FakeRegistry) -> None:
    document = bake("-q", "--json", "push", "tiny@v1", reference(registry)).document

    image = image_in(registry)
    size = sum(layer.size for layer in image.manifest.layers)
    assert document == {
        "model": "tiny@v1",
        "output": f"registry:{registry.host}/{NAME}:v1",
        "reference": f"{registry.host}/{NAME}:v1@{image.descriptor.digest}",
        "digest": str(image.descriptor.digest),
        "tags": [*(tag for tag in tags_in(registry) if tag != "v1"), "v1"],
        "size": size,
        "layers": 3,
        "sent_layers": 3,
        "sent_bytes": size,
        "mounted_layers": 0,
        "recognized": False,
        "lock_changed": False,
    }


# --- tags


@pytest.mark.usefixtures("tiny")
def test_without_a_tag_the_model_s_version_is_it(bake: Bake, registry: FakeRegistry) -> None:
    ran = bake("-q", "push", "tiny@v1", f"{registry.host}/{NAME}")

    assert ran.out.startswith(f"{registry.host}/{NAME}:v1@sha256:")


@pytest.mark.usefixtures("tiny")
def test_more_tags_may_be_asked_for_and_one_never_moves(bake: Bake, registry: FakeRegistry) -> None:
    bake("-q", "push", "tiny@v1", reference(registry, tag="stable"), "--tag", "latest", "--tag", "stable")

    fixed, *others = sorted(tags_in(registry), key=len, reverse=True)
    assert re.fullmatch(r"v1-[0-9a-f]{12}", fixed)
    assert others == ["latest", "stable"]
    assert len({image_in(registry, tag=tag).descriptor.digest for tag in tags_in(registry)}) == 1


def test_a_changed_model_has_another_tag_that_never_moves(pushed: Place, bake: Bake, registry: FakeRegistry) -> None:
    (pushed.root / "m" / "config.json").write_text('{"model_type": "qwen2"}')
    assert bake("-q", "lock", "--upgrade", "tiny@v1").code == 0
    assert bake("-q", "push", "tiny@v1", reference(registry)).code == 0

    first, second = (tag for tag in tags_in(registry) if tag != "v1")
    assert image_in(registry, tag=first).descriptor.digest != image_in(registry, tag=second).descriptor.digest


def test_a_tag_that_never_moves_is_left_alone_where_it_is_another_image(
    pushed: Place, bake: Bake, registry: FakeRegistry
) -> None:
    (fixed,) = (tag for tag in tags_in(registry) if tag != "v1")
    other = registry.add_manifest(NAME, fixed, b"{}", media_type="application/vnd.oci.image.manifest.v1+json")

    ran = bake("-q", "push", "tiny@v1", reference(registry))

    assert ran.code == 0
    assert ran.err == f"warning: {registry.host}/{NAME}:{fixed} is another image, {other}; it is left alone\n"
    assert registry.manifests[NAME][fixed][1] == b"{}"
    assert pushed.lock.exists()


@pytest.mark.usefixtures("tiny")
def test_a_malformed_tag_is_refused_before_anything_is_sent(bake: Bake, registry: FakeRegistry) -> None:
    ran = bake("push", "tiny@v1", reference(registry), "--tag", "not a tag")

    assert (ran.code, ran.out) == (2, "")
    assert "'not a tag' is no tag" in ran.err
    assert registry.requests == []


# --- what is not sent


@pytest.mark.usefixtures("pushed")
def test_a_second_push_sends_nothing(bake: Bake, registry: FakeRegistry) -> None:
    ran = bake("push", "tiny@v1", reference(registry))

    assert "sent 0 layers (0 B), 3 were there" in ran.err
    assert {request.method for request in registry.requests} == {"GET", "HEAD"}
    assert registry.lines("GET *") == []


def test_a_second_push_reads_nothing(pushed: Place, bake: Bake, registry: FakeRegistry) -> None:
    shutil.rmtree(pushed.root / "m")

    assert bake("-q", "push", "tiny@v1", reference(registry)).code == 0


def test_the_lock_alone_knows_what_need_not_be_sent(pushed: Place, bake: Bake, registry: FakeRegistry) -> None:
    shutil.rmtree(pushed.root / "m")
    shutil.rmtree(pushed.store)

    assert bake("-q", "push", "tiny@v1", reference(registry)).code == 0
    assert weights_sent(registry) == 0


def test_a_shard_that_changed_is_sent_alone(place: Place, bake: Bake, registry: FakeRegistry) -> None:
    folder = place.add_large_model(LARGE, LARGE)
    bake("-q", "add", "tiny@v1", "dir://m")
    bake("-q", "push", "tiny@v1", reference(registry))
    with (folder / "part-2.safetensors").open("r+b") as shard:
        shard.seek(4096)
        shard.write(b"trained")
    bake("-q", "add", "tiny@v2", "dir://m")
    registry.requests.clear()

    ran = bake("--json", "push", "tiny@v2", reference(registry, tag="v2"))

    assert ran.document["sent_layers"] == 2
    assert LARGE < weights_sent(registry) < LARGE + (1 << 20)
    assert faults_in(registry, tag="v2") == ()


@pytest.mark.usefixtures("pushed")
def test_another_repository_of_the_registry_has_it_mounted(bake: Bake, registry: FakeRegistry) -> None:
    ran = bake("--json", "push", "tiny@v1", reference(registry, name="org/other"))

    assert (ran.document["sent_layers"], ran.document["mounted_layers"]) == (1, 2)
    assert faults_in(registry, name="org/other") == ()


def test_what_was_to_be_mounted_and_is_gone_is_sent(pushed: Place, bake: Bake, registry: FakeRegistry) -> None:
    registry.blobs[NAME].clear()

    ran = bake("--json", "push", "tiny@v1", reference(registry, name="org/other"))

    assert (ran.document["sent_layers"], ran.document["mounted_layers"]) == (3, 0)
    assert faults_in(registry, name="org/other") == ()
    assert pushed.lock.exists()


def test_critic_and_actor_that_share_bytes_are_pushed(place: Place, bake: Bake, registry: FakeRegistry) -> None:
    place.add_model()
    bake("-q", "add", "value@v1", "dir://m")
    bake("-q", "add", "tiny@v1", "dir://m", "--critic", "value@v1")

    assert bake("-q", "push", "tiny@v1", reference(registry)).code == 0
    assert faults_in(registry) == ()


# --- from the Hub


def test_what_comes_from_the_hub_is_read_once_and_lands_nowhere(
    hub: FakeHub, place: Place, bake: Bake, registry: FakeRegistry
) -> None:
    hub.add_repo("org/large", {"config.json": b"{}", "model.safetensors": safetensors({"t": ("U8", [LARGE])})})
    bake("-q", "add", "tiny@v1", "hf://org/large")
    hub.requests.clear()

    assert bake("-q", "push", "tiny@v1", reference(registry)).code == 0

    assert [request.range for request in hub.requested("cdn/*")] == [None]
    assert size_of(place.store) + size_of(place.root.parent / "hf-home") < 1 << 20
    assert faults_in(registry) == ()


def test_the_lock_is_told_the_digests_that_were_learned(
    hub: FakeHub, place: Place, bake: Bake, registry: FakeRegistry
) -> None:
    bake("-q", "add", "tiny@v1", "hf://org/name")

    ran = bake("push", "tiny@v1", reference(registry))

    (model,) = parse(place.lock.read_text()).models
    layers = image_in(registry).manifest.layers
    assert [layer.diff_id for layer in model.layers] == [layer.digest for layer in layers[:-1]]
    assert ran.err.endswith("models.lock: layer digests recorded, commit it\n")
    assert len(hub.requested("cdn/*")) == 2


@pytest.mark.usefixtures("hub")
def test_frozen_leaves_the_lock_alone(place: Place, bake: Bake, registry: FakeRegistry) -> None:
    bake("-q", "add", "tiny@v1", "hf://org/name")
    lock = place.lock.read_bytes()

    assert bake("-q", "push", "tiny@v1", reference(registry), "--frozen").code == 0
    assert place.lock.read_bytes() == lock


def test_a_hub_that_breaks_off_is_gone_on_with_while_it_is_sent(
    hub: FakeHub, bake: Bake, registry: FakeRegistry
) -> None:
    hub.add_repo("org/large", {"config.json": b"{}", "model.safetensors": safetensors({"t": ("U8", [8 << 20])})})
    bake("-q", "add", "tiny@v1", "hf://org/large")
    hub.fault("cdn/*", cut=3 << 20)

    assert bake("-q", "push", "tiny@v1", reference(registry)).code == 0
    assert faults_in(registry) == ()
    assert len(registry.lines("PATCH *")) == 2


def test_the_hub_is_asked_for_the_rest_alone_where_the_upload_broke(
    hub: FakeHub, bake: Bake, registry: FakeRegistry
) -> None:
    hub.add_repo("org/large", {"config.json": b"{}", "model.safetensors": safetensors({"t": ("U8", [40 << 20])})})
    bake("-q", "add", "tiny@v1", "hf://org/large")
    hub.requests.clear()
    registry.fault("PATCH *", times=2, cut=35 << 20)

    assert bake("-q", "push", "tiny@v1", reference(registry)).code == 0
    first, again = hub.requested("cdn/*")
    assert first.range is None
    assert 32 << 20 <= int(str(again.range).strip("bytes=-")) <= 35 << 20
    assert faults_in(registry) == ()


def test_other_bytes_than_the_lock_s_are_never_named(hub: FakeHub, bake: Bake, registry: FakeRegistry) -> None:
    bake("-q", "add", "tiny@v1", "hf://org/name")
    registry.verifies = False
    altered = model_files()[FIRST][:-1] + b"\x08"
    hub.fault("cdn/*", times=9, body=altered)

    ran = bake("-q", "push", "tiny@v1", reference(registry))

    assert (ran.code, ran.out) == (6, "")
    assert registry.manifests.get(NAME, {}) == {}


def test_a_gated_model_whose_token_ran_out_is_told_as_by_build(
    hub: FakeHub, bake: Bake, registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add_repo("org/gated", model_files(), gated=True)
    monkeypatch.setenv("HF_TOKEN", hub.token)
    assert bake("-q", "add", "tiny@v1", "hf://org/gated").code == 0
    monkeypatch.delenv("HF_TOKEN")

    ran = bake("-q", "push", "tiny@v1", reference(registry))

    assert (ran.code, ran.out) == (4, "")
    assert registry.manifests.get(NAME, {}) == {}


# --- what is refused


def test_a_folder_that_changed_is_told_and_never_named(tiny: Place, bake: Bake, registry: FakeRegistry) -> None:
    shard = tiny.root / "m" / FIRST
    shard.write_bytes(shard.read_bytes()[:-1] + b"\x08")

    ran = bake("-q", "push", "tiny@v1", reference(registry))

    assert (ran.code, ran.out) == (6, "")
    assert ran.err.startswith(f"error: {FIRST}: expected sha256:")
    assert registry.manifests.get(NAME, {}) == {}


def test_a_lock_that_names_another_layer_is_told_and_nothing_is_named(
    tiny: Place, bake: Bake, registry: FakeRegistry
) -> None:
    (model,) = parse(tiny.lock.read_text()).models
    shutil.rmtree(tiny.store)
    tiny.write_lock(tiny.lock.read_text().replace(str(model.layers[-1].diff_id), f"sha256:{'1' * 64}"))

    ran = bake("-q", "push", "tiny@v1", reference(registry))

    assert (ran.code, ran.out) == (3, "")
    assert ran.err.startswith(f"error: tiny@v1: expected a layer of diff_id sha256:{'1' * 64}, found sha256:")
    assert tags_in(registry) == []


def test_a_token_in_a_small_file_is_found_and_never_named(place: Place, bake: Bake, registry: FakeRegistry) -> None:
    folder = place.add_model()
    (folder / "notes.txt").write_text(f"token: {TOKEN}")
    assert bake("-q", "add", "tiny@v1", "dir://m").code == 0

    ran = bake("-q", "push", "tiny@v1", reference(registry))

    assert (ran.code, ran.out) == (1, "")
    assert re.match(r"error: a token lies in layer sha256:\w{64} \(tiny@v1: config.json and 2 more\)\n", ran.err)
    assert TOKEN not in ran.err
    assert all(TOKEN.encode() not in content for content in registry.blobs.get(NAME, {}).values())
    assert registry.manifests.get(NAME, {}) == {}


@pytest.mark.usefixtures("tiny")
def test_offline_is_refused(bake: Bake, registry: FakeRegistry) -> None:
    to = reference(registry)

    assert bake("--offline", "push", "tiny@v1", to) == Ran(
        4,
        "",
        error(f"{to} is in a registry, and --offline allows no network", hint="run it without --offline"),
    )


@pytest.mark.usefixtures("tiny")
def test_buildkit_does_not_build_into_a_registry(bake: Bake, registry: FakeRegistry) -> None:
    assert bake("build", "tiny@v1", "--builder", "docker", "--to", reference(registry)) == Ran(
        2,
        "",
        error(
            "--builder docker builds into Docker or a layout, and not into a registry",
            hint="leave out --builder docker: both builders make the same layers",
        ),
    )


def test_a_model_that_is_not_in_the_lock(place: Place, bake: Bake, registry: FakeRegistry) -> None:
    place.add_model()

    assert bake("push", "tiny@v1", reference(registry)).code == 3
    assert registry.requests == []


@pytest.mark.usefixtures("tiny")
def test_an_image_by_digest_is_no_place_to_push_to(bake: Bake, registry: FakeRegistry) -> None:
    to = f"{registry.host}/{NAME}@sha256:{'0' * 64}"

    assert bake("push", "tiny@v1", to) == Ran(
        2,
        "",
        error(
            f"not a place to push to: {to!r}: its digest is that of an image which is there",
            hint=f"give a tag: {registry.host}/{NAME}:v1",
        ),
    )


# --- what --to means


@pytest.mark.parametrize(
    ("to", "output"),
    [
        ("ghcr.io/org/name:v2", "registry:ghcr.io/org/name:v2"),
        ("ghcr.io/org/name", "registry:ghcr.io/org/name:v1"),
        ("localhost/name", "registry:localhost/name:v1"),
        ("registry:5000/name", "registry:registry:5000/name:v1"),
        ("docker:5000/name:v2", "registry:docker:5000/name:v2"),
        ("[::1]:5000/name", "registry:[::1]:5000/name:v1"),
        ("registry:ghcr.io/org/name", "registry:ghcr.io/org/name:v1"),
        ("registry:org/name", "registry:docker.io/org/name:v1"),
        ("docker.io/name", "registry:docker.io/library/name:v1"),
        ("docker:ghcr.io/org/name:v2", "docker:ghcr.io/org/name:v2"),
        ("oci:ghcr.io/org/name", "oci:ghcr.io/org/name"),
    ],
)
def test_a_reference_begins_with_its_host(place: Place, to: str, output: str) -> None:
    workspace = Workspace(path=place.lock, store=Store(place.store), progress=Silent(sys.stderr))

    assert str(choose_output(workspace, ModelId("tiny", "v1"), to)) == output


@pytest.mark.parametrize("to", ["dist/image", "./image", "../image.d", "/data/image.d", "image:v1"])
@pytest.mark.usefixtures("tiny")
def test_what_may_be_a_path_is_pushed_nowhere(bake: Bake, to: str) -> None:
    assert bake("build", "tiny@v1", "--to", to) == Ran(
        2,
        "",
        error(
            "--to: expected a reference with its host (ghcr.io/org/llama3-8b:v1.0.0), docker, docker:REPOSITORY:TAG "
            f"or oci:PATH, found {to!r}",
            hint=f"--to oci:{to} for a folder; a reference of Docker Hub begins with docker.io/",
        ),
    )


@pytest.mark.usefixtures("tiny")
def test_a_url_is_told_to_be_no_reference(bake: Bake) -> None:
    assert bake("build", "tiny@v1", "--to", "https://ghcr.io/org/name") == Ran(
        2, "", error("not a reference: 'https://ghcr.io/org/name': it is a URL", hint="leave out https://")
    )
