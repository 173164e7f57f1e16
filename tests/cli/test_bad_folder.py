"""Model folders that hold what no model holds: told in one error, with nothing written."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

from tests.cli.place import EMPTY_LOCK, Bake, Place, Ran, error, whole
from tests.cli.users import NOBODY, ROOT, free, needs_root
from tests.entrypoint.files import FIRST, SECOND

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MEND = "mend it, or leave it out with an exclude glob"


def refused(place: Place, bake: Bake, *words: str) -> Ran:
    """What `bake add` says of the folder `m`; it must fail and leave nothing."""
    ran = bake("-q", "add", "tiny@v1", "dir://m", *words)
    assert (ran.code, ran.out) == (4, "")
    assert "Traceback" not in ran.err
    assert place.lock.read_text() == EMPTY_LOCK
    assert sorted(path.name for path in place.root.iterdir() if path.name != "m") == ["models.lock"]
    return ran


def link_out(folder: Path) -> None:
    (folder / "x.json").symlink_to("/etc/passwd")


def link_up(folder: Path) -> None:
    (folder / "x.json").symlink_to("../models.lock")


def dangling_link(folder: Path) -> None:
    (folder / "x.json").symlink_to("nothing")


def link_to_itself(folder: Path) -> None:
    (folder / "x.json").symlink_to("x.json")


def link_to_a_folder(folder: Path) -> None:
    (folder / "x.json").symlink_to(".")


def pipe(folder: Path) -> None:
    os.mkfifo(folder / "x.json")


def device(folder: Path) -> None:
    os.mknod(folder / "x.json", 0o20644, os.makedev(1, 3))


def unix_socket(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        here = os.open(".", os.O_RDONLY)
        os.chdir(folder)  # the address must be short
        bound.bind("x.json")
        os.fchdir(here)
        os.close(here)


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        (link_out, "x.json is a link out of the folder, to /etc/passwd"),
        (link_up, "x.json is a link out of the folder, to {root}/models.lock"),
        (dangling_link, "x.json is missing, or a link to a file that is missing"),
        (link_to_itself, "x.json is a link in a loop, or became a link while it was read"),
        (link_to_a_folder, "x.json is a link to a folder, where a file is expected"),
        (pipe, "x.json is a named pipe"),
        (unix_socket, "x.json is a socket"),
        pytest.param(device, "x.json is a character device", marks=pytest.mark.skipif(not ROOT, reason="needs root")),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_is_no_file_of_the_folder_is_named(
    place: Place, bake: Bake, spoil: Callable[[Path], None], what: str
) -> None:
    spoil(place.add_model())

    ran = refused(place, bake)

    assert ran.err.splitlines()[0] == f"error: {place.root}/m: {what.format(root=place.root)}"
    assert ran.err.count("\n") == 2


@pytest.mark.parametrize("spoil", [link_out, dangling_link, link_to_itself, pipe, unix_socket])
def test_what_is_left_out_may_be_anything(place: Place, bake: Bake, spoil: Callable[[Path], None]) -> None:
    spoil(place.add_model())

    assert bake("-q", "add", "tiny@v1", "dir://m", "--exclude", "x.json").code == 0
    assert bake("-q", "build", "tiny@v1").code == 0


@pytest.mark.parametrize("spoil", [link_out, dangling_link, link_to_itself, pipe, unix_socket])
def test_a_locked_file_that_becomes_something_else_is_refused_by_build(
    tiny: Place, bake: Bake, spoil: Callable[[Path], None]
) -> None:
    (tiny.root / "m" / "config.json").unlink()
    spoil(tiny.root / "m")
    (tiny.root / "m" / "x.json").rename(tiny.root / "m" / "config.json")

    ran = bake("-q", "build", "tiny@v1")

    assert (ran.code, ran.out) == (4, "")
    assert "config.json" in ran.err
    assert not (tiny.root / "dist" / "tiny-v1" / "index.json").exists()


NAMES = [
    "with space.json",
    "it's.json",
    'a "quote".json',
    "größe.json",
    "模型.json",
    "e\u0301.json",
    "🎂.json",
    "-rf.json",
    "--help",
    "$(id).json",
    "a;b.json",
    "#x.json",
    "%41.json",
    "[a].json",
    "*",
    "x" * 255,
    "/".join(["d" * 150, "e" * 149, "f.json"]),
    "/".join(["deep"] * 100 + ["f.json"]),
]


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_any_name_that_a_layer_can_hold_is_baked(place: Place, bake: Bake, name: str) -> None:
    path = place.add_model() / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{}")

    assert bake("-q", "add", "tiny@v1", "dir://m").code == 0
    assert bake("-q", "lock", "--check", "tiny@v1").code == 0
    assert bake("-q", "build", "tiny@v1").code == 0
    assert whole(place.root / "dist" / "tiny-v1") == ()
    assert bake("-q", "verify", "tiny@v1", "--level", "full").code == 0
    assert bake("-q", "verify", "m", "--level", "full").code == 0
    assert name in [file["path"] for file in bake("--json", "show", "tiny@v1").document["files"]]


@pytest.mark.parametrize(
    ("name", "what"),
    [
        (b"a\nb.json", "'a\\nb.json' holds the control character U+000A"),
        (b"a\tb.json", "'a\\tb.json' holds the control character U+0009"),
        (b"\x1b[31m.json", "'\\x1b[31m.json' holds the control character U+001B"),
        (b"\xff.json", "'\\udcff.json' is not valid UTF-8"),
        (b"a\\b.json", "a\\b.json holds a backslash"),
    ],
)
def test_a_name_that_no_layer_can_hold_is_named_on_one_line(place: Place, bake: Bake, name: bytes, what: str) -> None:
    (place.add_model() / os.fsdecode(name)).write_text("{}")

    assert refused(place, bake).err == error(f"{place.root}/m: {what}", hint=MEND)


def test_an_empty_folder(place: Place, bake: Bake) -> None:
    (place.root / "m").mkdir()

    assert refused(place, bake).err.startswith(f"error: {place.root}/m holds no files\n")


def test_a_folder_of_empty_folders(place: Place, bake: Bake) -> None:
    (place.root / "m" / "a" / "b").mkdir(parents=True)

    assert refused(place, bake).err.startswith(f"error: {place.root}/m holds no files\n")


def test_a_folder_that_is_not_there(place: Place, bake: Bake) -> None:
    assert refused(place, bake).err == error(f"no such folder: {place.root}/m", hint="check the path after dir://")


def test_a_file_in_the_folder_s_place(place: Place, bake: Bake) -> None:
    (place.root / "m").write_text("")

    assert refused(place, bake).err.startswith(f"error: not a folder: {place.root}/m\n")


def test_a_folder_of_documentation_alone(place: Place, bake: Bake) -> None:
    (place.root / "m").mkdir()
    (place.root / "m" / "README.md").write_text("")

    assert "has no file to bake" in refused(place, bake).err


def test_a_shard_of_no_bytes(place: Place, bake: Bake) -> None:
    (place.add_model() / FIRST).write_bytes(b"")

    ran = refused(place, bake)

    assert ran.err.splitlines()[:2] == [
        f"error: tiny@v1: {place.root}/m is not a model that can be loaded",
        f"{FIRST}: truncated",
    ]


def test_a_shard_of_no_bytes_after_it_was_locked(tiny: Place, bake: Bake) -> None:
    (tiny.root / "m" / FIRST).write_bytes(b"")

    assert bake("-q", "build", "tiny@v1").code == 6


def test_lfs_pointers_are_named_all_at_once(place: Place, bake: Bake) -> None:
    folder = place.add_model()
    for name in (FIRST, SECOND):
        (folder / name).write_text(
            f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 4976698672\n"
        )

    ran = refused(place, bake)

    assert [line for line in ran.err.splitlines() if "lfs-pointer" in line] == [
        f"{FIRST}: lfs-pointer",
        f"{SECOND}: lfs-pointer",
    ]
    assert ran.err.count("4,976,698,672 bytes") == 2


def test_a_missing_shard(place: Place, bake: Bake) -> None:
    (place.add_model() / SECOND).unlink()

    assert SECOND in refused(place, bake).err


@needs_root
@pytest.mark.parametrize("name", ["m", "m/config.json", "m/sub"])
def test_what_may_not_be_read_is_told(place: Place, tmp_path: Path, name: str) -> None:
    (place.add_model() / "sub").mkdir()
    (place.root / "m" / "sub" / "x.json").write_text("{}")
    (place.root / name).chmod(0)

    ran = place.run("-q", "add", "tiny@v1", "dir://m", before=NOBODY, environ={"BAKE_CACHE": free(tmp_path)})

    assert (ran.code, ran.out) == (4, "")
    assert "permission denied" in ran.err
    assert "Traceback" not in ran.err
