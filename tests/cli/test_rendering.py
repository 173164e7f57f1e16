"""bake render -o: what it writes, and what it leaves alone."""

from __future__ import annotations

import json

import pytest

from tests.cli.place import Bake, Place, Ran, error, files_below

FOREIGN = "give another folder, or remove it"


def test_a_folder_becomes_a_build_context(tiny: Place, bake: Bake) -> None:
    ran = bake("-q", "render", "tiny@v1", "-o", "out")

    written = files_below(tiny.root / "out")
    assert ran == Ran(0, "out\n", "")
    assert written["Dockerfile"].decode() == bake("-q", "render", "tiny@v1").out
    assert set(written) == {"Dockerfile", "opt/bake/record.json"}
    assert (tiny.root / "out" / "link" / "models").is_symlink()


def test_what_bake_rendered_is_rendered_anew(tiny: Place, bake: Bake) -> None:
    bake("-q", "render", "tiny@v1", "-o", "out")
    before = files_below(tiny.root / "out")
    (tiny.root / "out" / "opt" / "bake" / "old.py").write_text("of an older bake")

    assert bake("-q", "render", "tiny@v1", "-o", "out").code == 0
    assert files_below(tiny.root / "out") == before


@pytest.mark.parametrize(
    "files", [{"Dockerfile": "FROM scratch\n"}, {"notes.txt": "mine"}, {"opt/bake/record.json": "mine"}]
)
def test_a_folder_of_somebody_else_stays(tiny: Place, bake: Bake, files: dict[str, str]) -> None:
    for path, text in files.items():
        (tiny.root / "out" / path).parent.mkdir(parents=True)
        (tiny.root / "out" / path).write_text(text)
    before = files_below(tiny.root)

    ran = bake("-q", "render", "tiny@v1", "-o", "out")

    assert ran == Ran(7, "", error("out exists and holds no Dockerfile that bake rendered", hint=FOREIGN))
    assert files_below(tiny.root) == before


def test_one_folder_of_somebody_else_among_several_leaves_all_as_they_were(tiny: Place, bake: Bake) -> None:
    bake("-q", "add", "tiny@v2", "dir://m")
    (tiny.root / "images" / "tiny-v2").mkdir(parents=True)
    (tiny.root / "images" / "tiny-v2" / "Dockerfile").write_text("FROM scratch\n")
    before = files_below(tiny.root)

    ran = bake("-q", "render", "--format", "bake", "-o", "images")

    assert ran == Ran(7, "", error("images/tiny-v2 exists and holds no Dockerfile that bake rendered", hint=FOREIGN))
    assert files_below(tiny.root) == before


def test_a_bake_file_names_folders_as_seen_from_its_own(tiny: Place, bake: Bake) -> None:
    bake("-q", "add", "other@v1.2", "dir://m")

    ran = bake("-q", "render", "--format", "bake", "-o", "below/images")

    assert ran == Ran(0, "below/images\n", "")
    assert json.loads((tiny.root / "below" / "images" / "docker-bake.json").read_text()) == {
        "group": {"default": {"targets": ["other_v1_2", "tiny_v1"]}},
        "target": {
            "other_v1_2": {"context": "other-v1.2", "tags": ["other:v1.2"], "contexts": {"model": "../../m"}},
            "tiny_v1": {"context": "tiny-v1", "tags": ["tiny:v1"], "contexts": {"model": "../../m"}},
        },
    }
    assert (tiny.root / "below" / "images" / "other-v1.2" / "Dockerfile").is_file()


def test_what_would_be_an_expression_in_a_bake_file_is_escaped(place: Place, bake: Bake) -> None:
    place.add_model("a${x}%{y}$z")
    assert bake("-q", "add", "tiny@v1", "dir://a${x}%{y}$z").code == 0

    ran = bake("-q", "render", "--format", "bake", "tiny@v1")

    assert json.loads(ran.out)["target"]["tiny_v1"]["contexts"] == {"model": "a$${x}%%{y}$z"}


@pytest.mark.parametrize(("first", "second"), [("a-b@c", "a@b-c"), ("a@v1.2", "a@v1_2")])
def test_two_names_that_are_one_in_a_bake_file_are_refused(place: Place, bake: Bake, first: str, second: str) -> None:
    place.add_model()
    bake("-q", "add", first, "dir://m")
    bake("-q", "add", second, "dir://m")

    ran = bake("-q", "render", "--format", "bake", first, second, "-o", "images")

    assert ran == Ran(
        2,
        "",
        error(
            f"two of {first}, {second} would have one name in a Bake file", hint="render them into folders of their own"
        ),
    )
    assert not (place.root / "images").exists()


@pytest.mark.parametrize("words", [(), ("tiny@v1", "tiny@v1")])
@pytest.mark.usefixtures("tiny")
def test_a_dockerfile_is_of_one_model(bake: Bake, words: tuple[str, ...]) -> None:
    assert bake("render", *words) == Ran(
        2, "", error("expected one NAME@VERSION", hint="bake render NAME@VERSION, or --format bake for several")
    )
