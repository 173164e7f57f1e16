"""Parts: a registry's blobs as files to seek in, of which only what is looked at is read.

Small blobs are read whole, and so proven by their digests. Of large ones, parts are read: whoever uses their bytes must
know what they should be.
"""

from __future__ import annotations

import io
import threading
from typing import TYPE_CHECKING, BinaryIO

from bake.api.workers import Workers, results
from bake.errors import DigestError, ImageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from bake.digest import Digest
    from bake.image import Descriptor, Image
    from bake.registry import Registry

_WHOLE = 1 << 20
"""Bytes up to which a blob is read whole."""

_LEAST = 16 << 10
"""Bytes of a part: a tar header and most headers of safetensors behind it."""

_MOST = 4 << 20
"""Bytes of a part where one is read after the other."""


class RemoteBlobs:
    """An image's blobs in a registry. It plays the role of `bake.image.Blobs`; several threads may use it.

    `faults` are blobs that the registry has in another size; `read` counts the bytes that were read.
    """

    def __init__(self, registry: Registry, image: Image, *, workers: Workers) -> None:
        """Ask for every blob at once whether it is there. Raises NetworkError, SourceError."""
        self._registry = registry
        self._blobs = {blob.digest: blob for blob in (*image.manifest.layers, image.manifest.config)}
        found = results(workers.download(_look_up, registry, blob) for blob in self._blobs.values())
        self._sizes = {
            blob.digest: blob.size for blob, answer in zip(self._blobs.values(), found, strict=True) if answer
        }
        self._sizes[image.descriptor.digest] = image.descriptor.size
        self.faults = tuple(answer for answer in found if isinstance(answer, str))
        self._parts: dict[Digest, dict[int, bytes]] = {}
        self._workers = workers
        self._sharing = threading.Lock()
        self.read = image.descriptor.size + image.manifest.config.size

    def size(self, digest: Digest) -> int | None:
        return self._sizes.get(digest)

    def open(self, digest: Digest) -> BinaryIO:
        """A blob, to be sought in. Raises ImageError where it is missing, and DigestError where it is another."""
        if digest not in self._sizes:
            raise ImageError(f"blob {digest}: missing")
        blob = self._blobs[digest]
        if blob.size <= _WHOLE:
            self.read_whole(blob)
        return PartialFile(blob.size, lambda position, wanted: self._part(blob, position, wanted))  # type: ignore[return-value]

    def prefetch(self, places: Iterable[tuple[Descriptor, int]]) -> None:
        """Read, all at once, what is about to be looked at: places in blobs, of which many may be near each other.

        To ask for one after another would cost a round trip each.
        """
        apart: list[tuple[Descriptor, int]] = []
        for blob, position in places:
            if blob.digest not in self._sizes or blob.size <= _WHOLE:
                continue
            if not apart or apart[-1][0] != blob or position >= apart[-1][1] + _LEAST:
                apart.append((blob, position))
        results(self._workers.download(self._part, blob, position, _LEAST) for blob, position in apart)

    def read_whole(self, blob: Descriptor) -> None:
        """Read a blob at once, and prove it. Raises DigestError."""
        if len(self._parts.get(blob.digest, {}).get(0, b"")) < blob.size:
            self._keep(blob, 0, b"".join(self._registry.open_blob(blob)))

    def _part(self, blob: Descriptor, position: int, wanted: int) -> bytes:
        """Bytes from a position on. What is read in sequence is read in ever larger parts."""
        with self._sharing:
            parts = self._parts.setdefault(blob.digest, {})
            for start, part in parts.items():
                if start <= position < start + len(part):
                    return part[position - start :]
            before = next((len(part) for start, part in parts.items() if start + len(part) == position), 0)
        size = min(max(_LEAST, wanted, 2 * before), _MOST, blob.size - position)
        return self._keep(blob, position, b"".join(self._registry.open_part(blob, offset=position, size=size)))

    def _keep(self, blob: Descriptor, start: int, part: bytes) -> bytes:
        with self._sharing:
            self._parts.setdefault(blob.digest, {})[start] = part
        self.count(len(part))
        return part

    def count(self, size: int) -> None:
        """Count bytes that were read, here or elsewhere."""
        with self._sharing:
            self.read += size


class KeptBlobs:
    """Parts of layers that were kept while the layers went by. It plays the role of `bake.image.Blobs`."""

    def __init__(self) -> None:
        self._parts: dict[Digest, Mapping[int, bytes]] = {}

    def keep(self, layer: Descriptor, parts: Mapping[int, bytes]) -> None:
        """Keep parts of a layer's tar, by the byte at which each begins."""
        self._parts[layer.digest] = parts

    def size(self, digest: Digest) -> int | None:
        return None if digest not in self._parts else 0

    def open(self, digest: Digest) -> BinaryIO:
        parts = self._parts[digest]
        end = max((start + len(part) for start, part in parts.items()), default=0)
        return PartialFile(end, lambda position, _: _kept(parts, position))  # type: ignore[return-value]


class PartialFile(io.RawIOBase):
    """A file of which parts are read when they are due: `part(position, wanted)` gives at least one byte from there."""

    def __init__(self, size: int, part: Callable[[int, int], bytes]) -> None:
        self._size = size
        self._part = part
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        at = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence] + offset
        if at < 0:
            raise ValueError(f"cannot seek to {at}")
        self._at = at
        return at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        view = memoryview(buffer)[: max(0, self._size - self._at)]
        if not view:
            return 0
        part = self._part(self._at, len(view))[: len(view)]
        view[: len(part)] = part
        self._at += len(part)
        return len(part)


def _kept(parts: Mapping[int, bytes], position: int) -> bytes:
    return next((part[position - start :] for start, part in parts.items() if 0 <= position - start < len(part)), b"")


def _look_up(registry: Registry, blob: Descriptor) -> str | bool:
    """Whether there is a blob, or in words, that there is another in its place."""
    try:
        return registry.has_blob(blob)
    except DigestError as error:
        return error.message
