"""Images: a manifest and a config put together out of documents, wherever these are read from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from bake.image import INDEX, Image, ImageConfig, Manifest, Platform
from bake.registry.documents import Document, choose

if TYPE_CHECKING:
    from bake.image import Descriptor


class Documents(Protocol):
    """Manifests, indexes and configs of one repository, each proven by the digest that names it."""

    def manifest(self, identifier: str, /) -> Document: ...

    def config(self, config: Descriptor, /) -> bytes: ...


def find_image(documents: Documents, identifier: str, *, name: str, platform: Platform | None = None) -> Image:
    """The image that a tag or digest names for a platform (linux/amd64). `name` is the repository's, for messages.

    Raises ImageError where there is none for the platform, and what the documents raise.
    """
    platform = platform or Platform()
    document = documents.manifest(identifier)
    while document.descriptor.media_type == INDEX:
        where = f"{name}: index {document.descriptor.digest}"
        document = documents.manifest(str(choose(document, platform, where=where).digest))
    manifest = Manifest.parse(document.content, where=f"{name}: manifest {document.descriptor.digest}")
    content = documents.config(manifest.config)
    config = ImageConfig.parse(content, where=f"{name}: config {manifest.config.digest}")
    return Image(descriptor=document.descriptor, manifest=manifest, config=config)
