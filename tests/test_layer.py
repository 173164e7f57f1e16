"""Layers: the bytes of the tar, and that no byte enters one unproven. All in memory."""

from __future__ import annotations

import io
import tarfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bake.digest import CHUNK, Digest
from bake.errors import DigestError, LockError, SourceError
from bake.layer import Directory, Discard, File, Link, PassingLayer, learn, pack, pack_entries
from bake.plan import LayerPlan
from tests.builders import CONTENTS, TINY, Shelf, layer_of, packed

if TYPE_CHECKING:
    from collections.abc import Callable

FILES = {"config.json": b"{}\n", "tokenizer/merges.txt": b"a b\n" * 200, "empty.json": b""}
DIFF_ID = Digest("ba01f961a5e141dd73a603d6f19d8ee7dcb27639a5d946cc7d4995b277988aa8")
"""The layer of FILES. It changes only with bake.plan.PACKER."""

CHANGED_HINT = (
    "the file is not the one that was locked, or it changed while it was read; "
    "a changed model is a new version: bake add NAME@NEW_VERSION SOURCE"
)


def names(tar: bytes) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(tar)) as archive:
        return archive.getnames()


def contents(tar: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(tar)) as archive:
        return {info.name: stream.read() for info in archive if (stream := archive.extractfile(info))}


def refused(layer: LayerPlan, files: dict[str, bytes]) -> tuple[str, str | None]:
    with pytest.raises(DigestError) as caught:
        pack(layer, Shelf(files), Discard())
    return caught.value.message, caught.value.hint


# --- the bytes


def as_buildkit_writes(folders: list[str], files: dict[str, bytes], order: list[str]) -> bytes:
    """The tar by Python's tarfile, mended where Go's archive/tar differs: device numbers are zeros, not NULs."""
    tar = b""
    for name in order:
        info = tarfile.TarInfo(name + "/" if name in folders else name)
        info.type = tarfile.DIRTYPE if name in folders else tarfile.REGTYPE
        info.mode = 0o755 if name in folders else 0o444
        body = files.get(name, b"")
        info.size = len(body)
        block = bytearray(info.tobuf(tarfile.USTAR_FORMAT))
        block[329:345] = b"0000000\0" * 2
        block[148:156] = b" " * 8
        block[148:156] = b"%06o\0 " % sum(block)
        tar += bytes(block) + body + bytes(-len(body) % 512)
    return tar + bytes(1024)


def test_a_layer_is_the_tar_that_buildkit_writes() -> None:
    root = "opt/models/tiny"
    folders = ["opt", "opt/models", root, f"{root}/tokenizer"]
    order = [*folders[:3], f"{root}/config.json", f"{root}/empty.json", folders[3], f"{root}/tokenizer/merges.txt"]
    expected = as_buildkit_writes(folders, {f"{root}/{path}": content for path, content in FILES.items()}, order)

    assert packed(layer_of(FILES), FILES) == expected


def test_the_digest_of_a_layer_never_changes() -> None:
    assert pack(layer_of(FILES), Shelf(FILES), Discard()) == DIFF_ID


@given(files=CONTENTS)
def test_a_layer_is_a_tar_that_anyone_reads(files: dict[str, bytes]) -> None:
    tar = packed(layer_of(files), files)

    assert contents(tar) == {f"opt/models/tiny/{path}": content for path, content in files.items()}


@given(files=CONTENTS)
def test_the_diff_id_is_the_digest_of_the_bytes(files: dict[str, bytes]) -> None:
    pail = io.BytesIO()

    assert pack(layer_of(files), Shelf(files), pail) == Digest.of(pail.getvalue())


@given(files=CONTENTS, data=st.data())
def test_the_order_in_which_files_are_given_never_matters(files: dict[str, bytes], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(layer_of(files).files))
    layer = LayerPlan(model=TINY, folder="opt/models/tiny", files=tuple(shuffled))

    assert packed(layer, files) == packed(layer_of(files), files)


def test_progress_counts_the_bytes_of_files() -> None:
    counts: list[int] = []

    pack(layer_of(FILES), Shelf(FILES), Discard(), advance=counts.append)

    assert sum(counts) == sum(map(len, FILES.values()))


# --- proof


def test_a_known_diff_id_is_proven() -> None:
    assert pack(layer_of(FILES, diff_id=DIFF_ID), Shelf(FILES), Discard()) == DIFF_ID


@pytest.mark.parametrize("diff_id", [None, DIFF_ID], ids=["by file", "by diff_id"])
def test_other_bytes_are_refused(diff_id: Digest | None) -> None:
    other = b"[]\n"

    assert refused(layer_of(FILES, diff_id=diff_id), FILES | {"config.json": other}) == (
        f"config.json: expected {Digest.of(FILES['config.json'])}, found {Digest.of(other)}",
        CHANGED_HINT,
    )


def test_every_file_with_other_bytes_is_named_where_the_diff_id_is_known() -> None:
    altered = FILES | {"config.json": b"[]\n", "tokenizer/merges.txt": b"b a\n" * 200}

    message, _ = refused(layer_of(FILES, diff_id=DIFF_ID), altered)

    faults = [
        f"{path}: expected {Digest.of(FILES[path])}, found {Digest.of(altered[path])}"
        for path in ("config.json", "tokenizer/merges.txt")
    ]
    assert message.splitlines() == faults


def test_a_lock_with_another_layer_s_diff_id_is_at_fault_where_every_file_is_right() -> None:
    wrong = Digest.of(b"another layer")

    with pytest.raises(LockError) as caught:
        pack(layer_of(FILES, diff_id=wrong), Shelf(FILES), Discard())

    assert caught.value.message == (
        f"tiny@v1: expected a layer of diff_id {wrong}, found {DIFF_ID}, though every file in it is as locked"
    )
    assert caught.value.hint == (
        "delete packer and the [[model.layer]] records of tiny@v1; the next build writes them anew"
    )


@pytest.mark.parametrize("diff_id", [None, DIFF_ID], ids=["by file", "by diff_id"])
@pytest.mark.parametrize(("content", "found"), [(b"{}\n ", "more"), (b"{}", "2"), (b"", "0")])
def test_a_file_of_another_size_is_refused(diff_id: Digest | None, content: bytes, found: str) -> None:
    message, _ = refused(layer_of(FILES, diff_id=diff_id), FILES | {"config.json": content})

    assert message == f"config.json: expected 3 bytes, found {found}"


def test_a_file_that_vanished_is_refused() -> None:
    with pytest.raises(SourceError, match=r"merges\.txt is missing"):
        pack(layer_of(FILES), Shelf({"config.json": b"{}\n", "empty.json": b""}), Discard())


@dataclass(frozen=True)
class Live:
    """A snapshot of one file that something else writes to while it is read."""

    stream: io.BytesIO

    def open(self, path: str) -> BinaryIO:
        return self.stream


def overwrite(stream: io.BytesIO) -> None:
    stream.getbuffer()[-1:] = b"!"


def shrink(stream: io.BytesIO) -> None:
    stream.truncate(CHUNK)


def grow(stream: io.BytesIO) -> None:
    at = stream.tell()
    stream.seek(0, io.SEEK_END)
    stream.write(b"more")
    stream.seek(at)


@pytest.mark.parametrize(
    ("change", "found"), [(overwrite, "sha256:"), (shrink, str(CHUNK)), (grow, "more")], ids=["bytes", "less", "more"]
)
def test_a_file_that_changes_while_it_is_packed_is_refused(change: Callable[[io.BytesIO], None], found: str) -> None:
    content = bytes(CHUNK + 10)
    stream = io.BytesIO(content)

    with pytest.raises(DigestError, match=f"model.bin: expected .*, found {found}"):
        pack(layer_of({"model.bin": content}), Live(stream), Discard(), advance=lambda _: change(stream))


# --- the same diff_id by every way


@given(files=CONTENTS)
def test_learning_finds_what_packing_proves(files: dict[str, bytes]) -> None:
    layer = layer_of(files)

    diff_id, found = learn(layer, Shelf(files))

    assert diff_id == pack(layer, Shelf(files), Discard())
    assert found == {path: Digest.of(content) for path, content in files.items()}


def test_learning_does_not_mind_what_digests_a_plan_has() -> None:
    layer = layer_of({"config.json": b"?" * 3})

    assert learn(layer, Shelf(FILES))[1] == {"config.json": Digest.of(FILES["config.json"])}


@given(content=st.binary(max_size=2000), cut=st.integers(0, 2000))
def test_a_layer_that_passes_by_has_the_diff_id_of_one_that_is_packed(content: bytes, cut: int) -> None:
    layer = layer_of({"model.safetensors": content})
    passing = PassingLayer(layer)

    passing.show(content[:cut])
    passing.show(content[cut:])

    assert (passing.complete, passing.diff_id()) == (
        True,
        pack(layer, Shelf({"model.safetensors": content}), Discard()),
    )


@pytest.mark.parametrize("shown", [b"", b"123", b"12345"], ids=["nothing", "less", "more"])
def test_a_layer_of_which_not_every_byte_passed_is_not_complete(shown: bytes) -> None:
    passing = PassingLayer(layer_of({"model.safetensors": b"1234"}))

    passing.show(shown)

    assert not passing.complete


def test_a_layer_of_two_files_cannot_pass_by() -> None:
    with pytest.raises(ValueError, match="unpack"):
        PassingLayer(layer_of(FILES))


# --- layers made in memory


def test_entries_are_sorted_and_their_folders_added() -> None:
    tar = pack_entries(
        [File.of("opt/bake/z.py", b"z"), Link("models", "opt/models/tiny"), File.of("opt/bake/a/b.py", b"b")]
    )

    assert names(tar) == ["models", "opt", "opt/bake", "opt/bake/a", "opt/bake/a/b.py", "opt/bake/z.py"]


def test_a_folder_that_is_given_keeps_its_mode() -> None:
    tar = pack_entries([File.of("outputs/a", b""), Directory("outputs", mode=0o1777)])

    with tarfile.open(fileobj=io.BytesIO(tar)) as archive:
        assert [(info.name, info.mode) for info in archive] == [("outputs", 0o1777), ("outputs/a", 0o444)]


def test_entries_have_the_bytes_that_a_plan_has() -> None:
    entries = [File.of(f"opt/models/tiny/{path}", content) for path, content in FILES.items()]

    assert pack_entries(entries) == packed(layer_of(FILES), FILES)
