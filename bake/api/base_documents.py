"""Base documents: manifest and config of a base in a registry, kept in the store, so that a build offline has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bake.api.workspace import offline_error
from bake.digest import Digest
from bake.errors import SourceError
from bake.registry import Document, find_image

if TYPE_CHECKING:
    from bake.image import Descriptor, Image
    from bake.registry import Reference, Registry
    from bake.store import Store


def read_image(store: Store, registry: Registry) -> Image:
    """The image of a registry's reference; what was read of it is kept. Raises what `Registry.image` raises."""
    return find_image(_Keeping(store, registry), registry.reference.identifier, name=registry.reference.name)


def kept_image(store: Store, reference: Reference) -> Image:
    """The image of a reference with a digest, if its documents were read before. Raises SourceError, ImageError."""
    return find_image(_Kept(store, reference), reference.identifier, name=reference.name)


@dataclass(frozen=True)
class _Keeping:
    """A registry's documents on their way into the store. It plays the role of `bake.registry.Documents`."""

    store: Store
    registry: Registry

    def manifest(self, identifier: str) -> Document:
        document = self.registry.manifest(identifier)
        self._keep(document.descriptor.digest, document.content)
        return document

    def config(self, config: Descriptor) -> bytes:
        content = self.registry.config(config)
        self._keep(config.digest, content)
        return content

    def _keep(self, digest: Digest, content: bytes) -> None:
        if self.store.sound_file(digest, size=len(content)) is None:
            self.store.keep((content,))


@dataclass(frozen=True)
class _Kept:
    """The documents in the store. It plays the role of `bake.registry.Documents`."""

    store: Store
    reference: Reference

    def manifest(self, identifier: str) -> Document:
        return Document.parse(self._read(Digest.parse(identifier)), where=f"{self.reference.name}: {identifier}")

    def config(self, config: Descriptor) -> bytes:
        return self._read(config.digest)

    def _read(self, digest: Digest) -> bytes:
        found = self.store.sound_file(digest)
        if found is None:
            raise offline_error(f"base {self.reference}")
        try:
            return found.read_bytes()
        except OSError as error:
            raise SourceError(f"cannot read {found}: {error.strerror}") from error
