"""What the tests of registries push and read, and how."""

from __future__ import annotations

import base64
import json
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bake.digest import Digest
from bake.image import CONFIG, INDEX, LAYER, MANIFEST, Descriptor, ImageConfig, Manifest, Platform
from bake.registry import Patience, Profile, Reference, Registry, in_memory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bake.errors import BakeError
    from bake.registry import Access
    from tests.registry.server import FakeRegistry

NAME = "org/name"
BYTES = random.Random(0).randbytes(2_500_000)
DIGEST = Digest.of(BYTES)
BLOB = Descriptor(media_type=LAYER, digest=DIGEST, size=len(BYTES))
SOURCE = in_memory(BYTES)

CHUNKED = Profile(name="the registry", source="none", put_bytes=0, chunk_bytes=1_000_000)
"""A registry that takes no blob whole."""

HEAD = f"HEAD /v2/{NAME}/blobs/sha256:…"
POST = f"POST /v2/{NAME}/blobs/uploads/"
PATCH, PUT, GET, DELETE = (f"{method} /v2/{NAME}/blobs/uploads/…" for method in ("PATCH", "PUT", "GET", "DELETE"))


@dataclass(frozen=True)
class Waits:
    """Patience that writes the seconds and the words down instead of waiting."""

    seconds: list[float] = field(default_factory=list)
    words: list[str] = field(default_factory=list)

    def patience(self) -> Patience:
        return Patience(
            tries=4, base=1.0, longest=60.0, sleep=self.seconds.append, jitter=lambda: 0.0, tell=self.words.append
        )


@dataclass
class Counted:
    """A source that knows from where it was read, and the sum of what an upload told of its progress."""

    content: bytes
    offsets: list[int] = field(default_factory=list)
    told: list[int] = field(default_factory=list)

    def __call__(self, offset: int) -> Iterator[bytes]:
        self.offsets.append(offset)
        yield from (self.content[at : at + 100_000] for at in range(offset, len(self.content), 100_000))


def open_at(registry: FakeRegistry, waits: Waits, *, access: Access = "push", tag: str = "v1", **more: Any) -> Registry:
    """The repository `org/name` in a fake registry."""
    reference = Reference.parse(f"{registry.host}/{NAME}:{tag}")
    return Registry.open(reference, access=access, patience=waits.patience(), **more)


def push(registry: FakeRegistry, waits: Waits, *, source: Any = SOURCE, blob: Descriptor = BLOB, **more: Any) -> str:
    """Push the one blob, and return how it arrived."""
    mount_from = more.pop("mount_from", None)
    advance = more.pop("advance", lambda _: None)
    with open_at(registry, waits, **more) as opened:
        return opened.push_blob(blob, source, mount_from=mount_from, advance=advance)


def read(registry: FakeRegistry, waits: Waits, *, offset: int = 0, blob: Descriptor = BLOB) -> bytes:
    with open_at(registry, waits, access="pull") as opened:
        return b"".join(opened.open_blob(blob, offset=offset))


def add_image(registry: FakeRegistry, platform: Platform = Platform(), *, tag: str = "v1") -> Manifest:  # noqa: B008
    """Put a small image of one layer into the fake registry."""
    config = ImageConfig(platform=platform, diff_ids=(DIGEST,)).dumps()
    registry.add_blob(NAME, BYTES)
    registry.add_blob(NAME, config)
    manifest = Manifest(
        config=Descriptor(media_type=CONFIG, digest=Digest.of(config), size=len(config)), layers=(BLOB,)
    )
    registry.add_manifest(NAME, tag, manifest.dumps(), media_type=MANIFEST)
    return manifest


def index_of(*entries: tuple[Manifest, Platform]) -> bytes:
    documents = [
        Descriptor(
            media_type=MANIFEST, digest=Digest.of(one.dumps()), size=len(one.dumps()), platform=platform
        ).document()
        for one, platform in entries
    ]
    return json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": documents}).encode()


def write_config(folder: Path, **what: Any) -> None:
    """A config.json of Docker's."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(what))


def encoded(user: str, password: str) -> dict[str, str]:
    """An entry of `auths`, as `docker login` writes it."""
    return {"auth": base64.b64encode(f"{user}:{password}".encode()).decode()}


def fault_of(error: BakeError) -> tuple[type[BakeError], str, str | None]:
    return type(error), error.message, error.hint
