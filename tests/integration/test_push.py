"""`bake push` into a real registry: Docker pulls and runs what is there, skopeo reads it, and a kill breaks no tag."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import tarfile
import time
from typing import TYPE_CHECKING

from bake.digest import Digest
from bake.errors import ImageError
from bake.registry import Reference, Registry
from tests.cli.place import files_below
from tests.entrypoint.files import model_files, safetensors
from tests.integration.engine import DOCKER, Shop, run_container
from tests.needs import program

if TYPE_CHECKING:
    from pathlib import Path

    from tests.hub_server import FakeHub

pytestmark = DOCKER

LARGE = 66 << 20


def push_base(shop: Shop, registry: str) -> str:
    """The engine's base with Python in the registry; returns its reference."""
    name = f"{registry}/{shop.name}/base:v1"
    shop.engine.docker("tag", shop.engine.base, name)
    shop.engine.docker("push", "-q", name)
    return name


def where(shop: Shop, registry: str, *, tag: str = "v1") -> str:
    return f"{registry}/{shop.name}/tiny:{tag}"


def whole_tags(reference: str) -> dict[str, bool]:
    """Every tag of a repository, and whether the registry has each blob of its image."""
    with Registry.open(Reference.parse(reference), access="pull") as registry:
        try:
            tags = registry.tags()
        except ImageError:  # no manifest was put there yet
            return {}
    return {tag: is_whole(reference, tag) for tag in tags}


def is_whole(reference: str, tag: str) -> bool:
    with Registry.open(Reference.parse(f"{reference.rpartition(':')[0]}:{tag}"), access="pull") as registry:
        image = registry.image()
        return all(registry.has_blob(blob) for blob in (image.manifest.config, *image.manifest.layers))


def size_of(folder: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


def test_docker_pulls_and_runs_what_was_pushed(shop: Shop, registry: str) -> None:
    shop.add(base=push_base(shop, registry))

    pushed = shop.do("push", shop.model, where(shop, registry), "-q").out.strip()
    shop.engine.docker("pull", "-q", pushed)

    assert run_container(shop.engine, pushed, "verify", "--level", "full").code == 0
    assert pushed.replace(":v1@", "@") in shop.engine.client.images.get(pushed).attrs["RepoDigests"]


def test_the_next_line_that_is_told_can_be_typed(shop: Shop, registry: str) -> None:
    shop.add(base=push_base(shop, registry))

    told = shop.do("push", shop.model, where(shop, registry)).err.splitlines()[-1]

    pushed = told.split()[-2]
    assert told == f"next: docker run --rm --gpus all --shm-size 10g {pushed} data.train_files=…"
    assert run_container(shop.engine, pushed, "verify").code == 0


def test_a_base_of_the_same_registry_moves_no_byte(containerd_shop: Shop, registry: str) -> None:
    containerd_shop.add(base=push_base(containerd_shop, registry))

    document = containerd_shop.do("push", containerd_shop.model, where(containerd_shop, registry), "--json").document

    assert document["mounted_layers"] == document["layers"] - document["sent_layers"] > 0
    assert document["sent_bytes"] < 1 << 20


def test_skopeo_reads_it_and_copies_it_whole(containerd_shop: Shop, registry: str, tmp_path: Path) -> None:
    containerd_shop.add(base=push_base(containerd_shop, registry))
    pushed = containerd_shop.do("push", containerd_shop.model, where(containerd_shop, registry), "-q").out.strip()

    found = json.loads(skopeo("inspect", "--tls-verify=false", f"docker://{where(containerd_shop, registry)}"))
    skopeo(
        "copy", "-q", "--src-tls-verify=false", f"docker://{where(containerd_shop, registry)}", f"oci:{tmp_path}/copy"
    )

    assert found["Digest"] == pushed.rpartition("@")[2]
    assert found["Labels"]["dev.bake.model"] == containerd_shop.model
    assert {"v1"} < set(found["RepoTags"])
    assert containerd_shop.do("verify", f"oci:{tmp_path}/copy", "--level", "full").code == 0


def skopeo(*words: str) -> str:
    return subprocess.run([program("skopeo"), *words], check=True, capture_output=True, text=True).stdout


def test_crane_finds_the_image_well_formed_and_reads_its_files(
    containerd_shop: Shop, registry: str, tmp_path: Path
) -> None:
    shop, reference = containerd_shop, where(containerd_shop, registry)
    shop.add(base=push_base(shop, registry))

    pushed = shop.do("push", shop.model, reference, "-q")

    assert crane("validate", "--fast", "--remote", reference) == f"PASS: {reference}\n"
    assert digests_by_crane(reference) == {pushed.digest}
    assert files_by_crane(reference, f"opt/models/{shop.name}", tmp_path) == model_files()


def test_crane_finds_a_rebased_image_well_formed_in_every_byte(
    containerd_shop: Shop, registry: str, tmp_path: Path
) -> None:
    """What crane 0.20 validates is what it pulled before: of a remote image it takes every layer for gzip.

    See google/go-containerregistry#1826. Pulling proves each layer's digest, and validating its diff_id.
    """
    shop, reference, archive = containerd_shop, where(containerd_shop, registry), tmp_path / "pulled.tar"
    shop.add(base=push_base(shop, registry))
    before = shop.do("push", shop.model, reference, "-q")

    rebased = shop.do("rebase", reference, "--base", "scratch", "-q")
    crane("pull", reference, str(archive))

    assert rebased.digest != before.digest
    assert digests_by_crane(reference) == {rebased.digest}
    assert crane("validate", "--fast", "--remote", reference) == f"PASS: {reference}\n"
    assert crane("validate", "--tarball", str(archive)) == f"PASS: {archive}\n"


def digests_by_crane(reference: str) -> set[str]:
    """The digest that crane names, and that of the manifest which it shows: one, if all is well."""
    shown = subprocess.run([program("crane"), "manifest", reference], check=True, capture_output=True).stdout
    return {crane("digest", reference).strip(), str(Digest.of(shown))}


def files_by_crane(reference: str, path: str, folder: Path) -> dict[str, bytes]:
    """The files below a path in the root file system that crane makes of an image."""
    crane("export", reference, str(folder / "root.tar"))
    with tarfile.open(folder / "root.tar") as archive:
        archive.extractall(folder, filter="tar", members=[info for info in archive if info.name.startswith(path)])
    return files_below(folder / path)


def crane(*words: str) -> str:
    return subprocess.run([program("crane"), *words], check=True, capture_output=True, text=True).stdout


def test_it_is_the_image_that_is_built_into_a_layout(containerd_shop: Shop, registry: str) -> None:
    containerd_shop.add(base=push_base(containerd_shop, registry))

    pushed = containerd_shop.do("push", containerd_shop.model, where(containerd_shop, registry), "-q")
    built = containerd_shop.do("build", containerd_shop.model, "--to", "oci:dist/tiny", "-q")

    assert pushed.digest == built.digest
    assert containerd_shop.do("verify", "oci:dist/tiny", "--level", "full").code == 0


def test_from_the_hub_nothing_lands_on_the_disk(containerd_shop: Shop, registry: str, hub: FakeHub) -> None:
    shop = containerd_shop
    shards = {f"model-{number}.safetensors": safetensors({f"t{number}": ("U8", [LARGE])}) for number in range(3)}
    hub.add_repo("org/large", {"config.json": b'{"model_type": "llama"}', **shards})
    shop.environ["HF_ENDPOINT"] = hub.endpoint
    shop.write_lock()
    shop.do("add", shop.model, "hf://org/large", "--base", "scratch")

    shop.do("push", shop.model, where(shop, registry))

    assert size_of(shop.root.parent) < 16 << 20
    assert shop.do("verify", where(shop, registry), "--level", "full").code == 0


def test_a_push_that_is_killed_again_and_again_breaks_no_tag(containerd_shop: Shop, registry: str) -> None:
    shop, reference = containerd_shop, where(containerd_shop, registry)
    content = random.Random(shop.name).randbytes(LARGE)
    shop.add({"config.json": b'{"model_type": "llama"}', "model.safetensors": safetensors_of(content)}, base=None)

    seen = [kill_a_push(shop, reference, after) for after in kills(12)]

    assert all(whole for tags in seen for whole in tags.values())
    assert shop.do("push", shop.model, reference).code == 0
    assert set(whole_tags(reference).values()) == {True}
    assert shop.do("verify", reference, "--level", "full").code == 0


def kills(count: int) -> list[float]:
    """Seconds after its start at which each push is killed."""
    chance = random.Random(3)
    return [chance.uniform(0.1, 0.8) for _ in range(count)]


def kill_a_push(shop: Shop, reference: str, after: float) -> dict[str, bool]:
    started = shop.start("push", shop.model, reference)
    time.sleep(after)
    started.send_signal(signal.SIGKILL)
    started.communicate()
    return whole_tags(reference)


def safetensors_of(content: bytes) -> bytes:
    """A right file whose one tensor has these bytes."""
    head = safetensors({"t": ("U8", [len(content)])})
    return head[: -len(content)] + content
