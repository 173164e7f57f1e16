"""Upload: one blob on its way into a repository, whole if it can be, in chunks where it must be (or broke before).

Clauses of the distribution-spec: "POST then PUT", "Pushing a blob in chunks", "Mounting a blob from another
repository", "Cancel a blob upload". An upload is where its registry says it is, never where this client thinks it left
it; where a registry's word cannot be right, the upload starts again.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from bake.errors import BakeError, DigestError, NetworkError, OutputError, SourceError
from bake.registry.blobs import has_blob
from bake.registry.pace import Pace, position_in
from bake.registry.patience import Attempts, TransientError
from bake.registry.refusal import not_a_registry, refusal, too_large
from bake.registry.words import said
from bake.units import size_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bake.image import Descriptor
    from bake.registry.answer import Answer
    from bake.registry.client import Client
    from bake.registry.source import Source

Arrival = Literal["present", "mounted", "uploaded"]

_PIECE = 256 << 10
"""Bytes handed to the socket at once: so many must leave within the time that a connection may take."""

_DONE = frozenset({200, 201, 204})
_BEGUN = frozenset({201, 202})
_TAKEN = frozenset({202, 204})
_GONE = frozenset({404, 410})
_NO_CHUNKS = frozenset({405, 501})
_TOO_MUCH = frozenset({413, 416})  # GHCR answers 416 to a chunk that is too long
_NOT_TAKEN = _TOO_MUCH | _GONE | _NO_CHUNKS | {400}
_LOST = frozenset({"BLOB_UPLOAD_UNKNOWN", "BLOB_UPLOAD_INVALID"})


class Upload:
    """The state of one upload: `offset` is how many bytes the registry has, `sent` the most that it can have."""

    def __init__(
        self,
        client: Client,
        blob: Descriptor,
        source: Source,
        *,
        mount_from: str | None = None,
        advance: Callable[[int], object] = lambda _: None,
    ) -> None:
        self._client = client
        self._party = client.party
        self._blob = blob
        self._source = source
        self._mount_from = mount_from
        self._advance = advance
        self._what = f"blob {blob.digest}"
        self._pace = Pace.of(client.party.profile, blob.size)
        self._location: str | None = None
        self._begun_before = False
        self._in_doubt = False
        self._offset = self._sent = self._furthest = self._told = 0
        hint = client.party.profile.too_slow(blob.size)
        self._attempts = Attempts(client.patience, f"{client.party.name}: {self._what}", hint=hint)

    def run(self) -> Arrival:
        """Go on until the registry has the blob. Raises a BakeError, and then gives the upload up."""
        try:
            while True:
                with self._attempts.once():
                    if arrival := self._step():
                        self._tell(self._blob.size)
                        return arrival
        except BakeError:
            self.cancel()
            raise

    def mount(self) -> bool:
        """Mount the blob; returns whether the registry did. Where it would have it uploaded, that is called off."""
        while True:
            with self._attempts.once():
                mounted = self._begin() == "mounted"
                self.cancel()
                return mounted

    def cancel(self) -> None:
        """Free what the registry holds ("Cancel a blob upload"); that this may fail changes nothing."""
        if self._location is not None:
            with contextlib.suppress(BakeError, TransientError):
                self._client.ask("DELETE", self._location, what=self._what, accept=_TAKEN | _NOT_TAKEN)

    def _step(self) -> Arrival | None:
        if self._location is None:
            return self._begin()
        if self._in_doubt:
            self._find_position(self._location)
            return None
        if self._offset == self._blob.size or (self._pace.whole and self._offset == 0):
            return self._close(self._location)
        self._send_chunk(self._location)
        return None

    # --- the requests

    def _begin(self) -> Arrival | None:
        """Open an upload, or mount the blob. One before this may have arrived, and only its answer been lost."""
        if self._begun_before and has_blob(self._client, self._blob):
            return "uploaded"
        self._begun_before = True
        answer = self._open()
        if answer is None:
            return None
        if answer.status == 201:
            self._check_digest(answer)
            return "mounted"
        self._mount_from = None  # an answer of 202 says no to that
        self._follow(answer, self._client.url("blobs/uploads/"))
        least = answer.headers.get("oci-chunk-min-length", "")
        self._pace.least = int(least) if least.isdecimal() else 0
        return None

    def _open(self) -> Answer | None:
        """The POST that begins an upload; None where it asked for a mount and may not have it: then without."""
        mounting = self._mount_from is not None
        query = f"?mount={self._blob.digest}&from={self._mount_from}" if mounting else ""
        try:
            return self._client.ask(
                "POST",
                self._client.url(f"blobs/uploads/{query}"),
                what=self._what,
                accept=_BEGUN,
                headers={"content-length": "0"},
                also_read=(self._mount_from,) if self._mount_from is not None else (),
            )
        except (OutputError, SourceError):
            if self._mount_from is None:
                raise
            self._mount_from = None
            return None

    def _close(self, location: str) -> Arrival | None:
        """PUT the digest, and with it the whole blob if nothing of it is there yet ("POST then PUT")."""
        url = f"{location}{'&' if urlsplit(location).query else '?'}digest={self._blob.digest}"
        answer = self._send("PUT", url, stop=self._blob.size, accept=_DONE)
        if answer.status in _DONE:
            self._check_digest(answer)
            return "uploaded"
        if answer.status == 400 and self._offset and self._pace.resumable and not answer.codes & _LOST:
            self._distrust(f"the registry did not put the parts together ({said(answer.body) or answer.status})")
        self._meet(answer)
        return None

    def _send_chunk(self, location: str) -> None:
        """PATCH the next chunk, and see how far the registry says that it came ("Pushing a blob in chunks")."""
        start = self._offset
        stop = min(start + self._pace.at_once, self._blob.size)
        answer = self._send("PATCH", location, stop=stop, accept=_TAKEN)
        if answer.status not in _TAKEN:
            self._meet(answer)
            return
        self._follow(answer, location)
        reached = position_in(answer.headers.get("range", "")) if self._pace.resumable else None
        if reached is not None and not start < reached <= stop:
            self._distrust(f"the registry took the bytes to {stop}, and says that it has {reached}")
        self._reach(stop if reached is None else reached)

    def _find_position(self, location: str) -> None:
        """Ask how far the upload came (GET of its URL). Where that cannot be known, it starts again."""
        if not self._pace.resumable:
            self._restart()
            return
        answer = self._client.ask("GET", location, what=self._what, accept=_NOT_TAKEN | {204})
        reached = position_in(answer.headers.get("range", "")) if answer.status == 204 else None
        if reached == 0 and self._sent:  # it may also mean one byte; a new upload is sure to have none
            self.cancel()
            reached = None
        if reached is None or not self._offset <= reached <= self._sent:
            self._restart()
            return
        self._follow(answer, location)
        self._in_doubt = False
        self._reach(reached)

    def _send(self, method: str, url: str, *, stop: int, accept: frozenset[int]) -> Answer:
        """One request with the bytes from here to `stop`. Until it is answered well, nobody knows how many arrived."""
        start = self._offset
        headers = {"content-type": "application/octet-stream", "content-length": str(stop - start)}
        if method == "PATCH":
            headers["content-range"] = f"{start}-{stop - 1}"
        self._in_doubt = True
        try:
            answer = self._client.ask(
                method,
                url,
                what=self._what,
                accept=accept | _NOT_TAKEN,
                headers=headers,
                body=lambda: self._body(start, stop),
            )
        except TransientError:
            self._pace.after_break()
            raise
        self._in_doubt = answer.status not in accept
        return answer

    def _body(self, start: int, stop: int) -> Iterator[memoryview]:
        """The source's bytes. An OSError of the source would be taken for the network's, and tried again."""
        self._tell(start)
        position = start
        pieces = self._source(start) if start < stop else iter(())
        try:
            for piece in pieces:
                view = memoryview(piece)[: stop - position]
                for at in range(0, len(view), _PIECE):
                    part = view[at : at + _PIECE]
                    position += len(part)
                    self._sent = max(self._sent, position)
                    yield part
                    self._tell(position)
                if position == stop:
                    return
        except OSError as error:
            raise OutputError(f"cannot read {self._what}: {error.strerror or error}") from error
        if position < stop:
            raise DigestError(f"{self._what}: expected {self._blob.size} bytes to push, found {position}")

    # --- what to make of the answers

    def _meet(self, answer: Answer) -> None:
        """An answer that does not take the bytes: send fewer, ask how far it came, start again, or give up."""
        reason = said(answer.body, self._party.secrets())
        if answer.status in _TOO_MUCH:
            if self._pace.smaller():
                return
            if answer.status == 416 and self._offset and self._pace.resumable:
                self._distrust(f"the registry does not go on from byte {self._offset}, where it says that it is")
            raise too_large(self._party, self._what, answer, at_once=self._held_back())
        if answer.status in _NO_CHUNKS and not self._pace.whole:
            self._pace.without_chunks()
            self._restart()
        elif answer.status in _GONE or answer.codes & _LOST:
            self._restart()
            raise TransientError(f"the registry lost the upload ({reason or answer.status})")
        else:
            raise refusal(self._party, self._what, answer)

    def _held_back(self) -> str:
        return size_text(self._blob.size if self._pace.whole else min(self._pace.at_once, self._blob.size))

    def _distrust(self, why: str) -> None:
        """Start again, and believe no position from now on. Raises TransientError."""
        self._pace.distrust()
        self._restart()
        raise TransientError(why)

    def _restart(self) -> None:
        self._location = None
        self._in_doubt = False
        self._offset = self._sent = 0
        self._tell(0)

    def _reach(self, offset: int) -> None:
        """So far has it come. Only what was never reached before is a gain, or restarts could go on for ever."""
        self._offset = offset
        self._tell(offset)
        if offset > self._furthest:
            self._furthest = offset
            self._attempts.failures = 0

    def _follow(self, answer: Answer, base: str) -> None:
        """Take the most recent Location; the first answer must have one, of later ones some leave it out."""
        if location := answer.headers.get("location"):
            self._location = self._client.locate(base, location)
            if urlsplit(self._location).scheme == "http" and self._client.origin.startswith("https:"):
                raise NetworkError(
                    f"{self._party.name}: {self._what}: the registry sends the upload to "
                    f"{urlsplit(self._location).hostname}, without TLS",
                    hint="the registry must be told its own address, or to answer with relative URLs",
                )
        elif self._location is None:
            raise not_a_registry(self._party, self._what)

    def _check_digest(self, answer: Answer) -> None:
        named = answer.headers.get("docker-content-digest", "")
        if named.startswith("sha256:") and named != str(self._blob.digest):
            raise DigestError(f"{self._party.name}: {self._what}: the registry took it for {named}")

    def _tell(self, position: int) -> None:
        if position != self._told:
            self._advance(position - self._told)
            self._told = position
