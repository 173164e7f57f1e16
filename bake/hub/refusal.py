"""Refusal: what it means when the Hub does not give what was asked for, and what to do then.

The Hub says why in the headers X-Error-Code and X-Error-Message; huggingface_hub's hf_raise_for_status lists the codes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from bake.errors import BakeError, DigestError, NetworkError, SourceError
from bake.hub.settings import library
from bake.hub.target import Target, host_of, is_commit
from bake.patience import TransientError

if TYPE_CHECKING:
    from collections.abc import Mapping

_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
_SECRET = re.compile(r"(?<=\?)[^\s'\"]+|\bhf_\w+|(?<=Bearer )\S+")
_SIGN_IN = "`hf auth login`, or set HF_TOKEN"


def transient(what: str, *, wait: float = 0.0, hint: str | None = None) -> TransientError:
    """A failure on the way to the Hub that may pass; `wait` is how many seconds it asks for."""
    return TransientError(what, wait=wait, hint=hint or "check the network, the proxy settings and HF_ENDPOINT")


def refusal(target: Target, *, status: int, url: str, headers: Mapping[str, str]) -> BakeError | TransientError:
    """What to raise for an answer that is neither 200 nor 206. `url` is where redirects ended."""
    host = host_of(url)
    if status == 416:
        return wrong_size(target, expected="more bytes than the Hub has", found="the end of its file")
    if status == 429:
        return transient(
            f"{host} answered 429 (too many requests)",
            wait=_wait(headers),
            hint=f"wait a while; a user may ask more often than a stranger: {_SIGN_IN}",
        )
    if status in _PASSING or host != target.host:  # elsewhere: a signed URL ran out, and the Hub signs another
        return transient(f"{host} answered {status}", wait=_wait(headers))
    return _lasting(target, status=status, code=headers.get("x-error-code"), said=headers.get("x-error-message", ""))


def wrong_size(target: Target, *, expected: str, found: str) -> DigestError:
    return DigestError(
        f"{target.label}: expected {expected}, found {found}",
        hint="a commit's files never change: check the size in the lock, and what answers at HF_ENDPOINT",
    )


def not_the_hub(target: Target) -> NetworkError:
    return NetworkError(
        f"{target.label}: {target.host} answered with something other than the Hub's JSON",
        hint="check HF_ENDPOINT, and whether a proxy or a login page answers in the Hub's place",
    )


def offline(target: Target) -> NetworkError:
    return NetworkError(f"{target.label}: not asked for, as HF_HUB_OFFLINE is set", hint="unset HF_HUB_OFFLINE")


def unusable_token(what: str) -> SourceError:
    return SourceError(f"cannot use your Hugging Face token: {redact(what)}", hint=_SIGN_IN)


def redact(text: str) -> str:
    """Foreign text without tokens and without the queries of URLs, which sign them."""
    return _SECRET.sub("…", text)


def _lasting(target: Target, *, status: int, code: str | None, said: str) -> BakeError:
    said = " ".join(redact(said).split())[:300]
    match code, status:
        case "GatedRepo", _:
            return SourceError(
                f"hf://{target.repo_id} is gated, and you have no access to it yet",
                hint=f"ask for access at {target.page}, then `hf auth login` or set HF_TOKEN",
            )
        case (("RevisionNotFound" | "EntryNotFound"), _):
            return _gone(target)
        case _, 401 if "credentials" in said.lower():
            return unusable_token(f"{target.host} says {said!r}")
        case _, 401 | 404:
            return SourceError(
                f"no such model: hf://{target.repo_id}, or it is private",
                hint=f"look for it at {target.page}; if it is private, `hf auth login` or set HF_TOKEN",
            )
        case _, 403:
            return SourceError(
                f"{target.label}: {target.host} forbids it: {said or 'it gives no reason'}",
                hint="a fine-grained token must be allowed to read this repository",
            )
        case _:
            return NetworkError(f"{target.label}: {target.host} answered {status} {said}".rstrip())


def _gone(target: Target) -> SourceError:
    if is_commit(target.revision):
        return SourceError(
            f"{target.label} is not on the Hub: there is no such file or commit, or its history was rewritten",
            hint="the same bytes from anywhere else will do: the store, a mirror, an image, a local folder",
        )
    return SourceError(
        f"hf://{target.repo_id} has no revision {target.revision!r}",
        hint=f"see its branches and tags at {target.page}/tree/main",
    )


def _wait(headers: Mapping[str, str]) -> float:
    """Seconds that the server asks to wait: Retry-After, or what is left of the RateLimit window; else 0."""
    asked = headers.get("retry-after", "").strip()
    limit = library("utils").parse_ratelimit_headers(headers)
    left = limit.reset_in_seconds if limit is not None and limit.remaining == 0 else 0
    return float(max(left, int(asked) if asked.isdecimal() else 0))
