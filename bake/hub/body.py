"""Body: a file's bytes out of one response, or of several that continue each other."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from bake.errors import DigestError
from bake.hub.refusal import transient, wrong_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bake.hub.request import Response
    from bake.hub.target import Target

CHUNK = 1 << 20
"""Bytes gathered before they are handed on."""

_CONTENT_RANGE = re.compile(r"bytes (?P<start>\d+)-\d+/(?P<total>\d+|\*)")


def read_body(response: Response, target: Target, *, offset: int, size: int) -> Iterator[bytes]:
    """The bytes from `offset` on, also where the server ignores Range and sends the file from its start.

    Raises DigestError if the file is not of `size` bytes, and TransientError if the body starts anywhere else.
    """
    position, total = _extent(response)
    if position not in {0, offset}:
        raise transient(f"asked for the bytes from {offset} on, and was sent those from {position} on")
    if total is not None and total != size:
        raise wrong_size(target, expected=f"{size} bytes", found=f"{total}")
    for whole in response.iter_bytes():
        piece = whole[max(offset - position, 0) :]
        position += len(whole)
        if position > size:
            raise wrong_size(target, expected=f"{size} bytes", found="more")
        if piece:
            yield piece


def gather(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The same bytes in chunks of about 1 MiB."""
    gathered: list[bytes] = []
    size = 0
    for piece in pieces:
        gathered.append(piece)
        size += len(piece)
        if size >= CHUNK:
            yield b"".join(gathered)
            gathered, size = [], 0
    if gathered:
        yield b"".join(gathered)


def prove_git_blob(pieces: Iterator[bytes], *, size: int, oid: str, label: str) -> Iterator[bytes]:
    """Pass the bytes on; raises DigestError at their end unless they are git's blob `oid` (git-hash-object)."""
    hasher = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    for piece in pieces:
        hasher.update(piece)
        yield piece
    if hasher.hexdigest() != oid:
        raise DigestError(
            f"{label}: expected git blob {oid}, found {hasher.hexdigest()}",
            hint="a commit's files never change: check what answers at HF_ENDPOINT",
        )


def _extent(response: Response) -> tuple[int, int | None]:
    """The byte at which the body starts, and the whole file's size where the server says it."""
    if response.status_code == 200:
        said = None if "content-encoding" in response.headers else response.headers.get("content-length")
        return 0, int(said) if said and said.isdecimal() else None
    found = _CONTENT_RANGE.fullmatch(response.headers.get("content-range", ""))
    if found is None:
        raise transient("answered 206 without saying which bytes")
    return int(found["start"]), None if found["total"] == "*" else int(found["total"])
