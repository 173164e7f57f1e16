"""Where an image goes: what bake replaces, and what it leaves alone."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from bake.digest import Digest
from bake.lock import Lock, LockedModel, ModelId
from bake.lock.dump import dumps
from bake.record import RecordedFile
from tests.cli.place import Bake, Place, Ran, error, files_below, whole
from tests.cli.users import NOBODY, free, needs_root
from tests.entrypoint.files import safetensors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.hub_server import FakeHub

ELSEWHERE = "give another path, as --to oci:PATH, or remove it"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "none", disk], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount a small disk: {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", disk], check=True)


@pytest.mark.parametrize(
    "name", ["plain", "with space", "it's", 'a "quote"', "Größe-模型", "-dash", "a:b@c", "%s", "$HOME", "deep/er/still"]
)
def test_any_path_will_do(tiny: Place, bake: Bake, name: str) -> None:
    ran = bake("-q", "build", "tiny@v1", "--to", f"oci:{name}")

    assert (ran.code, ran.out.rpartition("@")[0]) == (0, f"oci:{name}")
    assert whole(tiny.root / name) == ()


@pytest.mark.parametrize("name", ["plain", "with space", "Größe-模型"])
@pytest.mark.usefixtures("tiny")
def test_what_build_prints_can_be_verified(bake: Bake, name: str) -> None:
    reference = bake("-q", "build", "tiny@v1", "--to", f"oci:{name}").out.strip()

    assert bake("-q", "verify", reference, "--level", "full").code == 0


@pytest.mark.parametrize("to", ["dist/x", "docker:x", "oci:", ""])
@pytest.mark.usefixtures("tiny")
def test_a_place_of_another_kind_is_refused(bake: Bake, to: str) -> None:
    ran = bake("build", "tiny@v1", "--to", to)

    assert (ran.code, ran.out) == (2, "")
    assert re.fullmatch(rf"error: --to: expected .*, found {re.escape(repr(to))}\nhint: --to .*\n", ran.err)


@pytest.mark.usefixtures("tiny")
def test_name_and_version_stand_for_the_model_s(bake: Bake) -> None:
    ran = bake("-q", "build", "tiny@v1", "--to", "oci:images/{name}/{version}")

    assert (ran.code, ran.out.partition("@")[0]) == (0, "oci:images/tiny/v1")


@pytest.mark.parametrize(
    ("to", "found"), [("oci:{tag}", "{tag}"), ("oci:{name", "{"), ("oci:name}", "}"), ("ghcr.io/org/{}", "{}")]
)
@pytest.mark.usefixtures("tiny")
def test_an_unknown_placeholder_is_refused(bake: Bake, to: str, found: str) -> None:
    assert bake("build", "tiny@v1", "--to", to) == Ran(
        2,
        "",
        error(
            f"unknown placeholder {found!r} in {to!r}",
            hint="{name} and {version} stand for the model's; other braces cannot be in it",
        ),
    )


@pytest.fixture
def two(tiny: Place, bake: Bake) -> Place:
    """`tiny@v1` and `tiny@v2` in the lock."""
    assert bake("-q", "add", "tiny@v2", "dir://m").code == 0
    return tiny


@pytest.mark.parametrize("to", ["oci:x", "oci:x/{name}", "oci:./x/../x", "docker:org/{name}:latest"])
def test_two_models_in_one_place_are_refused_before_anything_is_built(two: Place, bake: Bake, to: str) -> None:
    ran = bake("build", "tiny@v1", "tiny@v2", "--to", to)

    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: --to: tiny@v1 and tiny@v2 would both go to ")
    assert not (two.root / "x").exists()


@pytest.mark.usefixtures("two")
def test_another_revision_might_choose_the_other_so_all_must_go_apart(bake: Bake) -> None:
    ran = bake("build", "--changed-since", "0" * 40, "--max-size", "1B", "--to", "oci:x")

    assert ran == Ran(
        2,
        "",
        error("--to: tiny@v1 and tiny@v2 would both go to oci:x", hint="--to 'oci:dist/{name}/{version}'"),
    )


def test_two_models_may_have_one_default_folder_and_that_is_told(tiny: Place, bake: Bake) -> None:
    bake("-q", "add", "a-b@c", "dir://m")
    bake("-q", "add", "a@b-c", "dir://m")

    ran = bake("build", "a-b@c", "a@b-c")

    assert (ran.code, ran.err.splitlines()[0]) == (
        2,
        "error: --to: a-b@c and a@b-c would both go to oci:dist/a-b-c",
    )
    assert not (tiny.root / "dist").exists()


def test_a_file_in_the_way_stays(tiny: Place, bake: Bake) -> None:
    (tiny.root / "out").write_text("mine")

    ran = bake("-q", "build", "tiny@v1", "--to", "oci:out")

    assert (ran.code, ran.out) == (7, "")
    assert (tiny.root / "out").read_text() == "mine"


def test_a_foreign_folder_stays(tiny: Place, bake: Bake) -> None:
    (tiny.root / "out").mkdir()
    (tiny.root / "out" / "file").write_text("mine")

    ran = bake("-q", "build", "tiny@v1", "--to", "oci:out")

    assert (ran.code, ran.err) == (7, error("out exists and is no OCI layout", hint=ELSEWHERE))
    assert files_below(tiny.root / "out") == {"file": b"mine"}


def test_an_empty_folder_is_filled(tiny: Place, bake: Bake) -> None:
    (tiny.root / "out").mkdir()

    assert bake("-q", "build", "tiny@v1", "--to", "oci:out").code == 0


def test_another_model_s_image_stays(built: Place, bake: Bake) -> None:
    bake("-q", "add", "tiny@v2", "dir://m")
    before = files_below(built.root / "dist")

    ran = bake("-q", "build", "tiny@v2", "--to", "oci:dist/tiny-v1")

    assert (ran.code, ran.err) == (
        7,
        error("dist/tiny-v1 holds another image, tiny@v1, not tiny@v2", hint=ELSEWHERE),
    )
    assert files_below(built.root / "dist") == before


def test_an_image_of_someone_else_stays(built: Place, bake: Bake) -> None:
    index = built.root / "dist" / "tiny-v1" / "index.json"
    index.write_text(index.read_text().replace('"dev.bake.model":"tiny@v1",', ""))
    before = files_below(built.root / "dist")

    assert bake("-q", "build", "tiny@v1").code == 7
    assert files_below(built.root / "dist") == before


def test_an_older_image_of_the_same_model_is_replaced_whole(built: Place, bake: Bake) -> None:
    (built.root / "m" / "config.json").write_text('{"model_type": "qwen2"}')
    bake("-q", "lock", "--upgrade", "tiny@v1")

    assert bake("-q", "build", "tiny@v1").code == 0
    assert whole(built.root / "dist" / "tiny-v1") == ()
    assert len(list((built.root / "dist" / "tiny-v1" / "blobs" / "sha256").iterdir())) == 5


def test_a_failed_build_leaves_the_older_image(built: Place, bake: Bake) -> None:
    before = files_below(built.root / "dist")
    (built.root / "m" / "config.json").write_text('{"model_type": "qwen2"}')
    bake("-q", "lock", "--upgrade", "tiny@v1")
    (built.root / "m" / "config.json").write_text('{"model_type": "other"}')
    shutil.rmtree(built.store)

    assert bake("-q", "build", "tiny@v1").code == 6
    assert files_below(built.root / "dist") == before
    assert whole(built.root / "dist" / "tiny-v1") == ()


def test_a_failed_build_leaves_nothing_where_nothing_was(tiny: Place, bake: Bake) -> None:
    (tiny.root / "m" / "config.json").write_text("{}")

    assert bake("-q", "build", "tiny@v1").code == 6
    assert not (tiny.root / "dist").exists()


@pytest.mark.usefixtures("tiny")
def test_no_space_is_told(bake: Bake, small_disk: Path) -> None:
    (small_disk / "filler").write_bytes(bytes(60 << 10))

    ran = bake("-q", "build", "tiny@v1", "--to", f"oci:{small_disk}/out")

    assert (ran.code, ran.out) == (7, "")
    assert ran.err.startswith("error: no space ")
    assert not (small_disk / "out" / "index.json").exists()


def test_no_space_is_foreseen(place: Place, bake: Bake, small_disk: Path) -> None:
    place.add_large_model(65 << 20)
    place.lock.write_text(place.lock.read_text())
    bake("-q", "add", "big@v1", "dir://m")

    ran = bake("-q", "build", "big@v1", "--to", f"oci:{small_disk}/out")

    assert (ran.code, ran.out) == (7, "")
    assert ran.err.startswith(f"error: no space to write {small_disk}/out: 68.2 MB needed, ")


def test_fetched_files_are_counted_on_the_store_s_disk(
    hub: FakeHub, place: Place, bake: Bake, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add_repo("org/name", {"config.json": b"{}", "model.safetensors": safetensors({"t": ("U8", [300_000])})})
    monkeypatch.setenv("BAKE_CACHE", str(small_disk / "store"))
    assert bake("-q", "add", "tiny@v1", "hf://org/name").code == 0
    hub.requests.clear()

    ran = bake("-q", "build", "tiny@v1")

    assert (ran.code, ran.out) == (7, "")
    assert ran.err.startswith(f"error: no space to write {small_disk}/store: 300.1 kB needed, ")
    assert hub.requests == []
    assert not (place.root / "dist").exists()


def test_layers_and_fetched_files_are_counted_together_on_one_disk(hub: FakeHub, place: Place, bake: Bake) -> None:
    """A model of 3 PB: no disk has so much, and nothing is fetched to find that out."""
    weights = RecordedFile(path="model.safetensors", size=3 * 10**15, digest=Digest.of(b"weights"))
    model = LockedModel(id=ModelId("tiny", "v1"), source="hf://org/name")
    model = model.resolve(files=[weights], excluded=(), commit="0" * 40)
    place.write_lock(dumps(Lock(models=(model,))))

    ran = bake("-q", "build", "tiny@v1")

    assert (ran.code, ran.out) == (7, "")
    assert ran.err.startswith(f"error: no space to write {place.root}/dist/tiny-v1: 6.0 PB needed, ")
    assert ran.err.endswith(
        " free\nhint: free some, or name another place with --to oci:PATH; bake cache prune empties the store\n"
    )
    assert hub.requests == []


def test_no_space_for_the_store_is_told(place: Place, small_disk: Path) -> None:
    place.add_model()
    (small_disk / "filler").write_bytes(bytes(64 << 10))

    ran = place.run("-q", "add", "tiny@v1", "dir://m", environ={"BAKE_CACHE": str(small_disk / "store")})

    assert (ran.code, ran.out) == (7, "")
    assert ran.err.startswith("error: no space left to write ")
    assert place.lock.read_text() == "version = 1\n"


@needs_root
def test_a_folder_of_someone_else_is_told(tiny: Place, tmp_path: Path) -> None:
    (tiny.root / "out").mkdir(mode=0o755)

    ran = tiny.run(
        "-q", "build", "tiny@v1", "--frozen", "--to", "oci:out/x", before=NOBODY, environ={"BAKE_CACHE": free(tmp_path)}
    )

    assert (ran.code, ran.out) == (7, "")
    assert ran.err == error("cannot write out/x: permission denied", hint="check who owns the folder")


@needs_root
def test_a_store_of_someone_else_is_told(tiny: Place) -> None:

    ran = tiny.run("-q", "lock", "tiny@v1", before=NOBODY)

    assert (ran.code, ran.out) == (7, "")
    assert "permission denied" in ran.err


@needs_root
def test_a_lock_of_someone_else_stays(tiny: Place, tmp_path: Path) -> None:
    before = tiny.lock.read_bytes()

    ran = tiny.run("-q", "add", "b@v1", "dir://m", before=NOBODY, environ={"BAKE_CACHE": free(tmp_path)})

    assert (ran.code, ran.out) == (7, "")
    assert tiny.lock.read_bytes() == before
