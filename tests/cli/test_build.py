"""bake build: what it makes, what it does not do twice, and what it refuses to put out."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from bake.layout import Layout
from bake.lock.parse import parse
from tests.cli.place import TINY, Bake, Place, Ran, error, files_below, finish, weight_layers, whole, without_layers
from tests.cli.users import NOBODY, free, needs_root
from tests.entrypoint.files import FIRST, model_files, shard, write

if TYPE_CHECKING:
    from pathlib import Path


def image_of(place: Place) -> Path:
    return place.root / "dist" / "tiny-v1"


def largest_blob(image: Path) -> Path:
    return max((image / "blobs" / "sha256").iterdir(), key=lambda blob: blob.stat().st_size)


def replace_bytes(path: Path, content: bytes) -> None:
    """Put another file in a file's place, as a copy from elsewhere would: other links to the old one keep it."""
    path.with_name("new").write_bytes(content)
    path.with_name("new").replace(path)


def test_an_image_is_whole_and_holds_the_model(place: Place, bake: Bake) -> None:
    shutil.copytree(TINY, place.root / "m")
    bake("-q", "add", "tiny@v1", "dir://m")

    ran = bake("-q", "build", "tiny@v1")

    image = Layout(image_of(place)).image()
    assert (ran.code, ran.digest) == (0, str(image.descriptor.digest))
    assert whole(image_of(place)) == ()
    assert image.config.environment["VERL_MODEL_PATH"] == "/opt/models/tiny"
    assert image.config.labels["dev.bake.model"] == "tiny@v1"
    assert bake("verify", "tiny@v1", "--level", "full").code == 0


def test_a_build_leaves_only_the_image(built: Place) -> None:
    blobs = {f"blobs/sha256/{blob.name}" for blob in (image_of(built) / "blobs" / "sha256").iterdir()}

    assert set(files_below(image_of(built))) == {"index.json", "oci-layout", *blobs}
    assert len(blobs) == 5
    assert sorted(path.name for path in built.root.iterdir()) == ["dist", "m", "models.lock"]


def test_a_second_build_reads_no_weight_byte(built: Place, bake: Bake) -> None:
    before = files_below(image_of(built))
    shutil.rmtree(built.root / "m")

    ran = bake("build", "tiny@v1")

    assert ran.code == 0
    assert "packed 0 layers (0 B), the others were there" in ran.err
    assert files_below(image_of(built)) == before


def test_a_layer_lies_in_image_and_store_as_one_file(built: Place) -> None:
    layer = largest_blob(image_of(built))

    assert layer.stat().st_nlink == 2
    assert layer.stat().st_mode & 0o777 == 0o444


def test_a_lock_without_layers_learns_them_and_gives_the_same_image(built: Place, bake: Bake) -> None:
    first, full = weight_layers(image_of(built)), built.lock.read_text()
    built.write_lock(without_layers(full))
    shutil.rmtree(image_of(built))
    shutil.rmtree(built.store)

    ran = bake("build", "tiny@v1")

    assert "models.lock: layer digests recorded, commit it" in ran.err.splitlines()
    assert (weight_layers(image_of(built)), built.lock.read_text()) == (first, full)


def test_frozen_writes_nothing_into_the_lock(tiny: Place, bake: Bake) -> None:
    tiny.write_lock(without_layers(tiny.lock.read_text()))
    before = tiny.lock.read_bytes()

    assert bake("-q", "build", "tiny@v1", "--frozen").code == 0
    assert tiny.lock.read_bytes() == before


def test_a_wrong_layer_digest_in_the_lock_is_refused(tiny: Place, bake: Bake) -> None:
    (model,) = parse(tiny.lock.read_text()).models
    right = model.layers[1].diff_id
    tiny.write_lock(tiny.lock.read_text().replace(right.hex, "0" * 64))
    before = tiny.lock.read_bytes()

    ran = bake("-q", "build", "tiny@v1")

    assert (ran.code, ran.out) == (3, "")
    assert f"expected a layer of diff_id sha256:{'0' * 64}, found {right}" in ran.err
    assert tiny.lock.read_bytes() == before
    assert not (image_of(tiny) / "index.json").exists()


def test_one_layer_s_digest_in_the_place_of_another_s_is_refused(place: Place, bake: Bake) -> None:
    place.add_large_model(65 << 20, 65 << 20)
    bake("-q", "add", "tiny@v1", "dir://m")
    bake("-q", "build", "tiny@v1")
    (model,) = parse(place.lock.read_text()).models
    place.write_lock(place.lock.read_text().replace(model.layers[2].diff_id.hex, model.layers[1].diff_id.hex))

    ran = bake("-q", "build", "tiny@v1")

    assert (ran.code, ran.out) == (3, "")
    assert f"found {model.layers[2].diff_id}, though every file in it is as locked" in ran.err


def test_another_model_s_layer_is_not_taken_though_the_lock_names_it(tiny: Place, bake: Bake) -> None:
    """`tiny@v2` has the same paths and sizes as `tiny@v1`, whose layer lies in the store."""
    write(tiny.root / "n", model_files() | {FIRST: shard("a", "b").replace(b"\x07", b"\x08")})
    bake("-q", "add", "tiny@v2", "dir://n")
    bake("-q", "build", "tiny@v1")
    first, second = parse(tiny.lock.read_text()).models
    wrong, right = first.layers[1].diff_id, second.layers[1].diff_id
    tiny.write_lock(tiny.lock.read_text().replace(right.hex, wrong.hex))
    shutil.rmtree(tiny.store / "memory" / "diff-id")

    ran = bake("-q", "build", "tiny@v2")

    assert ran == Ran(
        3,
        "",
        error(
            f"tiny@v2: expected a layer of diff_id {wrong}, found {right}, though every file in it is as locked",
            hint="delete packer and the [[model.layer]] records of tiny@v2; the next build writes them anew",
        ),
    )
    assert not (tiny.root / "dist" / "tiny-v2").exists()


def test_a_layer_in_the_store_is_proven_by_its_files_and_taken(built: Place, bake: Bake) -> None:
    first = weight_layers(image_of(built))
    shutil.rmtree(built.store / "memory" / "diff-id")
    shutil.rmtree(built.root / "dist")
    shutil.rmtree(built.root / "m")

    assert bake("-q", "build", "tiny@v1").code == 0
    assert weight_layers(image_of(built)) == first


def test_a_lock_of_a_newer_minor_is_no_reason_to_fail_a_build(tiny: Place, bake: Bake) -> None:
    text = without_layers(tiny.lock.read_text()).replace("version = 1\n", 'version = "1.9"\n')
    tiny.write_lock(text)

    ran = bake("-q", "build", "tiny@v1")

    assert (ran.code, ran.out) == (0, f"oci:dist/tiny-v1@{Layout(image_of(tiny)).image().descriptor.digest}\n")
    assert ran.err.splitlines()[-1] == (
        "warning: the layers' digests are not recorded in the lock: models.lock has format 1.9, newer than this bake "
        "writes; writing it would lose what this bake does not know"
    )
    assert tiny.lock.read_text() == text


@needs_root
def test_a_lock_that_may_not_be_written_is_no_reason_to_fail_a_build(tiny: Place, tmp_path: Path) -> None:
    tiny.write_lock(without_layers(tiny.lock.read_text()))
    before = tiny.lock.read_bytes()
    store = free(tmp_path)
    out = tmp_path / "free" / "out"

    ran = tiny.run("-q", "build", "tiny@v1", "--to", f"oci:{out}", before=NOBODY, environ={"BAKE_CACHE": store})

    assert ran == Ran(
        0,
        f"oci:../free/out@{Layout(out).image().descriptor.digest}\n",
        f"warning: the layers' digests are not recorded in the lock: cannot write {tiny.lock}: permission denied\n",
    )
    assert tiny.lock.read_bytes() == before


def test_a_changed_file_is_refused_and_named(tiny: Place, bake: Bake) -> None:
    before = tiny.lock.read_bytes()
    path = tiny.root / "m" / FIRST
    path.write_bytes(path.read_bytes().replace(b"\x07", b"\x08"))

    ran = bake("-q", "build", "tiny@v1")

    assert (ran.code, ran.out) == (6, "")
    assert ran.err.startswith(f"error: {FIRST}: expected sha256:")
    assert "a changed model is a new version: bake add NAME@NEW_VERSION SOURCE" in ran.err
    assert tiny.lock.read_bytes() == before


@pytest.mark.parametrize("size", [-1, 1])
def test_a_file_that_grew_or_shrank_is_refused(tiny: Place, bake: Bake, size: int) -> None:
    path = tiny.root / "m" / FIRST
    path.write_bytes((path.read_bytes() + b"x")[: path.stat().st_size + size])

    assert bake("-q", "build", "tiny@v1").code == 6


def test_a_source_that_is_gone_is_told(tiny: Place, bake: Bake) -> None:
    shutil.rmtree(tiny.root / "m")

    ran = bake("-q", "build", "tiny@v1")

    assert (ran.code, ran.out) == (4, "")
    assert str(tiny.root / "m") in ran.err


def test_a_blob_that_was_replaced_is_mended_from_the_store(built: Place, bake: Bake) -> None:
    blob = largest_blob(image_of(built))
    replace_bytes(blob, bytes(reversed(blob.read_bytes())))

    ran = bake("-q", "build", "tiny@v1")

    assert ran.code == 0
    assert whole(image_of(built)) == ()


def test_a_blob_that_was_cut_off_is_mended_from_the_store(built: Place, bake: Bake) -> None:
    blob = largest_blob(image_of(built))
    replace_bytes(blob, blob.read_bytes()[:100])

    assert bake("-q", "build", "tiny@v1").code == 0
    assert whole(image_of(built)) == ()


def test_a_blob_that_was_written_to_is_packed_anew(built: Place, bake: Bake) -> None:
    blob = largest_blob(image_of(built))
    blob.chmod(0o644)
    blob.write_bytes(bytes(reversed(blob.read_bytes())))

    assert bake("-q", "build", "tiny@v1").code == 0
    assert whole(image_of(built)) == ()


def test_a_blob_that_is_gone_is_put_back(built: Place, bake: Bake) -> None:
    largest_blob(image_of(built)).unlink()

    assert bake("-q", "build", "tiny@v1").code == 0
    assert whole(image_of(built)) == ()


def test_a_layout_without_a_store_is_proven_once_and_used(built: Place, bake: Bake) -> None:
    shutil.rmtree(built.store)
    shutil.rmtree(built.root / "m")

    assert bake("-q", "build", "tiny@v1").code == 0
    assert whole(image_of(built)) == ()


def test_a_pruned_store_leaves_the_image_whole(built: Place, bake: Bake) -> None:
    assert bake("-q", "cache", "prune", "--all").code == 0

    assert whole(image_of(built)) == ()
    assert bake("-q", "verify", "tiny@v1", "--level", "full").code == 0
    assert bake("-q", "build", "tiny@v1").code == 0


def test_models_with_roles_share_one_image(tiny: Place, bake: Bake) -> None:
    tiny.add_model("c")
    bake("-q", "add", "judge@v1", "dir://c")
    bake("-q", "add", "actor@v1", "dir://m", "--critic", "judge@v1", "--reward-model", "judge@v1")

    assert bake("-q", "build", "actor@v1").code == 0
    assert bake("-q", "verify", "actor@v1", "--level", "full").code == 0
    environment = Layout(tiny.root / "dist" / "actor-v1").image().config.environment
    assert dict(environment) == {
        "VERL_MODEL_PATH": "/opt/models/actor",
        "VERL_CRITIC_MODEL_PATH": "/opt/models/judge",
        "VERL_REWARD_MODEL_PATH": "/opt/models/judge",
    }


def test_two_builds_at_once_into_one_output(place: Place, bake: Bake) -> None:
    place.add_large_model(66 << 20)
    bake("-q", "add", "tiny@v1", "dir://m")

    started = [place.start("build", "tiny@v1"), place.start("build", "tiny@v1")]
    first, second = map(finish, started)

    assert (first.code, second.code, first.out) == (0, 0, second.out)
    assert bake("-q", "verify", "tiny@v1", "--level", "full").code == 0


def test_two_builds_at_once_with_one_store(place: Place, bake: Bake) -> None:
    place.add_large_model(66 << 20)
    bake("-q", "add", "tiny@v1", "dir://m")
    place.write_lock(without_layers(place.lock.read_text()))

    started = [place.start("build", "tiny@v1", "--to", "oci:one"), place.start("build", "tiny@v1", "--to", "oci:two")]
    first, second = map(finish, started)

    assert (first.code, second.code, first.digest) == (0, 0, second.digest)
    assert (whole(place.root / "one"), whole(place.root / "two")) == ((), ())


def test_two_adds_at_once_both_stay(place: Place, bake: Bake) -> None:
    place.add_model()

    started = [place.start("add", f"m{number}@v1", "dir://m") for number in range(4)]

    assert [finish(one).code for one in started] == [0] * 4
    assert [row["model"] for row in bake("--json", "list").document] == ["m0@v1", "m1@v1", "m2@v1", "m3@v1"]


def test_a_model_that_is_not_resolved_is_not_built(place: Place, bake: Bake) -> None:
    place.write_lock('version = 1\n\n[[model]]\nname = "tiny"\nversion = "v1"\nsource = "dir://m"\n')

    ran = bake("build", "tiny@v1")

    assert (ran.code, ran.err) == (3, error("tiny@v1 is not resolved yet", hint="bake lock tiny@v1"))
    assert not (place.root / "dist").exists()
