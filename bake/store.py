"""The store: files already fetched and layers already packed, by sha256, shared by all models and locks of a user.

    files/ab/cdef…     a fetched file
    layers/ab/cdef…    a packed layer: a second name of the blob in the layout that it was written into
    partial/…          a file on its way; it counts for nothing until its digest is proven
    memory/…           what was once computed: a file's sha256 by its fingerprint, a layer's diff_id by what decides it
    locks/…            held while something is fetched or written

Everything is written beside and renamed, so a killed bake leaves nothing half-written that counts as whole, and
losing any of it costs time, never a wrong byte.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from bake import disk
from bake.digest import CHUNK, Digest, read_into, stream_digest
from bake.errors import DigestError, OutputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from bake.snapshot import Fingerprint

_RACE_NS = 2_000_000_000
"""A file changed this recently may change again within one tick of its clock, so its hash is not remembered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What one kind of thing takes:

    how many, and how many bytes; `shared` of them cost nothing, a layout has them too.
    """

    kind: str
    count: int
    size: int
    shared: int = 0


class Store:
    """Opened lazily: nothing is created before something is kept."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def default(cls) -> Store:
        """`BAKE_CACHE`, else `bake` below `XDG_CACHE_HOME`, else `~/.cache/bake`."""
        if own := os.environ.get("BAKE_CACHE"):
            return cls(Path(own).expanduser().absolute())
        return cls(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "bake")

    # --- files

    def file(self, digest: Digest, *, size: int) -> Path | None:
        """A fetched file, if it is here whole."""
        return _whole(self._path("files", digest), size)

    def fetch(
        self,
        stream: Callable[[int], Iterable[bytes]],
        *,
        name: str,
        digest: Digest,
        size: int,
        show: Callable[[bytes], object] = lambda _: None,
        advance: Callable[[int], object] = lambda _: None,
    ) -> Path:
        """Fetch a file of known digest, from where an earlier try broke off; `stream(offset)` gives its bytes from
        there.

        Each byte is shown once, in order, also those that an earlier try left; nothing is shown where another bake has
        fetched the file meanwhile. Raises DigestError that begins with `name`, and then keeps nothing.
        """
        target = self._path("files", digest)
        with self.holding(f"fetch-{digest.hex}"), disk.writing(target):
            if found := _whole(target, size):
                advance(size)
                return found
            partial = self.root / "partial" / digest.hex
            partial.parent.mkdir(parents=True, exist_ok=True)
            with partial.open("a+b") as writer:
                found_digest = _continue(writer, stream, size=size, show=show, advance=advance)
            if found_digest != digest:
                partial.unlink()
                raise DigestError(
                    f"{name}: expected {digest} of {size} bytes, found {found_digest}",
                    hint="the source sent other bytes than it lists; try again, or another HF_ENDPOINT",
                )
            return _finish(partial, target)

    def keep(self, chunks: Iterable[bytes]) -> tuple[Digest, int]:
        """Keep a small file whose digest is not known beforehand; returns its digest and its size in bytes."""
        hasher = hashlib.sha256()
        folder = self.root / "partial"
        with disk.writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=folder, delete=False) as writer:
                name = Path(writer.name)
                try:
                    for chunk in chunks:
                        writer.write(chunk)
                        hasher.update(chunk)
                    size = writer.tell()
                except BaseException:
                    name.unlink()
                    raise
            digest = Digest(hasher.hexdigest())
            _finish(name, self._path("files", digest))
        return digest, size

    # --- layers

    def layer(self, diff_id: Digest, *, size: int) -> Path | None:
        """A packed layer whose bytes are known to be those of its diff_id, without reading them."""
        path = _whole(self._path("layers", diff_id), size)
        return path if path and self.is_proven(path, diff_id) else None

    def keep_layer(self, path: Path, diff_id: Digest) -> None:
        """Remember a layer that was just written; it is kept where a second name costs nothing, not copied."""
        self.prove(path, diff_id)
        target = self._path("layers", diff_id)
        with disk.writing(target), contextlib.suppress(FileExistsError):
            target.parent.mkdir(parents=True, exist_ok=True)
            if target.exists() and not self.is_proven(target, diff_id):
                target.unlink()
            disk.link(path, target)

    def is_proven(self, path: Path, digest: Digest) -> bool:
        """Whether this very file was proven to have a digest, and was not written to since."""
        return self._recall("blob", _blob_key(path)) == digest.hex

    def prove(self, path: Path, digest: Digest) -> None:
        self._remember("blob", _blob_key(path), digest.hex)

    def check(self, path: Path, digest: Digest, *, advance: Callable[[int], object] = lambda _: None) -> bool:
        """Whether a file has a digest: from memory if it can be, else by reading it once."""
        if self.is_proven(path, digest):
            return True
        with path.open("rb", buffering=0) as stream:
            found, _ = stream_digest(stream, advance=advance)
        if found == digest:
            self.prove(path, digest)
        return found == digest

    # --- memory

    def diff_id(self, key: Digest) -> Digest | None:
        """The diff_id of a layer that was packed before, by what decides its bytes (LayerPlan.key)."""
        return _digest(self._recall("diff-id", key.hex))

    def remember_diff_id(self, key: Digest, diff_id: Digest) -> None:
        self._remember("diff-id", key.hex, diff_id.hex)

    def hash(self, fingerprint: Fingerprint) -> Digest | None:
        """The sha256 of a file in a folder, if it is as it was when it was last hashed."""
        return _digest(self._recall("hash", _key(fingerprint)))

    def remember_hash(self, fingerprint: Fingerprint, digest: Digest) -> None:
        if max(fingerprint.mtime_ns, fingerprint.ctime_ns) < time.time_ns() - _RACE_NS:
            self._remember("hash", _key(fingerprint), digest.hex)

    # --- housekeeping

    @contextlib.contextmanager
    def holding(self, name: str) -> Iterator[None]:
        """Hold a lock that other bakes on this store respect. It ends with the process, however that ends."""
        from filelock import FileLock

        path = self.root / "locks" / Digest.of(name.encode()).hex[:32]
        with disk.writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            held = FileLock(path)
            held.acquire()
        try:
            yield
        finally:
            held.release()

    def usage(self) -> tuple[Usage, ...]:
        return tuple(self._usage(kind) for kind in ("files", "layers", "partial", "memory"))

    def prune(self, *, keep_layers_in_use: bool = True, older_than_days: float = 0) -> int:
        """Delete what the store holds.

        Returns the bytes freed. A layer that a layout has too frees nothing and may stay.
        """
        freed = 0
        limit = time.time() - older_than_days * 86400
        for kind in ("files", "layers", "partial", "memory"):
            for path, status in self._walk(kind):
                in_use = kind == "layers" and status.st_nlink > 1
                if max(status.st_mtime, status.st_atime) > limit or (in_use and keep_layers_in_use):
                    continue
                with disk.writing(path):
                    path.unlink(missing_ok=True)
                freed += 0 if in_use else status.st_size
        return freed

    def _usage(self, kind: str) -> Usage:
        found = [status for _, status in self._walk(kind)]
        shared = sum(status.st_size for status in found if kind == "layers" and status.st_nlink > 1)
        return Usage(kind=kind, count=len(found), size=sum(status.st_size for status in found), shared=shared)

    def _walk(self, kind: str) -> Iterator[tuple[Path, os.stat_result]]:
        for folder, _, names in os.walk(self.root / kind):
            for name in sorted(names):
                path = Path(folder) / name
                with contextlib.suppress(FileNotFoundError):
                    yield path, path.stat()

    def _path(self, kind: str, digest: Digest) -> Path:
        return self.root / kind / digest.hex[:2] / digest.hex[2:]

    def _recall(self, kind: str, key: str) -> str | None:
        try:
            return (self.root / "memory" / kind / key[:2] / key[2:]).read_text("ascii")
        except (OSError, UnicodeDecodeError):
            return None

    def _remember(self, kind: str, key: str, value: str) -> None:
        path = self.root / "memory" / kind / key[:2] / key[2:]
        with disk.writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="ascii") as writer:
                writer.write(value)
            Path(writer.name).replace(path)


def _whole(path: Path, size: int) -> Path | None:
    try:
        return path if path.stat().st_size == size else None
    except OSError:
        return None


def _finish(partial: Path, target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    partial.chmod(0o444)
    return partial.replace(target)


def _continue(
    writer: BinaryIO,
    stream: Callable[[int], Iterable[bytes]],
    *,
    size: int,
    show: Callable[[bytes], object],
    advance: Callable[[int], object],
) -> Digest:
    """Hash what is there, then append what is missing."""
    hasher = hashlib.sha256()
    if os.fstat(writer.fileno()).st_size > size:
        writer.truncate(0)
    writer.seek(0)
    buffer = memoryview(bytearray(CHUNK))
    while count := read_into(writer, buffer):
        hasher.update(buffer[:count])
        show(bytes(buffer[:count]))
        advance(count)
    if (offset := writer.tell()) < size:
        for chunk in stream(offset):
            writer.write(chunk)
            hasher.update(chunk)
            show(chunk)
            advance(len(chunk))
    return Digest(hasher.hexdigest())


def _blob_key(path: Path) -> str:
    """A blob that bake wrote: its modification time is that of its one writing, and links do not change it."""
    try:
        status = path.stat()
    except OSError as error:
        raise OutputError(f"cannot read {path}: {error.strerror}") from error
    return _key((status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns))


def _key(value: object) -> str:
    return Digest.of(repr(value).encode()).hex


def _digest(text: str | None) -> Digest | None:
    try:
        return Digest.parse_hex(text) if text else None
    except ValueError:
        return None
