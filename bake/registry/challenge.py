"""Challenge: what a registry asks for in WWW-Authenticate (RFC 9110, section 11.6.1; token.md). Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

_SCHEME = re.compile(r"(?:^|,)\s*([A-Za-z][\w-]*)(?:\s+(?=[\w-]+\s*=)|\s*(?=,|$))")
_PARAMETER = re.compile(r'([\w-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))')


@dataclass(frozen=True, slots=True, kw_only=True)
class Challenge:
    """`realm` is a Bearer challenge's token server; `scope` is what the registry says the token is for."""

    scheme: Literal["basic", "bearer"]
    realm: str = ""
    service: str = ""
    scope: str = ""


def parse_challenge(header: str) -> Challenge | None:
    """The challenge to answer, a token's before a password's; None where there is none that this client can answer."""
    starts = list(_SCHEME.finditer(header))
    ends = [*(start.start() for start in starts[1:]), len(header)]
    found = {start[1].lower(): _parameters(header[start.end() : end]) for start, end in zip(starts, ends, strict=False)}
    if (bearer := found.get("bearer")) and bearer.get("realm"):
        return Challenge(
            scheme="bearer",
            realm=bearer["realm"],
            service=bearer.get("service", ""),
            scope=bearer.get("scope", ""),
        )
    return Challenge(scheme="basic") if "basic" in found else None


def _parameters(text: str) -> dict[str, str]:
    return {name.lower(): re.sub(r"\\(.)", r"\1", quoted) or bare for name, quoted, bare in _PARAMETER.findall(text)}
