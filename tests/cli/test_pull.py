"""bake pull: a model's files out of an image in a registry, without a daemon."""

from __future__ import annotations

import shutil
import signal
from typing import TYPE_CHECKING

import pytest

from tests.cli.place import Bake, Place, Ran, error, files_below, finish
from tests.cli.remote import NAME, compress_layers, put_layout, read_of, reference, spoil
from tests.entrypoint.files import INDEX, SECOND, model_files
from tests.registry.faults import PASSWORD, USER
from tests.registry.samples import encoded, write_config

if TYPE_CHECKING:
    from pathlib import Path

    from bake.image import Image
    from tests.registry.server import FakeRegistry


@pytest.fixture
def image(built: Place, registry: FakeRegistry) -> Image:
    """`tiny@v1` in the registry. There is no lock, no image and no model on this machine."""
    image = put_layout(registry, built.root / "dist" / "tiny-v1")
    shutil.rmtree(built.root / "m")
    shutil.rmtree(built.root / "dist")
    shutil.rmtree(built.store)
    built.lock.unlink()
    return image


@pytest.fixture
def large(place: Place, registry: FakeRegistry, bake: Bake) -> Image:
    """A model of shards of some MiB in the registry, and its source in `m`."""
    place.add_large_model(3 << 20, 2 << 20, 4 << 20)
    bake("-q", "add", "tiny@v1", "dir://m", "--base", "scratch")
    bake("-q", "build", "tiny@v1")
    shutil.rmtree(place.store)
    return put_layout(registry, place.root / "dist" / "tiny-v1")


@pytest.mark.usefixtures("image")
def test_the_model_s_files_and_nothing_else_are_written(place: Place, registry: FakeRegistry, bake: Bake) -> None:
    ran = bake("-q", "pull", reference(registry), "models/tiny")

    assert ran == Ran(0, "models/tiny\n", "")
    assert files_below(place.root) == {f"models/tiny/{path}": content for path, content in model_files().items()}


def test_what_was_pulled_is_told(registry: FakeRegistry, image: Image, bake: Bake) -> None:
    ran = bake("--json", "pull", f"registry:{reference(registry)}", "out")

    size = sum(map(len, model_files().values()))
    assert ran.document == {
        "model": "tiny@v1",
        "reference": f"{registry.host}/{NAME}@{image.descriptor.digest}",
        "folder": "out",
        "files": 4,
        "size": size,
        "fetched_files": 4,
        "fetched_bytes": size,
    }


def test_files_of_a_large_layer_are_fetched_and_what_lies_between_is_not(
    place: Place, registry: FakeRegistry, large: Image, bake: Bake
) -> None:
    assert bake("-q", "pull", reference(registry), "out").code == 0

    assert files_below(place.root / "out") == files_below(place.root / "m")
    fetched = sum(map(len, files_below(place.root / "out").values()))
    assert 0 < read_of(registry, large) - fetched <= large.manifest.layers[-1].size


# --- again


@pytest.mark.usefixtures("image")
def test_what_is_there_and_right_is_not_fetched_again(place: Place, registry: FakeRegistry, bake: Bake) -> None:
    bake("-q", "pull", reference(registry), "out")
    (place.root / "out" / SECOND).unlink()

    ran = bake("--json", "pull", reference(registry), "out")

    assert (ran.code, ran.document["fetched_files"]) == (0, 1)
    assert files_below(place.root / "out") == model_files()


def test_a_whole_folder_costs_no_weight_byte(registry: FakeRegistry, large: Image, bake: Bake) -> None:
    bake("-q", "pull", reference(registry), "out")
    before = read_of(registry, large)

    ran = bake("--json", "pull", reference(registry), "out")

    assert (ran.code, ran.document["fetched_files"]) == (0, 0)
    assert read_of(registry, large) - before == large.manifest.layers[-1].size


def test_a_file_that_broke_off_is_gone_on_with(place: Place, registry: FakeRegistry, large: Image, bake: Bake) -> None:
    weights = f"GET */blobs/{large.manifest.layers[1].digest}"
    registry.fault(weights, cut_answer=3 << 19)
    registry.fault(weights, status=500, times=1000)
    assert bake("-q", "pull", reference(registry), "out").code == 5
    left = sum(map(len, files_below(place.root / "out" / ".bake-partial").values()))
    registry.clear_faults()
    before = read_of(registry, large)

    assert bake("-q", "pull", reference(registry), "out").code == 0

    whole = sum(map(len, files_below(place.root / "m").values()))
    assert left >= 1 << 20
    assert read_of(registry, large) - before <= whole - left + large.manifest.layers[-1].size
    assert files_below(place.root / "out") == files_below(place.root / "m")


@pytest.mark.usefixtures("large")
def test_one_that_was_killed_is_completed_by_the_next(place: Place, registry: FakeRegistry, bake: Bake) -> None:
    registry.fault("GET */blobs/*", drip=1 << 10, times=100)
    started = place.start("pull", reference(registry), "out")
    wait_for(place.root / "out" / ".bake-partial")
    started.send_signal(signal.SIGKILL)
    finish(started)
    registry.clear_faults()

    assert bake("-q", "pull", reference(registry), "out").code == 0
    assert files_below(place.root / "out") == files_below(place.root / "m")


@pytest.mark.usefixtures("large")
def test_ctrl_c_ends_it_at_once_and_what_came_is_kept(place: Place, registry: FakeRegistry, bake: Bake) -> None:
    registry.fault("GET */blobs/*", drip=1 << 8, times=100)
    started = place.start("pull", reference(registry), "out")
    wait_for(place.root / "out" / ".bake-partial")
    started.send_signal(signal.SIGINT)
    ran = finish(started)
    registry.clear_faults()

    assert (ran.code, ran.err.splitlines()[-1]) == (130, "interrupted")
    assert bake("-q", "pull", reference(registry), "out").code == 0
    assert files_below(place.root / "out") == files_below(place.root / "m")


# --- the folder


@pytest.mark.usefixtures("image")
def test_a_folder_that_holds_something_else_is_refused(place: Place, registry: FakeRegistry, bake: Bake) -> None:
    (place.root / "out").mkdir()
    (place.root / "out" / "notes.txt").write_text("mine")

    ran = bake("-q", "pull", reference(registry), "out")

    assert ran == Ran(
        7,
        "",
        error(
            "out holds something else than tiny@v1:\n  notes.txt",
            hint="name a folder that is empty or does not exist; or remove these",
        ),
    )
    assert files_below(place.root) == {"out/notes.txt": b"mine"}


@pytest.mark.usefixtures("image")
def test_another_model_is_never_written_over(place: Place, registry: FakeRegistry, bake: Bake) -> None:
    (place.root / "out").mkdir()
    (place.root / "out" / "config.json").write_text("{}")
    (place.root / "out" / INDEX).write_bytes(model_files()[INDEX][:-1] + b"]")

    ran = bake("-q", "pull", reference(registry), "out")

    assert (ran.code, ran.err) == (
        7,
        error(
            f"out holds files of these names with other bytes than tiny@v1:\n  config.json\n  {INDEX}",
            hint="name a folder that is empty or does not exist; or remove these",
        ),
    )
    assert (place.root / "out" / "config.json").read_text() == "{}"


@pytest.mark.usefixtures("image")
def test_a_file_in_the_folder_s_place_is_refused(place: Place, registry: FakeRegistry, bake: Bake) -> None:
    (place.root / "out").write_text("mine")

    ran = bake("-q", "pull", reference(registry), "out")

    assert (ran.code, ran.err.splitlines()[0]) == (7, "error: out exists and is no folder")


@pytest.mark.usefixtures("large")
def test_space_is_checked_before_a_byte_is_fetched(
    registry: FakeRegistry, large: Image, bake: Bake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bake.disk.free_bytes", lambda _: 1000)

    ran = bake("-q", "pull", reference(registry), "out")

    assert (ran.code, ran.err.splitlines()[0]) == (7, "error: no space to write out: 9.4 MB needed, 1.0 kB free")
    assert read_of(registry, large) == large.manifest.layers[-1].size


# --- another model in it


@pytest.fixture
def critical(place: Place, registry: FakeRegistry, bake: Bake) -> None:
    """`tiny@v1`, with a critic baked into the same image."""
    place.add_model()
    place.add_large_model(5000, name="c")
    bake("-q", "add", "judge@v1", "dir://c", "--base", "scratch")
    bake("-q", "add", "tiny@v1", "dir://m", "--base", "scratch", "--critic", "judge@v1")
    assert bake("-q", "build", "tiny@v1").code == 0
    put_layout(registry, place.root / "dist" / "tiny-v1")


@pytest.mark.usefixtures("critical")
def test_the_critic_is_had_by_its_role(place: Place, registry: FakeRegistry, bake: Bake) -> None:
    assert bake("-q", "pull", reference(registry), "out", "--role", "critic").code == 0

    assert files_below(place.root / "out") == files_below(place.root / "c")


@pytest.mark.usefixtures("image")
def test_a_role_that_no_model_has_is_told(registry: FakeRegistry, bake: Bake) -> None:
    ran = bake("-q", "pull", reference(registry), "out", "--role", "critic")

    assert (ran.code, ran.err) == (
        8,
        error(
            f"{reference(registry)} holds no model for the role critic: it holds tiny@v1 (actor)", hint="--role actor"
        ),
    )


# --- faults


def test_wrong_bytes_are_told_and_not_kept(place: Place, registry: FakeRegistry, large: Image, bake: Bake) -> None:
    spoil(registry, large.manifest.layers[1].digest, bytes(1 << 20), b"\x01" * (1 << 20))

    ran = bake("-q", "pull", reference(registry), "out")

    assert (ran.code, ran.out) == (6, "")
    assert ran.err.startswith("error: part-1.safetensors: expected sha256:")
    assert "part-1.safetensors" not in files_below(place.root / "out")


def test_a_layer_that_is_gone_is_told_before_a_byte_is_fetched(
    place: Place, registry: FakeRegistry, large: Image, bake: Bake
) -> None:
    weights = large.manifest.layers[1].digest
    del registry.blobs[NAME][str(weights)]

    ran = bake("-q", "pull", reference(registry), "out")

    assert ran == Ran(
        8,
        "",
        error(
            f"{reference(registry)} is not whole:\n  layer {weights}: missing",
            hint=f"bake verify {reference(registry)}",
        ),
    )
    assert not (place.root / "out").exists()


@pytest.mark.usefixtures("large")
def test_cut_connections_and_an_expired_token_are_survived(
    place: Place, registry: FakeRegistry, docker_config: Path, bake: Bake
) -> None:
    registry.auth = "token"
    write_config(docker_config, auths={registry.host: encoded(USER, PASSWORD)})
    registry.fault("GET */blobs/*", cut_answer=1 << 20, skip=2, times=3)
    registry.fault("GET */blobs/*", expire=True)

    assert bake("-q", "pull", reference(registry), "out").code == 0
    assert files_below(place.root / "out") == files_below(place.root / "m")


@pytest.mark.usefixtures("image")
def test_offline_it_is_refused(registry: FakeRegistry, bake: Bake) -> None:
    ran = bake("-q", "--offline", "pull", reference(registry), "out")

    assert (ran.code, registry.requests) == (4, [])


def test_layers_that_docker_push_compressed_are_unpacked(
    place: Place, registry: FakeRegistry, image: Image, bake: Bake
) -> None:
    compress_layers(registry, image, tag="zipped")

    assert bake("-q", "pull", reference(registry, tag="zipped"), "out").code == 0
    assert files_below(place.root / "out") == model_files()


def test_a_compressed_layer_that_is_cut_short_is_told(
    place: Place, registry: FakeRegistry, image: Image, bake: Bake
) -> None:
    """Its digest is right: it was pushed so."""
    compress_layers(registry, image, tag="zipped", cut=40)

    ran = bake("-q", "pull", reference(registry, tag="zipped"), "out")

    written = {path: content for path, content in files_below(place.root / "out").items() if path[0] != "."}
    assert (ran.code, ran.out) == (8, "")
    assert "is no whole tar: " in ran.err
    assert written.items() <= model_files().items()


def wait_for(folder: Path) -> None:
    """Until something lies in a folder."""
    while not folder.is_dir() or not any(folder.iterdir()):
        pass
