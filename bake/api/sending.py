"""Sending: the blobs of one image into one repository, several at once, and only those that it does not have.

What a repository has is neither read nor sent. An upload that broke for good leaves the others whole: they are there
when it is tried again.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bake.api.streaming import LayerStream
from bake.api.traffic import Traffic
from bake.api.workers import results
from bake.errors import ImageError, NetworkError
from bake.image import LAYER, Descriptor
from bake.units import count_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import BinaryIO

    from bake.api.workers import Workers
    from bake.api.workspace import Workspace
    from bake.digest import Digest
    from bake.image import Image
    from bake.registry import Arrival, Registry, Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """What is to be in the repository. `what` is it in words; `digest` is None where it must be read to be known.

    `open` is called where it must be sent; `mount_from` is a repository of the same registry that may have it.
    """

    what: str
    size: int
    digest: Digest | None
    open: Callable[[], Source | LayerStream]
    mount_from: str | None = None

    def described(self, digest: Digest) -> Descriptor:
        return Descriptor(media_type=LAYER, digest=digest, size=self.size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """A blob that the repository has, and how it came there."""

    blob: Blob
    digest: Digest
    how: Arrival


class Sender:
    """Sends to one repository. `arrived` is what came there, or was there, so far.

    It plays the role of `bake.image.Blobs` as far as sizes go: those of what it has seen there.
    """

    def __init__(
        self, workspace: Workspace, registry: Registry, *, workers: Workers, traffic: Traffic | None = None
    ) -> None:
        """`traffic` is that of all images which are sent in one run."""
        self._workspace = workspace
        self._registry = registry
        self._workers = workers
        self._traffic = traffic or Traffic()
        self._slots = self._traffic.slots(registry.reference.host, registry.profile.parallel)
        self._sizes: dict[Digest, int] = {}
        self.arrived: list[Arrived] = []

    def send_all(self, blobs: Sequence[Blob], *, shown: bool = True) -> list[Digest]:
        """See to it that the repository has all of them, and return their digests, in the same order.

        What is not `shown` is too small to tell how far it is.
        Raises OutputError, NetworkError, DigestError, and what their sources raise.
        """
        named = {blob.digest: blob for blob in blobs if blob.digest is not None}
        with self._telling():
            results(self._workers.download(self._look_up, blob, digest) for digest, blob in named.items())
        absent = [blob for digest, blob in named.items() if digest not in self._sizes]
        absent += [blob for blob in blobs if blob.digest is None]
        ordered = sorted(absent, key=self._turn)
        label, size = f"{self._registry.reference}: pushing", sum(blob.size for blob in absent) if shown else 0
        with self._workspace.progress.task(label, size) as pushing, self._telling():
            advance = self._workers.watch(pushing)
            digests = results([self._workers.download(self._send, blob, advance) for blob in ordered])
        sent = {id(blob): digest for blob, digest in zip(ordered, digests, strict=True)}
        return [blob.digest or sent[id(blob)] for blob in blobs]

    def found(self, image: Image) -> None:
        """The repository has all of an image: its layers may be mounted from there for others."""
        for layer in image.manifest.layers:
            self._traffic.has_arrived(self._registry.reference, layer.digest)

    def confirm(self, manifest: Descriptor) -> None:
        """Ask once more for what was sent: that the registry took it does not say that it has it.

        The manifest, which is put last of all, counts as if it were there.
        """
        self._sizes[manifest.digest] = manifest.size
        results(
            self._workers.download(self._ask, item.blob, item.digest) for item in self.arrived if item.how != "present"
        )

    def size(self, digest: Digest) -> int | None:
        return self._sizes.get(digest)

    def open(self, digest: Digest) -> BinaryIO:
        raise ImageError(f"blob {digest} is in {self._registry.reference.name}, and is not read from there")

    def _turn(self, blob: Blob) -> tuple[bool, int]:
        """The longest first, so that no line is idle at the end; but last what another image is sending now."""
        held = blob.digest is not None and self._traffic.is_held(self._registry.reference, blob.digest)
        return held, -blob.size

    def _look_up(self, blob: Blob, digest: Digest) -> None:
        if self._ask(blob, digest):
            self._traffic.has_arrived(self._registry.reference, digest)
            self.arrived.append(Arrived(blob=blob, digest=digest, how="present"))

    def _ask(self, blob: Blob, digest: Digest) -> bool:
        found = self._registry.has_blob(blob.described(digest))
        self._sizes.pop(digest, None)
        if found:
            self._sizes[digest] = blob.size
        return found

    def _send(self, blob: Blob, advance: Callable[[int], object]) -> Digest:
        how: Arrival = "uploaded"
        if blob.digest is None:
            digest = self._send_unnamed(blob, advance)
        else:
            digest, how = blob.digest, self._send_named(blob, blob.digest, advance)
        self._sizes[digest] = blob.size
        self.arrived.append(Arrived(blob=blob, digest=digest, how=how))
        return digest

    def _send_named(self, blob: Blob, digest: Digest, advance: Callable[[int], object]) -> Arrival:
        here = self._registry.reference
        with self._traffic.holding(here, digest, sleep=self._workers.sleep), self._slots:
            how = self._registry.push_blob(
                blob.described(digest),
                blob.open(),
                what=blob.what,
                mount_from=self._traffic.repository(here, digest) or blob.mount_from,
                advance=advance,
            )
            self._traffic.has_arrived(here, digest)
        return how

    def _send_unnamed(self, blob: Blob, advance: Callable[[int], object]) -> Digest:
        with self._slots:
            source = blob.open()
            if not isinstance(source, LayerStream):
                raise AssertionError(blob.what)  # noqa: TRY004 - only a layer that is read learns its digest
            digest = self._registry.push_unnamed(source, what=blob.what, advance=advance).digest
        self._traffic.has_arrived(self._registry.reference, digest)
        return digest

    @contextlib.contextmanager
    def _telling(self) -> Iterator[None]:
        """What failed on the line is told with how far it came, and that it need not begin again."""
        try:
            yield
        except NetworkError as error:
            again = "run the same command again: what is there is not sent again"
            hint = f"{error.hint}; then {again}" if error.hint else again
            so_far = f"there so far: {count_text(len(self.arrived), 'layer')}"
            raise NetworkError(f"{error.message}; {so_far}", hint=hint) from error
