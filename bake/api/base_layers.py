"""Base layers: put into a layout, for a build; or read where they lie, for a push. Each is proven before it is used."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bake import disk
from bake.api.base_documents import kept_image, read_image
from bake.api.bases import DOCKER, OCI, check_platform, find_in_daemon, locked_digest, refuse_own, source_layout
from bake.api.remote import open_registry
from bake.api.workers import Workers, results
from bake.api.workspace import offline_error
from bake.errors import ImageError, OutputError
from bake.image import MANIFEST, Descriptor, Image, Manifest
from bake.registry import Reference, Source, reopened
from bake.units import count_text, size_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import BinaryIO

    from bake.api.workspace import Workspace
    from bake.daemon import Daemon, DaemonImage
    from bake.digest import Digest
    from bake.layout import Layout
    from bake.lock import Base
    from bake.registry import Registry


def open_base(workspace: Workspace, base: Base | None, layout: Layout, *, daemon: Daemon | None = None) -> Image | None:
    """The base's image; None for scratch.

    Raises LockError, ImageError, OutputError, DaemonError, SourceError, NetworkError.

    A base in an OCI layout or a registry has its layers put into the layout. With `daemon`, one that is in the daemon,
    or in a registry, stays there.
    """
    if base is None:
        return None
    digest = locked_digest(base)
    if base.image.startswith(OCI):
        image = _from_layout(workspace, base, digest, layout)
        if daemon is not None:
            check_platform(base, image.config, daemon)
        return image
    if daemon is not None:
        return _from_daemon(workspace, base, digest, daemon)
    if base.image.startswith(DOCKER):
        raise _needs_daemon(base)
    return _from_registry(workspace, base, layout)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadableBase:
    """A base whose layers can be read without a daemon; `reference` is where it lies, if that is a registry."""

    image: Image
    source: Callable[[Descriptor], Source]
    reference: Reference | None = None


@contextlib.contextmanager
def open_readable(
    workspace: Workspace, base: Base | None, *, workers: Workers, keep: bool = False
) -> Iterator[ReadableBase | None]:
    """A base in a layout or a registry, its manifest and config proven; None for scratch. No layer is read yet.

    With `keep`, the store remembers manifest and config of one in a registry, and they are taken from there where no
    network is allowed. Raises LockError, ImageError, SourceError, NetworkError.
    """
    if base is None:
        yield None
        return
    digest = locked_digest(base)
    if base.image.startswith(DOCKER):
        raise _not_to_be_pushed(base)
    if base.image.startswith(OCI):
        layout, image = source_layout(workspace, base, digest)
        yield ReadableBase(image=image, source=lambda layer: reopened(_proven(workspace, base, layout, layer)))
        return
    reference = replace(Reference.parse(base.image), digest=digest)
    if workspace.offline and keep:
        image = kept_image(workspace.store, reference)
        yield ReadableBase(image=image, source=lambda layer: _kept_layer(workspace, base, layer), reference=reference)
        return
    with open_registry(workspace, reference, sleep=workers.sleep) as registry:
        image = read_image(workspace.store, registry) if keep else registry.image()
        refuse_own(base, image.config)
        yield ReadableBase(
            image=image, source=lambda layer: _layer_source(workspace, registry, layer), reference=reference
        )


def _from_layout(workspace: Workspace, base: Base, digest: Digest, layout: Layout) -> Image:
    source, image = source_layout(workspace, base, digest)
    for blob in image.manifest.layers:
        _proven(workspace, base, source, blob)
        if not _has(workspace, layout, blob):
            layout.take(source.blob(blob.digest), blob.digest)
            workspace.store.prove(layout.blob(blob.digest), blob.digest)
    return image


def _proven(workspace: Workspace, base: Base, layout: Layout, layer: Descriptor) -> Callable[[], BinaryIO]:
    """How to open a layer of a base in a layout, once its bytes are known to be right. Raises ImageError."""
    path = layout.blob(layer.digest)
    if not workspace.store.check(path, layer.digest):
        raise ImageError(f"base {base.name}: the bytes of {path} are not those of {layer.digest}")
    return lambda: layout.open(layer.digest)


def _has(workspace: Workspace, layout: Layout, layer: Descriptor) -> bool:
    """Whether a layout has a layer whose bytes are known to be right."""
    return layout.size(layer.digest) == layer.size and workspace.store.is_proven(
        layout.blob(layer.digest), layer.digest
    )


def _from_registry(workspace: Workspace, base: Base, layout: Layout) -> Image:
    """The base's layers go through the store, so that they are fetched once, and a fetch that broke goes on."""
    with Workers() as workers, open_readable(workspace, base, workers=workers, keep=True) as found:
        if found is None:  # there is a base, or nobody would be here
            raise AssertionError(base.name)
        layers = {blob.digest: blob for blob in found.image.manifest.layers if not _has(workspace, layout, blob)}
        absent = [blob.size for blob in layers.values() if not workspace.store.file(blob.digest, size=blob.size)]
        to_fetch = sum(absent)
        if absent and workspace.offline:
            raise offline_error(f"base {base.name} ({size_text(to_fetch)} in {count_text(len(absent), 'layer')})")
        _check_space(workspace, base, to_fetch)
        with workspace.progress.task(f"base {base.name}: fetching", to_fetch) as fetching:
            advance = workers.watch(fetching)
            paths = results(
                workers.download(_fetch_layer, workspace, found.source(blob), blob, advance) for blob in layers.values()
            )
        for blob, path in zip(layers.values(), paths, strict=True):
            layout.take(path, blob.digest)
            workspace.store.prove(layout.blob(blob.digest), blob.digest)
        return found.image


def _fetch_layer(workspace: Workspace, source: Source, layer: Descriptor, advance: Callable[[int], object]) -> Path:
    """The layer in the store; an earlier fetch that broke is gone on with."""
    return workspace.store.sound_file(layer.digest, size=layer.size) or workspace.store.fetch(
        source, name="a layer of the base", digest=layer.digest, size=layer.size, advance=advance
    )


def _layer_source(workspace: Workspace, registry: Registry, layer: Descriptor) -> Source:
    """A layer's bytes: from the store where it was fetched before, else from the registry."""
    if found := workspace.store.sound_file(layer.digest, size=layer.size):
        return reopened(lambda: found.open("rb"))
    return lambda offset: registry.open_blob(layer, offset=offset)


def _kept_layer(workspace: Workspace, base: Base, layer: Descriptor) -> Source:
    """A layer's bytes from the store. Raises SourceError where it has none."""
    found = workspace.store.sound_file(layer.digest, size=layer.size)
    if found is None:
        raise offline_error(f"base {base.name}: layer {layer.digest} ({size_text(layer.size)})")
    return reopened(lambda: found.open("rb"))


def _check_space(workspace: Workspace, base: Base, needed: int) -> None:
    if needed > (free := disk.free_bytes(workspace.store.root)):
        raise OutputError(
            f"no space for the layers of base {base.name} in {workspace.store.root}: "
            f"{size_text(needed)} needed, {size_text(free)} free",
            hint="bake cache prune empties the store; bake push NAME@VERSION REF needs no space for them",
        )


def _from_daemon(workspace: Workspace, base: Base, digest: Digest, daemon: Daemon) -> Image:
    found = find_in_daemon(workspace, base, digest, daemon)
    layers = daemon.base_layers(found)
    manifest = Manifest(config=_placeholder(found), layers=layers)
    return Image(descriptor=_placeholder(found), manifest=manifest, config=found.config)


def _placeholder(found: DaemonImage) -> Descriptor:
    return Descriptor(media_type=MANIFEST, digest=found.manifest or found.id, size=0, platform=found.config.platform)


def _needs_daemon(base: Base) -> ImageError:
    return ImageError(
        f"base {base.name} is {base.image}, in the Docker daemon, and so is what is built on it",
        hint="--to docker; or save it into an OCI layout, and use oci:PATH",
    )


def _not_to_be_pushed(base: Base) -> ImageError:
    name = base.image.removeprefix(DOCKER)
    return ImageError(
        f"base {base.name} is {base.image}: a daemon hands no layer out, so nothing on it can be pushed from here",
        hint=f"docker push it, and name it by its reference in [base.{base.name}]; "
        f'or: skopeo copy docker-daemon:{name} oci:bases/{base.name}, and image = "oci:bases/{base.name}"',
    )
