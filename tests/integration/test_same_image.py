"""Both builders make the same image; and where BuildKit can be reproducible, the same layers to the byte."""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING

import pytest

from bake.digest import Digest
from bake.layout import Layout
from tests.cli.place import whole
from tests.entrypoint.files import model_files
from tests.integration.engine import DOCKER, Shop

if TYPE_CHECKING:
    from pathlib import Path

    from tests.hub_server import FakeHub

pytestmark = DOCKER

EMPTY = str(Digest.of(bytes(1024)))
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

NAMES = {
    "splittable": "deep/" * 12 + "d" * 60 + "/" + "m" * 90,
    "not splittable": "n" * 120 + ".json5",
    "long folder and long name": "deep/" * 12 + "d" * 100 + "/" + "m" * 101,
    "nested": "a/b/c/nested.txt",
    "a folder that sorts between files": "a/b.d/e.txt",
    "non-ASCII": "modèle/漢字.txt",
    "long and non-ASCII": "é" * 110 + ".txt",
    "spaces": "with  spaces .txt",
    "quotes": 'it\'s "quoted" `so`.txt',
    "dollar": "$HOME ${PATH} $(id) $$.txt",
    "exclamation mark": "a/!bang.txt",
    "leading dash": "-dash.txt",
    "leading dashes like a flag": "--chmod=0777.txt",
    "hash": "#hash.txt",
    "braces": "{{ x }} {% y %}.txt",
    "percent": "100%41.txt",
    "question and hash as in a URL": "a^b#c&d=e+f;g.txt",
    "heredoc": "<<EOF.txt",
    "comma and colon": "a,b:c@d.txt",
}
PATTERNS = {"glob": "[x]*?.txt", "a name that the glob would fit": "x1y.txt", "JSON": '["a", "b"].txt'}
"""Names that only a Hub's file may have: in a folder, BuildKit takes them for patterns."""


def odd(names: dict[str, str]) -> dict[str, bytes]:
    """A model with files of these names."""
    return model_files() | {name: secrets.token_bytes(8) for name in names.values()}


def both_layouts(shop: Shop) -> tuple[Layout, Layout]:
    """The image of a model as a layout by each builder."""
    shop.do("build", shop.model, "--to", "oci:direct", "-q")
    shop.do("build", shop.model, "--to", "oci:buildkit", "-q", "--builder", "docker")
    assert whole(shop.root / "direct") == whole(shop.root / "buildkit") == ()
    return Layout(shop.root / "direct"), Layout(shop.root / "buildkit")


def layers(layout: Layout) -> list[str]:
    return [str(layer.digest) for layer in layout.image().manifest.layers]


def from_hub(shop: Shop, hub: FakeHub) -> None:
    hub.add_repo("org/odd", odd(NAMES | PATTERNS))
    shop.environ["HF_ENDPOINT"] = hub.endpoint
    shop.do("add", shop.model, "hf://org/odd", "-q")


def test_layers_of_a_folder_on_scratch_have_the_same_digests(containerd_shop: Shop) -> None:
    containerd_shop.add(odd(NAMES), base=None)

    direct, buildkit = both_layouts(containerd_shop)

    assert layers(direct) == layers(buildkit)
    assert direct.image().config.labels == buildkit.image().config.labels
    assert {**direct.image().config.environment, "PATH": PATH} == buildkit.image().config.environment


def test_layers_of_a_hub_model_on_scratch_have_the_same_digests(containerd_shop: Shop, hub: FakeHub) -> None:
    containerd_shop.write_lock()
    from_hub(containerd_shop, hub)

    direct, buildkit = both_layouts(containerd_shop)

    assert layers(direct) == layers(buildkit)


def test_layers_on_a_base_have_the_same_digests(containerd_shop: Shop, base_layout: Path) -> None:
    """But for the base's own, which BuildKit dates anew, and for the empty one that it makes of WORKDIR."""
    containerd_shop.add(odd(NAMES), base=f"oci:{base_layout}")

    direct, buildkit = both_layouts(containerd_shop)

    below = len(Layout(base_layout).image().manifest.layers)
    assert [*layers(direct)[below:], EMPTY] == layers(buildkit)[below:]
    assert len(layers(direct)) == below + 3


def test_layers_of_a_critic_and_a_reward_model_have_the_same_digests(containerd_shop: Shop, hub: FakeHub) -> None:
    shop = containerd_shop
    shop.add(base=None)
    shop.environ["HF_ENDPOINT"] = hub.endpoint
    shop.do("add", "judge@v1", "hf://org/name", "-q")
    (shop.root / "c").mkdir()
    for name, content in model_files().items():
        (shop.root / "c" / name).write_bytes(content)
    shop.do("add", "critic@v1", "dir://c", "-q")
    shop.do("add", f"{shop.name}@v2", "dir://m", "--critic", "critic@v1", "--reward-model", "judge@v1", "-q")
    shop.do("build", f"{shop.name}@v2", "--to", "oci:direct", "-q")
    shop.do("build", f"{shop.name}@v2", "--to", "oci:buildkit", "-q", "--builder", "docker")

    assert layers(Layout(shop.root / "direct")) == layers(Layout(shop.root / "buildkit"))


@pytest.mark.parametrize(
    "name", ["[x]*?.txt", "a?.txt", "*", "a].txt", "!a.txt", " space.txt", "space.txt ", "folder/a\u00a0b.txt"]
)
def test_a_name_that_buildkit_cannot_copy_from_a_folder_is_refused(containerd_shop: Shop, name: str) -> None:
    containerd_shop.add(odd({"name": name}), base=None)

    ran = containerd_shop.run("build", containerd_shop.model, "-q", "--builder", "docker")

    assert (ran.code, ran.out) == (2, "")
    assert ran.err.endswith("hint: build with --builder direct, which has no such limit\n")


def test_images_in_the_daemon_have_the_same_files_and_start_the_same(shop: Shop) -> None:
    shop.add(odd(NAMES))
    shop.do("build", shop.model, "--to", f"docker:{shop.name}:direct", "-q")
    shop.do("build", shop.model, "--to", f"docker:{shop.name}:buildkit", "-q", "--builder", "docker")

    direct, buildkit = f"{shop.name}:direct", f"{shop.name}:buildkit"
    assert shop.engine.files(direct, "/opt", "/outputs") == shop.engine.files(buildkit, "/opt", "/outputs")
    assert shop.engine.config(direct) == shop.engine.config(buildkit)


def test_images_on_scratch_in_the_daemon_have_the_same_files(shop: Shop) -> None:
    shop.add(odd(NAMES), base=None)
    shop.do("build", shop.model, "--to", f"docker:{shop.name}:direct", "-q")
    shop.do("build", shop.model, "--to", f"docker:{shop.name}:buildkit", "-q", "--builder", "docker")

    direct, buildkit = f"{shop.name}:direct", f"{shop.name}:buildkit"
    assert shop.engine.files(direct, "/opt", "/models") == shop.engine.files(buildkit, "/opt", "/models")
    own = shop.engine.config(direct)
    own["Env"]["PATH"], own["WorkingDir"] = PATH, "/"  # BuildKit sets both where a base has none
    assert shop.engine.config(buildkit) == own


@pytest.mark.slow
@pytest.mark.skipif(
    os.environ.get("BAKE_TEST_HUGE") != "1",
    reason="a file over 8 GiB takes eight minutes and 45 GB of disk: BAKE_TEST_HUGE=1 runs it",
)
def test_a_file_over_8_gib_has_the_same_digest(containerd_shop: Shop) -> None:
    containerd_shop.add(base=None)
    with (containerd_shop.root / "m" / "tokenizer.model").open("wb") as stream:
        stream.truncate((8 << 30) + 4096)
    containerd_shop.do("lock", "--upgrade", containerd_shop.model, "-q")

    direct, buildkit = both_layouts(containerd_shop)

    assert layers(direct) == layers(buildkit)
