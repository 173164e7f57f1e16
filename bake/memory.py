"""Memory: what was once computed of files, so that they need not be read again. Losing it costs time, no more.

blob/…       the sha256 of a blob that bake wrote, by its inode, size and modification time
hash/…       the sha256 of a file in a model's folder, by its fingerprint
diff-id/…    the diff_id of a layer, by what decides its bytes: each file's sha256 was proven in the same read
packed/…     the same, where files were packed and gave the diff_id that the lock has for them
pushed/…     a repository that has a blob, by its registry's host and the blob's digest
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bake import disk
from bake.digest import Digest, stream_digest
from bake.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bake.snapshot import Fingerprint

_RACE_NS = 2_000_000_000
"""A file changed this recently may change again within one tick of its clock, so its hash is not remembered."""


class Memory:
    """One small file for each thing that is known, in a folder: safe to share, to kill, and to lose."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def is_proven(self, path: Path, digest: Digest) -> bool:
        """Whether this very file was proven to have a digest, and was not written to since."""
        try:
            return self._recall("blob", _blob_key(path.stat())) == digest.hex
        except OSError:
            return False

    def prove(self, path: Path, digest: Digest) -> None:
        """Remember that a file has a digest. The caller has proven it, and nothing has written to the file since."""
        with _reading(path):
            key = _blob_key(path.stat())
        self._remember("blob", key, digest.hex)

    def forget(self, path: Path) -> None:
        """Unlearn what a file's bytes are: they turned out to be others."""
        with contextlib.suppress(OSError):
            self._memory("blob", _blob_key(path.stat())).unlink(missing_ok=True)

    def check(self, path: Path, digest: Digest, *, advance: Callable[[int], object] = lambda _: None) -> bool:
        """Whether a file has a digest: from memory if it can be, else by reading it once."""
        if self.is_proven(path, digest):
            return True
        with _reading(path), path.open("rb", buffering=0) as stream:
            before = _blob_key(os.fstat(stream.fileno()))
            found, _ = stream_digest(stream, advance=advance)
            unchanged = _blob_key(os.fstat(stream.fileno())) == before
        if found == digest and unchanged:
            self._remember("blob", before, digest.hex)
        return found == digest

    def diff_id(self, key: Digest) -> Digest | None:
        """The diff_id of a layer that was packed before, by what decides its bytes (LayerPlan.key)."""
        return _digest(self._recall("diff-id", key.hex))

    def remember_diff_id(self, key: Digest, diff_id: Digest) -> None:
        self._remember("diff-id", key.hex, diff_id.hex)

    def packed(self, key: Digest) -> Digest | None:
        """The diff_id that the files of a layer gave when they were packed, as the lock said they would."""
        return _digest(self._recall("packed", key.hex))

    def remember_packed(self, key: Digest, diff_id: Digest) -> None:
        self._remember("packed", key.hex, diff_id.hex)

    def pushed(self, host: str, digest: Digest) -> str | None:
        """A repository of a registry that had a blob when it was last looked at. It may be gone since."""
        return self._recall("pushed", _key((host, digest.hex)))

    def remember_pushed(self, host: str, digest: Digest, repository: str) -> None:
        self._remember("pushed", _key((host, digest.hex)), repository)

    def hash(self, fingerprint: Fingerprint) -> Digest | None:
        """The sha256 of a file in a folder, if it is as it was when it was last hashed."""
        return _digest(self._recall("hash", _key(fingerprint)))

    def remember_hash(self, fingerprint: Fingerprint, digest: Digest) -> None:
        if max(fingerprint.mtime_ns, fingerprint.ctime_ns) < time.time_ns() - _RACE_NS:
            self._remember("hash", _key(fingerprint), digest.hex)

    def _recall(self, kind: str, key: str) -> str | None:
        try:
            return self._memory(kind, key).read_text("ascii")
        except (OSError, UnicodeDecodeError):
            return None

    def _remember(self, kind: str, key: str, value: str) -> None:
        disk.write(self._memory(kind, key), value.encode(), sync=False)

    def _memory(self, kind: str, key: str) -> Path:
        return self._folder / kind / key[:2] / key[2:]


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(f"cannot read {path}: {error.strerror}") from error


def _blob_key(status: os.stat_result) -> str:
    """A blob's identity and age: its modification time is that of its one writing, and links do not change it.

    What was written is not synced to disk, for speed; so what is known of it holds until the machine starts again.
    """
    return _key((_boot(), status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns))


@functools.cache
def _boot() -> str:
    """What names this start of the machine (random(4), boot_id); nothing where the system does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


def _key(value: object) -> str:
    return Digest.of(repr(value).encode()).hex


def _digest(text: str | None) -> Digest | None:
    try:
        return Digest.parse_hex(text) if text else None
    except ValueError:
        return None
