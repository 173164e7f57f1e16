"""Archive: an image as one tar that `docker load` and `ctr import` take, with the layers that the other side lacks.

It is an OCI layout and a `docker save` archive at once (image-layout.md; moby's image/tarexport): the containerd image
store reads the first, the classic store the second. A layer that a daemon already has may be left out.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from bake import tar
from bake.digest import CHUNK, Digest, read_into
from bake.errors import ImageError
from bake.image import INDEX, LAYOUT_MARK, canonical

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from bake.image import Blobs, Descriptor, Image

_MODE = 0o644


def stream_archive(
    image: Image,
    blobs: Blobs,
    *,
    name: str,
    send: Collection[Digest],
    oci: bool = True,
    advance: Callable[[int], object] = lambda _: None,
) -> Iterator[bytes]:
    """The archive of an image under a name (`repository:tag`), in chunks.

    `send` are the layers that it carries. Without `oci`, only the classic store can read it: that one needs no
    manifest, and so no digest of a layer that it has.
    """
    documents = {
        f"blobs/sha256/{image.manifest.config.digest.hex}": image.config.dumps(),
        "manifest.json": _docker_manifest(image, name=name),
    }
    if oci:
        documents[f"blobs/sha256/{image.descriptor.digest.hex}"] = image.manifest.dumps()
        documents["index.json"] = _index(image, name=name)
        documents["oci-layout"] = LAYOUT_MARK
    for path in sorted(documents):
        yield tar.file_header(path, size=len(documents[path]), mode=_MODE)
        yield documents[path] + bytes(tar.padding(len(documents[path])))
    for layer in {layer.digest: layer for layer in image.manifest.layers if layer.digest in send}.values():
        yield from _blob(layer, blobs, advance)
    yield tar.TRAILER


def archive_size(image: Image, *, send: Collection[Digest]) -> int:
    """Bytes of the layers that an archive carries."""
    return sum({layer.digest: layer.size for layer in image.manifest.layers if layer.digest in send}.values())


def _blob(layer: Descriptor, blobs: Blobs, advance: Callable[[int], object]) -> Iterator[bytes]:
    yield tar.file_header(f"blobs/sha256/{layer.digest.hex}", size=layer.size, mode=_MODE)
    buffer = memoryview(bytearray(CHUNK))
    sent = 0
    with blobs.open(layer.digest) as stream:
        while count := read_into(stream, buffer):
            yield bytes(buffer[:count])
            sent += count
            advance(count)
    if sent != layer.size:
        raise ImageError(f"layer {layer.digest}: expected {layer.size} bytes, found {sent}")
    yield bytes(tar.padding(layer.size))


def _docker_manifest(image: Image, *, name: str) -> bytes:
    entry = {
        "Config": f"blobs/sha256/{image.manifest.config.digest.hex}",
        "RepoTags": [name],
        "Layers": [f"blobs/sha256/{layer.digest.hex}" for layer in image.manifest.layers],
    }
    return json.dumps([entry], separators=(",", ":")).encode()


def _index(image: Image, *, name: str) -> bytes:
    full = name if "/" in name else f"docker.io/library/{name}"
    annotations = {"io.containerd.image.name": full, "org.opencontainers.image.ref.name": name.rpartition(":")[2]}
    entry = replace(image.descriptor, annotations=annotations)
    return canonical({"schemaVersion": 2, "mediaType": INDEX, "manifests": [entry.document()]})
