"""`bake build` of several models: which ones, where each goes, what is said in the end, and with which exit code."""

from __future__ import annotations

import re

import pytest

from tests.cli.place import Bake, Place, Ran, error, whole
from tests.cli.several import LOCKED, add_models, alter, commit, states
from tests.entrypoint.files import model_files, write

HINT = "bake build NAME@VERSION for one, bake build --all for every model of the lock"


@pytest.fixture
def three(place: Place, bake: Bake) -> Place:
    """`a@v1`, `b@v1` and `c@v1` in the lock, which share nothing."""
    add_models(place, bake, "a", "b", "c")
    return place


def without_times(text: str) -> str:
    return re.sub(r" +\d+\.\d( s)?$", " …", text, flags=re.MULTILINE)


# --- which ones


def test_those_that_are_named_are_built_in_that_order(three: Place, bake: Bake) -> None:
    ran = bake("-q", "build", "c@v1", "a@v1")

    assert (ran.code, ran.err) == (0, "")
    assert [line.partition("@")[0] for line in ran.out.splitlines()] == ["oci:dist/c-v1", "oci:dist/a-v1"]
    assert whole(three.root / "dist" / "c-v1") + whole(three.root / "dist" / "a-v1") == ()
    assert not (three.root / "dist" / "b-v1").exists()


@pytest.mark.usefixtures("three")
def test_all_are_those_of_the_lock(bake: Bake) -> None:
    ran = bake("--json", "build", "--all")

    assert states(ran) == [("a@v1", "built"), ("b@v1", "built"), ("c@v1", "built")]


def test_those_that_changed_since_a_revision_are_built(three: Place, bake: Bake) -> None:
    commit(three)
    add_models(three, bake, "d")

    assert states(bake("--json", "build", "--changed-since", "HEAD")) == [("d@v1", "built")]


def test_nothing_that_changed_is_told_and_is_no_failure(three: Place, bake: Bake) -> None:
    commit(three)

    assert bake("build", "--changed-since", "HEAD") == Ran(0, "", "no image changes since HEAD: nothing to do\n")
    assert bake("-q", "--json", "build", "--changed-since", "HEAD") == Ran(0, "[]\n", "")


@pytest.mark.usefixtures("place")
def test_a_lock_without_models_is_told(bake: Bake) -> None:
    assert bake("build", "--all") == Ran(0, "", "the lock has no models: nothing to do\n")


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ([], "none of them"),
        (["a@v1", "--all"], "NAME@VERSION and --all"),
        (["--all", "--changed-since", "HEAD"], "--all and --changed-since"),
    ],
)
@pytest.mark.usefixtures("three")
def test_there_is_exactly_one_way_to_select(bake: Bake, words: list[str], found: str) -> None:
    expected = f"expected NAME@VERSION, --all or --changed-since REV, found {found}"

    assert bake("build", *words) == Ran(2, "", error(expected, hint=HINT))


@pytest.mark.usefixtures("three")
def test_a_pin_without_a_revision_is_refused(bake: Bake) -> None:
    assert bake("build", "--all", "--pin", "requirements.txt") == Ran(
        2, "", error("--pin names a file to compare with a revision", hint="add --changed-since REV")
    )


def test_all_that_is_unknown_is_told_before_anything_is_built(three: Place, bake: Bake) -> None:
    ran = bake("build", "a@v1", "x@v1", "y@v1")

    assert (ran.code, ran.out) == (3, "")
    assert ran.err.startswith("error: no model x@v1 in the lock\nno model y@v1 in the lock\nhint: ")
    assert not (three.root / "dist").exists()


def test_what_is_too_large_is_left_out_and_named(three: Place, bake: Bake) -> None:
    write(three.root / "big", model_files() | {"tokenizer.json": b"{" + b" " * 5000 + b"}"})
    assert bake("-q", "add", "big@v1", "dir://big").code == 0

    ran = bake("--json", "build", "--all", "--max-size", "5kB")

    assert (ran.code, dict(states(ran))) == (
        0,
        {"a@v1": "built", "b@v1": "built", "big@v1": "too large", "c@v1": "built"},
    )
    assert sorted(path.name for path in (three.root / "dist").iterdir()) == ["a-v1", "b-v1", "c-v1"]


@pytest.mark.parametrize(("size", "is_built"), [("430B", True), ("429B", False), ("0.4kB", False), ("1 KiB", True)])
@pytest.mark.usefixtures("three")
def test_a_size_is_in_bytes_as_people_write_them(bake: Bake, size: str, *, is_built: bool) -> None:
    (document,) = bake("--json", "build", "a@v1", "--max-size", size).document

    assert (document["model_bytes"], document["outcome"] == "built") == (430, is_built)


@pytest.mark.parametrize("size", ["", "4", "big", "-1GB", "4Gbit"])
@pytest.mark.usefixtures("three")
def test_a_size_that_is_none_is_refused(bake: Bake, size: str) -> None:
    ran = bake("build", "--all", "--max-size", size)

    assert (ran.code, ran.err.splitlines()[0]) == (
        2,
        f"error: Invalid value for '--max-size': expected a size such as 5GB, 500MB or 4GiB, found {size!r}",
    )


# --- what is said


@pytest.mark.usefixtures("three")
def test_people_see_a_table_and_what_it_adds_up_to(bake: Bake) -> None:
    bake("-q", "build", "b@v1")

    ran = bake("build", "--all", "--jobs", "1")

    assert without_times(ran.err).splitlines() == [
        "a@v1: packing: 430 B",
        "c@v1: packing: 430 B",
        "MODEL  OUTCOME        LAYERS     BYTES  SECONDS",
        "a@v1   built          2 packed  9.2 kB …",
        "b@v1   there already  0 packed     0 B …",
        "c@v1   built          2 packed  9.2 kB …",
        "3 images: 2 built, 1 there already; 4 packed, 18.4 kB, …",
    ]


@pytest.mark.usefixtures("three")
def test_what_is_too_large_stands_in_the_table_with_its_size(bake: Bake) -> None:
    ran = bake("build", "a@v1", "--max-size", "400B")

    assert (ran.code, ran.out) == (0, "")
    assert without_times(ran.err).splitlines() == [
        "MODEL  OUTCOME            LAYERS  BYTES  SECONDS",
        "a@v1   too large (430 B)  -           -        -",
        "1 image: 1 too large, …",
    ]


@pytest.mark.usefixtures("three")
def test_quiet_says_nothing_but_the_result(bake: Bake) -> None:
    ran = bake("-q", "build", "--all")

    assert (len(ran.out.splitlines()), ran.err) == (3, "")


def test_one_that_fails_stops_no_other_and_is_told_twice(three: Place, bake: Bake) -> None:
    why = alter(three, "b")

    ran = bake("-q", "build", "--all")

    assert (ran.code, [line.partition("@")[0] for line in ran.out.splitlines()]) == (
        6,
        ["oci:dist/a-v1", "oci:dist/c-v1"],
    )
    assert ran.err.splitlines() == [
        f"warning: b@v1 failed: {why} (hint: {LOCKED})",
        f"error: b@v1: {why}",
        f"hint: {LOCKED}",
        "error: 1 of 3 images failed",
    ]
    assert not (three.root / "dist" / "b-v1").exists()


def test_a_second_run_completes_what_failed(three: Place, bake: Bake) -> None:
    before = (three.root / "b" / "config.json").read_bytes()
    alter(three, "b")
    bake("-q", "build", "--all")
    (three.root / "b" / "config.json").write_bytes(before)

    ran = bake("-q", "--json", "build", "--all")

    assert (ran.code, states(ran)) == (0, [("a@v1", "there already"), ("b@v1", "built"), ("c@v1", "there already")])


def test_failures_of_several_kinds_end_with_1(three: Place, bake: Bake) -> None:
    alter(three, "a")
    (three.root / "dist").mkdir()
    (three.root / "dist" / "b-v1").write_text("mine")

    ran = bake("-q", "--json", "build", "--all")

    assert (ran.code, [item.get("error", {}).get("exit_code") for item in ran.document]) == (1, [6, 7, None])


def test_json_is_a_list_with_the_error_of_what_failed(three: Place, bake: Bake) -> None:
    why = alter(three, "a")

    failed, made = bake("-q", "--json", "build", "a@v1", "b@v1").document

    assert failed | {"seconds": 0} == {
        "model": "a@v1",
        "output": f"oci:{three.root}/dist/a-v1",
        "outcome": "failed",
        "model_bytes": 430,
        "seconds": 0,
        "error": {"message": why, "hint": LOCKED, "exit_code": 6},
    }
    assert (made["model"], made["reference"].partition("@")[0]) == ("b@v1", "oci:dist/b-v1")


@pytest.mark.usefixtures("three")
def test_one_model_alone_is_told_as_ever(bake: Bake) -> None:
    ran = bake("--json", "build", "a@v1")

    assert ran.document["model"] == "a@v1"
    assert "outcome" not in ran.document


@pytest.mark.usefixtures("three")
def test_one_at_a_time_and_many_at_once_make_the_same_images(bake: Bake) -> None:
    one = bake("-q", "build", "--all", "--jobs", "1", "--to", "oci:one/{name}")
    many = bake("-q", "build", "--all", "--jobs", "8", "--to", "oci:many/{name}")

    assert one.out == many.out.replace("oci:many/", "oci:one/")


def test_jobs_are_at_least_one(bake: Bake) -> None:
    assert bake("build", "--all", "--jobs", "0").code == 2
