from __future__ import annotations

import errno
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

import pytest

from bake.digest import Digest
from bake.entrypoint.fault import FETCH_AGAIN, Fault, report
from bake.entrypoint.tree import Entry, FolderTree
from bake.entrypoint.verify import load_record, verify
from bake.errors import ImageError
from bake.record import Record
from tests.entrypoint.files import FIRST, INDEX, SECOND, frame, model_files, recorded, shard, write, write_sparse

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from bake.entrypoint.fault import Kind
    from bake.entrypoint.verify import Level

MODEL = recorded(model_files())
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 4976698672\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write(tmp_path / "model", model_files())


def check(root: Path, *, level: Level = "quick") -> tuple[Fault, ...]:
    return verify(MODEL, FolderTree(root), level=level)


def kinds(faults: tuple[Fault, ...]) -> list[tuple[str, Kind]]:
    return [(fault.path, fault.kind) for fault in faults]


@pytest.mark.parametrize("level", ["quick", "full"])
def test_a_model_as_recorded_has_no_fault(root: Path, level: Level) -> None:
    assert verify(MODEL, FolderTree(root), level=level, check_modes=True) == ()


@pytest.mark.parametrize("level", ["quick", "full"])
def test_a_missing_file_is_missing_and_nothing_more(root: Path, level: Level) -> None:
    (root / INDEX).unlink()
    (root / FIRST).unlink()

    assert kinds(check(root, level=level)) == [(FIRST, "missing"), (INDEX, "missing")]


def test_a_missing_file_tells_its_size_and_what_to_do(root: Path) -> None:
    (root / "config.json").unlink()

    assert check(root) == (
        Fault(path="config.json", kind="missing", expected="23 bytes", found="no such file", hint=FETCH_AGAIN),
    )


def test_an_extra_file_is_told_unless_it_is_ignored(root: Path) -> None:
    write(root, {"notes.json": b"no json", "lost": b"x", "model-00009-of-00009.safetensors": b""})
    hint = "delete it, or lock the model again if the file belongs to it"

    faults = verify(
        MODEL,
        FolderTree(root),
        level="quick",
        ignore=frozenset({"lost", "model-00009-of-00009.safetensors", "config.json"}),
    )

    assert faults == (
        Fault(path="notes.json", kind="extra", expected="no such file in the record", found="7 bytes", hint=hint),
    )


@pytest.mark.parametrize("level", ["quick", "full"])
def test_a_truncated_shard_is_one_fault(root: Path, level: Level) -> None:
    size = (root / FIRST).stat().st_size
    os.truncate(root / FIRST, 40)

    assert check(root, level=level) == (
        Fault(path=FIRST, kind="truncated", expected=f"{size} bytes", found="40 bytes", hint=FETCH_AGAIN),
    )


def test_a_file_that_grew_is_altered(root: Path) -> None:
    write(root, {"config.json": b'{"model_type": "llama" }'})

    assert check(root) == (
        Fault(path="config.json", kind="altered", expected="23 bytes", found="24 bytes", hint=FETCH_AGAIN),
    )


def altered(root: Path) -> bytes:
    content = shard("a", "b")
    write(root, {FIRST: content[:-1] + b"\x08"})
    return content[:-1] + b"\x08"


def test_an_altered_byte_is_not_seen_by_quick(root: Path) -> None:
    altered(root)

    assert check(root, level="quick") == ()


def test_an_altered_byte_is_found_by_full(root: Path) -> None:
    content = altered(root)

    assert check(root, level="full") == (
        Fault(
            path=FIRST,
            kind="altered",
            expected=str(Digest.of(shard("a", "b"))),
            found=str(Digest.of(content)),
            hint=FETCH_AGAIN,
        ),
    )


def test_altered_json_is_json_for_quick_and_altered_for_full(root: Path) -> None:
    write(root, {"config.json": b'{"model_type": "llama"!'})

    assert kinds(check(root, level="quick")) == [("config.json", "json")]
    assert kinds(check(root, level="full")) == [("config.json", "altered")]


@pytest.mark.parametrize("level", ["quick", "full"])
def test_a_git_lfs_pointer_is_named_with_the_size_it_points_to(root: Path, level: Level) -> None:
    write(root, {FIRST: POINTER})

    assert check(root, level=level) == (
        Fault(
            path=FIRST,
            kind="lfs-pointer",
            expected="4,976,698,672 bytes",
            found="a git-lfs pointer to them, 135 bytes",
            hint="run `git lfs pull` where this was cloned",
        ),
    )


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", "an empty file"),
        (b'{"a": }', "Expecting value at line 1 column 7"),
        (b"\xef\xbb\xbf{}", "a byte order mark before the text"),
        ("{}".encode("utf-16"), "no UTF-8 at byte 0"),
        (b'{"a": "\xff"}', "no UTF-8 at byte 7"),
    ],
)
def test_json_that_does_not_parse_is_a_fault(root: Path, content: bytes, found: str) -> None:
    write(root, {"tokenizer.json": content})

    assert verify(None, FolderTree(root), level="quick") == (
        Fault(path="tokenizer.json", kind="json", expected="a JSON document in UTF-8", found=found, hint=FETCH_AGAIN),
    )


def test_infinity_in_json_passes_since_real_configs_hold_it(root: Path) -> None:
    write(root, {"config.json": b'{"time_step_limit": [0.0, Infinity]}'})

    assert verify(None, FolderTree(root), level="quick") == ()


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
def test_weights_of_no_bytes_are_a_fault_even_if_recorded_so(tmp_path: Path, name: str) -> None:
    files = {"config.json": b"{}", name: b""}

    assert verify(recorded(files), FolderTree(write(tmp_path, files)), level="full") == (
        Fault(path=name, kind="truncated", expected="weights", found="an empty file", hint=FETCH_AGAIN),
    )


def test_a_named_pipe_is_told_and_never_waited_for(root: Path) -> None:
    (root / FIRST).unlink()
    os.mkfifo(root / FIRST)

    assert [(fault.path, fault.kind, fault.found) for fault in check(root, level="full")] == [
        (FIRST, "unreadable", "a named pipe")
    ]


def test_a_dangling_link_is_told_with_what_it_leads_to(root: Path) -> None:
    (root / FIRST).unlink()
    (root / FIRST).symlink_to("../../blobs/0123")

    found = "a link to ../../blobs/0123: No such file or directory"
    assert [(fault.path, fault.kind, fault.found) for fault in check(root)] == [(FIRST, "unreadable", found)]


def test_a_link_to_a_file_beside_it_counts_as_the_file(tmp_path: Path) -> None:
    files = {"config.json": b"{}", "model.safetensors": shard("a"), "same.safetensors": shard("a")}
    write(tmp_path, files)
    (tmp_path / "same.safetensors").unlink()
    (tmp_path / "same.safetensors").symlink_to("model.safetensors")

    assert verify(recorded(files), FolderTree(tmp_path), level="full", check_modes=True) == ()


def test_a_file_that_not_every_user_may_read_is_a_fault_where_modes_are_checked(root: Path) -> None:
    (root / "config.json").chmod(0o600)

    assert verify(MODEL, FolderTree(root), level="quick") == ()
    assert verify(MODEL, FolderTree(root), level="quick", check_modes=True) == (
        Fault(
            path="config.json",
            kind="mode",
            expected="a file that every user may read, such as 0444",
            found="mode 0600",
            hint="run `chmod a+r` on it; a container may run as any user",
        ),
    )


@dataclass(frozen=True)
class BrokenTree:
    """A tree in which some files cannot be read, and some folders not be listed."""

    tree: FolderTree
    broken: frozenset[str] = frozenset()
    closed: tuple[Entry, ...] = ()

    def entries(self) -> Mapping[str, Entry]:
        return {**self.tree.entries(), **{entry.path: entry for entry in self.closed}}

    def open(self, path: str) -> BinaryIO:
        if path in self.broken:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return self.tree.open(path)


@pytest.mark.parametrize("level", ["quick", "full"])
def test_a_file_that_cannot_be_read_is_one_fault(root: Path, level: Level) -> None:
    tree = BrokenTree(FolderTree(root), frozenset({FIRST}))

    assert verify(MODEL, tree, level=level) == (
        Fault(
            path=FIRST,
            kind="unreadable",
            expected="a file that can be read",
            found="Input/output error",
            hint="check who owns it and its mode, and the disk that it lies on",
        ),
    )


def test_where_the_mode_is_at_fault_that_reading_failed_says_nothing_more(root: Path) -> None:
    (root / FIRST).chmod(0o600)
    tree = BrokenTree(FolderTree(root), frozenset({FIRST}))

    assert kinds(verify(MODEL, tree, level="full", check_modes=True)) == [(FIRST, "mode")]


def test_the_files_of_a_folder_that_cannot_be_listed_are_not_told_as_missing(root: Path) -> None:
    model = recorded({**model_files(), "vae/config.json": b"{}"})
    note = "a folder that cannot be listed: Permission denied"
    closed = Entry(path="vae", size=0, mode=0, kind="other", note=note)

    assert verify(model, BrokenTree(FolderTree(root), closed=(closed,)), level="full") == (
        Fault(
            path="vae",
            kind="unreadable",
            expected="a file",
            found=note,
            hint="remove it; if it is a folder of the model, run `chmod a+rx` on it",
        ),
    )


@pytest.mark.parametrize(
    ("name", "kind", "found"),
    [
        ("absent", "missing", "no file, or no such folder"),
        ("file", "unreadable", "a folder that cannot be listed: Not a directory"),
    ],
)
def test_a_folder_that_is_not_there_is_one_fault(tmp_path: Path, name: str, kind: Kind, found: str) -> None:
    write(tmp_path, {"file": b""})

    assert check(tmp_path / name) == (
        Fault(
            path=".",
            kind=kind,
            expected="4 files",
            found=found,
            hint="check that the folder is there, and that no empty volume is mounted over it",
        ),
    )


def test_a_folder_without_config_and_weights_is_no_model(tmp_path: Path) -> None:
    write(tmp_path, {"README.md": b"", "original/model.safetensors": shard("a"), "training_args.bin": b"x"})

    assert kinds(verify(None, FolderTree(tmp_path), level="quick")) == [(".", "missing"), ("config.json", "missing")]


def test_all_faults_are_told_at_once_sorted_by_path(root: Path) -> None:
    (root / SECOND).unlink()
    write(root, {"config.json": b"{}", FIRST: POINTER, "a.txt": b"", INDEX: (root / INDEX).read_bytes()[:-1] + b" "})

    assert kinds(check(root)) == [
        ("a.txt", "extra"),
        ("config.json", "truncated"),
        (FIRST, "lfs-pointer"),
        (SECOND, "missing"),
        (INDEX, "json"),
    ]


def test_full_tells_how_many_bytes_it_hashed(root: Path) -> None:
    counts: list[int] = []

    verify(MODEL, FolderTree(root), level="full", jobs=2, advance=counts.append)

    assert sum(counts) == sum(file.size for file in MODEL.files)


def test_quick_reads_only_the_headers_of_160_shards_of_4_gib(tmp_path: Path) -> None:
    size = 4 << 30
    text = json.dumps({"w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    write(tmp_path, {"config.json": b"{}"})
    write_sparse(tmp_path, [f"model{number}.safetensors" for number in range(160)], head=frame(text), size=size)

    assert verify(None, FolderTree(tmp_path), level="quick") == ()


def test_a_fault_is_one_line_whatever_the_file_is_called() -> None:
    fault = Fault(path="a\nb", kind="extra", expected="no such file", found="1 byte", hint="delete it")

    assert str(fault) == "'a\\nb': extra: expected no such file, found 1 byte"


def test_a_report_says_where_what_was_expected_what_was_found_and_what_to_do() -> None:
    faults = (
        Fault(path=".", kind="missing", expected="weights", found="none", hint="fetch them"),
        Fault(path="config.json", kind="extra", expected="no such file", found="1 byte", hint="delete it"),
    )

    assert report(faults, folder="/opt/models/tiny") == (
        "/opt/models/tiny: missing",
        "  expected: weights",
        "  found:    none",
        "  to do:    fetch them",
        "/opt/models/tiny/config.json: extra",
        "  expected: no such file",
        "  found:    1 byte",
        "  to do:    delete it",
    )


def test_a_record_is_loaded_from_its_file(tmp_path: Path) -> None:
    record = Record(models=(MODEL,))
    (tmp_path / "record.json").write_bytes(record.dumps())

    assert load_record(tmp_path / "record.json") == record


def test_a_record_that_is_not_there_is_the_image_s_fault(tmp_path: Path) -> None:
    path = tmp_path / "record.json"

    with pytest.raises(ImageError) as caught:
        load_record(path)

    assert caught.value.message == f"cannot read the record of baked files {path}: No such file or directory"
