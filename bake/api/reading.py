"""Reading: a layer taken from a registry once, from its first byte to its last: its members, and each file's sha256.

Nothing is written to disk. Kept of each file is only what its structure needs: JSON, and the header of safetensors.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, cast

from bake.digest import CHUNK, Digest
from bake.entrypoint.shards import MAX_HEADER
from bake.errors import DigestError, ImageError
from bake.image import LAYER, LAYER_GZIP
from bake.rootfs import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bake.image import Descriptor
    from bake.registry import Registry

_POINTER = 1024
"""Bytes of any file that are kept: a git-lfs pointer is no longer."""

_JSON = 64 << 20
"""Bytes of a JSON file that are kept; a longer one is told as broken JSON."""

_BROKEN = (tarfile.TarError, EOFError, OSError, ValueError, zlib.error)
"""What tarfile and gzip raise over bytes that are not theirs."""


@dataclass(slots=True)
class ReadLayer:
    """What one layer was found to hold. `parts` are bytes of its tar, by where they begin; `fault` is the layer's own.

    `digests` are those of its files, by their path in the image; a file that the layer's end cut off has none.
    """

    members: list[tarfile.TarInfo] = field(default_factory=list)
    digests: dict[str, Digest] = field(default_factory=dict)
    parts: dict[int, bytes] = field(default_factory=dict)
    fault: str | None = None


def prove_layer(registry: Registry, layer: Descriptor, advance: Callable[[int], object]) -> str | None:
    """Read a layer for its digest alone; returns its fault in words. Raises NetworkError, SourceError."""
    return open_layer(registry, layer, advance).prove()


def open_layer(registry: Registry, layer: Descriptor, advance: Callable[[int], object]) -> Incoming:
    """A layer on its way. It gives wrong bytes too: which file they are in is to be told."""
    return Incoming(layer, registry.open_part(layer, offset=0, size=layer.size), advance)


def read_layer(registry: Registry, layer: Descriptor, advance: Callable[[int], object]) -> ReadLayer:
    """Read a layer of tar or gzip, whatever is wrong with it. Raises NetworkError, SourceError."""
    found = ReadLayer()
    stream = open_layer(registry, layer, advance)
    broken = None
    try:
        for info, file in members(stream, layer):
            found.members.append(info)
            if file is not None:
                digest, found.parts[info.offset_data] = _hash(file, info)
                found.digests[plain(info.name)] = digest
    except (DigestError, ImageError) as error:
        broken = error.message
    except _BROKEN as error:
        broken = f"layer {layer.digest} is no whole tar: {error}"
    found.fault = stream.prove() or broken
    return found


def members(stream: Incoming, layer: Descriptor) -> Iterator[tuple[tarfile.TarInfo, BinaryIO | None]]:
    """Each member of a layer in order, and a file's bytes, to be read before the next. Raises what tarfile raises."""
    if layer.media_type not in {LAYER, LAYER_GZIP}:
        raise ImageError(
            f"layer {layer.digest}: cannot read {layer.media_type}",
            hint="bake reads tar layers that are uncompressed or gzip",
        )
    source = stream if layer.media_type == LAYER else gzip.GzipFile(fileobj=stream)
    with tarfile.open(fileobj=cast("BinaryIO", source), mode="r|", bufsize=CHUNK) as archive:
        for info in archive:
            yield info, cast("BinaryIO | None", archive.extractfile(info)) if info.isreg() else None


class Incoming(io.RawIOBase):
    """A blob on its way, as a file that is read once and never sought in. It is hashed as it goes by."""

    def __init__(self, blob: Descriptor, chunks: Iterator[bytes], advance: Callable[[int], object]) -> None:
        self._blob = blob
        self._hasher = hashlib.sha256()
        self._chunks = chunks
        self._advance = advance
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """As many bytes, or fewer at the end. Raises what the blob's own reading raises."""
        if len(self._rest) >= size >= 0:
            return self._take(size)
        found = [self._take(len(self._rest))]
        left = size - len(found[0])
        while (left or size < 0) and self._fill():
            found.append(self._take(len(self._rest) if size < 0 else left))
            left -= len(found[-1])
        return b"".join(found)

    def prove(self) -> str | None:
        """Read what is left; returns in words what is wrong with the whole."""
        try:
            while self._fill():
                pass
        except (DigestError, ImageError) as error:
            return error.message
        found = Digest(self._hasher.hexdigest())
        if found == self._blob.digest:
            return None
        return f"layer {self._blob.digest} is altered: its bytes have the digest {found}"

    def _take(self, size: int) -> bytes:
        taken, self._rest = bytes(self._rest[:size]), self._rest[size:]
        return taken

    def _fill(self) -> bool:
        chunk = next(self._chunks, b"")
        self._hasher.update(chunk)
        self._rest = memoryview(chunk)
        self._advance(len(chunk))
        return bool(chunk)


def _hash(file: BinaryIO, info: tarfile.TarInfo) -> tuple[Digest, bytes]:
    """A file's sha256, and the bytes from its start that its structure needs."""
    hasher, head, wanted = hashlib.sha256(), bytearray(), _POINTER
    while piece := file.read(CHUNK):
        hasher.update(piece)
        if not head:
            wanted = _wanted(info.name, piece, size=info.size)
        head += piece[: max(0, wanted - len(head))]
    return Digest(hasher.hexdigest()), bytes(head)


def _wanted(name: str, start: bytes, *, size: int) -> int:
    if name.endswith(".json"):
        return min(size, _JSON)
    if name.endswith(".safetensors"):
        return min(size, 8 + min(int.from_bytes(start[:8], "little"), MAX_HEADER))
    return _POINTER
