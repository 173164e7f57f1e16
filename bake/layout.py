"""OCI image layout: `oci-layout`, `index.json` and `blobs/` in a folder (OCI image specification 1.1, image-layout.md).

Blobs come first and `index.json` last, each written beside and renamed: a killed bake leaves the image that was there
before, or a folder with no index, which is no image.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from bake import disk
from bake.digest import Digest
from bake.errors import ImageError, OutputError
from bake.image import (
    INDEX,
    LAYOUT_MARK,
    MANIFEST,
    Descriptor,
    Image,
    ImageConfig,
    Manifest,
    Platform,
    canonical,
    parse_json,
    reading,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

REF_NAME = "org.opencontainers.image.ref.name"
CONTAINERD_NAME = "io.containerd.image.name"
MODEL = "dev.bake.model"
_ATTESTATION = "vnd.docker.reference.type"
_ELSEWHERE = "give another path, as --to oci:PATH, or remove it"

_LIMIT = 4 << 20
"""Bytes of a manifest, index or config; registries take no more (distribution-spec, "Pushing Manifests")."""


class Layout:
    """An OCI image layout in a folder. It plays the role of `bake.image.Blobs`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    # --- reading

    def size(self, digest: Digest) -> int | None:
        try:
            return self.blob(digest).stat().st_size
        except OSError:
            return None

    def open(self, digest: Digest) -> BinaryIO:
        """A blob, unbuffered and seekable. Raises ImageError."""
        try:
            return self.blob(digest).open("rb", buffering=0)
        except OSError as error:
            raise ImageError(f"{self.path}: cannot read blob {digest}: {error.strerror}") from error

    def blob(self, digest: Digest) -> Path:
        return self._blobs / digest.hex

    def images(self) -> tuple[Descriptor, ...]:
        """The image manifests of `index.json`, those of nested indexes too.

        Raises ImageError where this is no layout.
        """
        return tuple(image for image, _ in self._manifests(self._entries(), above=()))

    def image(self, *, digest: Digest | None = None, platform: Platform | None = None) -> Image:
        """The one image here, or the one of a digest, or of a platform. Raises ImageError where none or several fit.

        The digest may be that of an index that the image is in.
        """
        found = [
            image
            for image, above in self._manifests(self._entries(), above=())
            if (digest is None or digest in {image.digest, *above})
            and (platform is None or image.platform is None or image.platform == platform)
        ]
        wanted = f"{digest or 'one image'}{f' for {platform}' if platform else ''}"
        if not found:
            held = ", ".join(f"{image.digest} {image.platform or ''}".strip() for image in self.images()) or "none"
            raise ImageError(f"{self.path}: expected {wanted}, found {held}")
        if len({image.digest for image in found}) > 1:
            held = ", ".join(str(image.digest) for image in found)
            raise ImageError(f"{self.path}: expected {wanted}, found several: {held}", hint="name one by its digest")
        return self.read(found[0])

    def read(self, descriptor: Descriptor) -> Image:
        """Read a manifest and its config, proven by their digests. Raises ImageError."""
        manifest = Manifest.parse(self._document(descriptor), where=f"{self.path}: manifest {descriptor.digest}")
        where = f"{self.path}: config {manifest.config.digest}"
        config = ImageConfig.parse(self._document(manifest.config), where=where)
        return Image(descriptor=descriptor, manifest=manifest, config=config)

    def _entries(self) -> list[Descriptor]:
        """What `index.json` itself lists, of whatever kind."""
        try:
            content = (self.path / "index.json").read_bytes()
        except FileNotFoundError as error:
            raise self._absent() from error
        except OSError as error:
            raise ImageError(f"cannot read {self.path}/index.json: {error.strerror}") from error
        return _listed(content, where=f"{self.path}/index.json")

    def _manifests(
        self, entries: list[Descriptor], *, above: tuple[Digest, ...]
    ) -> Iterator[tuple[Descriptor, tuple[Digest, ...]]]:
        """Each image manifest, and the nested indexes that it is in; what BuildKit attests of an image is no image."""
        for entry in entries:
            if entry.media_type == INDEX:
                listed = _listed(self._document(entry), where=f"{self.path}: index {entry.digest}")
                yield from self._manifests(listed, above=(*above, entry.digest))
            elif entry.media_type == MANIFEST and _ATTESTATION not in entry.annotations:
                yield entry, above

    def _document(self, descriptor: Descriptor) -> bytes:
        if descriptor.size > _LIMIT:
            raise ImageError(f"{self.path}: {descriptor.digest}: expected at most {_LIMIT} bytes of JSON")
        with self.open(descriptor.digest) as stream:
            content = stream.read(_LIMIT)
        if (found := Digest.of(content)) != descriptor.digest:
            raise ImageError(f"{self.path}: blob {descriptor.digest} is altered: its bytes have the digest {found}")
        return content

    def _absent(self) -> ImageError:
        if (self.path / "oci-layout").exists():
            return ImageError(f"{self.path} is an unfinished OCI layout: it has no index.json", hint="build it again")
        what = "is no OCI image layout" if self.path.exists() else "does not exist"
        return ImageError(f"{self.path} {what}", hint="bake build NAME@VERSION --to oci:PATH writes one")

    # --- writing

    def prepare(self, model: str) -> None:
        """Make the folder ready to take the image of a model. Raises OutputError where it holds something else."""
        for name in ("oci-layout", "index.json"):
            disk.clear_beside(self.path / name)
        with disk.writing(self.path):
            if self._holds_something() and not (self.path / "oci-layout").is_file():
                raise OutputError(f"{self.path} exists and is no OCI layout", hint=_ELSEWHERE)
            if (self.path / "index.json").exists():
                self._check_holds(model)
            self.path.mkdir(parents=True, exist_ok=True)
        disk.write(self.path / "oci-layout", LAYOUT_MARK)  # first of all: a folder with this mark can be taken up again
        with disk.writing(self.path):
            self._blobs.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(self.partial, ignore_errors=True)
            self.partial.mkdir()

    @contextlib.contextmanager
    def preparing(self, model: str) -> Iterator[None]:
        """`prepare`, and should what follows fail, leave nothing where nothing was."""
        absent = [folder for folder in (self.path, *self.path.parents) if not folder.exists()]
        self.prepare(model)
        try:
            yield
        except BaseException:
            if absent:
                self.remove()
                with contextlib.suppress(OSError):  # another has put something there meanwhile
                    for folder in absent[1:]:
                        folder.rmdir()
            raise

    def _holds_something(self) -> bool:
        return any(self.path.iterdir()) if self.path.is_dir() else self.path.exists()

    def _check_holds(self, model: str) -> None:
        """Everything that `index.json` lists must be this model: what is not listed afterwards is deleted."""
        try:
            entries = self._entries()
        except ImageError as error:
            raise OutputError(error.message, hint=_ELSEWHERE) from error
        for entry in entries:
            if (held := entry.annotations.get(MODEL)) != model:
                name = held or entry.annotations.get(REF_NAME) or str(entry.digest)
                raise OutputError(f"{self.path} holds another image, {name}, not {model}", hint=_ELSEWHERE)

    @property
    def _blobs(self) -> Path:
        return self.path / "blobs" / "sha256"

    @property
    def partial(self) -> Path:
        """Where blobs are while they are written. Emptied at the next build."""
        return self.path / "blobs" / ".partial"

    @contextlib.contextmanager
    def writer(self) -> Iterator[BlobWriter]:
        """A new blob; it counts for nothing until it is committed, and is gone afterwards if it was not."""
        with disk.writing(self.path):
            descriptor, name = tempfile.mkstemp(dir=self.partial)
        try:
            yield BlobWriter(self, descriptor, Path(name))
        finally:
            os.close(descriptor)
            Path(name).unlink(missing_ok=True)

    def add(self, content: bytes, *, media_type: str) -> Descriptor:
        """Write a small blob whole."""
        digest = Digest.of(content)
        with self.writer() as writer:
            writer.write(content)
            writer.commit(digest)
        return Descriptor(media_type=media_type, digest=digest, size=len(content))

    def add_all(self, chunks: Iterable[bytes], *, media_type: str) -> Descriptor:
        """Write a blob as it comes; its digest is computed on the way."""
        hasher = hashlib.sha256()
        size = 0
        with self.writer() as writer:
            for chunk in chunks:
                hasher.update(chunk)
                writer.write(chunk)
                size += len(chunk)
            digest = Digest(hasher.hexdigest())
            writer.commit(digest)
        return Descriptor(media_type=media_type, digest=digest, size=size)

    def take(self, source: Path, digest: Digest) -> None:
        """Take a proven blob in: a second name where the file system allows one, else a copy."""
        disk.link_or_copy(source, self.blob(digest))

    def remove(self) -> None:
        """Delete the whole folder. Other names of its blobs, in the store, stay."""
        shutil.rmtree(self.path, ignore_errors=True)

    def stage(self, image: Image) -> None:
        """Write an image's config and manifest. Nothing names it before it is published."""
        self.add(image.config.dumps(), media_type=image.manifest.config.media_type)
        self.add(image.manifest.dumps(), media_type=image.descriptor.media_type)

    def adopt(self, source: Layout, image: Image) -> None:
        """Take an image in from another layout, every blob as it is there. Nothing names it before it is published."""
        for blob in (*image.manifest.layers, image.manifest.config, image.descriptor):
            if self.size(blob.digest) != blob.size:
                self.take(source.blob(blob.digest), blob.digest)

    def publish(self, image: Image, *, model: str, tag: str) -> None:
        """Make a staged image the one that this layout holds; its layers must be here too. Older blobs are deleted."""
        annotations = {REF_NAME: tag, MODEL: model, CONTAINERD_NAME: model.replace("@", ":")}
        entry = replace(image.descriptor, annotations=annotations)
        index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [entry.document()]}
        disk.write(self.path / "index.json", canonical(index))
        self._sweep(image)

    def _sweep(self, image: Image) -> None:
        blobs = (image.descriptor, image.manifest.config, *image.manifest.layers)
        used = {blob.digest.hex for blob in blobs}
        with disk.writing(self.path):
            shutil.rmtree(self.partial, ignore_errors=True)
            for path in self._blobs.iterdir():
                if path.name not in used:
                    path.unlink()


class BlobWriter:
    """A blob being written. It plays the role of `bake.layer.Sink`; errors of the disk come out as OutputError."""

    def __init__(self, layout: Layout, descriptor: int, name: Path) -> None:
        self._layout = layout
        self._descriptor = descriptor
        self._name = name

    def write(self, content: bytes | memoryview, /) -> None:
        view = memoryview(content)
        with disk.writing(self._layout.path):
            while view:
                view = view[os.write(self._descriptor, view) :]

    def commit(self, digest: Digest) -> Path:
        """Give the blob its name. The caller has proven the digest."""
        with disk.writing(self._layout.path):
            os.fchmod(self._descriptor, 0o444)
            return self._name.replace(self._layout.blob(digest))


def _listed(index: bytes, *, where: str) -> list[Descriptor]:
    document = parse_json(index, where=where)
    with reading(where, "an image index"):
        return [Descriptor.parse(entry) for entry in document["manifests"] or ()]
    raise AssertionError  # unreachable
