"""Writing files so that a killed bake leaves the old one or the new one: beside, then renamed."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from bake.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Iterator

_FULL = {errno.ENOSPC, errno.EDQUOT}
_CANNOT_LINK = {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.EACCES, errno.ENOSYS}


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what the operating system says of a write into an OutputError that a person can act on."""
    try:
        yield
    except OSError as error:
        raise output_error(path, error) from error


def output_error(path: Path, error: OSError) -> OutputError:
    if error.errno in _FULL:
        return OutputError(f"no space left to write {path}", hint=f"{_free(path)}; bake cache prune frees the store")
    if error.errno == errno.EROFS:
        return OutputError(f"cannot write {path}: the file system is read-only")
    if error.errno in {errno.EACCES, errno.EPERM}:
        return OutputError(f"cannot write {path}: permission denied", hint="check who owns the folder")
    return OutputError(f"cannot write {path}: {error.strerror or error}")


def write(path: Path, content: bytes, *, mode: int = 0o644) -> None:
    """Put a file in place whole, synced to disk first. Raises OutputError; the old file then stays as it was."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fchmod(stream.fileno(), mode)
                os.fsync(stream.fileno())
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


def link_or_copy(source: Path, target: Path) -> bool:
    """Give a file a second name, or where that cannot be, a second copy; returns whether it is a link.

    The name appears at once and whole. A copy shares its blocks where the file system can (copy_file_range).
    """
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            linked = link(source, beside)
            if not linked:
                _copy(source, beside)
            beside.replace(target)
        finally:
            beside.unlink(missing_ok=True)
    return linked


def link(source: Path, target: Path) -> bool:
    """Give a file a second name; False where the file systems do not allow it."""
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in _CANNOT_LINK:
            raise
        return False
    return True


def _copy(source: Path, target: Path) -> None:
    with source.open("rb") as reader, target.open("xb") as writer:
        copy_range(reader.fileno(), writer.fileno(), os.fstat(reader.fileno()).st_size)
    target.chmod(0o444)


def copy_range(source: int, target: int, size: int) -> int:
    """Copy up to `size` bytes between two open files at their offsets, in the kernel where it can.

    Returns the count.
    """
    left = size
    while left:
        count = _copy_some(source, target, left)
        if not count:
            break
        left -= count
    return size - left


def _copy_some(source: int, target: int, size: int) -> int:
    try:
        return os.copy_file_range(source, target, size)
    except OSError as error:
        if error.errno not in {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBADF}:
            raise
    content = os.read(source, min(size, 4 << 20))
    view = memoryview(content)
    while view:
        view = view[os.write(target, view) :]
    return len(content)


def free_bytes(path: Path) -> int:
    """Bytes free to this user on the file system that would hold a path."""
    while not path.exists():
        path = path.parent
    return shutil.disk_usage(path).free


def _free(path: Path) -> str:
    return f"{free_bytes(path) / 1e9:.1f} GB are free there"
