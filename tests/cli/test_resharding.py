"""`--max-shard-size`: files that a registry would refuse become several, from `bake add` to `bake pull`."""

from __future__ import annotations

import json
import os
import shutil
import signal
from typing import TYPE_CHECKING

import pytest
from safetensors.numpy import load

from bake.digest import Digest
from bake.lock.parse import parse
from bake.reshard import head_size
from bake.store import Store
from tests.cli.place import EMPTY_LOCK, Bake, Place, Ran, Started, error, files_below, finish, weight_layers, whole
from tests.cli.pushed import faults_in, reference, tags_in
from tests.cli.test_hub_models import fill_hf_cache
from tests.entrypoint.files import FIRST, INDEX, SECOND, frame, index, model_files, safetensors, shard, write

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from bake.lock import LockedModel
    from tests.hub_server import FakeHub
    from tests.registry.server import FakeRegistry

MODEL = "model.safetensors"
ONE, TWO = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
WEIGHTS = safetensors({name: ("F32", [300]) for name in "abc"})
WHOLE = {"config.json": b'{"model_type": "llama"}', MODEL: WEIGHTS}
SMALLER = ("--max-shard-size", "3kB")


def once_it_says(started: Started, text: str) -> None:
    """Wait until a bake has written a line with that text to stderr."""
    assert started.stderr is not None
    assert any(text in line for line in started.stderr)


def locked(place: Place) -> LockedModel:
    (model,) = parse(place.lock.read_text()).models
    return model


def tensors(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Every tensor of all safetensors files, as safetensors reads them."""
    found = (load(content) for path, content in files.items() if path.endswith(".safetensors"))
    return {name: array.tobytes() for file in found for name, array in file.items()}


@pytest.fixture
def folder(place: Place) -> Path:
    """A folder with a model in one file of three tensors of 1,200 bytes."""
    return write(place.root / "m", WHOLE)


@pytest.fixture
def added(folder: Path, place: Place, bake: Bake) -> Place:  # noqa: ARG001 - it must be there first
    """`tiny@v1` of that folder in the lock, in two shards."""
    assert bake("-q", "add", "tiny@v1", "dir://m", *SMALLER).code == 0
    return place


@pytest.fixture
def from_hub(hub: FakeHub, place: Place, bake: Bake) -> Place:
    """`tiny@v1` of the same files on the Hub; the Hub's log begins after it."""
    hub.add_repo("org/name", WHOLE)
    assert bake("-q", "add", "tiny@v1", "hf://org/name", *SMALLER).code == 0
    hub.requests.clear()
    return place


# --- the lock


def test_the_lock_holds_the_shards_and_what_they_are_made_of(added: Place) -> None:
    model = locked(added)

    assert [file.path for file in model.files] == ["config.json", ONE, TWO, INDEX]
    assert [(item.source.path, item.source.size, item.files) for item in model.resharded] == [
        (MODEL, len(WEIGHTS), (ONE, TWO, INDEX))
    ]
    assert (model.resharder, parse(added.lock.read_text()).format) == (1, (1, 1))


def test_people_are_told_what_becomes_of_the_file(folder: Path, bake: Bake) -> None:
    ran = bake("add", "tiny@v1", "dir://m", *SMALLER)

    assert folder.is_dir()
    assert ran.err.splitlines() == [
        "tiny@v1: model.safetensors (3.8 kB) becomes 2 shards",
        "tiny@v1: re-sharding: 3.8 kB",
        "tiny@v1: hashing: 4.0 kB",
        "next: bake build tiny@v1",
    ]


@pytest.mark.usefixtures("added")
def test_show_tells_what_became_of_the_file(bake: Bake) -> None:
    lines = bake("show", "tiny@v1").out.splitlines()
    at = lines.index("re-sharded to 3kB a file at most, every tensor as it is")

    assert [line.split("sha256:")[0].rstrip() for line in lines[at + 1 : at + 5]] == [
        "  model.safetensors  3.8 kB",
        f"    -> {ONE}",
        f"    -> {TWO}",
        f"    -> {INDEX}",
    ]


def test_show_tells_it_to_a_program(added: Place, bake: Bake) -> None:
    document = bake("--json", "show", "tiny@v1").document

    source = locked(added).resharded[0].source
    assert (document["max_shard_size"], document["resharded"]) == (
        "3kB",
        [{"path": MODEL, "size": len(WEIGHTS), "sha256": source.digest.hex, "files": [ONE, TWO, INDEX]}],
    )


def test_what_a_person_writes_into_the_lock_is_the_same(added: Place, bake: Bake) -> None:
    by_command = added.lock.read_text()
    added.write_lock(
        f'{EMPTY_LOCK}[[model]]\nname = "tiny"\nversion = "v1"\nsource = "dir://m"\nmax_shard_size = "3kB"\n'
    )

    assert bake("-q", "lock") == Ran(0, "tiny@v1\n", "")
    assert added.lock.read_text() == by_command


def test_a_model_without_a_large_file_is_locked_as_ever(place: Place, bake: Bake) -> None:
    place.add_model()
    bake("-q", "add", "tiny@v1", "dir://m")
    before = locked(place)
    place.write_lock()

    bake("-q", "add", "tiny@v1", "dir://m", "--max-shard-size", "5GB")

    assert (locked(place).files, locked(place).resharded, locked(place).layers) == (before.files, (), before.layers)


def test_an_edited_size_makes_the_model_stale(added: Place, bake: Bake) -> None:
    added.write_lock(added.lock.read_text().replace('"3kB"', '"2kB"'))

    ran = bake("build", "tiny@v1")

    assert ran == Ran(
        3,
        "",
        error(
            "tiny@v1: what is asked (source, revision, include, exclude or max_shard_size) was edited after it was "
            "resolved",
            hint="a version is immutable: add a new one, or resolve this one anew: bake lock --upgrade tiny@v1",
        ),
    )


def test_upgrade_divides_anew(added: Place, bake: Bake) -> None:
    added.write_lock(added.lock.read_text().replace('"3kB"', '"2kB"'))

    assert bake("-q", "lock", "--upgrade", "tiny@v1") == Ran(0, "tiny@v1\n", "")
    assert [len(item.files) for item in locked(added).resharded] == [4]


@pytest.mark.parametrize("size", ["5", "5Gb", "0GB", "five", "-1GB"])
def test_a_size_of_another_form_is_refused(place: Place, bake: Bake, size: str) -> None:
    ran = bake("add", "tiny@v1", "dir://m", "--max-shard-size", size)

    assert ran == Ran(2, "", error(f"--max-shard-size: expected a size such as 5GB, 500MB or 4GiB, found {size!r}"))
    assert place.lock.read_text() == EMPTY_LOCK


def test_a_file_that_changed_is_told_by_its_own_name(added: Place, bake: Bake) -> None:
    (added.root / "m" / MODEL).write_bytes(WEIGHTS.replace(b"\x07", b"\x08", 1))

    ran = bake("-q", "lock", "tiny@v1")

    assert ran.code == 4
    assert [line.split(": expected")[0] for line in ran.err.splitlines()[:-1]] == [f"error: tiny@v1: {ONE}"]


# --- which files, and under which names


SHARDED = model_files() | {FIRST: safetensors({name: ("F32", [300]) for name in "ab"})}
THREE = [f"model-0000{number}-of-00003.safetensors" for number in (1, 2, 3)]


def test_a_shard_that_is_too_large_is_divided_and_the_others_are_numbered_anew(place: Place, bake: Bake) -> None:
    write(place.root / "m", SHARDED)

    bake("-q", "add", "tiny@v1", "dir://m", "--max-shard-size", "2kB")

    model = locked(place)
    assert [file.path for file in model.files] == ["config.json", *THREE, INDEX]
    assert [(item.source.path, item.files) for item in model.resharded] == [
        (FIRST, tuple(THREE[:2])),
        (SECOND, (THREE[2],)),
        (INDEX, (INDEX,)),
    ]
    assert model.files[3].digest == Digest.of(SHARDED[SECOND])
    assert bake("-q", "build", "tiny@v1").code == 0
    assert whole(place.root / "dist" / "tiny-v1") == ()


def test_shards_of_the_hub_are_numbered_anew_and_only_those_that_are_divided_are_fetched(
    hub: FakeHub, place: Place, bake: Bake
) -> None:
    hub.add_repo("org/name", SHARDED)

    assert bake("-q", "add", "tiny@v1", "hf://org/name", "--max-shard-size", "2kB").code == 0

    fetched = {request.path for request in hub.requested("cdn/*")}
    assert fetched == {f"/{Digest.of(SHARDED[FIRST]).hex}"}
    first = bake("-q", "build", "tiny@v1")
    shutil.rmtree(place.store)
    shutil.rmtree(place.root / "dist")
    assert bake("-q", "build", "tiny@v1") == first
    assert bake("-q", "lock", "tiny@v1") == Ran(0, "", "")


def test_a_tensor_that_is_too_large_alone_has_a_shard_and_is_told(place: Place, bake: Bake) -> None:
    write(place.root / "m", WHOLE | {MODEL: safetensors({"a": ("F32", [9]), "b": ("F32", [900])})})

    ran = bake("-q", "add", "tiny@v1", "dir://m", "--max-shard-size", "2kB")

    assert ran.err == (
        f"warning: tiny@v1: {TWO} has 3.7 kB, more than 2kB: tensor 'b' alone is that large, and none is divided\n"
    )
    assert [file.path for file in locked(place).files] == ["config.json", ONE, TWO, INDEX]


def test_a_shard_that_is_told_has_the_name_that_it_has_in_the_end(place: Place, bake: Bake) -> None:
    write(place.root / "m", SHARDED | {FIRST: safetensors({"a": ("F32", [9]), "b": ("F32", [900])})})

    ran = bake("-q", "add", "tiny@v1", "dir://m", "--max-shard-size", "2kB")

    assert ran.err == (
        f"warning: tiny@v1: {THREE[1]} has 3.7 kB, more than 2kB: tensor 'b' alone is that large, and none is divided\n"
    )


def test_a_file_of_one_tensor_is_left_as_it_is(place: Place, bake: Bake) -> None:
    write(place.root / "m", WHOLE | {MODEL: safetensors({"b": ("F32", [900])})})

    ran = bake("-q", "add", "tiny@v1", "dir://m", "--max-shard-size", "2kB")

    assert ran.err == (
        f"warning: tiny@v1: {MODEL} has 3.7 kB, more than 2kB: tensor 'b' alone is that large, and none is divided\n"
    )
    assert [file.path for file in locked(place).files] == ["config.json", MODEL]


def test_a_file_that_loaders_would_not_find_in_shards_is_left_as_it_is(place: Place, bake: Bake) -> None:
    write(place.root / "m", model_files() | {"adapter_model.safetensors": WEIGHTS})

    ran = bake("-q", "add", "tiny@v1", "dir://m", *SMALLER)

    assert ran.err == (
        "warning: tiny@v1: adapter_model.safetensors has 3.8 kB and is left whole: no index names it, and loaders "
        "look for none\n"
    )
    assert locked(place).resharded == ()


def test_a_whole_file_beside_the_index_of_others_is_refused(place: Place, bake: Bake) -> None:
    write(place.root / "m", model_files() | {MODEL: WEIGHTS})

    ran = bake("add", "tiny@v1", "dir://m", *SMALLER)

    assert (ran.code, ran.out, ran.err.splitlines()[-2:]) == (
        4,
        "",
        [
            f"error: tiny@v1: {MODEL} cannot be divided: {INDEX} is there too, and names other files",
            f"hint: leave this one out: --exclude {MODEL}",
        ],
    )
    assert place.lock.read_text() == EMPTY_LOCK


def test_an_index_that_lacks_tensors_is_refused_before_anything_is_read_whole(
    hub: FakeHub, place: Place, bake: Bake
) -> None:
    lacking = index({"a": FIRST, "b": FIRST, "d": SECOND})
    hub.add_repo("org/name", {"config.json": b"{}", FIRST: WEIGHTS, SECOND: shard("d"), INDEX: lacking})

    ran = bake("-q", "add", "tiny@v1", "hf://org/name", *SMALLER)

    assert (ran.code, ran.err) == (4, f"error: {INDEX}: expected every tensor of {FIRST}, and it lacks c\n")
    assert [path for path in (place.store / "files").rglob("*") if path.is_file() and path.stat().st_size > 3000] == []


def test_a_fetched_file_that_has_changed_since_is_proven_again_while_it_is_divided(from_hub: Place, bake: Bake) -> None:
    path = Store(from_hub.store).file(Digest.of(WEIGHTS), size=len(WEIGHTS))
    assert path is not None
    status = path.stat()
    path.chmod(0o644)
    path.write_bytes(WEIGHTS[:-1] + b"\x08")
    path.chmod(0o444)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    ran = bake("-q", "add", "tiny@v2", "hf://org/name", "--max-shard-size", "2kB")

    assert (ran.code, ran.out) == (6, "")
    assert ran.err.startswith(f"error: {path}: expected {Digest.of(WEIGHTS)}, found sha256:")
    assert [str(model.id) for model in parse(from_hub.lock.read_text()).models] == ["tiny@v1"]


def test_shards_never_take_the_names_of_other_files(place: Place, bake: Bake) -> None:
    taken = "part-00001-of-00002.safetensors"
    names = {"a": "part.safetensors", "b": "part.safetensors", "c": "part.safetensors", "d": taken}
    files = {"config.json": b"{}", "part.safetensors": WEIGHTS, taken: shard("d"), INDEX: index(names)}
    write(place.root / "m", files)

    ran = bake("-q", "add", "tiny@v1", "dir://m", *SMALLER)

    assert ran == Ran(
        4,
        "",
        error(
            f"tiny@v1: shards of part.safetensors would have the names of other files: {taken}",
            hint="--exclude GLOB leaves those out",
        ),
    )


# --- images


def test_the_image_holds_every_tensor_as_it_was(added: Place, bake: Bake, registry: FakeRegistry) -> None:
    assert bake("-q", "push", "tiny@v1", reference(registry)).code == 0
    assert bake("-q", "pull", reference(registry), "out").code == 0

    pulled = files_below(added.root / "out")
    assert sorted(pulled) == ["config.json", ONE, TWO, INDEX]
    assert tensors(pulled) == tensors(WHOLE)
    assert json.loads(pulled[INDEX])["weight_map"] == {"a": ONE, "b": ONE, "c": TWO}
    assert faults_in(registry) == ()


def test_shards_with_layers_of_their_own_have_them_learned_in_the_same_read(place: Place, bake: Bake) -> None:
    size = 66 << 20
    offsets = {name: [at * size, at * size + size] for at, name in enumerate("ab")}
    header = {name: {"dtype": "U8", "shape": [size], "data_offsets": offsets[name]} for name in "ab"}
    write(place.root / "m", {"config.json": WHOLE["config.json"], MODEL: frame(json.dumps(header).encode())})
    with (place.root / "m" / MODEL).open("r+b") as stream:
        stream.truncate(stream.seek(0, 2) + 2 * size)

    assert bake("-q", "add", "tiny@v1", "dir://m", "--max-shard-size", "100MB").code == 0

    assert [layer.files for layer in locked(place).layers] == [("config.json", INDEX), (ONE,), (TWO,)]
    assert bake("-q", "build", "tiny@v1").code == 0
    assert whole(place.root / "dist" / "tiny-v1") == ()


def test_build_and_push_give_the_same_image(added: Place, bake: Bake, registry: FakeRegistry) -> None:
    built = bake("-q", "build", "tiny@v1")

    assert bake("-q", "push", "tiny@v1", reference(registry)).digest == built.digest
    assert whole(added.root / "dist" / "tiny-v1") == ()
    assert bake("-q", "verify", "tiny@v1", "--level", "full").code == 0


def test_hub_and_folder_give_the_same_files_and_layers(from_hub: Place, bake: Bake) -> None:
    of_hub = locked(from_hub)
    bake("-q", "build", "tiny@v1", "--to", "oci:dist/hub")
    write(from_hub.root / "m", WHOLE)
    from_hub.write_lock()
    bake("-q", "add", "tiny@v1", "dir://m", *SMALLER)
    bake("-q", "build", "tiny@v1", "--to", "oci:dist/folder")

    assert (locked(from_hub).files, locked(from_hub).resharded) == (of_hub.files, of_hub.resharded)
    assert weight_layers(from_hub.root / "dist" / "folder") == weight_layers(from_hub.root / "dist" / "hub")


def test_the_pulled_folder_is_a_model_of_its_own(added: Place, bake: Bake, registry: FakeRegistry) -> None:
    bake("-q", "push", "tiny@v1", reference(registry))
    bake("-q", "pull", reference(registry), "out")

    before = locked(added)
    added.write_lock()
    assert bake("-q", "add", "tiny@v1", "dir://out").code == 0
    assert locked(added).set_digest == before.set_digest


# --- the Hub


def test_adding_fetches_the_file_once_and_says_so(hub: FakeHub, bake: Bake) -> None:
    hub.add_repo("org/name", WHOLE)

    ran = bake("add", "tiny@v1", "hf://org/name", *SMALLER)

    assert "tiny@v1: model.safetensors (3.8 kB, fetched into the store once) becomes 2 shards" in ran.err.splitlines()
    assert [request.range for request in hub.requested("cdn/*")] == [f"bytes=0-{len(WEIGHTS) - 1}", None]


@pytest.mark.usefixtures("from_hub")
def test_the_build_does_not_fetch_it_again(hub: FakeHub, bake: Bake) -> None:
    assert bake("--json", "plan", "tiny@v1").document["fetch"] == 0
    assert bake("-q", "--offline", "build", "tiny@v1").code == 0
    assert hub.requests == []


def test_a_machine_with_an_empty_store_makes_the_same_image(from_hub: Place, hub: FakeHub, bake: Bake) -> None:
    first = bake("-q", "build", "tiny@v1")
    shutil.rmtree(from_hub.store)
    shutil.rmtree(from_hub.root / "dist")

    assert bake("-q", "build", "tiny@v1") == first
    head = head_size(WEIGHTS)
    assert {request.range for request in hub.requested("cdn/*")} == {
        f"bytes=0-{len(WEIGHTS) - 1}",  # the header: so small a file is read with it
        f"bytes={head}-{head + 2399}",
        f"bytes={head + 2400}-{head + 3599}",
    }


def test_a_push_from_an_empty_store_fetches_parts_and_keeps_none(
    from_hub: Place, bake: Bake, registry: FakeRegistry
) -> None:
    shutil.rmtree(from_hub.store)

    assert bake("-q", "push", "tiny@v1", reference(registry)).code == 0
    assert faults_in(registry) == ()
    assert not (from_hub.store / "files").exists()


def test_a_push_that_breaks_within_a_shard_goes_on(from_hub: Place, bake: Bake, registry: FakeRegistry) -> None:
    shutil.rmtree(from_hub.store)
    registry.fault("PATCH */blobs/uploads/*", times=2, cut=3_000)

    assert bake("-q", "push", "tiny@v1", reference(registry)).code == 0
    assert faults_in(registry) == ()


def test_the_file_in_the_hugging_face_cache_is_used(from_hub: Place, hub: FakeHub, bake: Bake, tmp_path: Path) -> None:
    fill_hf_cache(tmp_path / "hf-home", str(locked(from_hub).commit), WHOLE)
    shutil.rmtree(from_hub.store)

    assert bake("--json", "plan", "tiny@v1").document["fetch"] == 0
    assert bake("-q", "--offline", "build", "tiny@v1").code == 0
    assert hub.requests == []
    assert whole(from_hub.root / "dist" / "tiny-v1") == ()


def test_an_altered_copy_in_the_hugging_face_cache_is_not_used(
    from_hub: Place, hub: FakeHub, bake: Bake, tmp_path: Path
) -> None:
    fill_hf_cache(tmp_path / "hf-home", str(locked(from_hub).commit), WHOLE | {MODEL: WEIGHTS[:-1] + b"\x08"})
    shutil.rmtree(from_hub.store)

    offline = bake("-q", "--offline", "build", "tiny@v1")

    assert (offline.code, offline.err.splitlines()[-1]) == (4, "hint: run it without --offline")
    assert bake("-q", "build", "tiny@v1").code == 0
    assert whole(from_hub.root / "dist" / "tiny-v1") == ()
    assert hub.requested("cdn/*") != []


def test_an_index_that_lies_in_lfs_is_proven_and_kept_too(hub: FakeHub, place: Place, bake: Bake) -> None:
    hub.add_repo("org/name", SHARDED, lfs=lambda _: True)

    assert bake("-q", "add", "tiny@v1", "hf://org/name", "--max-shard-size", "2kB").code == 0
    assert Store(place.store).file(Digest.of(SHARDED[INDEX])) is not None


def test_a_body_that_breaks_is_taken_up_again(from_hub: Place, hub: FakeHub, bake: Bake) -> None:
    first = bake("-q", "build", "tiny@v1")
    shutil.rmtree(from_hub.store)
    shutil.rmtree(from_hub.root / "dist")
    hub.fault("cdn/*", times=4, cut=500)
    hub.fault("cdn/*", times=4, ignore_range=True)

    assert bake("-q", "build", "tiny@v1") == first


def test_other_bytes_of_the_hub_are_refused_when_added(hub: FakeHub, place: Place, bake: Bake) -> None:
    hub.add_repo("org/name", WHOLE)
    hub.fault("cdn/*", times=9, body=WEIGHTS.replace(b"\x07", b"\x08", 1))

    ran = bake("-q", "add", "tiny@v1", "hf://org/name", *SMALLER)

    assert (ran.code, ran.out) == (6, "")
    assert ran.err.startswith("error: tiny@v1: model.safetensors: expected sha256:")
    assert place.lock.read_text() == EMPTY_LOCK


@pytest.mark.parametrize("command", [("build", "tiny@v1"), ("push", "tiny@v1", "REF")])
def test_other_bytes_of_the_hub_are_refused_when_built(
    from_hub: Place, hub: FakeHub, bake: Bake, registry: FakeRegistry, command: tuple[str, ...]
) -> None:
    shutil.rmtree(from_hub.store)
    hub.fault("cdn/*", times=99, body=WEIGHTS[:-1] + b"\x08")

    ran = bake("-q", *(reference(registry) if word == "REF" else word for word in command))

    assert (ran.code, ran.out) == (6, "")
    assert f"{TWO}: expected sha256:" in ran.err
    assert not (from_hub.root / "dist" / "tiny-v1" / "index.json").exists()
    assert tags_in(registry) == []


def test_another_header_is_refused_by_the_name_of_the_file(from_hub: Place, hub: FakeHub, bake: Bake) -> None:
    shutil.rmtree(from_hub.store)
    other = safetensors({name: ("F32", [300]) for name in "abd"})
    hub.fault("cdn/*", times=99, body=other)

    ran = bake("-q", "build", "tiny@v1")

    assert (ran.code, ran.out) == (6, "")
    assert ": expected sha256:" in ran.err


# --- folders


def test_a_folder_that_changed_is_refused_when_built(added: Place, bake: Bake) -> None:
    (added.root / "m" / MODEL).write_bytes(WEIGHTS[:-1] + b"\x08")

    ran = bake("-q", "build", "tiny@v1")

    assert (ran.code, ran.out) == (6, "")
    assert ran.err.startswith(f"error: {TWO}: expected sha256:")


def test_a_folder_with_another_header_is_refused_by_the_file_s_name(added: Place, bake: Bake) -> None:
    (added.root / "m" / MODEL).write_bytes(safetensors({name: ("F32", [250]) for name in "abcd"}))

    ran = bake("-q", "build", "tiny@v1")

    assert (ran.code, ran.out) == (4, "")
    assert ran.err.startswith(f"error: {MODEL}: its header is not that of a whole safetensors file\n")


@pytest.mark.parametrize("words", [("--against", "tiny@v1"), ()])
def test_the_source_is_verified_as_it_was_before(added: Place, bake: Bake, words: tuple[str, ...]) -> None:
    right = bake("-q", "verify", "m", *words, "--level", "full")
    (added.root / "m" / MODEL).write_bytes(WEIGHTS[:-1] + b"\x08")
    wrong = bake("-q", "verify", "m", *words, "--level", "full")

    assert "2 files, 3.8 kB, as in tiny@v1 in models.lock, before it is re-sharded" in right.out
    assert (right.code, wrong.code) == (0, 1)
    assert "model.safetensors" in wrong.out


def test_a_folder_of_the_shards_is_verified_as_it_is_baked(added: Place, bake: Bake, registry: FakeRegistry) -> None:
    bake("-q", "push", "tiny@v1", reference(registry))
    bake("-q", "pull", reference(registry), "out")

    ran = bake("-q", "verify", "out", "--against", "tiny@v1", "--level", "full")

    assert (ran.code, "4 files" in ran.out, "before" in ran.out) == (0, True, False)
    assert added.lock.exists()


# --- the Dockerfile way


@pytest.mark.usefixtures("added")
@pytest.mark.parametrize("command", [("render", "tiny@v1"), ("build", "tiny@v1", "--builder", "docker")])
def test_a_dockerfile_cannot_re_shard(bake: Bake, command: tuple[str, ...]) -> None:
    assert bake(*command) == Ran(
        2,
        "",
        error(
            "a Dockerfile cannot re-shard tiny@v1: its files are made of model.safetensors, and ADD takes a file as "
            "it is",
            hint="bake build and bake push can, with --builder direct (the default)",
        ),
    )


# --- killed


def test_an_add_that_is_killed_leaves_nothing_and_the_next_one_goes_on(hub: FakeHub, place: Place, bake: Bake) -> None:
    hub.add_repo("org/name", WHOLE)
    hub.fault("cdn/*", times=1)  # the header
    hub.fault("cdn/*", times=1, slow=60.0)
    started = place.start("add", "tiny@v1", "hf://org/name", *SMALLER)
    once_it_says(started, "re-sharding")

    started.send_signal(signal.SIGKILL)
    finish(started)

    assert place.lock.read_text() == EMPTY_LOCK
    assert Store(place.store).file(Digest.of(WEIGHTS)) is None
    hub.mend()
    assert bake("-q", "add", "tiny@v1", "hf://org/name", *SMALLER).code == 0
