"""What a push left in a registry on the loopback, looked at as whoever pulls it would."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from bake.digest import Digest
from bake.image import MANIFEST, Descriptor, Image, ImageConfig, Manifest, Platform, validate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.registry.server import FakeRegistry

NAME = "org/tiny"


@dataclass(frozen=True)
class Held:
    """The blobs and manifests of one repository, by digest. It plays the role of `bake.image.Blobs`."""

    contents: Mapping[str, bytes]

    def size(self, digest: Digest) -> int | None:
        return len(self.contents[str(digest)]) if str(digest) in self.contents else None

    def open(self, digest: Digest) -> BinaryIO:
        return io.BytesIO(self.contents[str(digest)])


def reference(registry: FakeRegistry, *, name: str = NAME, tag: str = "v1") -> str:
    return f"{registry.host}/{name}:{tag}"


def image_in(registry: FakeRegistry, *, name: str = NAME, tag: str = "v1") -> Image:
    """The image that a tag leads to."""
    media_type, content = registry.manifests[name][tag]
    assert media_type == MANIFEST
    manifest = Manifest.parse(content, where=tag)
    config = ImageConfig.parse(registry.blobs[name][str(manifest.config.digest)], where=tag)
    digest = Digest.of(content)
    descriptor = Descriptor(media_type=MANIFEST, digest=digest, size=len(content), platform=Platform())
    return Image(descriptor=descriptor, manifest=manifest, config=config)


def faults_in(registry: FakeRegistry, *, name: str = NAME, tag: str = "v1") -> tuple[str, ...]:
    """Every fault of the image that a tag leads to, each byte read."""
    documents = {digest: content for digest, (_, content) in registry.manifests[name].items()}
    return validate(image_in(registry, name=name, tag=tag), Held(registry.blobs[name] | documents), content=True)


def tags_in(registry: FakeRegistry, *, name: str = NAME) -> list[str]:
    return sorted(tag for tag in registry.manifests.get(name, {}) if ":" not in tag)


def broken_tags(registry: FakeRegistry, *, name: str = NAME) -> list[str]:
    """The tags that lead to an image which is not whole; none may, at any moment."""
    return [tag for tag in tags_in(registry, name=name) if faults_in(registry, name=name, tag=tag)]


def weights_sent(registry: FakeRegistry) -> int:
    """How many bytes of blobs were sent to the registry since its log was last cleared."""
    return sum(
        int(request.headers.get("content-length", 0))
        for request in registry.requests
        if request.method in {"PUT", "PATCH"} and "/blobs/uploads/" in request.path
    )
