"""init, add, lock, list, show, plan: the lock's verbs on folders."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from bake.lock.parse import parse
from tests.cli.place import EMPTY_LOCK, TINY, Bake, Place, Ran, error, files_below
from tests.entrypoint.files import FIRST, SECOND

if TYPE_CHECKING:
    from pathlib import Path

VLLM = '\n[base.vllm]\nimage = "verlai/verl:tag"\ndigest = "sha256:' + "1" * 64 + '"\n'
OTHER = VLLM.replace("vllm", "other")


def test_init_writes_a_lock_that_is_canonical(place: Place, bake: Bake) -> None:
    place.lock.unlink()

    assert bake("-q", "init") == Ran(0, "models.lock\n", "")
    assert bake("-q", "lock", "--check") == Ran(0, "", "")


def test_init_leaves_a_lock_that_is_there(place: Place, bake: Bake) -> None:
    ran = bake("init")

    assert ran == Ran(
        7, "", error(f"{place.lock} exists already", hint="bake add NAME@VERSION SOURCE adds a model to it")
    )
    assert place.lock.read_text() == EMPTY_LOCK


def test_init_writes_here_though_a_folder_above_has_a_lock(
    place: Place, bake: Bake, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place.root / "sub").mkdir()
    monkeypatch.chdir("sub")

    assert bake("-q", "init") == Ran(0, "models.lock\n", "")
    assert (place.root / "sub" / "models.lock").exists()


def test_add_pins_every_file(place: Place, bake: Bake) -> None:
    place.add_model()

    ran = bake("-q", "add", "tiny@v1", "dir://m")

    (model,) = parse(place.lock.read_text()).models
    assert ran == Ran(0, f"tiny@v1 {model.set_digest}\n", "")
    assert [file.path for file in model.files] == [
        "config.json",
        FIRST,
        SECOND,
        "model.safetensors.index.json",
    ]


def test_add_learns_the_layers_in_the_same_read(tiny: Place) -> None:
    (model,) = parse(tiny.lock.read_text()).models

    assert [layer.files for layer in model.layers] == [
        ("config.json", "model.safetensors.index.json"),
        (FIRST, SECOND),
    ]


def test_a_version_is_never_added_twice(tiny: Place, bake: Bake) -> None:
    before = tiny.lock.read_bytes()

    ran = bake("add", "tiny@v1", "dir://m")

    assert ran.code == 3
    assert ran.err == error(
        "tiny@v1 is in the lock already, and a version is immutable",
        hint="add it under another version, or resolve it anew with: bake lock --upgrade tiny@v1",
    )
    assert tiny.lock.read_bytes() == before


@pytest.mark.parametrize(
    ("source", "hint"),
    [
        ("m", "did you mean dir://m?"),
        ("org/name", "did you mean hf://org/name?"),
        ("https://huggingface.co/org/name/tree/main", "did you mean hf://org/name?"),
        ("s3://bucket/name", None),
    ],
)
def test_a_source_of_another_form_is_refused_with_what_was_meant(
    place: Place, bake: Bake, source: str, hint: str | None
) -> None:
    place.add_model()

    ran = bake("add", "tiny@v1", source)

    expected = (
        f"expected hf://ORG/NAME (Hugging Face Hub) or dir://PATH (a folder, relative to the lock), found {source!r}"
    )
    assert ran == Ran(2, "", error(expected, hint=hint))


def test_a_revision_is_for_the_hub(place: Place, bake: Bake) -> None:
    place.add_model()

    ran = bake("add", "tiny@v1", "dir://m", "--revision", "main")

    assert ran == Ran(2, "", error("--revision: expected a source on the Hub, found dir://m"))


def test_the_only_base_is_the_default_and_scratch_can_be_asked_for(place: Place, bake: Bake) -> None:
    place.write_lock(EMPTY_LOCK + VLLM)
    place.add_model()
    bake("-q", "add", "a@v1", "dir://m")
    bake("-q", "add", "b@v1", "dir://m", "--base", "scratch")

    assert [row["base"] for row in bake("--json", "list").document] == ["vllm", "scratch"]


def test_several_bases_need_a_choice(place: Place, bake: Bake) -> None:
    place.write_lock(EMPTY_LOCK + VLLM + OTHER)
    place.add_model()

    ran = bake("add", "a@v1", "dir://m")

    assert ran == Ran(3, "", error("the lock has several bases: other, vllm", hint="say which, with --base NAME"))


def test_an_unknown_base_is_refused(place: Place, bake: Bake) -> None:
    place.add_model()

    ran = bake("add", "a@v1", "dir://m", "--base", "nope")

    assert ran.code == 3
    assert ran.err.startswith("error: expected a base of the lock (scratch), found 'nope'\nhint: ")
    assert place.lock.read_text() == EMPTY_LOCK


def test_include_and_exclude_choose_files(place: Place, bake: Bake) -> None:
    folder = place.add_model()
    (folder / "README.md").write_text("read me")
    (folder / "notes.txt").write_text("notes")

    bake("-q", "add", "tiny@v1", "dir://m", "--include", "README.md", "--exclude", "*.txt")

    shown = bake("--json", "show", "tiny@v1").document
    assert "README.md" in [file["path"] for file in shown["files"]]
    assert shown["excluded"] == [{"path": "notes.txt", "size": 5, "reason": "excluded by the glob '*.txt'"}]


def test_a_critic_must_be_in_the_lock(place: Place, bake: Bake) -> None:
    place.add_model()

    ran = bake("add", "a@v1", "dir://m", "--critic", "c@v1")

    assert (ran.code, ran.out) == (3, "")
    assert ran.err.startswith("error: no model c@v1 in the lock\n")


def test_lock_resolves_what_a_person_asked_for(place: Place, bake: Bake) -> None:
    place.add_model()
    place.write_lock(EMPTY_LOCK + '\n# mine\n[[model]]\nname = "tiny"\nversion = "v1"\nsource = "dir://m"\n')

    assert bake("-q", "lock", "--check").code == 1
    assert bake("-q", "lock") == Ran(0, "tiny@v1\n", "")
    assert bake("-q", "lock", "--check") == Ran(0, "", "")
    assert "# mine\n[[model]]" in place.lock.read_text()


def test_lock_says_when_nothing_changed(tiny: Place, bake: Bake) -> None:
    before = tiny.lock.read_bytes(), tiny.lock.stat().st_mtime_ns

    assert bake("lock") == Ran(0, "", "models.lock is complete, nothing changed\n")
    assert (tiny.lock.read_bytes(), tiny.lock.stat().st_mtime_ns) == before


def test_a_named_model_is_compared_with_its_source(tiny: Place, bake: Bake) -> None:
    before = tiny.lock.read_bytes()
    (tiny.root / "m" / "config.json").write_text("{}")
    (tiny.root / "m" / "generation_config.json").write_text("{}")

    ran = bake("-q", "lock", "tiny@v1")

    assert ran.code == 4
    assert "tiny@v1: config.json: expected sha256:" in ran.err
    assert "tiny@v1: generation_config.json: new in dir://m" in ran.err
    assert tiny.lock.read_bytes() == before


def test_check_of_a_named_model_lists_each_difference(tiny: Place, bake: Bake) -> None:
    (tiny.root / "m" / "generation_config.json").write_text("{}")

    ran = bake("-q", "lock", "--check", "tiny@v1")

    assert ran.code == 1
    assert ran.out == "tiny@v1: generation_config.json: new in dir://m\n"


def test_upgrade_resolves_a_changed_model_anew(tiny: Place, bake: Bake) -> None:
    (tiny.root / "m" / "generation_config.json").write_text("{}")

    assert bake("-q", "lock", "--upgrade", "tiny@v1") == Ran(0, "tiny@v1\n", "")
    assert bake("-q", "build", "tiny@v1").code == 0


@pytest.mark.usefixtures("tiny")
def test_upgrade_without_names_is_refused(bake: Bake) -> None:
    assert bake("lock", "--upgrade").code == 2


def test_what_was_edited_after_it_was_resolved_is_stale(tiny: Place, bake: Bake) -> None:
    tiny.write_lock(tiny.lock.read_text().replace('source = "dir://m"', 'source = "dir://n"'))

    assert bake("build", "tiny@v1").code == 3
    assert bake("lock").code == 3
    assert bake("-q", "lock", "--check") == Ran(
        1,
        "tiny@v1: edited after it was resolved\n",
        error("models.lock is not complete", hint="bake lock"),
    )
    assert "edited since it was resolved" in bake("list").out


def test_a_source_is_relative_to_the_lock(tiny: Place, bake: Bake, monkeypatch: pytest.MonkeyPatch) -> None:
    (tiny.root / "below" / "deeper").mkdir(parents=True)
    monkeypatch.chdir("below/deeper")

    ran = bake("-q", "build", "tiny@v1")

    assert ran.code == 0
    assert ran.out.startswith(f"oci:{tiny.root}/dist/tiny-v1@sha256:")
    assert (tiny.root / "dist" / "tiny-v1" / "index.json").exists()


def test_an_absolute_source_and_one_from_home_work(place: Place, bake: Bake, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = place.add_model()
    monkeypatch.setenv("HOME", str(place.root))

    assert bake("-q", "add", "a@v1", f"dir://{folder}").code == 0
    assert bake("-q", "add", "b@v1", "dir://~/m").code == 0


def test_a_lock_that_is_a_link_stays_one(place: Place, bake: Bake) -> None:
    place.add_model()
    place.lock.rename(place.root / "real.lock")
    place.lock.symlink_to("real.lock")

    assert bake("-q", "add", "tiny@v1", "dir://m").code == 0
    assert place.lock.is_symlink()
    assert "tiny" in (place.root / "real.lock").read_text()


def test_the_lock_keeps_its_mode(tiny: Place, bake: Bake) -> None:
    os.chmod(tiny.lock, 0o664)  # noqa: PTH101

    assert bake("-q", "add", "b@v1", "dir://m").code == 0
    assert tiny.lock.stat().st_mode & 0o777 == 0o664


def test_show_says_everything_of_a_model(place: Place, bake: Bake) -> None:
    place.add_model("m")
    bake("-q", "add", "tiny@v1", f"dir://{TINY}", "--exclude", "generation_config.json")

    ran = bake("show", "tiny@v1")

    assert (ran.code, ran.err) == (0, "")
    assert "8 files, 134.2 kB" in ran.out
    assert "left out (1 file)" in ran.out
    assert "generation_config.json  161 B  excluded by the glob 'generation_config.json'" in ran.out
    assert "2 layers of weights, configuration and tokenizer" in ran.out


def test_show_of_a_model_that_is_not_resolved(place: Place, bake: Bake) -> None:
    place.write_lock(EMPTY_LOCK + '\n[[model]]\nname = "tiny"\nversion = "v1"\nsource = "hf://org/name"\n')

    ran = bake("show", "tiny@v1")

    assert (ran.code, ran.err) == (0, "")
    assert "not resolved: bake lock" in ran.out
    assert bake("plan", "tiny@v1").err == error("tiny@v1 is not resolved yet", hint="bake lock tiny@v1")


@pytest.mark.usefixtures("tiny")
def test_an_unknown_model_is_told_with_near_ones(bake: Bake) -> None:
    assert bake("show", "tiny@v2") == Ran(3, "", error("no model tiny@v2 in the lock", hint="did you mean tiny@v1?"))


def test_plan_foretells_and_does_nothing(tiny: Place, bake: Bake) -> None:
    before, store = files_below(tiny.root), files_below(tiny.store)

    ran = bake("--json", "plan", "tiny@v1")

    planned = {key: ran.document[key] for key in ("fetch", "read", "write", "output")}
    assert planned == {"fetch": 0, "read": 417, "write": 9216, "output": f"oci:{tiny.root}/dist/tiny-v1"}
    assert (files_below(tiny.root), files_below(tiny.store)) == (before, store)


@pytest.mark.usefixtures("built")
def test_plan_of_a_built_model_has_nothing_to_do(bake: Bake) -> None:
    ran = bake("--json", "plan", "tiny@v1")

    assert (ran.document["read"], ran.document["write"]) == (0, 0)
    assert [layer["state"] for layer in ran.document["layers"]] == ["in the output"] * 2


def test_no_lock_anywhere_says_how_to_begin(place: Place, bake: Bake) -> None:
    place.lock.unlink()

    assert bake("list") == Ran(3, "", error(f"no models.lock in {place.root} or above", hint="bake init writes one"))


def test_a_lock_that_is_named_and_missing_is_not_looked_for_above(bake: Bake, tmp_path: Path) -> None:
    ran = bake("--lock", str(tmp_path / "other.lock"), "list")

    assert ran == Ran(
        3, "", error(f"no lock {tmp_path}/other.lock", hint=f"bake init --lock {tmp_path}/other.lock writes one")
    )
