"""Base images: what an image is built on, found and brought into the layout with every byte proven."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bake.errors import ImageError, LockError
from bake.image import validate
from bake.layout import Layout

if TYPE_CHECKING:
    from pathlib import Path

    from bake.api.workspace import Workspace
    from bake.image import Image
    from bake.lock import Base


def open_base(workspace: Workspace, base: Base | None, layout: Layout) -> Image | None:
    """The base's image, its layers in the layout; None for scratch. Raises ImageError, OutputError."""
    if base is None:
        return None
    source = Layout(_folder(workspace, base))
    if base.digest is None:
        raise LockError(f"base {base.name} ({base.image}) has no digest yet", hint="bake lock")
    image = source.image(digest=base.digest)
    if faults := validate(image, source):
        raise ImageError("\n".join([f"base {base.name} ({base.image}) is not whole:", *faults]))
    for blob in image.manifest.layers:
        path = source.blob(blob.digest)
        if not workspace.store.check(path, blob.digest):
            raise ImageError(f"base {base.name}: the bytes of {path} are not those of {blob.digest}")
        if layout.size(blob.digest) != blob.size:
            layout.take(path, blob.digest)
    return image


def base_size(workspace: Workspace, base: Base | None) -> int | None:
    """Bytes of the base's layers as they are stored; None where its image cannot be seen from here."""
    if base is None:
        return 0
    if not base.image.startswith("oci:"):
        return None
    image = Layout(workspace.layout_folder(base.image)).image(digest=base.digest)
    return sum(blob.size for blob in image.manifest.layers)


def _folder(workspace: Workspace, base: Base) -> Path:
    if not base.image.startswith("oci:"):
        raise ImageError(
            f"base {base.name} is {base.image}, in a registry, and this version of bake builds on OCI layouts",
            hint=f"skopeo copy docker://{base.image.partition('@')[0]} oci:bases/{base.name}, then image = "
            f'"oci:bases/{base.name}" in [base.{base.name}] and run: bake lock; or --base scratch for weights alone',
        )
    if base.wheels:
        names = ", ".join(f"{wheel.name} {wheel.version}" for wheel in base.wheels)
        raise ImageError(
            f"base {base.name} needs wheels on top ({names}), and this version of bake does not add any",
            hint=f"use a base image that holds them already, and leave wheels out of [base.{base.name}]",
        )
    return workspace.layout_folder(base.image)
