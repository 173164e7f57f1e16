"""The Docker daemon, through its SDK: what it holds, images into it, files out of it. One kind of I/O, no decisions.

Both image stores are spoken to: the classic one names an image by its config's digest and knows layers by diff_id, the
containerd one names it by its manifest and knows layers as blobs.
"""

from __future__ import annotations

import os
import tarfile
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, cast

from bake.archive import stream_archive
from bake.digest import Digest
from bake.errors import DaemonError
from bake.image import LAYER, Descriptor, ImageConfig, Manifest, Platform, parse_json

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from bake.image import Blobs, Image

Store = Literal["classic", "containerd"]

_SOCKETS = ("/var/run/docker.sock", "/run/docker.sock")
_CONFIG = ("Env", "Labels", "Entrypoint", "Cmd", "WorkingDir")
_CHUNK = 1 << 20
_DOCUMENT = 4 << 20
_SECONDS = 600
"""How long the daemon may be silent: it reads a whole archive before it answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonImage:
    """An image in the daemon. `manifest` is known on the containerd store alone; `digests` are those of registries."""

    id: Digest
    manifest: Digest | None
    digests: frozenset[Digest]
    config: ImageConfig
    size: int


def may_answer() -> bool:
    """Whether it is worth asking for a daemon, told without importing the SDK."""
    if os.environ.get("DOCKER_HOST") or os.environ.get("DOCKER_CONTEXT"):
        return True
    config = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker") / "config.json"
    return any(Path(socket).exists() for socket in _SOCKETS) or (
        config.is_file() and "currentContext" in config.read_text(encoding="utf-8", errors="replace")
    )


class Daemon:
    """A daemon that answered."""

    def __init__(self, client: Any, *, store: Store, version: str, platform: Platform) -> None:
        self._api = client.api
        self.store = store
        self.version = version
        self.platform = platform

    @classmethod
    def connect(cls) -> Daemon:
        """Reach the daemon of DOCKER_HOST, or of the docker context in use. Raises DaemonError that says why not."""
        import docker
        import requests
        from docker.errors import DockerException

        host = os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
        try:
            if (context := _context()) is not None:
                host = str(context.Host)
                client = docker.DockerClient(base_url=host, tls=context.TLSConfig or False, timeout=_SECONDS)
            else:
                client = docker.from_env(timeout=_SECONDS)
            about, version = client.info(), client.version()
        except (DockerException, requests.RequestException, OSError, ValueError) as error:
            raise _unreachable(host, error) from error
        drivers = dict(cast("list[list[str]]", about.get("DriverStatus") or []))
        store: Store = "containerd" if "snapshotter" in drivers.get("driver-type", "") else "classic"
        platform = Platform(str(version.get("Os", "linux")), str(version.get("Arch", "amd64")))
        return cls(client, store=store, version=str(version.get("Version", "")), platform=platform)

    def close(self) -> None:
        self._api.close()

    # --- what is there

    def image(self, reference: str) -> DaemonImage | None:
        """An image by name or digest; None where there is none."""
        from docker.errors import ImageNotFound

        try:
            return _image(self._ask(lambda: self._api.inspect_image(reference)))
        except ImageNotFound:
            return None

    def named(self, reference: str) -> DaemonImage:
        """An image that must be there. Raises DaemonError."""
        found = self.image(reference)
        if found is None:
            raise DaemonError(f"the daemon has no image {reference}")
        return found

    def tag(self, reference: str, name: str) -> None:
        """Give an image another name (`repository:tag`)."""
        repository, _, tag = name.rpartition(":")
        self._ask(lambda: self._api.tag(reference, repository, tag, force=True))

    def known_layers(self, diff_ids: Collection[Digest]) -> frozenset[Digest]:
        """Which of an image's layers need not be sent.

        The classic store finds a layer under the layers below it, so it knows the longest run from the bottom that
        another image begins with; the containerd store finds it alone.
        """
        ordered = list(diff_ids)
        chains = [self._chain(summary["Id"]) for summary in self._ask(self._api.images)]
        if self.store == "containerd":
            held = {layer for chain in chains for layer in chain}
            return frozenset(layer for layer in ordered if layer in held)
        longest = max((_common(chain, ordered) for chain in chains), default=0)
        return frozenset(ordered[:longest])

    def base_layers(self, image: DaemonImage) -> tuple[Descriptor, ...]:
        """The layers of an image as descriptors. On the classic store they have no blobs, and so no size."""
        if image.manifest is None:
            return tuple(Descriptor(media_type=LAYER, digest=diff_id, size=0) for diff_id in image.config.diff_ids)
        return self._manifest(image).layers

    def history(self, reference: str) -> str:
        """An image's history, as one text."""
        return repr(self._ask(lambda: self._api.history(reference)))

    # --- in and out

    def load(
        self, image: Image, blobs: Blobs, *, name: str, send: Collection[Digest], advance: Callable[[int], object]
    ) -> DaemonImage:
        """Load an image under a name, with the layers to send. An older image keeps the name until this is whole."""
        chunks = stream_archive(image, blobs, name=name, send=send, oci=self.store == "containerd", advance=advance)
        for line in self._ask(lambda: list(self._api.load_image(chunks, quiet=True))):
            if "error" in line:
                raise _refused(str(line["error"]))
        return self.named(name)

    def files(self, reference: str, folder: str) -> Iterator[tuple[str, int, BinaryIO]]:
        """Path, size and bytes of every regular file below a folder of an image (without a slash at either end).

        They come out of a container that is never started.
        """
        above = folder.rpartition("/")[0]
        container = self._ask(lambda: self._api.create_container(reference, command=["-"]))["Id"]
        try:
            chunks, _ = self._ask(lambda: self._api.get_archive(container, f"/{folder}", chunk_size=_CHUNK))
            with tarfile.open(fileobj=cast("Any", _Chunks(chunks)), mode="r|", bufsize=_CHUNK) as archive:
                for info in archive:
                    if info.isfile() and (stream := archive.extractfile(info)):
                        yield f"{above}/{info.name}", info.size, cast("BinaryIO", stream)
        finally:
            self._ask(lambda: self._api.remove_container(container, force=True))

    def remove(self, reference: str) -> None:
        """Delete an image, or its name where it has others."""
        self._ask(lambda: self._api.remove_image(reference, force=True))

    # --- below

    def _chain(self, reference: str) -> list[Digest]:
        image = self.image(reference)
        return list(image.config.diff_ids) if image else []

    def _manifest(self, image: DaemonImage) -> Manifest:
        """The manifest of an image on the containerd store. The daemon hands it out in a whole archive alone."""
        chunks = self._ask(lambda: self._api.get_image(str(image.id), chunk_size=_CHUNK))
        documents: dict[str, bytes] = {}
        with tarfile.open(fileobj=cast("Any", _Chunks(chunks)), mode="r|", bufsize=_CHUNK) as archive:
            for info in archive:
                if info.size <= _DOCUMENT and (stream := archive.extractfile(info)):
                    documents[info.name.rpartition("/")[2]] = stream.read()
                    if found := _find_manifest(documents, image):
                        return found
        raise DaemonError(f"the daemon does not hand out the manifest of {image.id}")

    def _ask(self, question: Callable[[], Any]) -> Any:
        import requests
        from docker.errors import APIError, ImageNotFound

        try:
            return question()
        except ImageNotFound:
            raise
        except APIError as error:
            raise _refused(str(error.explanation or error)) from error
        except requests.RequestException as error:
            raise DaemonError(f"the Docker daemon stopped answering: {error}", hint="docker info") from error


class _Chunks:
    """Chunks as a stream that tarfile can read from."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = iter(chunks)
        self._left = b""

    def read(self, size: int) -> bytes:
        while len(self._left) < size:
            chunk = next(self._chunks, None)
            if chunk is None:
                break
            self._left += chunk
        taken, self._left = self._left[:size], self._left[size:]
        return taken


def _find_manifest(documents: dict[str, bytes], image: DaemonImage) -> Manifest | None:
    """An image's manifest among documents by digest, through the index of its platforms where there is one."""
    wanted = image.manifest
    while wanted and (content := documents.get(wanted.hex)):
        document = parse_json(content, where=f"manifest {wanted}")
        if "manifests" not in document:
            return Manifest.parse(content, where=f"manifest {wanted}")
        entries = [Descriptor.parse(entry) for entry in document["manifests"]]
        wanted = next((entry.digest for entry in entries if entry.platform == image.config.platform), None)
    return None


def _context() -> Any:
    """The docker context in use; None where DOCKER_HOST says it all, or the SDK's own default will do."""
    if os.environ.get("DOCKER_HOST"):
        return None
    from docker.context import ContextAPI

    if named := os.environ.get("DOCKER_CONTEXT"):
        context = ContextAPI.get_context(named)
        if context is None:
            raise DaemonError(f"there is no docker context {named!r}", hint="docker context ls; unset DOCKER_CONTEXT")
    else:
        context = ContextAPI.get_current_context()
    return context if context and context.Name != "default" else None


def _unreachable(host: str, error: Exception) -> DaemonError:
    text = str(error)
    if "Permission denied" in text or isinstance(error, PermissionError):
        return DaemonError(
            f"no permission to use the Docker daemon at {host}",
            hint="join the docker group, or build into a folder: --to oci:PATH",
        )
    return DaemonError(
        f"no Docker daemon answers at {host}", hint="start Docker, or build into a folder: --to oci:PATH"
    )


def _refused(text: str) -> DaemonError:
    if "no space left" in text:
        return DaemonError(f"the Docker daemon has no space left: {text}", hint="docker system df; docker system prune")
    return DaemonError(f"the Docker daemon refused: {text}")


def _common(chain: list[Digest], ordered: list[Digest]) -> int:
    count = 0
    for theirs, ours in zip(chain, ordered, strict=False):
        if theirs != ours:
            break
        count += 1
    return count


def _image(about: dict[str, Any]) -> DaemonImage:
    own = about.get("Config") or {}
    manifest = (about.get("Descriptor") or {}).get("digest")
    return DaemonImage(
        id=Digest.parse(about["Id"]),
        manifest=Digest.parse(manifest) if manifest else None,
        digests=frozenset(Digest.parse(name.partition("@")[2]) for name in about.get("RepoDigests") or []),
        size=int(about.get("Size") or 0),
        config=ImageConfig(
            platform=Platform(about["Os"], about["Architecture"]),
            diff_ids=tuple(Digest.parse(text) for text in (about.get("RootFS") or {}).get("Layers") or []),
            environment=MappingProxyType(dict(entry.partition("=")[::2] for entry in own.get("Env") or [])),
            labels=MappingProxyType(dict(own.get("Labels") or {})),
            entrypoint=tuple(own.get("Entrypoint") or ()),
            command=tuple(own.get("Cmd") or ()),
            workdir=own.get("WorkingDir") or "",
            rest=MappingProxyType(
                {"config": {key: value for key, value in own.items() if key not in _CONFIG and value}}
            ),
        ),
    )
