"""The store: files already fetched and layers already packed, by sha256, shared by all models and locks of a user.

    files/ab/cdef…     a fetched file
    layers/ab/cdef…    a packed layer: a second name of the blob in the layout that it was written into
    partial/…          a file on its way; it counts for nothing until its digest is proven
    work/…             an image on its way to the daemon
    memory/…           what was once computed: a file's sha256 by its fingerprint, a layer's diff_id by what decides it
    locks/…            held while something is fetched or written

Everything is written beside and renamed, so a killed bake leaves nothing half-written that counts as whole, and
losing any of it costs time, never a wrong byte.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from bake import disk
from bake.digest import CHUNK, Digest, read_into
from bake.errors import DigestError, OutputError
from bake.memory import Memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


_HEX_DIGITS = 64
_KINDS = ("files", "layers", "partial", "work", "memory")
_MEMORY_DAYS = 30
_KEEPING_DAYS = 1 / 24
"""A small file that was begun this recently may still be on its way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """How much there is of one kind. `size` is in bytes; `shared` of them cost nothing, a layout has them too."""

    kind: str
    count: int
    size: int
    shared: int = 0


class Store(Memory):
    """Opened lazily: nothing is created before something is kept."""

    def __init__(self, root: Path, *, tell: Callable[[str], object] = lambda _: None) -> None:
        """`tell` is told when another bake is waited for."""
        super().__init__(root / "memory")
        self.root = root
        self.tell = tell

    @classmethod
    def default(cls) -> Store:
        """`BAKE_CACHE`, else `bake` below `XDG_CACHE_HOME`, else `~/.cache/bake`. Raises OutputError without a home."""
        try:
            if own := os.environ.get("BAKE_CACHE"):
                return cls(Path(own).expanduser().absolute())
            return cls(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "bake")
        except RuntimeError as error:
            raise OutputError("this user has no home folder to keep the store in", hint="set BAKE_CACHE") from error

    @property
    def work(self) -> Path:
        """Where images that go to the daemon are put together. Nothing in it is kept."""
        return self.root / "work"

    # --- files

    def file(self, digest: Digest, *, size: int | None = None) -> Path | None:
        """A fetched file, if it is here, and whole where its size is known beforehand."""
        return _whole(self._path("files", digest), size)

    def sound_file(self, digest: Digest, *, size: int | None = None) -> Path | None:
        """A fetched file whose bytes are known to be right. One that was written to since is read again, or deleted."""
        path = self.file(digest, size=size)
        if path is None or self.check(path, digest):
            return path
        with disk.writing(path):
            path.unlink(missing_ok=True)
        return None

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
        """Fetch a file of known digest; `stream(offset)` gives its bytes from where an earlier try broke off.

        Each byte is shown once, in order, also those that an earlier try left; nothing is shown where another bake has
        fetched the file meanwhile. Raises DigestError that begins with `name`, and then keeps nothing.
        """
        target = self._path("files", digest)
        with self.holding(_fetching(digest.hex)), disk.writing(target):
            if found := self.sound_file(digest, size=size):
                advance(size)
                return found
            partial = self.root / "partial" / digest.hex
            partial.parent.mkdir(parents=True, exist_ok=True)
            with partial.open("a+b") as writer:
                found_digest = complete(writer, stream, size=size, show=show, advance=advance)
                os.fsync(writer.fileno())  # from here on its name and its size vouch for it
            if found_digest != digest:
                partial.unlink()
                raise DigestError(
                    f"{name}: expected {digest} of {size} bytes, found {found_digest}",
                    hint="the source sent other bytes than it lists; try again, or another HF_ENDPOINT",
                )
            self.prove(_finish(partial, target), digest)
            return target

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
            self.prove(_finish(name, self._path("files", digest)), digest)
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
            if not self.is_proven(target, diff_id):
                target.unlink(missing_ok=True)
            disk.link(path, target)

    def drop_layer(self, diff_id: Digest) -> None:
        """Delete a layer that must not be kept."""
        path = self._path("layers", diff_id)
        with disk.writing(path):
            path.unlink(missing_ok=True)

    # --- housekeeping

    @contextlib.contextmanager
    def holding(self, name: str, *, wait: bool = True) -> Iterator[None]:
        """Hold a lock that other bakes on this store, and other threads, respect.

        It ends with the process, however that ends. Without `wait`, raises BlockingIOError where another holds it.
        """
        from filelock import FileLock, Timeout

        path = self.root / "locks" / Digest.of(os.fsencode(name)).hex[:32]
        with disk.writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            held = FileLock(path)
            with contextlib.suppress(Timeout):
                held.acquire(blocking=False)
            if wait and not held.is_locked:
                self.tell("waiting for another bake")
                held.acquire()
        if not held.is_locked:
            raise BlockingIOError(errno.EAGAIN, "another bake holds it", str(path))
        try:
            yield
        finally:
            held.release()

    def usage(self) -> tuple[Usage, ...]:
        return tuple(self._usage(kind) for kind in _KINDS)

    def prune(self, *, keep_layers_in_use: bool = True, older_than_days: float = 0) -> int:
        """Delete what the store holds.

        Returns the bytes freed. A layer that a layout has too frees nothing and may stay; what is being fetched stays.
        What was computed takes next to nothing and saves reading everything again: unless layers in use go too, it
        stays for a month.
        """
        freed = 0
        for kind in _KINDS:
            days = max(older_than_days, _MEMORY_DAYS) if kind == "memory" and keep_layers_in_use else older_than_days
            for path, status in self._walk(kind):
                in_use = kind == "layers" and status.st_nlink > 1
                if _used_within(status, days) or (in_use and keep_layers_in_use):
                    continue
                if self._delete_idle(kind, path, status):
                    freed += 0 if in_use else status.st_size
        return freed

    def _delete_idle(self, kind: str, path: Path, status: os.stat_result) -> bool:
        """Delete what nobody is at. Returns whether it is gone."""
        match kind:
            case "partial":
                return self._delete_partial(path, status)
            case "work":
                return self._delete_unless_held(path, building(self.work / path.relative_to(self.work).parts[0]))
            case _:
                return _delete(path)

    def _delete_partial(self, path: Path, status: os.stat_result) -> bool:
        """Delete what a killed bake left; what may still be on its way stays. Returns whether it is gone."""
        if len(path.name) != _HEX_DIGITS:  # a file of `keep`, which holds no lock
            return not _used_within(status, _KEEPING_DAYS) and _delete(path)
        return self._delete_unless_held(path, _fetching(path.name))

    def _delete_unless_held(self, path: Path, name: str) -> bool:
        try:
            with self.holding(name, wait=False):
                return _delete(path)
        except BlockingIOError:
            return False

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


def _whole(path: Path, size: int | None) -> Path | None:
    try:
        found = path.stat().st_size
    except OSError:
        return None
    return path if size in {None, found} else None


def _finish(partial: Path, target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    partial.chmod(0o444)
    return partial.replace(target)


def complete(
    writer: BinaryIO,
    stream: Callable[[int], Iterable[bytes]],
    *,
    size: int,
    show: Callable[[bytes], object],
    advance: Callable[[int], object],
) -> Digest:
    """Complete a file of which an earlier try left a part; returns the digest of all of it.

    What is there is hashed, then what is missing is appended: `stream(offset)` gives it. Nothing is proven here.
    """
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
            if (offset := offset + len(chunk)) > size:  # it is not the file, however much more there is
                break
    return Digest(hasher.hexdigest())


def building(folder: Path) -> str:
    """The name of the lock that is held while an image is put together in a layout."""
    return f"layout {folder.resolve()}"


def _fetching(name: str) -> str:
    """The name of the lock that is held while a file is fetched into partial/NAME."""
    return f"fetch-{name}"


def _delete(path: Path) -> bool:
    with disk.writing(path):
        path.unlink(missing_ok=True)
    return True


def _used_within(status: os.stat_result, days: float) -> bool:
    return days > 0 and max(status.st_mtime, status.st_atime) > time.time() - days * 86400
