"""Session: where an upload is spoken to: the URL that the registry gives it, and what asks for one, or ends it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from bake.errors import BakeError, NetworkError, OutputError, SourceError
from bake.patience import TransientError
from bake.registry.refusal import not_a_registry

if TYPE_CHECKING:
    from bake.digest import Digest
    from bake.registry.answer import Answer
    from bake.registry.client import Client

_BEGUN = frozenset({201, 202})
_ENDED = frozenset({202, 204, 400, 404, 405, 410, 413, 416, 501})


class Session:
    """`location` is where the upload goes on; None where there is none. `what` is the blob, in words."""

    def __init__(self, client: Client, what: str) -> None:
        self._client = client
        self._what = what
        self.location: str | None = None

    def open(self) -> Answer:
        """The POST that begins an upload ("Pushing blobs")."""
        return self._post("")

    def mount(self, digest: Digest, repository: str) -> Answer | None:
        """The POST that asks for a mount ("Mounting a blob from another repository"); None where none is allowed."""
        try:
            return self._post(f"?mount={digest}&from={repository}", also_read=(repository,))
        except (OutputError, SourceError):
            return None

    def follow(self, answer: Answer, base: str | None = None) -> None:
        """Take the most recent Location; the first answer must have one, of later ones some leave it out."""
        party = self._client.party
        if location := answer.headers.get("location"):
            self.location = self._client.locate(base or self._client.url("blobs/uploads/"), location)
            if urlsplit(self.location).scheme == "http" and self._client.origin.startswith("https:"):
                raise NetworkError(
                    f"{party.name}: {self._what}: the registry sends the upload to "
                    f"{urlsplit(self.location).hostname}, without TLS",
                    hint="the registry must be told its own address, or to answer with relative URLs",
                )
        elif self.location is None:
            raise not_a_registry(party, self._what)

    def cancel(self) -> None:
        """Free what the registry holds ("Cancel a blob upload"); that this may fail changes nothing."""
        if self.location is not None:
            with contextlib.suppress(BakeError, TransientError):
                self._client.ask("DELETE", self.location, what=self._what, accept=_ENDED)

    def _post(self, query: str, *, also_read: tuple[str, ...] = ()) -> Answer:
        return self._client.ask(
            "POST",
            self._client.url(f"blobs/uploads/{query}"),
            what=self._what,
            accept=_BEGUN,
            headers={"content-length": "0"},
            also_read=also_read,
        )
