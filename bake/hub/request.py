"""Request: one GET to the Hub, and how it is tried again."""

from __future__ import annotations

import json
import logging
import re
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from bake import __version__
from bake.errors import NetworkError
from bake.hub import settings
from bake.hub.refusal import TransientError, not_the_hub, offline, redact, refusal, unusable_token
from bake.hub.target import Target, host_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_AUTHORIZATION = re.compile(r"Bearer [!-~]+")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How a request that failed is tried again: `tries` in a row without a byte gained, then it is given up.

    The wait before the next try, in seconds, starts at `base` and doubles. A longer one that the server asks for is
    kept, up to `longest`; the Hub counts requests in windows of 300 s.
    """

    tries: int = 5
    base: float = 1.0
    longest: float = 330.0
    sleep: Callable[[float], object] = time.sleep
    tell: Callable[[str], object] = _log.info

    @classmethod
    def from_environment(cls) -> Patience:
        """BAKE_HUB_BACKOFF sets `base`."""
        return cls(base=settings.backoff())


@dataclass(slots=True)
class Attempts:
    """Counts the failures in a row, and waits after each."""

    patience: Patience
    label: str
    failures: int = 0

    @contextmanager
    def once(self) -> Iterator[None]:
        """One try: a failure that may pass is waited out, then the caller tries again. Raises NetworkError at last."""
        try:
            yield
        except TransientError as error:
            self.patience.sleep(self._wait_after(error))

    def _wait_after(self, error: TransientError) -> float:
        wait = max(error.wait, self.patience.base * 2.0**self.failures)
        self.failures += 1
        if self.failures >= self.patience.tries:
            raise NetworkError(f"{self.label}: {error} ({self.failures} tries)", hint=error.hint) from error
        if wait > self.patience.longest:
            raise NetworkError(f"{self.label}: {error}, and asks to wait {wait:.0f} s", hint=error.hint) from error
        self.patience.tell(f"{self.label}: {error}; next try in {wait:.1f} s")
        return wait


class Response(Protocol):
    """The part of a response that is used here. It is httpx's or httpx2's, as huggingface_hub's version has it."""

    @property
    def status_code(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def url(self) -> object: ...
    @property
    def links(self) -> Mapping[str | None, Mapping[str, str]]: ...
    def read(self) -> bytes: ...
    def iter_bytes(self) -> Iterator[bytes]: ...


@contextmanager
def exchange(target: Target, *, offset: int = 0) -> Iterator[Response]:
    """One GET whose answer is good. Raises TransientError for what may pass, and a BakeError for what will not."""
    if settings.offline():
        raise offline(target)
    errors = settings.library("errors")
    headers = _headers() | ({"range": f"bytes={offset}-"} if offset else {})
    try:
        with _open(target.url, headers) as response:
            status = response.status_code
            if status not in {200, 206}:
                raise refusal(target, status=status, url=str(response.url), headers=response.headers)
            yield response
    except errors.OfflineModeIsEnabled as error:
        raise offline(target) from error
    except errors.HTTPError as error:
        raise TransientError(f"{_host_of(error, target)}: {redact(str(error)) or type(error).__name__}") from error


def fetch_json(target: Target, patience: Patience) -> tuple[Any, str | None]:
    """The document, and the query that asks for the page after it, if there is one."""
    attempts = Attempts(patience, target.label)
    while True:
        with attempts.once(), exchange(target) as response:
            try:
                return json.loads(response.read()), _following(response)
            except ValueError as error:
                raise not_the_hub(target) from error


def _following(response: Response) -> str | None:
    """The query alone: a mirror may pass on a link to another host, and the token must not follow it there."""
    link = response.links.get("next", {}).get("url")
    return urlsplit(link).query if link else None


def _host_of(error: Any, target: Target) -> str:
    """The host that failed: the Hub, or the one that it redirected to, which a firewall may know nothing of."""
    try:
        return host_of(str(error.request.url))
    except (AttributeError, RuntimeError):  # RuntimeError: httpx, of an error before there was a request
        return target.host


@contextmanager
def _open(url: str, headers: dict[str, str]) -> Iterator[Response]:
    """The client drops the token when a redirect leads to another host."""
    session = settings.library("utils").get_session()
    with session.stream("GET", url, headers=headers, timeout=settings.timeout(), follow_redirects=True) as response:
        yield response


def _headers() -> dict[str, str]:
    """The token if there is one; and the file's own bytes, as a compressed body cannot be continued."""
    own = {"user-agent": f"bake/{__version__}", "accept-encoding": "identity"}
    try:
        headers = settings.library("utils").build_hf_headers(headers=own)
    except (OSError, getattr(settings.library("errors"), "OIDCError", OSError)) as error:
        raise unusable_token(str(error)) from error
    if not _AUTHORIZATION.fullmatch(headers.get("authorization", "Bearer -")):
        raise unusable_token("it holds a character that no token has")
    return dict(headers)
