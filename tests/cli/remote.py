"""Images in a registry on the loopback, as the tests of what is read from one need them."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from typing import TYPE_CHECKING

from bake.digest import Digest
from bake.image import LAYER, LAYER_GZIP, Descriptor, Image
from bake.layout import Layout

if TYPE_CHECKING:
    from pathlib import Path

    from tests.registry.server import FakeRegistry

NAME = "org/tiny"


def reference(registry: FakeRegistry, *, tag: str = "v1") -> str:
    return f"{registry.host}/{NAME}:{tag}"


def put_layout(registry: FakeRegistry, path: Path, *, tag: str = "v1", name: str = NAME) -> Image:
    """Put the image of a layout into the registry."""
    layout = Layout(path)
    image = layout.image()
    for blob in (image.manifest.config, *image.manifest.layers):
        registry.add_blob(name, layout.blob(blob.digest).read_bytes())
    registry.add_manifest(name, tag, image.manifest.dumps(), media_type=image.descriptor.media_type)
    return image


def compress_layers(registry: FakeRegistry, image: Image, *, tag: str, cut: int = 0) -> None:
    """Put an image anew, every layer of it zipped, as `docker push` of the classic image store does.

    The first one lacks `cut` bytes at its end.
    """
    first, *others = image.manifest.layers
    layers = [_zipped(registry, first, cut=cut), *(_zipped(registry, layer) for layer in others)]
    put_again(registry, replace(image, manifest=replace(image.manifest, layers=tuple(layers))), tag=tag)


def put_again(registry: FakeRegistry, image: Image, *, tag: str) -> None:
    """Put a changed image, config and manifest rewritten to fit."""
    config = image.config.dumps()
    registry.add_blob(NAME, config)
    described = replace(image.manifest.config, digest=Digest.of(config), size=len(config))
    manifest = replace(image.manifest, config=described)
    registry.add_manifest(NAME, tag, manifest.dumps(), media_type=image.descriptor.media_type)


def spoil(registry: FakeRegistry, digest: Digest, old: bytes, new: bytes) -> None:
    """Change bytes of a blob behind the registry's back."""
    content = registry.blobs[NAME][str(digest)]
    assert old in content
    registry.blobs[NAME][str(digest)] = content.replace(old, new, 1)


def read_of(registry: FakeRegistry, image: Image) -> int:
    """How many bytes of an image's layers were asked for."""
    sizes = {str(layer.digest): layer.size for layer in image.manifest.layers}
    return sum(
        _span(request.headers.get("range", ""), size)
        for request in registry.requests
        for digest, size in sizes.items()
        if request.method == "GET" and request.path.endswith(f"/blobs/{digest}")
    )


def _span(asked: str, size: int) -> int:
    start, _, stop = asked.removeprefix("bytes=").partition("-")
    return (int(stop) + 1 if stop else size) - int(start or 0)


def _zipped(registry: FakeRegistry, layer: Descriptor, *, cut: int = 0) -> Descriptor:
    assert layer.media_type == LAYER
    zipped = gzip.compress(registry.blobs[NAME][str(layer.digest)], mtime=0)
    content = zipped[: len(zipped) - cut]
    registry.add_blob(NAME, content)
    return Descriptor(media_type=LAYER_GZIP, digest=Digest.of(content), size=len(content))


def document_of(registry: FakeRegistry, *, tag: str) -> dict[str, object]:
    """The manifest that a tag names."""
    document: dict[str, object] = json.loads(registry.manifests[NAME][tag][1])
    return document
