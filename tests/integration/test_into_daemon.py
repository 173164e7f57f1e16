"""`bake build --to docker`, by bake's own writer: what is sent, what is printed, what the daemon then has."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

from bake.layout import Layout
from tests.cli.test_bases import make_base
from tests.entrypoint.files import model_files
from tests.integration.engine import DOCKER, Shop, run_container

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = DOCKER


def sent_bytes(shop: Shop) -> int:
    return int(shop.do("build", shop.model, "--to", "docker", "--json").document["sent_bytes"])


def test_a_build_prints_the_reference_and_then_the_command_to_try(shop: Shop) -> None:
    shop.add()

    built = shop.build()

    made = shop.engine.id(shop.image)
    expected = shop.image if shop.engine.store == "classic" else f"{shop.image}@{made}"
    assert built.out == f"{expected}\n"
    assert f"{shop.model}: {made}, " in built.err
    assert built.err.endswith(f"next: docker run --rm --gpus all --shm-size 10g {shop.image} data.train_files=…\n")


def test_the_printed_reference_can_be_run(shop: Shop) -> None:
    shop.add()

    reference = shop.build().out.strip()

    assert run_container(shop.engine, reference, "verify").code == 0


def test_a_base_that_is_only_in_the_daemon_stays_below(shop: Shop) -> None:
    shop.add()

    shop.build()

    below = shop.engine.client.images.get(shop.engine.base).attrs["RootFS"]["Layers"]
    layers = shop.engine.client.images.get(shop.image).attrs["RootFS"]["Layers"]
    assert layers[: len(below)] == below
    assert len(layers) == len(below) + 3


def test_a_base_in_a_layout_is_what_the_image_runs_on(shop: Shop, base_layout: Path) -> None:
    shop.add(base=f"oci:{base_layout}")

    shop.build()

    assert run_container(shop.engine, shop.image, "verify", "--level", "full").code == 0


def test_a_base_in_a_layout_that_the_daemon_never_saw_is_sent_with_the_first_image(shop: Shop) -> None:
    make_base(shop.root / "base", shop.name.encode())
    shop.add(base="oci:base")

    shop.build()

    layers = shop.engine.client.images.get(shop.image).attrs["RootFS"]["Layers"]
    assert layers[0] == str(Layout(shop.root / "base").image().config.diff_ids[0])
    assert sent_bytes(shop) == 0


def test_an_image_on_scratch_holds_the_model_and_the_record(shop: Shop) -> None:
    shop.add(base=None)

    built = shop.build()

    found = {path.partition(": ")[2].rstrip("/") for path in shop.engine.files(shop.image, "/opt")}
    model = f"opt/models/{shop.name}"
    files = {f"{model}/{path}" for path in model_files()} | {"opt/bake/record.json"}
    assert found == {"opt", "opt/bake", "opt/models", model} | files
    assert "docker run" not in built.err


def test_a_second_build_sends_nothing(shop: Shop) -> None:
    shop.add()
    assert sent_bytes(shop) > 0
    before = shop.engine.id(shop.image)

    assert sent_bytes(shop) == 0
    assert shop.engine.id(shop.image) == before


def test_a_build_after_a_change_of_base_reads_no_weights(shop: Shop) -> None:
    shop.add()
    shop.build()
    changed = f"{shop.name}-base:v2"
    shop.engine.docker("build", "-q", "-t", changed, "-", stdin=f"FROM {shop.engine.base}\nENV NEW=1\n".encode())
    shop.lock.write_text(re.sub(r"(?m)^digest = .*\nimage = .*", f'image = "docker:{changed}"', shop.lock.read_text()))
    shop.do("lock", "-q")
    shutil.rmtree(shop.root / "m")

    shop.build()

    assert shop.engine.config(shop.image)["Env"]["NEW"] == "1"
    assert run_container(shop.engine, shop.image, "verify", "--level", "full").code == 0


def test_a_new_version_moves_the_name_of_the_old_one_nowhere(shop: Shop) -> None:
    shop.add()
    shop.build()
    old = shop.engine.id(shop.image)
    (shop.root / "m" / "config.json").write_text('{"model_type": "qwen2"}')
    shop.do("add", f"{shop.name}@v2", "dir://m", "-q")

    shop.do("build", f"{shop.name}@v2", "--to", "docker")

    assert shop.engine.id(shop.image) == old
    assert shop.engine.id(f"{shop.name}:v2") != old


def test_the_daemon_is_where_an_image_goes_if_it_answers(shop: Shop) -> None:
    shop.add()

    shop.do("build", shop.model)

    assert shop.engine.has(shop.image)
