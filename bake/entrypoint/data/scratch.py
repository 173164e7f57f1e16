"""Scratch: the folder that converted files go to: what they are called there, whether they fit, which are there.

The folder may be shared by nodes and by trainings: a name says all that the bytes depend on, and is given last.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import socket
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bake.entrypoint.data.columns import Columns

_FORM = 1
"""To be raised where the same source would be written otherwise than before."""


class ScratchError(OSError):
    """The scratch folder cannot take the files. The message says what was needed and what is there.

    `errno` is the operating system's; None where it is room that lacks.
    """

    def __str__(self) -> str:
        return self.strerror or "unknown"

    @classmethod
    def of(cls, error: OSError) -> ScratchError:
        return cls(error.errno, os.strerror(error.errno) if error.errno else error.strerror or str(error))

    @property
    def todo(self) -> str:
        if self.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            return f"mount a folder that uid {os.geteuid()} can write, and set BAKE_SCRATCH to it"
        if self.errno in (errno.ENOTDIR, errno.EEXIST):
            return "set BAKE_SCRATCH to a folder"
        return "mount a folder with more room for it, and set BAKE_SCRATCH to it"


def target_name(source: str, columns: Columns, *, release: tuple[int, int] | None) -> str:
    """`name-0123456789ab.parquet`, in plain letters, whatever the source is called."""
    status = Path(source).stat()
    place = os.fsencode(os.path.abspath(source)).hex()  # noqa: PTH100 - a name may be no text
    known = [place, status.st_size, status.st_mtime_ns, sorted(columns.mapped.items()), columns.prompt, columns.source]
    told = json.dumps([_FORM, *known, [source.name for source in columns.sources], release])
    digest = hashlib.sha256(told.encode()).hexdigest()[:12]
    return f"{re.sub(r'[^A-Za-z0-9._-]', '_', Path(source).stem)[:80]}-{digest}.parquet"


def beside(target: Path) -> Path:
    """The unfinished file: no other process, on this node or another, writes to the same."""
    host = re.sub(r"[^A-Za-z0-9.-]", "_", socket.gethostname())[:64]
    return target.with_name(f".{target.name}.{host}-{os.getpid()}.part")


def is_whole(target: Path, *, rows: int) -> bool:
    """Whether a training before this one wrote the file, to its end."""
    import pyarrow.parquet

    try:
        return bool(pyarrow.parquet.read_metadata(target).num_rows == rows)
    except (OSError, pyarrow.ArrowException):
        return False


def require_room(folder: Path, sources: Sequence[str]) -> None:
    """Raise ScratchError where `folder` cannot be written to or made, or holds less than the sources take.

    A table in parquet is seldom larger than in another format, so that as many bytes must be free. Writes nothing.
    """
    try:
        there = _nearest(folder)
        if not there.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "")
        _require_writable(there)
        free, size = shutil.disk_usage(there).free, sum(Path(source).stat().st_size for source in sources)
    except OSError as error:
        raise ScratchError.of(error) from error
    if free < size:
        raise ScratchError(None, f"{size:,} bytes are needed and {free:,} are free")


def _nearest(folder: Path) -> Path:
    """The folder, or the one above it that is there."""
    return next(place for place in (folder.absolute(), *folder.absolute().parents) if os.path.lexists(place))


def _require_writable(folder: Path) -> None:
    if os.access(folder, os.W_OK | os.X_OK, effective_ids=True):
        return
    read_only = os.statvfs(folder).f_flag & os.ST_RDONLY
    raise PermissionError(errno.EROFS if read_only else errno.EACCES, "")
