"""Mounts: whether a path lies on the container's own layer, which goes with it, or on something mounted there."""

from __future__ import annotations

from pathlib import Path

_OWN = ("overlay", "aufs", "fuse.fuse-overlayfs", "fuse-overlayfs")
"""File systems that container engines stack an image and a container's changes with."""


def is_container_layer(path: Path, *, mounts: Path = Path("/proc/self/mountinfo")) -> bool:
    """False where the mounts cannot be read or the root is no file system that is known of containers."""
    try:
        text = mounts.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    real = path.resolve()
    inside = [(place, kind) for place, kind in _mounts(text) if real.is_relative_to(place)]
    place, kind = max(inside, key=lambda mount: len(mount[0].parts), default=(Path("/"), ""))
    return place == Path("/") and kind in _OWN


def _mounts(text: str) -> list[tuple[Path, str]]:
    """Where, and of what kind. proc(5): the mount point is field 5, with octal escapes; the kind follows " - "."""
    found = []
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields, kinds = before.split(" "), after.split(" ")
        if len(fields) > 4 and kinds[0]:
            found.append((Path(fields[4].replace("\\040", " ")), kinds[0]))
    return found
