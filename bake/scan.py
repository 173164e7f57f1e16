"""Scan: whether bytes hold a token. The tokens that are known, and whatever is shaped like one of the Hub's. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

_SHAPE = re.compile(rb"(?<![A-Za-z0-9_])hf_[A-Za-z0-9]{30,}(?![A-Za-z0-9_])")
_START = b"hf_"  # looked for by itself first: a search for bytes is a hundred times as fast as one for a pattern
_OVERLAP = 512
"""Bytes kept from one chunk to the next; no token is longer."""


class Scanner:
    """Looks for tokens in a stream, chunk by chunk, also where one lies across two chunks.

    Without `shaped`, the known tokens alone are looked for: public files may hold what only looks like one.
    """

    def __init__(self, tokens: Collection[str] = (), *, shaped: bool = True) -> None:
        self._tokens = [token.encode() for token in tokens]
        self._shaped = shaped
        self._last = b""
        self.found = False

    def show(self, content: bytes) -> None:
        window = self._last + content
        self.found = self.found or holds_token(window, self._tokens, shaped=self._shaped)
        self._last = window[-_OVERLAP:]


def holds_token(content: bytes, tokens: Collection[bytes] = (), *, shaped: bool = True) -> bool:
    """Whether bytes hold one of some tokens, or anything shaped like an access token of the Hub."""
    if any(token in content for token in tokens):
        return True
    return shaped and _START in content and _SHAPE.search(content) is not None
