"""What a fake registry writes down, and what can go wrong there."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

Host = Literal["registry", "auth", "cdn"]

USER, PASSWORD = "robot", "pass:w0rd"
IDENTITY_TOKEN = "identity-t0ken"  # noqa: S105 - it opens nothing real
SIGNATURE = "s1gn3d-and-s3cret"
"""What signs a URL of the content network; no message may show it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A line of the log. `path` is as it was sent: with its query, and whole where a proxy was meant."""

    host: Host
    method: str
    path: str
    headers: Mapping[str, str]

    @property
    def authorization(self) -> str | None:
        return self.headers.get("authorization")

    @property
    def line(self) -> str:
        """`PATCH /v2/… 0-999`: the method, the path without a query, and the bytes that it is about."""
        span = self.headers.get("content-range") or self.headers.get("range") or ""
        path = urlsplit(self.path).path
        return " ".join(filter(None, (self.method, re.sub(r"(?<=/uploads/)[^/]+|(?<=sha256:)\w+", "…", path), span)))


@dataclass(slots=True, kw_only=True)
class Fault:
    """What goes wrong with requests whose `METHOD /path` fits `glob`, but for the first `skip`, `times` in all.

    `status` with `headers` and `body` answers that, the request's body being read first unless `early`; `cut` hangs up
    after so many bytes of a request's body, and leaves those that came in the upload; `lost` hangs up after the work
    was done, and before it is answered; `cut_answer` sends so many bytes of an answer. The others spoil a good answer:
    `claim` is the digest that it names, `content` the bytes that it sends, `range` its Range, `length` its length,
    `drip` the bytes of each write. `expire` ends every token before, and `silent` never answers.
    """

    glob: str
    skip: int = 0
    times: int = 1
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    early: bool = False
    cut: int | None = None
    lost: bool = False
    cut_answer: int | None = None
    claim: str | None = None
    content: bytes | None = None
    range: str | None = None
    length: int | None = None
    ignore_range: bool = False
    drip: int | None = None
    expire: bool = False
    silent: bool = False


def basic() -> str:
    """The Authorization of the one user."""
    return "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
