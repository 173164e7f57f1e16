"""Answer: a small answer of a registry or a token server, read whole. What is large is never read so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from bake.registry.network import unreached
from bake.registry.words import codes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from urllib3 import BaseHTTPResponse

LIMIT = 4 << 20
"""Bytes of an answer that is read whole: registries need take no larger manifest ("Pushing Manifests")."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """`headers` have names in lower case; `url` is where redirects ended. A body longer than LIMIT is cut after it."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    url: str

    @property
    def host(self) -> str:
        return urlsplit(self.url).netloc

    @property
    def codes(self) -> frozenset[str]:
        """The registry's error codes, such as DIGEST_INVALID."""
        return codes(self.body)


def read_answer(response: BaseHTTPResponse, url: str) -> Answer:
    """Read an answer and let go of its connection. Raises TransientError where it breaks off."""
    from urllib3.exceptions import HTTPError

    try:
        body = response.read(LIMIT + 1) or b""
    except HTTPError as error:
        raise unreached(url, error) from error
    finally:
        response.close()
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Answer(status=response.status, headers=headers, body=body, url=url)
