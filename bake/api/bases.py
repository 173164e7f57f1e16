"""Base images: what an image is built on, in an OCI layout, a registry or the daemon, proven before it is used."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bake import buildx
from bake.api.remote import open_registry
from bake.api.workspace import offline_error
from bake.errors import ImageError, LockError
from bake.image import Image, validate
from bake.layout import Layout
from bake.registry import Reference

if TYPE_CHECKING:
    from typing import BinaryIO

    from bake.api.workspace import Workspace
    from bake.daemon import Daemon, DaemonImage
    from bake.digest import Digest
    from bake.image import Descriptor, ImageConfig
    from bake.lock import Base

OCI, DOCKER = "oci:", "docker:"


def locked_digest(base: Base) -> Digest:
    """What a base resolved to. Raises LockError where it is not resolved yet."""
    if base.digest is None:
        raise LockError(f"base {base.name} ({base.image}) has no digest yet", hint="bake lock")
    return base.digest


def check_platform(base: Base, config: ImageConfig, daemon: Daemon) -> None:
    """Refuse a base that a daemon's machine cannot run. Raises ImageError."""
    if config.platform != daemon.platform:
        raise ImageError(
            f"base {base.name}: expected an image for {daemon.platform}, which is what Docker runs here, "
            f"found {config.platform}",
            hint=f"name a base for {daemon.platform} in [base.{base.name}]",
        )


def base_size(workspace: Workspace, base: Base | None) -> int | None:
    """Bytes of the base's layers as they are stored; None where its image cannot be seen from here."""
    if base is None:
        return 0
    if not base.image.startswith(OCI):
        return None
    image = Layout(workspace.layout_folder(base.image)).image(digest=base.digest)
    return sum(blob.size for blob in image.manifest.layers)


def find_digest(workspace: Workspace, base: Base) -> Digest | None:
    """What a base's image is now: in its layout, in the daemon, or in its registry.

    None where that is a registry, and no network is allowed. Raises ImageError, DaemonError, SourceError, NetworkError.
    """
    if base.image.startswith(OCI):
        return Layout(workspace.layout_folder(base.image)).image().descriptor.digest
    if base.image.startswith(DOCKER):
        found = _connect().image(base.image.removeprefix(DOCKER))
        if found is None:
            raise ImageError(f"base {base.name}: the daemon has no image {base.image.removeprefix(DOCKER)}")
        return found.id
    return None if workspace.offline else _registry_digest(workspace, base)


@dataclass(frozen=True)
class WithBase:
    """A layout's blobs, and the layers of a base that only the daemon has. It plays the role of `Blobs`."""

    layout: Layout
    elsewhere: tuple[Descriptor, ...]

    def size(self, digest: Digest) -> int | None:
        held = {layer.digest: layer.size for layer in self.elsewhere}
        return held[digest] if digest in held else self.layout.size(digest)

    def open(self, digest: Digest) -> BinaryIO:
        return self.layout.open(digest)


def source_layout(workspace: Workspace, base: Base, digest: Digest) -> tuple[Layout, Image]:
    """The layout of an `oci:` base and the image in it, whole as far as sizes tell. Raises ImageError."""
    source = Layout(workspace.layout_folder(base.image))
    image = source.image(digest=digest)
    if faults := validate(image, source):
        raise ImageError("\n".join([f"base {base.name} ({base.image}) is not whole:", *faults]))
    refuse_own(base, image.config)
    return source, image


def find_in_daemon(workspace: Workspace, base: Base, digest: Digest, daemon: Daemon) -> DaemonImage:
    """The base in the daemon, pulled if it comes from a registry and is not there yet. Raises ImageError."""
    found = _find_in_daemon(workspace, base, digest, daemon)
    check_platform(base, found.config, daemon)
    refuse_own(base, found.config)
    return found


def refuse_own(base: Base, config: ImageConfig) -> None:
    """An image of bake's is no base: two models and two records would lie in one image. Raises ImageError."""
    if model := config.labels.get("dev.bake.model"):
        raise ImageError(
            f"base {base.name} ({base.image}) is itself an image that bake built, of {model}",
            hint="name the image that it was built on",
        )


def _find_in_daemon(workspace: Workspace, base: Base, digest: Digest, daemon: Daemon) -> DaemonImage:
    if base.image.startswith(DOCKER):
        name = base.image.removeprefix(DOCKER)
        found = daemon.image(name)
        if found is None:
            raise ImageError(
                f"base {base.name}: the daemon has no image {name}", hint=f"build, load or pull {name} first"
            )
        if digest not in {found.id, found.manifest}:
            raise ImageError(
                f"base {base.name}: expected {name} to be {digest}, found {found.id}",
                hint=f"the name has moved; delete digest below [base.{base.name}] and run: bake lock",
            )
        return found
    reference = f"{Reference.parse(base.image).name}@{digest}"
    found = daemon.image(reference)
    if found is None and workspace.offline:
        raise offline_error(f"base {base.name} ({reference})")
    if found is None:
        workspace.progress.note(f"base {base.name}: docker pull {reference}")
        _pull(base, reference)
        found = daemon.image(reference)
    if found is None:
        raise ImageError(f"base {base.name}: the daemon pulled {reference} and does not have it")
    return found


def _pull(base: Base, reference: str) -> None:
    command = [buildx.docker_command(plugin=False), "pull", "--quiet", reference]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise ImageError(
            f"base {base.name}: docker cannot pull {reference}: {why}",
            hint="docker login, if the registry asks for it; or copy the image into an OCI layout and use oci:PATH",
        )


def _registry_digest(workspace: Workspace, base: Base) -> Digest:
    with open_registry(workspace, Reference.parse(base.image)) as registry:
        found = registry.resolve()
    if found is None:
        raise ImageError(
            f"base {base.name}: the registry has no image {base.image}", hint="check name and tag; docker login HOST"
        )
    return found.digest


def _connect() -> Daemon:
    from bake.daemon import Daemon

    return Daemon.connect()
