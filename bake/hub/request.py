"""Request: one GET to the Hub, and how it is tried again."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from bake import __version__
from bake.hub import settings
from bake.hub.refusal import not_the_hub, offline, redact, refusal, transient, unusable_token
from bake.hub.target import Target, host_of
from bake.patience import Attempts, Patience

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_AUTHORIZATION = re.compile(r"Bearer [!-~]+")


def usual_patience() -> Patience:
    """BAKE_HUB_BACKOFF sets `base`. Raises UsageError."""
    return Patience(base=settings.backoff())


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
def exchange(target: Target, *, offset: int = 0, stop: int | None = None) -> Iterator[Response]:
    """One GET whose answer is good, of the bytes from `offset` on, or up to `stop`.

    Raises TransientError for what may pass, and a BakeError for what will not.
    """
    if settings.offline():
        raise offline(target)
    errors = settings.library("errors")
    headers = _headers() | _range(offset, stop)
    try:
        with _open(target.url, headers) as response:
            status = response.status_code
            if status not in {200, 206}:
                raise refusal(target, status=status, url=str(response.url), headers=response.headers)
            yield response
    except errors.OfflineModeIsEnabled as error:
        raise offline(target) from error
    except errors.HTTPError as error:
        raise transient(f"{_host_of(error, target)}: {redact(str(error)) or type(error).__name__}") from error


def _range(offset: int, stop: int | None) -> dict[str, str]:
    """The header that asks for a part of a file (RFC 9110, 14.2: its last byte is counted in); none for all of it."""
    if not offset and stop is None:
        return {}
    return {"range": f"bytes={offset}-{'' if stop is None else stop - 1}"}


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
