"""RootFS: what layers add up to, as a runtime would apply them, read without unpacking."""

from __future__ import annotations

import io
import tarfile

import pytest

from bake.digest import Digest
from bake.entrypoint.tree import Entry
from bake.errors import ImageError
from bake.image import LAYER, LAYER_GZIP, LAYER_ZSTD, Descriptor
from bake.layer import Directory, File, Link, pack_entries
from bake.rootfs import RootFS
from tests.builders import Heap, foreign_tar, member, zipped


def rootfs(*tars: bytes, compress: bool = False) -> RootFS:
    heap = Heap()
    found = RootFS(heap)
    for tar in tars:
        content = zipped(tar) if compress else tar
        found.apply(heap.add(content, media_type=LAYER_GZIP if compress else LAYER))
    return found


def listed(found: RootFS, folder: str = "m") -> dict[str, bytes]:
    """The files below a folder, each read through its tree."""
    tree = found.tree(folder)
    return {path: tree.open(path).read() for path in tree.entries()}


LOWER = foreign_tar(("m/a", b"1"), ("m/sub/b", b"2"), ("m/sub/c", b"3"), ("mm/x", b"4"))


@pytest.mark.parametrize("compress", [False, True], ids=["tar", "gzip"])
def test_files_of_all_layers_are_there(compress: bool) -> None:
    found = rootfs(LOWER, foreign_tar(("m/d", b"5")), compress=compress)

    assert listed(found) == {"a": b"1", "sub/b": b"2", "sub/c": b"3", "d": b"5"}


def test_an_upper_file_takes_the_place_of_a_lower_one() -> None:
    assert listed(rootfs(LOWER, foreign_tar(("m/a", b"new")))) == {"a": b"new", "sub/b": b"2", "sub/c": b"3"}


UPPER = {
    "whiteout of a file": ([("m/.wh.a", b"")], {"sub/b", "sub/c"}),
    "whiteout of a folder": ([("m/.wh.sub", b"")], {"a"}),
    "whiteout at the top": ([(".wh.m", b"")], set()),
    "whiteout of nothing": ([("m/.wh.none", b"")], {"a", "sub/b", "sub/c"}),
    "opaque folder": ([("m/sub/.wh..wh..opq", b"")], {"a"}),
    "opaque folder, then its files": ([("m/sub/.wh..wh..opq", b""), ("m/sub/new", b"")], {"a", "sub/new"}),
    "its files, then opaque folder": ([("m/sub/new", b""), ("m/sub/.wh..wh..opq", b"")], {"a", "sub/new"}),
    "whiteout of a file that is there again": ([("m/a", b""), ("m/.wh.a", b"")], {"a", "sub/b", "sub/c"}),
    "opaque root": ([(".wh..wh..opq", b""), ("m/new", b"")], {"new"}),
    "file in a folder's place": ([("m/sub", b"")], {"a", "sub"}),
    "folder in a file's place": ([member("m/a", tarfile.DIRTYPE)], {"sub/b", "sub/c"}),
    "folder that is there already": ([member("m/sub", tarfile.DIRTYPE)], {"a", "sub/b", "sub/c"}),
    "names with dots and slashes": ([("./m//new", b""), ("./m/./.wh.a", b"")], {"new", "sub/b", "sub/c"}),
}


@pytest.mark.parametrize(("entries", "expected"), UPPER.values(), ids=list(UPPER))
def test_an_upper_layer_changes_what_is_there(
    entries: list[tarfile.TarInfo | tuple[str, bytes]], expected: set[str]
) -> None:
    assert set(listed(rootfs(LOWER, foreign_tar(*entries)))) == expected


def test_a_hard_link_is_the_file_that_it_names() -> None:
    found = rootfs(foreign_tar(("m/a", b"12"), member("./m/b", tarfile.LNKTYPE, target="./m/a")))

    assert listed(found) == {"a": b"12", "b": b"12"}


def test_a_hard_link_into_a_lower_layer_outlives_the_name_there() -> None:
    upper = foreign_tar(member("m/sub/new", tarfile.LNKTYPE, target="m/a"))

    assert listed(rootfs(foreign_tar(("m/a", b"12")), upper, foreign_tar(("m/.wh.a", b"")))) == {"sub/new": b"12"}


def test_a_folder_of_hard_links_alone_can_be_whited_out() -> None:
    upper = foreign_tar(member("m/sub/new", tarfile.LNKTYPE, target="m/a"))

    assert listed(rootfs(foreign_tar(("m/a", b"12")), upper, foreign_tar(("m/.wh.sub", b"")))) == {"a": b"12"}


def test_what_is_no_file_is_named_for_what_it_is() -> None:
    found = rootfs(
        foreign_tar(
            member("m/link", tarfile.SYMTYPE, target="a", mode=0o777),
            member("m/pipe", tarfile.FIFOTYPE),
            member("m/null", tarfile.CHRTYPE),
            member("m/hard", tarfile.LNKTYPE, target="nowhere"),
        )
    )

    assert found.tree("m").entries() == {
        "link": Entry(path="link", size=0, mode=0o777, kind="link", note="a link to a"),
        "pipe": Entry(path="pipe", size=0, mode=0o755, kind="other", note="a named pipe"),
        "null": Entry(path="null", size=0, mode=0o755, kind="other", note="a device"),
        "hard": Entry(path="hard", size=0, mode=0o755, kind="other", note="a hard link to nothing"),
    }


def test_a_file_is_listed_with_its_size_and_mode() -> None:
    found = rootfs(pack_entries([File.of("m/a", b"123"), Directory("m/empty")]))

    assert found.tree("m").entries() == {"a": Entry(path="a", size=3, mode=0o444, kind="file")}


def test_long_names_are_read() -> None:
    path = "m/" + "é" * 100 + "/" + "n" * 200

    assert listed(rootfs(pack_entries([File.of(path, b"1")]))) == {path.removeprefix("m/"): b"1"}


def test_a_small_file_is_read_whole() -> None:
    found = rootfs(pack_entries([File.of("opt/record.json", b"{}"), Link("models", "opt")]))

    assert (found.read("opt/record.json"), found.read("opt"), found.read("models"), found.read("none")) == (
        b"{}",
        None,
        None,
        None,
    )


# --- layers that are not whole

WHOLE = pack_entries([File.of("m/a", b"a" * 600), File.of("m/b", b"b" * 600)])
CUTS = {
    "in the trailer": WHOLE[:-1024],
    "in a header": WHOLE[: 512 + 512 + 1024 + 100],
    "in a body": WHOLE[: 512 + 512 + 300],
    "at the start": WHOLE[:100],
    "to nothing": b"",
    "garbled header": WHOLE[:2048] + b"?" * 512 + WHOLE[2560:],
    "no tar": b"?" * 2048,
}


@pytest.mark.parametrize("tar", CUTS.values(), ids=list(CUTS))
@pytest.mark.parametrize("compress", [False, True], ids=["tar", "gzip"])
def test_a_layer_that_is_no_whole_tar_is_refused(tar: bytes, compress: bool) -> None:
    with pytest.raises(ImageError, match="is no whole tar"):
        rootfs(tar, compress=compress)


@pytest.mark.parametrize(
    "blob",
    [zipped(WHOLE)[:-20], zipped(WHOLE)[:40] + b"\xff" * 40 + zipped(WHOLE)[80:], WHOLE],
    ids=["cut", "garbled", "no gzip"],
)
def test_a_layer_that_is_no_whole_gzip_is_refused(blob: bytes) -> None:
    heap = Heap()

    with pytest.raises(ImageError, match="is no whole tar"):
        RootFS(heap).apply(heap.add(blob, media_type=LAYER_GZIP))


def test_the_first_files_of_a_layer_that_is_cut_off_are_there() -> None:
    heap = Heap()
    found = RootFS(heap)

    with pytest.raises(ImageError):
        found.apply(heap.add(CUTS["in a header"], media_type=LAYER))

    assert set(found.tree("m").entries()) == {"a"}


def test_a_zstd_layer_is_refused() -> None:
    digest = Digest.of(b"")

    with pytest.raises(ImageError) as caught:
        RootFS(Heap()).apply(Descriptor(media_type=LAYER_ZSTD, digest=digest, size=0))

    assert (caught.value.message, caught.value.hint) == (
        f"layer {digest}: cannot read {LAYER_ZSTD}",
        "bake reads tar layers that are uncompressed or gzip",
    )


def test_ten_thousand_files_are_listed_at_once() -> None:
    tar = pack_entries([File.of(f"m/{number % 100}/{number}", b"") for number in range(10_000)])

    found = rootfs(tar, foreign_tar(("m/7/.wh.7", b"")))

    assert len(found.tree("m").entries()) == 9_999


# --- a file as a stream


@pytest.fixture(params=[False, True], ids=["tar", "gzip"])
def stream(request: pytest.FixtureRequest) -> io.RawIOBase:
    found = rootfs(pack_entries([File.of("m/a", b"0123456789"), File.of("m/b", b"other")]), compress=request.param)
    opened = found.tree("m").open("a")
    assert isinstance(opened, io.RawIOBase)
    return opened


def test_a_stream_ends_where_its_file_ends(stream: io.RawIOBase) -> None:
    with stream:
        assert (stream.read(), stream.read(), stream.read(4)) == (b"0123456789", b"", b"")


@pytest.mark.parametrize(
    ("offset", "whence", "at", "expected"),
    [
        (4, io.SEEK_SET, 4, b"456789"),
        (2, io.SEEK_CUR, 5, b"56789"),
        (-2, io.SEEK_CUR, 1, b"123456789"),
        (-3, io.SEEK_END, 7, b"789"),
        (0, io.SEEK_END, 10, b""),
        (99, io.SEEK_SET, 99, b""),
    ],
)
def test_a_stream_seeks_within_its_file(
    stream: io.RawIOBase, offset: int, whence: int, at: int, expected: bytes
) -> None:
    with stream:
        stream.seek(3)

        assert (stream.seek(offset, whence), stream.tell(), stream.read()) == (at, at, expected)


def test_a_stream_does_not_seek_before_its_file(stream: io.RawIOBase) -> None:
    with stream:
        stream.seek(3)

        with pytest.raises(ValueError, match="cannot seek to -1"):
            stream.seek(-4, io.SEEK_CUR)

        assert stream.read(1) == b"3"


def test_a_stream_fills_a_buffer(stream: io.RawIOBase) -> None:
    buffer = bytearray(16)

    with stream:
        assert (stream.readinto(buffer), bytes(buffer[:10])) == (10, b"0123456789")
