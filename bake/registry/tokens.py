"""Tokens: the Authorization of each request. What a registry asks for is learnt from its first refusal.

Sources: distribution's token authentication (docs/content/spec/auth/token.md and oauth.md). Credentials go to the
registry itself and to the token server that it names, never to any other host.
"""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qs, urlencode, urlsplit, urlunsplit

from bake.registry.challenge import Challenge, parse_challenge
from bake.registry.words import said

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bake.registry.answer import Answer
    from bake.registry.credentials import Credentials

_CLIENT = "bake"
_LIFE = 60.0
"""Seconds that a token lives where its server does not say (token.md, "expires_in")."""

_EARLY = 0.8
"""The part of a token's life after which it is renewed, so that none ends on the way."""


class LoginRefusedError(Exception):
    """The token server does not give a token; its reason is the text."""


class Ask(Protocol):
    """Send a request to a token server, and read its answer. Raises TransientError for what may pass."""

    def __call__(self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None = None) -> Answer: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Token:
    value: str = field(repr=False)
    until: float


class Authorizer:
    """What to send as Authorization, by what the token is for. May be used from any thread."""

    def __init__(
        self,
        credentials: Credentials | None,
        ask: Ask,
        *,
        insecure: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`insecure` says that the registry itself is spoken to without TLS, so that its token server may be too."""
        self._credentials = credentials
        self._ask = ask
        self._insecure = insecure
        self._clock = clock
        self._challenge: Challenge | None = None
        self._tokens: dict[tuple[str, ...], _Token] = {}
        self._changing = threading.Lock()

    def authorization(self, scopes: tuple[str, ...]) -> str | None:
        """The header's value; None before anything was asked for, and for strangers where that is enough.

        Raises LoginRefusedError, and TransientError where the token server does not answer.
        """
        with self._changing:
            if self._challenge is None:
                return None
            if self._challenge.scheme == "basic":
                return f"Basic {self._credentials.basic()}" if self._credentials else None
            return f"Bearer {self._token(self._challenge, scopes)}"

    def learn(self, header: str, *, sent: str | None, scopes: tuple[str, ...]) -> bool:
        """Take note of a 401 and its WWW-Authenticate; returns whether it is worth asking again."""
        challenge = parse_challenge(header)
        with self._changing:
            if challenge is not None:
                self._challenge = challenge
            if self._challenge is None or (self._challenge.scheme == "basic" and sent is not None):
                return False
            token = self._tokens.get(scopes)
            if token is not None and sent == f"Bearer {token.value}":  # else another thread has a new one already
                del self._tokens[scopes]
            if self._challenge.scheme == "basic":
                return self._credentials is not None
            return not (sent and self._credentials and self._credentials.registry_token)

    def _token(self, challenge: Challenge, scopes: tuple[str, ...]) -> str:
        if self._credentials and self._credentials.registry_token:
            return self._credentials.registry_token
        token = self._tokens.get(scopes)
        if token is None or self._clock() >= token.until:
            token = self._tokens[scopes] = self._fetch(challenge, scopes)
        return token.value

    def _fetch(self, challenge: Challenge, scopes: tuple[str, ...]) -> _Token:
        if urlsplit(challenge.realm).scheme != "https" and not self._insecure:
            raise LoginRefusedError("its token server has no TLS, and a login does not go over such a line")
        asked_at = self._clock()
        if self._credentials and self._credentials.identity_token:
            answer = self._exchange_identity(challenge, scopes, self._credentials.identity_token)
        else:
            answer = self._get_token(challenge, scopes)
        if answer.status != 200:
            secrets = self._credentials.secrets() if self._credentials else ()
            raise LoginRefusedError(said(answer.body, secrets) or f"{answer.host} answered {answer.status}")
        return _parse_token(answer, asked_at)

    def _get_token(self, challenge: Challenge, scopes: tuple[str, ...]) -> Answer:
        """token.md, "Requesting a Token"."""
        parts = urlsplit(challenge.realm)
        query = [*((key, value) for key, values in parse_qs(parts.query).items() for value in values)]
        query += [("service", challenge.service)] if challenge.service else []
        query += [("scope", scope) for scope in scopes]
        url = urlunsplit(parts._replace(query=urlencode(query)))
        headers = {"authorization": f"Basic {self._credentials.basic()}"} if self._credentials else {}
        return self._ask("GET", url, headers=headers)

    def _exchange_identity(self, challenge: Challenge, scopes: tuple[str, ...], identity_token: str) -> Answer:
        """oauth.md, "Refreshing a Token"."""
        form = {
            "grant_type": "refresh_token",
            "service": challenge.service,
            "client_id": _CLIENT,
            "scope": " ".join(scopes),
            "refresh_token": identity_token,
        }
        headers = {"content-type": "application/x-www-form-urlencoded"}
        return self._ask("POST", challenge.realm, headers=headers, body=urlencode(form).encode())


def _parse_token(answer: Answer, asked_at: float) -> _Token:
    """The life is counted from when it was asked for, by this machine's clock: `issued_at` is by another's."""
    try:
        document: Any = json.loads(answer.body)
        value = document.get("token") or document["access_token"]
        life = float(document.get("expires_in") or _LIFE)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise LoginRefusedError(f"{answer.host} answered with something other than a token") from None
    return _Token(value=str(value), until=asked_at + _EARLY * life)
