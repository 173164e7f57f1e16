"""Words: what registries say, made fit to be shown: no credential, and no query of a URL, which signs it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

_SECRET = re.compile(r"(?<=\?)[^\s'\"<>]+|(?<=Bearer )\S+|(?<=Basic )\S+|\beyJ[\w-]+\.[\w-]+\.[\w-]*")
_LONGEST = 300


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """Foreign text without what is known to be secret, tokens in their usual forms, and queries of URLs."""
    for secret in secrets:
        text = text.replace(secret, "…")
    return _SECRET.sub("…", text)


def said(body: bytes, secrets: Iterable[str] = ()) -> str:
    """What a registry or a token server gives as the reason (distribution-spec, "Error Codes"); empty if nothing."""
    return " ".join(redact("; ".join(_messages(body)), secrets).split())[:_LONGEST]


def codes(body: bytes) -> frozenset[str]:
    """The error codes in an answer, such as DIGEST_INVALID."""
    return frozenset(str(error.get("code")) for error in _errors(_parse(body)))


def _messages(body: bytes) -> list[str]:
    document = _parse(body)
    found = [str(error.get("message") or error.get("code") or "") for error in _errors(document)]
    if not found and isinstance(document, dict):  # token servers: RFC 6749 section 5.2, or Docker Hub's own
        named = (document.get(key) for key in ("error_description", "details", "message", "error"))
        found = [str(text) for text in named if isinstance(text, str)][:1]
    return list(dict.fromkeys(text for text in found if text))


def _errors(document: Any) -> list[dict[str, Any]]:
    errors = document.get("errors") if isinstance(document, dict) else None
    return [error for error in errors if isinstance(error, dict)] if isinstance(errors, list) else []


def _parse(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:  # a proxy's page of HTML says nothing that a person can use
        return None
