"""Client: one request to a registry, with its credentials, its redirects and one answer to a 401.

Credentials are added to requests that go to the registry's own origin (scheme, host and port) and to no other: a
redirect, or the Location of an upload, may lead anywhere.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit, urlunsplit

from bake.errors import NetworkError
from bake.patience import Attempts, TransientError
from bake.registry.answer import Answer, read_answer
from bake.registry.network import unreached
from bake.registry.refusal import Party, asked_wait, denied, is_passing, refusal
from bake.registry.tokens import Authorizer, LoginRefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from urllib3 import BaseHTTPResponse

    from bake.patience import Patience
    from bake.registry.network import Network

    Body = Callable[[], Iterable[bytes | memoryview]]

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_SAME_METHOD = frozenset({307, 308})
_HOPS = 5
_PORTS = {"http": 80, "https": 443}


class Client:
    """Requests to one repository. May be used from any thread."""

    def __init__(self, party: Party, *, origin: str, network: Network, patience: Patience) -> None:
        """`origin` is `https://HOST[:PORT]`, without a slash at its end."""
        self.party = party
        self.origin = origin
        self.patience = patience
        self._network = network
        self._authorizer = Authorizer(
            party.login.credentials, self._ask_token_server, insecure=origin.startswith("http:")
        )
        actions = "pull,push" if party.access == "push" else "pull"
        self._scopes = (f"repository:{party.reference.repository}:{actions}",)

    def url(self, path: str) -> str:
        """A URL in this repository (distribution-spec, "Endpoints")."""
        return f"{self.origin}/v2/{self.party.reference.repository}/{path}"

    def learn(self, answer: Answer) -> None:
        """Take note of what an earlier answer asked for."""
        if answer.status == 401:
            self._authorizer.learn(answer.headers.get("www-authenticate", ""), sent=None, scopes=self._scopes)

    def ask(
        self,
        method: str,
        url: str,
        *,
        what: str,
        accept: frozenset[int],
        headers: Mapping[str, str] | None = None,
        body: Body | None = None,
        also_read: Sequence[str] = (),
    ) -> Answer:
        """One request, and its answer if that has one of the statuses to `accept`.

        `body` is called anew for each time that the request is sent; `also_read` are other repositories that the token
        must open. Raises TransientError for what may pass, and a BakeError for what will not.
        """
        scopes = (*self._scopes, *(f"repository:{name}:pull" for name in also_read))
        response, final = self._send(method, url, headers=headers or {}, body=body, scopes=scopes)
        answer = read_answer(response, final)
        if answer.status not in accept:
            raise refusal(self.party, what, answer, elsewhere=not self._is_own(final))
        return answer

    def ask_patiently(
        self, method: str, url: str, *, what: str, accept: frozenset[int], headers: Mapping[str, str] | None = None
    ) -> Answer:
        """`ask`, tried again while the fault may pass. Raises NetworkError at last."""
        attempts = Attempts(self.patience, f"{self.party.name}: {what}")
        while True:
            with attempts.once():
                return self.ask(method, url, what=what, accept=accept, headers=headers)

    @contextmanager
    def stream(self, url: str, *, what: str, headers: Mapping[str, str]) -> Iterator[BaseHTTPResponse]:
        """A GET whose body the caller reads, of status 200 or 206; urllib3's errors come out as TransientError."""
        from urllib3.exceptions import HTTPError

        response, final = self._send("GET", url, headers=headers, body=None, scopes=self._scopes)
        try:
            if response.status not in {200, 206}:
                raise refusal(self.party, what, read_answer(response, final), elsewhere=not self._is_own(final))
            yield response
        except HTTPError as error:
            raise unreached(final, error) from error
        finally:
            response.close()

    def locate(self, base: str, location: str) -> str:
        """Where a Location leads, be it absolute or relative (RFC 9110, section 10.2.2).

        A registry behind a proxy that ends TLS may name itself with http: it is then its own origin that is meant.
        """
        url = urljoin(base, location)
        here, there = urlsplit(self.origin), urlsplit(url)
        if here.scheme == "https" and there.scheme == "http" and here.hostname == there.hostname:
            return urlunsplit(there._replace(scheme=here.scheme, netloc=here.netloc))
        return url

    def _send(
        self, method: str, url: str, *, headers: Mapping[str, str], body: Body | None, scopes: tuple[str, ...]
    ) -> tuple[BaseHTTPResponse, str]:
        hops, answered = 0, False
        while True:
            own = self._is_own(url)
            sent = self._authorization(scopes) if own else None
            own_headers = {"authorization": sent} if sent else {}
            response = self._network.send(
                method, url, headers={**headers, **own_headers}, body=body() if body else None
            )
            if response.status == 401 and own and not answered:
                asked = response.headers.get("www-authenticate", "")
                if self._authorizer.learn(asked, sent=sent, scopes=scopes):
                    answered = True
                    read_answer(response, url)
                    continue
            location = response.headers.get("location", "")
            if not (location and _leads_on(method, response.status)):
                return response, url
            read_answer(response, url)
            url, hops = self.locate(url, location), hops + 1
            if hops > _HOPS:
                raise NetworkError(f"{self.party.name}: {urlsplit(url).netloc} redirects without end")

    def _is_own(self, url: str) -> bool:
        return origin_of(url) == origin_of(self.origin)

    def _authorization(self, scopes: tuple[str, ...]) -> str | None:
        try:
            return self._authorizer.authorization(scopes)
        except LoginRefusedError as error:
            raise denied(self.party, str(error)) from error

    def _ask_token_server(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None = None
    ) -> Answer:
        sized = {"content-length": str(len(body))} if body is not None else {}
        response = self._network.send(method, url, headers={**headers, **sized}, body=None if body is None else (body,))
        answer = read_answer(response, url)
        if is_passing(answer.status):
            raise TransientError(
                f"the token server {answer.host} answered {answer.status}", wait=asked_wait(answer.headers)
            )
        return answer


def origin_of(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port: who it is that a credential is for (RFC 6454)."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or _PORTS.get(parts.scheme)


def _leads_on(method: str, status: int) -> bool:
    return status in _REDIRECTS and (method in {"GET", "HEAD"} or status in _SAME_METHOD)
