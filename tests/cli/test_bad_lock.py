"""Locks that are damaged: each command refuses them with one error, exit code 3, and leaves them as they are."""

from __future__ import annotations

import pytest

from tests.cli.place import Bake, Place, Ran, error, files_below
from tests.cli.users import NOBODY, needs_root
from tests.entrypoint.files import FIRST

WORDS = [
    ("list",),
    ("show", "tiny@v1"),
    ("plan", "tiny@v1"),
    ("build", "tiny@v1"),
    ("lock",),
    ("lock", "--check"),
    ("lock", "--upgrade", "tiny@v1"),
    ("add", "other@v1", "dir://m"),
    ("verify", "tiny@v1"),
]


def refused(place: Place, bake: Bake, *words: str) -> Ran:
    """What a command says that must fail, and change nothing."""
    before = files_below(place.root)
    ran = bake("-q", *words)
    assert files_below(place.root) == before
    told = [line.split(":")[0] for line in ran.err.splitlines() if not line.startswith((" ", "warning:"))]
    assert told in (["error"], ["error", "hint"])
    return ran


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_a_lock_cut_in_half_is_refused_by_every_command(tiny: Place, bake: Bake, words: tuple[str, ...]) -> None:
    content = tiny.lock.read_bytes()
    tiny.lock.write_bytes(content[: content.index(b"sha256 =") + 20])

    ran = refused(tiny, bake, *words)

    assert (ran.code, ran.out) == (3, "")
    assert ran.err.startswith("error: models.lock: not valid TOML: ")


@pytest.mark.parametrize("at", [0.1, 0.25, 0.5, 0.75, 0.9])
def test_a_lock_cut_anywhere_is_refused(tiny: Place, bake: Bake, at: float) -> None:
    content = tiny.lock.read_bytes()
    tiny.lock.write_bytes(content[: int(len(content) * at)])

    assert refused(tiny, bake, "build", "tiny@v1").code == 3


def test_a_lock_that_lost_its_last_records_is_refused(tiny: Place, bake: Bake) -> None:
    text = tiny.lock.read_text()
    tiny.write_lock(text[: text.rindex("  [[model.file]]")])

    ran = refused(tiny, bake, "build", "tiny@v1")

    assert ran.code == 3
    assert ran.err.startswith("error: models.lock: model[0].set_digest: expected sha256:")


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_merge_markers_are_named_with_their_line(tiny: Place, bake: Bake, words: tuple[str, ...]) -> None:
    tiny.write_lock(tiny.lock.read_text().replace("[[model]]", "<<<<<<< HEAD\n[[model]]\n=======\n>>>>>>> theirs", 1))

    ran = refused(tiny, bake, *words)

    line = tiny.lock.read_text().splitlines().index("<<<<<<< HEAD") + 1
    assert (ran.code, ran.out) == (3, "")
    assert ran.err.startswith(f"error: models.lock: line {line} is a merge conflict marker: <<<<<<<")


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_a_wrong_digest_of_a_file_is_refused(tiny: Place, bake: Bake, words: tuple[str, ...]) -> None:
    text = tiny.lock.read_text()
    at = text.index('sha256 = "') + len('sha256 = "')
    tiny.write_lock(text[:at] + "0" * 8 + text[at + 8 :])

    ran = refused(tiny, bake, *words)

    assert (ran.code, ran.out) == (3, "")
    assert ran.err.startswith("error: models.lock: model[0].set_digest: expected sha256:")


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_one_name_twice_is_refused(tiny: Place, bake: Bake, words: tuple[str, ...]) -> None:
    text = tiny.lock.read_text()
    tiny.write_lock(text + "\n" + text[text.index("[[model]]") :])

    ran = refused(tiny, bake, *words)

    assert (ran.code, ran.out) == (3, "")
    assert ran.err.startswith("error: models.lock: model[1]: tiny@v1 is already model[0]\n")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("version = 1\n", "version = 2\n", "models.lock: version: this bake reads format 1, found 2"),
        ("version = 1\n", "", "models.lock: version: missing"),
        (
            "size = 23",
            "size = -1",
            "models.lock: model[0].file[0].size: expected a number of bytes from 0 to 2^53 - 1, found -1",
        ),
        ("size = 23", 'size = "23"', "models.lock: model[0].file[0].size: expected a whole number, found '23'"),
        ('base = "scratch"', 'base = "x"', "models.lock: model[0].base: expected one of scratch, found 'x'"),
        ('name = "tiny"', 'nam = "tiny"', "models.lock: model[0].nam: unknown key"),
    ],
)
def test_a_wrong_value_is_named_with_its_place(tiny: Place, bake: Bake, old: str, new: str, message: str) -> None:
    text = tiny.lock.read_text()
    assert old in text
    tiny.write_lock(text.replace(old, new, 1))

    ran = refused(tiny, bake, "list")

    assert (ran.code, ran.err.splitlines()[0]) == (3, f"error: {message}")


@pytest.mark.parametrize("path", ["../config.json", "/etc/passwd", "a//b", "a/../b", "./a", "a\\\\b", ".wh.x", ""])
def test_a_path_that_leaves_the_folder_is_refused(tiny: Place, bake: Bake, path: str) -> None:
    tiny.write_lock(tiny.lock.read_text().replace('path = "config.json"', f'path = "{path}"'))

    ran = refused(tiny, bake, "build", "tiny@v1")

    assert ran.code == 3
    assert ran.err.startswith("error: models.lock: model[0].file[0].path: expected a file's path inside")


@pytest.mark.parametrize("content", [b"version = 1\xff\n", b"\xff\xfev\0", b"\0", b"\x80" * 100])
def test_bytes_that_are_no_text_are_refused(place: Place, bake: Bake, content: bytes) -> None:
    place.lock.write_bytes(content)

    ran = refused(place, bake, "list")

    assert (ran.code, ran.out) == (3, "")


def test_an_empty_lock_is_refused(place: Place, bake: Bake) -> None:
    place.write_lock("")

    assert refused(place, bake, "list").err.startswith("error: models.lock: version: missing\n")


def test_a_byte_order_mark_does_no_harm(place: Place, bake: Bake) -> None:
    place.lock.write_bytes(b"\xef\xbb\xbfversion = 1\n")

    assert bake("-q", "list") == Ran(0, "", "")


def test_a_lock_with_carriage_returns_is_read(tiny: Place, bake: Bake) -> None:
    tiny.lock.write_bytes(tiny.lock.read_bytes().replace(b"\n", b"\r\n"))

    assert bake("-q", "build", "tiny@v1").code == 0


def test_a_folder_in_the_lock_s_place_is_told(place: Place, bake: Bake) -> None:
    place.lock.unlink()
    place.lock.mkdir()

    assert refused(place, bake, "list") == Ran(3, "", error(f"cannot read {place.lock}: Is a directory"))


def test_a_dangling_link_in_the_lock_s_place_is_told(place: Place, bake: Bake) -> None:
    place.lock.unlink()
    place.lock.symlink_to("nothing")

    assert refused(place, bake, "list").code == 3


@needs_root
def test_a_folder_above_that_may_not_be_entered_is_told(place: Place) -> None:
    place.root.parent.chmod(0o700)

    ran = place.run("list", before=NOBODY)

    assert ran == Ran(3, "", error(f"cannot read {place.lock}: Permission denied"))


@needs_root
def test_a_lock_that_may_not_be_read_is_told(place: Place) -> None:
    place.lock.chmod(0o600)

    ran = place.run("list", before=NOBODY)

    assert ran == Ran(3, "", error(f"cannot read {place.lock}: Permission denied"))


def test_a_lock_from_a_newer_minor_is_read_and_never_written(tiny: Place, bake: Bake) -> None:
    tiny.write_lock(newer(tiny.lock.read_text()))

    assert bake("-q", "list").code == 0
    assert refused(tiny, bake, "add", "other@v1", "dir://m").code == 3


def test_a_model_of_a_newer_minor_is_built(tiny: Place, bake: Bake) -> None:
    tiny.write_lock(newer(tiny.lock.read_text()))
    before = tiny.lock.read_bytes()

    assert bake("-q", "build", "tiny@v1").code == 0
    assert tiny.lock.read_bytes() == before


def newer(lock: str) -> str:
    return lock.replace("version = 1\n", 'version = "1.7"\nnews = true\n')


@pytest.mark.parametrize("layer", [0, 1])
def test_a_layer_of_files_that_are_not_there_is_refused(tiny: Place, bake: Bake, layer: int) -> None:
    name = ("config.json", FIRST)[layer]
    text = tiny.lock.read_text()
    at = text.index(f'files = ["{name}"')
    tiny.write_lock(text[:at] + text[at:].replace(name, "nothing.json", 1))

    assert refused(tiny, bake, "build", "tiny@v1").code == 3
