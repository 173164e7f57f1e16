"""Installed: the version of a package of this image, from its metadata. Nothing is imported."""

from __future__ import annotations

from importlib import metadata


def version_of(package: str) -> str | None:
    """None where the image does not have it."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
