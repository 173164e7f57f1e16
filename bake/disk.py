"""Writing files so that a killed bake leaves the old one or the new one: beside, then renamed."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from bake.errors import OutputError
from bake.units import size_text

if TYPE_CHECKING:
    from collections.abc import Iterator

_FULL = {errno.ENOSPC, errno.EDQUOT}
_CANNOT_LINK = {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.EACCES, errno.ENOSYS}
_CANNOT_COPY_RANGE = {
    *(errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBADF, errno.ETXTBSY),
    errno.EPERM,  # what some sandboxes say of a system call they do not know
}


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


def write(path: Path, content: bytes, *, mode: int = 0o644, sync: bool = True) -> None:
    """Put a file in place whole, synced to disk first. Raises OutputError; the old file then stays as it was.

    Where the path is a link, the file that it leads to is written, and the link stays.
    """
    with writing(path), _beside(Path(os.path.realpath(path)) if path.is_symlink() else path) as (beside, target):
        with beside.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fchmod(stream.fileno(), mode)
            if sync:
                os.fsync(stream.fileno())
        beside.replace(target)


def link_or_copy(source: Path, target: Path) -> bool:
    """Give a file a second name, or where that cannot be, a second copy; returns whether it is a link.

    The name appears at once and whole. A copy shares its blocks where the file system can (copy_file_range).
    """
    with writing(target), _beside(target) as (beside, _):
        linked = link(source, beside)
        if not linked:
            _copy(source, beside)
        beside.replace(target)
    return linked


@contextlib.contextmanager
def _beside(target: Path) -> Iterator[tuple[Path, Path]]:
    """A fresh name in the target's folder, and the target; a file that still has that name at the end is deleted."""
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        yield beside, target
    finally:
        beside.unlink(missing_ok=True)


def clear_beside(target: Path) -> None:
    """Delete what a killed write of a file left beside it. Only where nobody else can be writing it."""
    left = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{16}}")
    with writing(target), contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for path in list(target.parent.iterdir()):
            if left.fullmatch(path.name):
                path.unlink(missing_ok=True)


def link(source: Path, target: Path) -> bool:
    """Give a file a second name, a link's own target where it is one; False where the file systems do not allow it."""
    try:
        os.link(os.path.realpath(source), target)
    except OSError as error:
        if error.errno not in _CANNOT_LINK:
            raise
        return False
    return True


def _copy(source: Path, target: Path) -> None:
    with source.open("rb") as reader, target.open("xb") as writer:
        size = os.fstat(reader.fileno()).st_size
        copied = copy_range(reader.fileno(), writer.fileno(), size)
    if copied != size:
        raise OutputError(f"{source} changed while it was copied: expected {size} bytes, found {copied}")
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
        if hasattr(os, "copy_file_range") and (count := os.copy_file_range(source, target, size)):
            return count
    except OSError as error:
        if error.errno not in _CANNOT_COPY_RANGE:
            raise
    # Some file systems say that nothing is left where there is (copy_file_range(2), "Bugs"): only read() knows the end.
    content = os.read(source, min(size, 4 << 20))
    view = memoryview(content)
    while view:
        view = view[os.write(target, view) :]
    return len(content)


def free_bytes(path: Path) -> int:
    """Bytes free to this user on the file system that would hold a path."""
    return shutil.disk_usage(_existing(path)).free


def device(path: Path) -> int:
    """What names the file system that would hold a path."""
    return _existing(path).stat().st_dev


def _existing(path: Path) -> Path:
    path = path.absolute()
    while not path.exists():
        path = path.parent
    return path


def _free(path: Path) -> str:
    return f"{size_text(free_bytes(path))} are free there"
