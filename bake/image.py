"""The OCI documents: Descriptor, Manifest, ImageConfig, Platform; and `append`, which puts layers on a base.

Sources: the OCI image specification 1.1 (descriptor.md, manifest.md, config.md, image-index.md). Documents are
written as canonical JSON, so that one plan has one digest.
"""

from __future__ import annotations

import gzip
import json
import zlib
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from bake.digest import Digest, stream_digest
from bake.errors import ImageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
LAYER_GZIP = LAYER + "+gzip"
LAYER_ZSTD = LAYER + "+zstd"

_DOCKER = {
    "application/vnd.docker.distribution.manifest.v2+json": MANIFEST,
    "application/vnd.docker.distribution.manifest.list.v2+json": INDEX,
    "application/vnd.docker.container.image.v1+json": CONFIG,
    "application/vnd.docker.image.rootfs.diff.tar": LAYER,
    "application/vnd.docker.image.rootfs.diff.tar.gzip": LAYER_GZIP,
    "application/vnd.docker.image.rootfs.diff.tar.zstd": LAYER_ZSTD,
}
"""Docker's names for the same documents and layers (image-spec, "Compatibility Matrix")."""

LAYOUT_MARK = b'{"imageLayoutVersion":"1.0.0"}'
"""The content of `oci-layout` (image-layout.md, "oci-layout file")."""

EPOCH = "1970-01-01T00:00:00Z"


@dataclass(frozen=True, slots=True, order=True)
class Platform:
    os: str = "linux"
    architecture: str = "amd64"

    def __str__(self) -> str:
        return f"{self.os}/{self.architecture}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptor:
    """A blob by digest, with its media type and its size in bytes."""

    media_type: str
    digest: Digest
    size: int
    annotations: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    platform: Platform | None = None

    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = {"mediaType": self.media_type, "digest": str(self.digest), "size": self.size}
        if self.annotations:
            document["annotations"] = dict(self.annotations)
        if self.platform:
            document["platform"] = {"os": self.platform.os, "architecture": self.platform.architecture}
        return document

    @classmethod
    def parse(cls, document: Any) -> Descriptor:
        """Read a descriptor; Docker's media types come back as OCI's. Raises ValueError, KeyError or TypeError."""
        platform, size = document.get("platform"), document["size"]
        if type(size) is not int or size < 0:
            raise ValueError(f"expected a size in bytes, found {size!r}")
        return cls(
            media_type=_DOCKER.get(document["mediaType"], document["mediaType"]),
            digest=Digest.parse(document["digest"]),
            size=size,
            annotations=MappingProxyType(dict(document.get("annotations") or {})),
            platform=Platform(platform["os"], platform["architecture"]) if platform else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    config: Descriptor
    layers: tuple[Descriptor, ...]
    annotations: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def dumps(self) -> bytes:
        document: dict[str, Any] = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": self.config.document(),
            "layers": [layer.document() for layer in self.layers],
        }
        if self.annotations:
            document["annotations"] = dict(self.annotations)
        return canonical(document)

    @classmethod
    def parse(cls, content: bytes, *, where: str) -> Manifest:
        document = parse_json(content, where=where)
        with reading(where, "an image manifest"):
            if document["schemaVersion"] != 2:
                raise ValueError(f"schemaVersion {document['schemaVersion']!r}")
            return cls(
                config=Descriptor.parse(document["config"]),
                layers=tuple(Descriptor.parse(layer) for layer in document["layers"]),
                annotations=MappingProxyType(dict(document.get("annotations") or {})),
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageConfig:
    """What a container starts with, and the diff_ids of its layers.

    `rest` keeps what bake does not touch of a base's own.
    """

    platform: Platform = field(default_factory=Platform)
    diff_ids: tuple[Digest, ...] = ()
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    workdir: str = ""
    history: tuple[Mapping[str, Any], ...] = ()
    rest: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    def dumps(self) -> bytes:
        config = dict(self.rest.get("config") or {}) | {
            "Env": [f"{key}={value}" for key, value in self.environment.items()],
            "Labels": dict(self.labels),
        }
        optional = {"Entrypoint": list(self.entrypoint), "Cmd": list(self.command), "WorkingDir": self.workdir}
        config |= {key: value for key, value in optional.items() if value}
        document = dict(self.rest) | {
            "os": self.platform.os,
            "architecture": self.platform.architecture,
            "created": EPOCH,
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": [str(diff_id) for diff_id in self.diff_ids]},
            "history": [dict(entry) for entry in self.history],
        }
        return canonical(document)

    @classmethod
    def parse(cls, content: bytes, *, where: str) -> ImageConfig:
        document = parse_json(content, where=where)
        with reading(where, "an image config"):
            config = document.get("config") or {}
            own = {"Env", "Labels", "Entrypoint", "Cmd", "WorkingDir"}
            rest = {key: value for key, value in document.items() if key not in {"rootfs", "history", "config"}}
            rest["config"] = {key: value for key, value in config.items() if key not in own}
            return cls(
                platform=Platform(document["os"], document["architecture"]),
                diff_ids=tuple(Digest.parse(text) for text in document["rootfs"]["diff_ids"]),
                environment=MappingProxyType(dict(_pair(entry) for entry in config.get("Env") or [])),
                labels=MappingProxyType(dict(config.get("Labels") or {})),
                entrypoint=tuple(config.get("Entrypoint") or ()),
                command=tuple(config.get("Cmd") or ()),
                workdir=config.get("WorkingDir") or "",
                history=tuple(MappingProxyType(dict(entry)) for entry in document.get("history") or ()),
                rest=MappingProxyType(rest),
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A manifest with its config, and the descriptor that names it; the layers' bytes stay where they are."""

    descriptor: Descriptor
    manifest: Manifest
    config: ImageConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedLayer:
    """A layer to put on an image, and the step that made it. It is uncompressed: its digest is its diff_id."""

    descriptor: Descriptor
    created_by: str


def append(
    base: Image | None,
    layers: Sequence[AddedLayer],
    *,
    environment: Mapping[str, str],
    labels: Mapping[str, str],
    entrypoint: Sequence[str],
    command: Sequence[str],
    workdir: str,
    search_path: Mapping[str, str] = MappingProxyType({}),
) -> Image:
    """A new image: the base's layers and configuration, then these. The base itself is not changed.

    `search_path` are variables such as PYTHONPATH, of which the base's own value stays, behind the new one.
    """
    below = base.config if base else ImageConfig()
    untold = len(below.diff_ids) - len(_steps(below))
    told = ({"created": EPOCH, "created_by": "a layer of the base that has no history"},) * untold
    history = [{"created": EPOCH, "created_by": layer.created_by, "comment": "bake"} for layer in layers]
    config = ImageConfig(
        platform=below.platform,
        diff_ids=(*below.diff_ids, *(layer.descriptor.digest for layer in layers)),
        environment=MappingProxyType(
            dict(below.environment) | dict(environment) | _before(below.environment, search_path)
        ),
        labels=MappingProxyType(dict(below.labels) | dict(labels)),
        entrypoint=tuple(entrypoint) or below.entrypoint,
        command=tuple(command) or (() if entrypoint else below.command),
        workdir=workdir or below.workdir,
        history=(*below.history, *told, *history),
        rest=below.rest,
    )
    content = config.dumps()
    manifest = Manifest(
        config=Descriptor(media_type=CONFIG, digest=Digest.of(content), size=len(content)),
        layers=(*(base.manifest.layers if base else ()), *(layer.descriptor for layer in layers)),
        annotations=MappingProxyType(
            {key: value for key, value in labels.items() if key.startswith("org.opencontainers.")}
        ),
    )
    document = manifest.dumps()
    descriptor = Descriptor(
        media_type=MANIFEST, digest=Digest.of(document), size=len(document), platform=config.platform
    )
    return Image(descriptor=descriptor, manifest=manifest, config=config)


def _before(environment: Mapping[str, str], search_path: Mapping[str, str]) -> dict[str, str]:
    """Search paths with new folders in front; an empty one would mean the current folder, so none is left."""
    return {key: ":".join(filter(None, (value, environment.get(key)))) for key, value in search_path.items()}


class Blobs(Protocol):
    """Where an image's blobs lie. `size` is None where there is no such blob."""

    def size(self, digest: Digest) -> int | None: ...

    def open(self, digest: Digest) -> BinaryIO: ...


def validate(image: Image, blobs: Blobs, *, content: bool = False) -> tuple[str, ...]:
    """Every way in which an image and its blobs break the specification, in words; nothing where there is none.

    With `content`, every blob is read and hashed as well.
    """
    return (*_document_faults(image), *_blob_faults(image, blobs), *(_content_faults(image, blobs) if content else ()))


def canonical(document: Any) -> bytes:
    """JSON with sorted keys and no white space: one document, one digest."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def parse_json(content: bytes, *, where: str) -> dict[str, Any]:
    """Read a JSON object. Raises ImageError that names where it stood."""
    with reading(where, "a JSON object"):
        document = json.loads(content)
        if not isinstance(document, dict):
            raise TypeError(f"found {type(document).__name__}")
        return document
    raise AssertionError  # unreachable


def _pair(entry: str) -> tuple[str, str]:
    key, _, value = entry.partition("=")
    return key, value


class reading:  # noqa: N801 - reads as a statement
    """Turns what a malformed document raises into an ImageError that says where."""

    def __init__(self, where: str, what: str) -> None:
        self._where = where
        self._what = what

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, ValueError | KeyError | TypeError | AttributeError | RecursionError):
            raise ImageError(f"{self._where}: expected {self._what}: {error!r}") from error


def _document_faults(image: Image) -> Iterator[str]:
    manifest, config = image.manifest, image.config
    if image.descriptor.media_type != MANIFEST:
        yield f"manifest: expected media type {MANIFEST}, found {image.descriptor.media_type}"
    if manifest.config.media_type != CONFIG:
        yield f"config: expected media type {CONFIG}, found {manifest.config.media_type}"
    if len(manifest.layers) != len(config.diff_ids):
        yield f"expected a diff_id for each of {len(manifest.layers)} layers, found {len(config.diff_ids)}"
    steps = _steps(config)
    if config.history and len(steps) != len(manifest.layers):
        yield f"expected a history entry for each of {len(manifest.layers)} layers, found {len(steps)}"
    for number, (layer, diff_id) in enumerate(zip(manifest.layers, config.diff_ids, strict=False)):
        if layer.media_type not in {LAYER, LAYER_GZIP, LAYER_ZSTD}:
            yield f"layer[{number}]: not a layer's media type: {layer.media_type}"
        if layer.media_type == LAYER and layer.digest != diff_id:
            yield f"layer[{number}]: expected diff_id {diff_id} to be the uncompressed blob's digest {layer.digest}"


def _blob_faults(image: Image, blobs: Blobs) -> Iterator[str]:
    for blob in (image.descriptor, image.manifest.config, *image.manifest.layers):
        size = blobs.size(blob.digest)
        if size is None:
            yield f"blob {blob.digest}: missing"
        elif size != blob.size:
            yield f"blob {blob.digest}: expected {blob.size} bytes, found {size}"


def _content_faults(image: Image, blobs: Blobs) -> Iterator[str]:
    for blob in (image.descriptor, image.manifest.config, *image.manifest.layers):
        if blobs.size(blob.digest) is None:
            continue
        with blobs.open(blob.digest) as stream:
            found, _ = stream_digest(stream)
        if found != blob.digest:
            yield f"blob {blob.digest}: its bytes have the digest {found}"
    for number, (layer, diff_id) in enumerate(zip(image.manifest.layers, image.config.diff_ids, strict=False)):
        if layer.media_type == LAYER_GZIP and blobs.size(layer.digest) is not None:
            yield from _gzip_faults(number, layer, diff_id, blobs)


def _gzip_faults(number: int, layer: Descriptor, diff_id: Digest, blobs: Blobs) -> Iterator[str]:
    try:
        with blobs.open(layer.digest) as blob, gzip.GzipFile(fileobj=blob) as stream:
            found, _ = stream_digest(stream)  # type: ignore[arg-type] # it has what is needed of a BinaryIO
    except (OSError, EOFError, zlib.error) as error:
        yield f"layer[{number}]: no whole gzip: {error}"
        return
    if found != diff_id:
        yield f"layer[{number}]: expected diff_id {diff_id}, found {found} when decompressed"


def _steps(config: ImageConfig) -> list[Mapping[str, Any]]:
    """The history entries that made a layer."""
    return [entry for entry in config.history if not entry.get("empty_layer")]
