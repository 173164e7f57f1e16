"""verify, pull, plan and rebase against a real registry, of images that bake, BuildKit and `docker push` put there."""

from __future__ import annotations

import pytest

from bake.layout import Layout
from bake.registry import Reference, Registry, reopened
from tests.cli.place import error, files_below
from tests.entrypoint.files import model_files
from tests.integration.engine import DOCKER, Shop, run_container

pytestmark = DOCKER


def reference(shop: Shop, registry: str, *, tag: str = "v1") -> str:
    return f"{registry}/{shop.name}/tiny:{tag}"


def push_base(shop: Shop, registry: str, name: str, *, env: str = "A=b") -> str:
    """A base with Python in the registry; returns what it is called there."""
    base = f"{registry}/{shop.name}/{name}:1"
    dockerfile = f"FROM {shop.engine.base}\nENV {env}\n"
    shop.engine.docker("build", "-q", "-t", base, "-", stdin=dockerfile.encode())
    shop.engine.docker("push", "-q", base)
    return base


@pytest.fixture
def pushed(containerd_shop: Shop, registry: str) -> Shop:
    """A model on a base of the registry, pushed by bake."""
    containerd_shop.add(base=push_base(containerd_shop, registry, "base"))
    containerd_shop.do("push", containerd_shop.model, reference(containerd_shop, registry))
    return containerd_shop


@pytest.mark.parametrize("level", ["quick", "full"])
def test_what_bake_pushed_is_as_its_record(pushed: Shop, registry: str, level: str) -> None:
    ran = pushed.do("--json", "verify", reference(pushed, registry), "--level", level)

    assert (ran.document["ok"], ran.document["unread_layers"]) == (True, 0)


def test_what_bake_pushed_is_pulled_by_bake(pushed: Shop, registry: str) -> None:
    pushed.do("pull", reference(pushed, registry), "out")

    assert files_below(pushed.root / "out") == model_files()


def test_the_digest_that_a_plan_tells_is_that_of_the_push(containerd_shop: Shop, registry: str) -> None:
    shop = containerd_shop
    shop.add(base=push_base(shop, registry, "base"))
    where = reference(shop, registry)
    planned = shop.do("--json", "plan", shop.model, "--to", where).document["push"]

    pushed = shop.do("--json", "push", shop.model, where).document

    after = shop.do("--json", "plan", shop.model, "--to", where).document["push"]
    assert planned["digest"] == pushed["digest"] == after["digest"]
    assert (after["is_there"], after["upload"], {layer["arrival"] for layer in after["layers"]}) == (True, 0, {"there"})


def test_a_rebased_image_runs_on_its_new_base(pushed: Shop, registry: str) -> None:
    shop = pushed
    other = push_base(shop, registry, "other", env="REBASED=yes")
    shop.lock.write_text(f'{shop.lock.read_text()}\n[base.other]\nimage = "{other}"\n')
    shop.do("lock", "-q")

    ran = shop.do("--json", "rebase", reference(shop, registry), "--base", "other")

    image = ran.document["reference"].partition("@")[0]
    shop.engine.docker("pull", "-q", image)
    assert ran.document["sent_weight_bytes"] == 0
    assert shop.engine.config(image)["Env"]["REBASED"] == "yes"
    assert run_container(shop.engine, image, "verify", "--level", "full").code == 0


def test_what_docker_pushed_is_read_too(shop: Shop, registry: str) -> None:
    """The classic image store compresses every layer on its way; the containerd store sends them as they are."""
    where = reference(shop, registry)
    shop.add()
    shop.do("build", shop.model, "--to", f"docker:{where}")
    shop.engine.docker("push", "-q", where)

    seen = shop.do("--json", "verify", where).document["models"][0]["seen"]
    full = shop.do("--json", "verify", where, "--level", "full").document["models"][0]["seen"]
    shop.do("pull", where, "out")

    assert (seen, full) == (shop.engine.store == "containerd", True)
    assert files_below(shop.root / "out") == model_files()


def test_an_image_that_buildkit_built_has_its_weights_compressed_and_says_so(
    containerd_shop: Shop, registry: str
) -> None:
    shop = containerd_shop
    where = reference(shop, registry)
    shop.add(base=push_base(shop, registry, "base"))
    shop.do("build", shop.model, "--to", f"docker:{where}", "--builder", "docker")
    shop.engine.docker("push", "-q", where)

    ran = shop.run("rebase", where)

    assert (ran.code, ran.err) == (
        8,
        error(
            f"{where}: its weights are in layers that are compressed, or not as bake packs them",
            hint=f"make it anew: bake push {shop.model} {where}",
        ),
    )


def test_one_whose_layers_buildkit_left_as_they_are_is_rebased(containerd_shop: Shop, registry: str) -> None:
    """It has an empty layer on top, of its WORKDIR, which is left behind."""
    shop = containerd_shop
    where = reference(shop, registry)
    shop.add(base=push_base(shop, registry, "base"))
    shop.do("build", shop.model, "--to", "oci:buildkit", "--builder", "docker")
    push_layout(Layout(shop.root / "buildkit"), where)

    assert shop.do("--json", "verify", where, "--level", "full").document["ok"]
    ran = shop.do("--json", "rebase", where)

    assert ran.document["sent_weight_bytes"] == 0
    assert shop.do("--json", "plan", shop.model, "--to", where).document["push"]["is_there"]


def push_layout(layout: Layout, where: str) -> None:
    """Push an image as it lies in a layout."""
    image = layout.image()
    with Registry.open(Reference.parse(where), access="push") as opened:
        for blob in (*image.manifest.layers, image.manifest.config):
            opened.push_blob(blob, reopened(lambda digest=blob.digest: layout.open(digest)))  # type: ignore[misc]
        opened.put_manifest(layout.blob(image.descriptor.digest).read_bytes(), media_type=image.descriptor.media_type)
