from __future__ import annotations

import os
import socket
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bake.errors import SourceError
from bake.folder import FolderSnapshot
from bake.select import Excluded, select
from bake.snapshot import Fingerprint, SourceFile

if TYPE_CHECKING:
    from collections.abc import Iterator

MEND = "mend it, or leave it out with an exclude glob"


def write(path: Path, content: bytes = b"content") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def raised(root: Path, *paths: str) -> tuple[str, str | None]:
    """The message and hint with which these files are refused; the root is written as ROOT."""
    with pytest.raises(SourceError) as caught:
        FolderSnapshot(root).check([SourceFile(path=path, size=0) for path in paths])
    return caught.value.message.replace(str(root), "ROOT"), caught.value.hint


@pytest.fixture
def open_root() -> Iterator[Path]:
    """A folder that any user may enter."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        root.chmod(0o755)
        yield root


@contextmanager
def ordinary_user() -> Iterator[None]:
    """Whoever runs the tests, without root's right to read everything."""
    before = os.geteuid()
    os.seteuid(before or 65534)
    try:
        yield
    finally:
        os.seteuid(before)


def test_files_are_listed_in_order_with_their_sizes(tmp_path: Path) -> None:
    write(tmp_path / "b.json", b"22")
    write(tmp_path / "a" / "deep" / "x.bin", b"4444")
    write(tmp_path / "a.json", b"1")

    assert FolderSnapshot(tmp_path).files() == (
        SourceFile(path="a.json", size=1),
        SourceFile(path="a/deep/x.bin", size=4),
        SourceFile(path="b.json", size=2),
    )


def test_a_hidden_folder_is_not_looked_into_and_is_listed_as_excluded(tmp_path: Path) -> None:
    write(tmp_path / ".git" / "objects" / "ab", b"object")
    write(tmp_path / "sub" / ".cache" / "x", b"cached")
    write(tmp_path / ".gitattributes", b"123")
    write(tmp_path / "config.json", b"{}")
    snapshot = FolderSnapshot(tmp_path)

    selection = select(snapshot.files(), skipped=snapshot.skipped())

    assert selection.kept == (SourceFile(path="config.json", size=2),)
    assert selection.excluded == (
        Excluded(path=".git/", size=None, reason="a hidden folder"),
        Excluded(path=".gitattributes", size=3, reason="a hidden file"),
        Excluded(path="sub/.cache/", size=None, reason="a hidden folder"),
    )


def test_a_link_to_a_file_inside_is_a_plain_file(tmp_path: Path) -> None:
    write(tmp_path / "blobs" / "one", b"bytes")
    (tmp_path / "config.json").symlink_to("blobs/one")
    snapshot = FolderSnapshot(tmp_path)

    snapshot.check(snapshot.files())

    assert SourceFile(path="config.json", size=5) in snapshot.files()
    with snapshot.open("config.json") as stream:
        assert stream.read() == b"bytes"


def test_the_root_may_itself_be_a_link(tmp_path: Path) -> None:
    write(tmp_path / "real" / "config.json", b"bytes")
    (tmp_path / "link").symlink_to("real")

    with FolderSnapshot(tmp_path / "link").open("config.json") as stream:
        assert stream.read() == b"bytes"


def test_all_faults_of_kept_files_are_told_at_once(tmp_path: Path) -> None:
    root = tmp_path / "model"
    write(root / "config.json")
    write(root / "sub" / "x.bin")
    write(tmp_path / "outside.json")
    (root / "out.json").symlink_to("../outside.json")
    (root / "dangling.json").symlink_to("nowhere.json")
    (root / "loop.json").symlink_to("loop.json")
    (root / "folder").symlink_to("sub")
    os.mkfifo(root / "pipe")
    (root / "device").symlink_to("/dev/null")
    snapshot = FolderSnapshot(root)

    message, hint = raised(root, *(file.path for file in snapshot.files()))

    assert message == (
        "ROOT: 6 files cannot be used:"
        "\n  dangling.json is missing, or a link to a file that is missing"
        "\n  device is a link out of the folder, to /dev/null"
        "\n  folder is a link to a folder, where a file is expected"
        "\n  loop.json is a link in a loop, or became a link while it was read"
        f"\n  out.json is a link out of the folder, to {tmp_path}/outside.json"
        "\n  pipe is a named pipe"
    )
    assert hint == "copy the file into the folder"


def test_faults_of_files_that_are_left_out_do_not_matter(tmp_path: Path) -> None:
    write(tmp_path / "config.json")
    (tmp_path / "dangling.md").symlink_to("nowhere.md")
    snapshot = FolderSnapshot(tmp_path)

    snapshot.check(select(snapshot.files()).kept)

    assert snapshot.files() == (SourceFile(path="config.json", size=7), SourceFile(path="dangling.md", size=0))


def test_a_socket_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's path is short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")

    assert raised(tmp_path, "socket") == ("ROOT: socket is a socket", MEND)


def test_a_link_into_a_hugging_face_cache_is_told_to_use_the_hub(tmp_path: Path) -> None:
    cache = tmp_path / "models--org--name"
    write(cache / "blobs" / "abc")
    root = cache / "snapshots" / "main"
    root.mkdir(parents=True)
    (root / "config.json").symlink_to("../../blobs/abc")

    assert raised(root, "config.json") == (
        f"ROOT: config.json is a link out of the folder, to {cache}/blobs/abc",
        "this is a Hugging Face cache: name the source hf://org/name, and bake takes the files from the cache",
    )


def test_an_unreadable_file_is_refused(open_root: Path) -> None:
    write(open_root / "config.json").chmod(0)

    with ordinary_user():
        assert raised(open_root, "config.json") == (
            "ROOT: config.json cannot be read: permission denied",
            "make it readable for your user",
        )


def test_a_folder_that_cannot_be_listed_is_refused_unless_left_out(open_root: Path) -> None:
    write(open_root / "lost+found" / "x").parent.chmod(0)
    write(open_root / "config.json").chmod(0o644)
    snapshot = FolderSnapshot(open_root)

    with ordinary_user():
        snapshot.check(select(snapshot.files(), exclude=["lost+found"]).kept)

        assert raised(open_root, "lost+found") == (
            "ROOT: lost+found is a folder that cannot be listed: permission denied",
            MEND,
        )


def test_a_name_that_no_image_can_hold_is_refused_in_printable_characters(tmp_path: Path) -> None:
    write(tmp_path / "a\nb.json")
    (tmp_path / os.fsdecode(b"caf\xe9.json")).write_bytes(b"")

    message, _ = raised(tmp_path, *(file.path for file in FolderSnapshot(tmp_path).files()))

    assert message == (
        "ROOT: 2 files cannot be used:"
        "\n  'a\\nb.json' holds the control character U+000A"
        "\n  'caf\\udce9.json' is not valid UTF-8"
    )


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "sub/../../secret"])
def test_a_path_out_of_the_folder_is_never_opened(tmp_path: Path, path: str) -> None:
    write(tmp_path / "secret")
    (tmp_path / "model" / "sub").mkdir(parents=True)

    with pytest.raises(SourceError):
        FolderSnapshot(tmp_path / "model").open(path)


def test_a_file_that_vanished_is_told_so(tmp_path: Path) -> None:
    write(tmp_path / "config.json")
    snapshot = FolderSnapshot(tmp_path)
    snapshot.files()
    (tmp_path / "config.json").unlink()

    with pytest.raises(SourceError) as caught:
        snapshot.open("config.json")

    assert caught.value.message == f"{tmp_path}: config.json is missing, or a link to a file that is missing"


def test_a_folder_swapped_for_a_link_out_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "outside" / "config.json")
    write(tmp_path / "model" / "sub" / "config.json")
    snapshot = FolderSnapshot(tmp_path / "model")
    snapshot.files()
    (tmp_path / "model" / "sub").rename(tmp_path / "moved")
    (tmp_path / "model" / "sub").symlink_to("../outside")

    with pytest.raises(SourceError) as caught:
        snapshot.open("sub/config.json")

    assert caught.value.message == (
        f"{tmp_path}/model: sub/config.json is a link out of the folder, to {tmp_path}/outside/config.json"
    )


def test_a_missing_root_a_file_as_root_and_an_empty_root_are_told_apart(tmp_path: Path) -> None:
    write(tmp_path / "file")
    (tmp_path / "empty" / "folder").mkdir(parents=True)

    with pytest.raises(SourceError) as missing:
        FolderSnapshot(tmp_path / "nowhere").files()
    with pytest.raises(SourceError) as no_folder:
        FolderSnapshot(tmp_path / "file").files()
    with pytest.raises(SourceError) as empty:
        FolderSnapshot(tmp_path / "empty").files()

    assert missing.value.message == f"no such folder: {tmp_path}/nowhere"
    assert no_folder.value.message == f"not a folder: {tmp_path}/file"
    assert empty.value.message == f"{tmp_path}/empty holds no files"


def test_a_fingerprint_is_one_stat_of_the_file(tmp_path: Path) -> None:
    found = write(tmp_path / "config.json", b"12").stat()

    assert FolderSnapshot(tmp_path).fingerprint("config.json") == Fingerprint(
        device=found.st_dev,
        inode=found.st_ino,
        size=2,
        mtime_ns=found.st_mtime_ns,
        ctime_ns=found.st_ctime_ns,
    )


def test_a_fingerprint_changes_though_size_and_mtime_are_set_back(tmp_path: Path) -> None:
    path = write(tmp_path / "config.json", b"12")
    before, found = FolderSnapshot(tmp_path).fingerprint("config.json"), path.stat()
    path.with_suffix(".new").write_bytes(b"21")
    path.with_suffix(".new").replace(path)
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))

    assert FolderSnapshot(tmp_path).fingerprint("config.json") != before
