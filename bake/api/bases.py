"""Base images: what an image is built on, found in an OCI layout or in the daemon, and proven before it is used."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bake import buildx
from bake.api.workspace import offline_error
from bake.digest import Digest
from bake.errors import DaemonError, ImageError, LockError
from bake.image import Image, Manifest, validate
from bake.layout import Layout

if TYPE_CHECKING:
    from typing import BinaryIO

    from bake.api.workspace import Workspace
    from bake.daemon import Daemon, DaemonImage
    from bake.image import Descriptor, ImageConfig
    from bake.lock import Base

_OCI, _DOCKER = "oci:", "docker:"


def open_base(workspace: Workspace, base: Base | None, layout: Layout, *, daemon: Daemon | None = None) -> Image | None:
    """The base's image; None for scratch. Raises LockError, ImageError, OutputError, DaemonError.

    A base in an OCI layout has its layers put into the layout. One in the daemon stays there, and needs `daemon`.
    """
    if base is None:
        return None
    digest = locked_digest(base)
    if base.image.startswith(_OCI):
        image = _from_layout(workspace, base, digest, layout)
        if daemon is not None:
            check_platform(base, image.config, daemon)
        return image
    if daemon is None:
        raise _needs_daemon(base)
    return _from_daemon(workspace, base, digest, daemon)


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
    if not base.image.startswith(_OCI):
        return None
    image = Layout(workspace.layout_folder(base.image)).image(digest=base.digest)
    return sum(blob.size for blob in image.manifest.layers)


def find_digest(workspace: Workspace, base: Base) -> Digest | None:
    """What a base's image is now: in its layout, in the daemon, or in its registry; None where that cannot be told."""
    if base.image.startswith(_OCI):
        return Layout(workspace.layout_folder(base.image)).image().descriptor.digest
    if base.image.startswith(_DOCKER):
        found = _connect().image(base.image.removeprefix(_DOCKER))
        if found is None:
            raise ImageError(f"base {base.name}: the daemon has no image {base.image.removeprefix(_DOCKER)}")
        return found.id
    return None if workspace.offline else _registry_digest(base)


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
    _refuse_own(base, image.config)
    return source, image


def _from_layout(workspace: Workspace, base: Base, digest: Digest, layout: Layout) -> Image:
    source, image = source_layout(workspace, base, digest)
    for blob in image.manifest.layers:
        path = source.blob(blob.digest)
        if not workspace.store.check(path, blob.digest):
            raise ImageError(f"base {base.name}: the bytes of {path} are not those of {blob.digest}")
        if layout.size(blob.digest) != blob.size or not workspace.store.is_proven(
            layout.blob(blob.digest), blob.digest
        ):
            layout.take(path, blob.digest)
            workspace.store.prove(layout.blob(blob.digest), blob.digest)
    return image


def _from_daemon(workspace: Workspace, base: Base, digest: Digest, daemon: Daemon) -> Image:
    found = find_in_daemon(workspace, base, digest, daemon)
    layers = daemon.base_layers(found)
    manifest = Manifest(config=_placeholder(found), layers=layers)
    return Image(descriptor=_placeholder(found), manifest=manifest, config=found.config)


def find_in_daemon(workspace: Workspace, base: Base, digest: Digest, daemon: Daemon) -> DaemonImage:
    """The base in the daemon, pulled if it comes from a registry and is not there yet. Raises ImageError."""
    found = _find_in_daemon(workspace, base, digest, daemon)
    check_platform(base, found.config, daemon)
    _refuse_own(base, found.config)
    return found


def _refuse_own(base: Base, config: ImageConfig) -> None:
    """An image of bake's is no base: two models and two records would lie in one image. Raises ImageError."""
    if model := config.labels.get("dev.bake.model"):
        raise ImageError(
            f"base {base.name} ({base.image}) is itself an image that bake built, of {model}",
            hint="name the image that it was built on",
        )


def _find_in_daemon(workspace: Workspace, base: Base, digest: Digest, daemon: Daemon) -> DaemonImage:
    if base.image.startswith(_DOCKER):
        name = base.image.removeprefix(_DOCKER)
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
    reference = f"{_repository(base.image)}@{digest}"
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


def _registry_digest(base: Base) -> Digest | None:
    """The digest that a registry has for a reference now, as buildx sees it; None where there is no buildx to ask."""
    try:
        command = buildx.docker_command()
    except DaemonError:
        return None
    words = ["buildx", "imagetools", "inspect", base.image, "--format", "{{.Manifest.Digest}}"]
    done = subprocess.run([command, *words], capture_output=True, text=True, check=False)
    match = re.search(r"sha256:[0-9a-f]{64}", done.stdout)
    return Digest.parse(match.group()) if match and not done.returncode else None


def _repository(image: str) -> str:
    """A reference without tag and digest: `host:5000/name:tag@sha256:…` is `host:5000/name`."""
    name = image.partition("@")[0]
    head, colon, tag = name.rpartition(":")
    return head if colon and "/" not in tag else name


def _placeholder(found: DaemonImage) -> Descriptor:
    from bake.image import MANIFEST, Descriptor

    return Descriptor(media_type=MANIFEST, digest=found.manifest or found.id, size=0, platform=found.config.platform)


def _connect() -> Daemon:
    from bake.daemon import Daemon

    return Daemon.connect()


def _needs_daemon(base: Base) -> ImageError:
    if base.image.startswith(_DOCKER):
        return ImageError(
            f"base {base.name} is {base.image}, in the Docker daemon, and so is what is built on it",
            hint="--to docker; or save it into an OCI layout, and use oci:PATH",
        )
    return ImageError(
        f"base {base.name} is {base.image}, in a registry, and a layout must hold its base's layers too",
        hint=f"--to docker, which pulls it; or: skopeo copy docker://{_repository(base.image)}@{base.digest} "
        f'oci:bases/{base.name}, then image = "oci:bases/{base.name}" in [base.{base.name}]',
    )
