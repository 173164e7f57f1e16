"""RootFS: the files that an image's layers add up to, read out of the layers themselves. Nothing is unpacked.

Layers are applied in order, as a runtime applies them (OCI image specification, layer.md, "Applying Changesets" and
"Whiteouts"). An uncompressed layer is read in place; a gzip layer is decompressed as far as each file needs.
"""

from __future__ import annotations

import gzip
import io
import tarfile
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from bake.entrypoint.tree import Entry
from bake.errors import ImageError
from bake.image import LAYER, LAYER_GZIP
from bake.tar import BLOCK, parents

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from bake.image import Blobs, Descriptor

_WHITEOUT = ".wh."
_OPAQUE = ".wh..wh..opq"
_NOTES = {tarfile.FIFOTYPE: "a named pipe", tarfile.LNKTYPE: "a hard link to nothing"}
_BROKEN = (tarfile.TarError, EOFError, OSError, ValueError, OverflowError, zlib.error)
"""What tarfile and gzip raise over bytes that are not theirs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Member:
    """A file in a layer: where its bytes begin, and what its header says."""

    layer: Descriptor
    offset: int
    size: int
    mode: int
    kind: bytes
    target: str


class RootFS:
    """The files of the layers applied so far."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self._members: dict[str, _Member] = {}
        self._folders: set[str] = set()

    def apply(self, layer: Descriptor) -> None:
        """Put a layer on top.

        Raises ImageError where it is missing or no whole tar; its first files then may be there.
        """
        members: list[tarfile.TarInfo] = []
        with self._tar(layer) as stream:
            try:
                with tarfile.open(fileobj=stream, mode="r:") as archive:
                    members.extend(archive)
                    _check_end(stream, archive.offset)
            except _BROKEN as error:
                raise ImageError(f"layer {layer.digest} is no whole tar: {error}") from error
            finally:
                self.put(layer, members)

    def read(self, path: str) -> bytes | None:
        """A small file's bytes; None where the image has no such file."""
        member = self._members.get(path)
        if member is None or member.kind not in tarfile.REGULAR_TYPES:
            return None
        with self._open(member) as stream:
            return stream.read()

    def tree(self, folder: str) -> LayerTree:
        """The files below a folder; `folder` has no slash at either end."""
        below = folder + "/"
        return LayerTree(
            self, {path.removeprefix(below): member for path, member in self._members.items() if path.startswith(below)}
        )

    def put(self, layer: Descriptor, infos: Iterable[tarfile.TarInfo]) -> None:
        """Put a layer on top whose members were read elsewhere.

        Whiteouts first: they hide what is in the layers below, never what is in their own.
        """
        members = [(path, info) for info in infos if (path := plain(info.name))]
        for path, _ in members:
            folder, _, name = path.rpartition("/")
            if name == _OPAQUE:
                self._remove_below(folder)
            elif name.startswith(_WHITEOUT):
                self._remove(f"{folder}/{name.removeprefix(_WHITEOUT)}".lstrip("/"))
        for path, info in members:
            if not path.rpartition("/")[2].startswith(_WHITEOUT):
                self._put(layer, path, info)

    def _put(self, layer: Descriptor, path: str, info: tarfile.TarInfo) -> None:
        if info.isdir():
            self._members.pop(path, None)
            return
        linked = self._members.get(plain(info.linkname)) if info.islnk() else None
        self._remove_below(path)
        self._folders.update(parents(path))
        self._members[path] = linked or _Member(
            layer=layer,
            offset=info.offset_data,
            size=info.size,
            mode=info.mode & 0o7777,
            kind=info.type,
            target=info.linkname,
        )

    def _remove(self, path: str) -> None:
        self._members.pop(path, None)
        self._remove_below(path)

    def _remove_below(self, path: str) -> None:
        if path and path not in self._folders:
            return
        below = path + "/" if path else ""
        for gone in [other for other in self._members if other.startswith(below)]:
            del self._members[gone]

    def _tar(self, layer: Descriptor) -> BinaryIO:
        if layer.media_type == LAYER:
            return self._blobs.open(layer.digest)
        if layer.media_type == LAYER_GZIP:
            return _Unzipped(self._blobs.open(layer.digest))  # type: ignore[return-value]
        raise ImageError(
            f"layer {layer.digest}: cannot read {layer.media_type}",
            hint="bake reads tar layers that are uncompressed or gzip",
        )

    def _open(self, member: _Member) -> BinaryIO:
        stream = self._tar(member.layer)
        stream.seek(member.offset)
        return _Window(stream, member.offset, member.size)  # type: ignore[return-value]


class LayerTree:
    """One model's files inside image layers. It plays the role of `bake.entrypoint.tree.Tree`."""

    def __init__(self, rootfs: RootFS, members: dict[str, _Member]) -> None:
        self._rootfs = rootfs
        self._members = members

    def entries(self) -> dict[str, Entry]:
        return {entry.path: entry for entry in self._entries()}

    def open(self, path: str) -> BinaryIO:
        return self._rootfs._open(self._members[path])

    def _entries(self) -> Iterator[Entry]:
        for path, member in self._members.items():
            if member.kind in tarfile.REGULAR_TYPES:
                yield Entry(path=path, size=member.size, mode=member.mode, kind="file")
            elif member.kind == tarfile.SYMTYPE:
                yield Entry(path=path, size=0, mode=member.mode, kind="link", note=f"a link to {member.target}")
            else:
                note = _NOTES.get(member.kind, "a device")
                yield Entry(path=path, size=0, mode=member.mode, kind="other", note=note)


def plain(name: str) -> str:
    """A member's path without the slashes and dots that tools write around it."""
    return "/".join(part for part in name.split("/") if part not in {"", "."})


def _check_end(stream: BinaryIO, offset: int) -> None:
    """tarfile takes a header that is cut or garbled for the archive's end; its end is a block of zeros."""
    stream.seek(offset)
    if stream.read(BLOCK) != bytes(BLOCK):
        raise tarfile.ReadError("its end is missing")


class _Unzipped(gzip.GzipFile):
    """The tar in a gzip blob. It closes the blob too."""

    def __init__(self, blob: BinaryIO) -> None:
        super().__init__(fileobj=blob)
        self._blob = blob

    def close(self) -> None:
        super().close()
        self._blob.close()


class _Window(io.RawIOBase):
    """A part of a stream, from `start` on, as a stream of its own."""

    def __init__(self, stream: BinaryIO, start: int, size: int) -> None:
        self._stream = stream
        self._start = start
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        at = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence] + offset
        if at < 0:
            raise ValueError(f"cannot seek to {at}")
        self._stream.seek(self._start + at)
        self._at = at
        return at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        view = memoryview(buffer)[: max(0, self._size - self._at)]
        count: int = self._stream.readinto(view) if view else 0  # type: ignore[attr-defined]
        self._at += count
        return count

    def close(self) -> None:
        self._stream.close()
        super().close()
