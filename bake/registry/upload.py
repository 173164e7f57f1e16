"""Upload: one blob on its way into a repository, whole if it can be, in chunks where it must be (or broke before).

Clauses of the distribution-spec: "POST then PUT", "Pushing a blob in chunks", "Mounting a blob from another
repository". An upload is where its registry says it is, never where this client thinks it left it; where a registry's
word cannot be right, the upload starts again. A blob whose digest only its last byte tells goes by PATCH, and the PUT
that names it is sent when all of it was proven.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from bake.errors import BakeError, DigestError, OutputError
from bake.image import LAYER, Descriptor
from bake.patience import Attempts, TransientError
from bake.registry.blobs import has_blob
from bake.registry.pace import Pace, position_in
from bake.registry.refusal import refusal, too_large
from bake.registry.session import Session
from bake.registry.words import said
from bake.units import size_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bake.digest import Digest
    from bake.registry.answer import Answer
    from bake.registry.client import Client
    from bake.registry.source import Unnamed

Arrival = Literal["present", "mounted", "uploaded"]

_PIECE = 256 << 10
"""Bytes handed to the socket at once: so many must leave within the time that a connection may take."""

_DONE = frozenset({200, 201, 204})
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
        source: Unnamed,
        *,
        what: str,
        mount_from: str | None = None,
        advance: Callable[[int], object] = lambda _: None,
    ) -> None:
        """`what` is the blob, in words. A mount is for a blob whose digest is known."""
        self._client = client
        self._party = client.party
        self._source = source
        self._size = source.size
        self._what = what
        self._mount_from = mount_from
        self._advance = advance
        self._session = Session(client, what)
        self._pace = Pace.of(client.party.profile, source.size)
        self._begun_before = False
        self._in_doubt = False
        self._offset = self._sent = self._furthest = self._told = 0
        hint = client.party.profile.too_slow(source.size)
        self._attempts = Attempts(client.patience, f"{client.party.name}: {what}", hint=hint)

    def run(self) -> Arrival:
        """Go on until the registry has the blob. Raises a BakeError, and then gives the upload up."""
        try:
            while True:
                with self._attempts.once():
                    if arrival := self._step():
                        self._tell(self._size)
                        return arrival
        except BakeError:
            self._session.cancel()
            raise

    def mount(self) -> bool:
        """Mount the blob; returns whether the registry did. Where it would have it uploaded, that is called off."""
        while True:
            with self._attempts.once():
                mounted = self._begin() == "mounted"
                self._session.cancel()
                return mounted

    def _step(self) -> Arrival | None:
        location = self._session.location
        if location is None:
            return self._begin()
        if self._in_doubt:
            self._find_position(location)
            return None
        at_once = self._pace.whole and self._offset == 0 and self._source.digest is not None
        if at_once or self._offset == self._size:
            return self._close(location)
        self._send_chunk(location)
        return None

    # --- the requests

    def _begin(self) -> Arrival | None:
        """Open an upload, or mount the blob. One before this may have arrived, and only its answer been lost."""
        digest = self._source.digest
        if self._begun_before and digest and has_blob(self._client, self._described(digest)):
            return "uploaded"
        self._begun_before = True
        answer = self._mount(digest) or self._session.open()
        if answer.status == 201:
            self._check_digest(answer)
            return "mounted"
        self._session.follow(answer)
        least = answer.headers.get("oci-chunk-min-length", "")
        self._pace.least = int(least) if least.isdecimal() else 0
        return None

    def _mount(self, digest: Digest | None) -> Answer | None:
        """Ask for a mount, once: an answer of 202 says no to that, and opens an upload."""
        repository, self._mount_from = self._mount_from, None
        if repository is None or digest is None:
            return None
        try:
            return self._session.mount(digest, repository)
        except TransientError:
            self._mount_from = repository
            raise

    def _close(self, location: str) -> Arrival | None:
        """PUT the digest, and with it the whole blob if nothing of it is there yet ("POST then PUT")."""
        url = f"{location}{'&' if urlsplit(location).query else '?'}digest={self._source.digest}"
        answer = self._send("PUT", url, stop=self._size, accept=_DONE)
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
        stop = self._size if self._pace.whole else min(start + self._pace.at_once, self._size)
        answer = self._send("PATCH", location, stop=stop, accept=_TAKEN)
        if answer.status in _NO_CHUNKS:
            self._learn_digest()
            self._pace.without_chunks()
            self._restart()
            return
        if answer.status not in _TAKEN:
            self._meet(answer)
            return
        self._session.follow(answer, location)
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
            self._session.cancel()
            reached = None
        if reached is None or not self._offset <= reached <= self._sent:
            self._restart()
            return
        self._session.follow(answer, location)
        self._in_doubt = False
        self._reach(reached)

    def _send(self, method: str, url: str, *, stop: int, accept: frozenset[int]) -> Answer:
        """One request with the bytes from here to `stop`. Until it is answered well, nobody knows how many arrived.

        A PATCH with all of a blob says nothing of a range, as Docker's own: every registry takes that one.
        """
        start = self._offset
        headers = {"content-type": "application/octet-stream", "content-length": str(stop - start)}
        if method == "PATCH" and not self._pace.whole:
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
            raise DigestError(f"{self._what}: expected {self._size} bytes to push, found {position}")

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
        if answer.status in _GONE or answer.codes & _LOST:
            self._restart()
            raise TransientError(f"the registry lost the upload ({reason or answer.status})")
        raise refusal(self._party, self._what, answer)

    def _held_back(self) -> str:
        return size_text(self._size if self._pace.whole else min(self._pace.at_once, self._size))

    def _distrust(self, why: str) -> None:
        """Start again, and believe no position from now on. Raises TransientError."""
        self._pace.distrust()
        self._restart()
        raise TransientError(why)

    def _restart(self) -> None:
        self._session.location = None
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

    def _learn_digest(self) -> None:
        """Read a blob once for its digest alone: where no part may be sent, all must be sent under its name."""
        if self._source.digest is None:
            for _ in self._source(0):
                pass

    def _check_digest(self, answer: Answer) -> None:
        named = answer.headers.get("docker-content-digest", "")
        if named.startswith("sha256:") and named != str(self._source.digest):
            raise DigestError(f"{self._party.name}: {self._what}: the registry took it for {named}")

    def _tell(self, position: int) -> None:
        if position != self._told:
            self._advance(position - self._told)
            self._told = position

    def _described(self, digest: Digest) -> Descriptor:
        return Descriptor(media_type=LAYER, digest=digest, size=self._size)
