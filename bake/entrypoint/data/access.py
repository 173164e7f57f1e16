"""Access: files and folders that are there, and that the user of this process may not read."""

from __future__ import annotations

import glob
import os
from pathlib import Path

from bake.entrypoint.finding import Finding


def locked_folder(path: str) -> str | None:
    """The first folder on the way to `path` that this user may not enter, or list where `path` is it or a glob."""
    if "\0" in path:
        return None
    place = Path(path).absolute()
    for folder in reversed((place, *place.parents)):
        if not os.path.isdir(folder):  # noqa: PTH112 - a Path would raise where a folder above may not be entered
            return None
        listed = folder == place or glob.has_magic(path.removeprefix(f"{folder}/"))
        if not os.access(folder, os.X_OK | (os.R_OK if listed else 0), effective_ids=True):
            return str(folder)
    return None


def closed(key: str, given: str, locked: str) -> Finding:
    """`locked` is the file or folder in the way of `given`."""
    user = os.geteuid()
    status = Path(locked).stat()
    where = "" if locked == given else f" ({locked} is closed to it)"
    return Finding(
        check="data-files",
        severity="error",
        what=f"{key}: {given} cannot be read by uid {user}{where}",
        why="verl reads the data as this user, and would fail once Ray is up and the tokenizer is loaded",
        todo=f"on the host: chmod -R a+rX on what is mounted there; or run the container as the owner: "
        f"docker run --user {status.st_uid}:{status.st_gid} (Kubernetes: securityContext.runAsUser)",
    )
