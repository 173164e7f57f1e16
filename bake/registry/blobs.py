"""Blobs: whether there is one, and its bytes: out of one answer or several that continue each other, and proven."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from bake.digest import CHUNK
from bake.errors import DigestError
from bake.patience import Attempts, TransientError
from bake.registry.refusal import NOT_THE_SAME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from urllib3 import BaseHTTPResponse

    from bake.image import Descriptor
    from bake.registry.client import Client

_CONTENT_RANGE = re.compile(r"bytes (?P<start>\d+)-\d+/(?P<total>\d+|\*)")


def has_blob(client: Client, blob: Descriptor) -> bool:
    """One HEAD ("Checking if content exists in the registry"). Raises TransientError for what may pass."""
    what = f"blob {blob.digest}"
    answer = client.ask("HEAD", client.url(f"blobs/{blob.digest}"), what=what, accept=frozenset({200, 404}))
    size = answer.headers.get("content-length", "")
    if answer.status == 200 and size.isdecimal() and int(size) not in {0, blob.size}:  # 0: a proxy left it out
        raise DigestError(f"{client.party.name}: {what}: expected {blob.size} bytes, found {size} in the registry")
    return answer.status == 200


def download(client: Client, blob: Descriptor, *, offset: int) -> Iterator[bytes]:
    """The bytes from `offset` on, in chunks of at most 1 MiB, whatever breaks meanwhile.

    Read from its start, a blob is proven: its last chunk is held back until the digest is right. Raises DigestError for
    other bytes or another size, ImageError where there is no such blob, SourceError, and NetworkError.
    """
    pieces = _pieces(client, blob, offset=offset, stop=blob.size)
    return pieces if offset else _proven(client, blob, pieces)


def download_part(client: Client, blob: Descriptor, *, offset: int, size: int) -> Iterator[bytes]:
    """The `size` bytes from `offset` on, as `download` gives them. Nothing but their number is proven."""
    return _pieces(client, blob, offset=offset, stop=offset + size)


def _proven(client: Client, blob: Descriptor, pieces: Iterator[bytes]) -> Iterator[bytes]:
    hasher = hashlib.sha256()
    held = b""
    for piece in pieces:
        if held:
            yield held
        hasher.update(piece)
        held = piece
    if hasher.hexdigest() != blob.digest.hex:
        raise DigestError(
            f"{client.party.name}: blob {blob.digest}: found bytes of sha256:{hasher.hexdigest()}",
            hint=NOT_THE_SAME,
        )
    if held:
        yield held


def _pieces(client: Client, blob: Descriptor, *, offset: int, stop: int) -> Iterator[bytes]:
    """A body that breaks is continued at the byte where it broke (distribution-spec, "Pulling blobs")."""
    what = f"blob {blob.digest}"
    attempts = Attempts(client.patience, f"{client.party.name}: {what}")
    position = offset
    while position < stop:
        headers = _range(position, stop, whole=blob.size)
        with attempts.once(), client.stream(client.url(f"blobs/{blob.digest}"), what=what, headers=headers) as response:
            for piece in _body(client, response, blob, offset=position, stop=stop):
                attempts.failures = 0
                position += len(piece)
                yield piece
            if position < stop:
                raise TransientError(f"the body ended at byte {position} of {blob.size}")


def _range(start: int, stop: int, *, whole: int) -> dict[str, str]:
    """The header that asks for a part (RFC 9110, section 14.2); none where it is all."""
    if stop < whole:
        return {"range": f"bytes={start}-{stop - 1}"}
    return {"range": f"bytes={start}-"} if start else {}


def _body(client: Client, response: BaseHTTPResponse, blob: Descriptor, *, offset: int, stop: int) -> Iterator[bytes]:
    """The bytes from `offset` to `stop`, also where Range is ignored and the whole blob comes.

    It is read to its end where it ends there, for then its connection serves the next request too.
    """
    position, total = _extent(response)
    if position not in {0, offset}:
        raise TransientError(f"asked for the bytes from {offset} on, and was sent those from {position} on")
    if total is not None and total != blob.size:
        raise _wrong_size(client, blob, found=f"{total}")
    for whole in response.stream(CHUNK):
        piece = whole[max(offset - position, 0) : max(stop - position, 0)]
        position += len(whole)
        if position > blob.size:
            raise _wrong_size(client, blob, found="more")
        if piece:
            yield piece
        if position > stop:
            return


def _extent(response: BaseHTTPResponse) -> tuple[int, int | None]:
    """The byte at which the body starts, and the whole blob's size where the registry says it."""
    if response.status == 200:
        stated = response.headers.get("content-length", "")
        return 0, int(stated) if stated.isdecimal() else None
    found = _CONTENT_RANGE.fullmatch(response.headers.get("content-range", ""))
    if found is None:
        raise TransientError("answered 206 without saying which bytes")
    return int(found["start"]), None if found["total"] == "*" else int(found["total"])


def _wrong_size(client: Client, blob: Descriptor, *, found: str) -> DigestError:
    return DigestError(
        f"{client.party.name}: blob {blob.digest}: expected {blob.size} bytes, found {found}",
        hint=NOT_THE_SAME,
    )
