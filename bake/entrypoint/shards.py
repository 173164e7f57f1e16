"""Shards: the header of one safetensors file, read and checked against the file's size. No tensor byte is read.

The format: https://huggingface.co/docs/safetensors/index#format. A file is 8 bytes of little-endian header length,
a JSON header, and the tensors' bytes, which cover the rest of the file exactly: no hole, no overlap, nothing behind.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, TypeGuard

from bake.entrypoint.document import parse_keys
from bake.entrypoint.fault import FETCH_AGAIN, Fault

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

READERS = 16
"""Threads that read headers: they wait for the disk, not for a core."""

MAX_HEADER = 100_000_000
"""The longest header, in bytes, that safetensors' own reader accepts."""

DTYPE_BITS = {
    "BOOL": 8,
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "U8": 8,
    "I8": 8,
    "F8_E5M2": 8,
    "F8_E4M3": 8,
    "F8_E5M2FNUZ": 8,
    "F8_E4M3FNUZ": 8,
    "F8_E8M0": 8,
    "I16": 16,
    "U16": 16,
    "F16": 16,
    "BF16": 16,
    "I32": 32,
    "U32": 32,
    "F32": 32,
    "C64": 64,
    "F64": 64,
    "I64": 64,
    "U64": 64,
}
"""Bits an element takes, by the names of safetensors' Dtype."""


class Tensor(NamedTuple):
    """One tensor of a header. `start` and `end` count bytes from the end of the header."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """What one weights file says of itself.

    `tensors` are the well-formed ones. `names` are all that the header names, or None where it cannot be read.
    """

    path: str
    names: frozenset[str] | None
    tensors: tuple[Tensor, ...]
    faults: tuple[Fault, ...]


class Finding(NamedTuple):
    """A fault that does not know its file yet."""

    expected: str
    found: str


class HeaderError(ValueError):
    """A header that cannot be read at all."""

    def __init__(self, expected: str, found: str) -> None:
        super().__init__(f"expected {expected}, found {found}")
        self.finding = Finding(expected, found)


def read_shard(path: str, stream: BinaryIO, *, size: int) -> Shard:
    """Read a safetensors header from the start of a stream of `size` bytes. Raises OSError where reading fails."""
    try:
        content = _header_bytes(stream, size=size)
        return _check(path, content, data_size=size - 8 - len(content))
    except HeaderError as error:
        return Shard(path=path, names=None, tensors=(), faults=_faults(path, [error.finding]))


def read_shards(paths: Iterable[Path]) -> list[Shard]:
    """The headers of several files, in their order. Raises OSError where one cannot be read."""
    with ThreadPoolExecutor(READERS) as pool:
        return list(pool.map(_read_file, paths))


def _read_file(path: Path) -> Shard:
    with path.open("rb", buffering=0) as stream:
        return read_shard(path.name, stream, size=path.stat().st_size)


def _faults(path: str, findings: Iterable[Finding]) -> tuple[Fault, ...]:
    return tuple(
        Fault(path=path, kind="safetensors", expected=finding.expected, found=finding.found, hint=FETCH_AGAIN)
        for finding in findings
    )


def _header_bytes(stream: BinaryIO, *, size: int) -> bytes:
    if size < 8:
        raise HeaderError("8 bytes of header length", f"a file of {size:,} bytes")
    length = int.from_bytes(_read(stream, 8), "little")
    if length > MAX_HEADER:
        raise HeaderError(f"a header of at most {MAX_HEADER:,} bytes", f"a header length of {length:,} bytes")
    if 8 + length > size:
        raise HeaderError(f"a header within the file's {size:,} bytes", f"a header length of {length:,} bytes")
    return _read(stream, length)


def _read(stream: BinaryIO, count: int) -> bytes:
    """Exactly `count` bytes: an unbuffered stream may give fewer at a time."""
    content = bytearray()
    while len(content) < count:
        block = stream.read(count - len(content))
        if not block:
            raise HeaderError(f"{count:,} more bytes of header", f"the end of the file after {len(content):,}")
        content += block
    return bytes(content)


def _check(path: str, content: bytes, *, data_size: int) -> Shard:
    if not content.startswith(b"{"):
        raise HeaderError("a header that starts with '{'", f"{content[:8]!r}")
    try:
        document = parse_keys(content)
    except ValueError as error:
        raise HeaderError("a header of JSON", str(error)) from error
    header = document.value
    assert isinstance(header, dict)  # noqa: S101 - JSON that starts with a brace
    findings = [Finding("each key once in the header", f"{key!r} twice") for key in document.twice]
    findings += _metadata_findings(header.pop("__metadata__", None))
    tensors, malformed = _tensors(header)
    findings += malformed or _coverage_findings(tensors, data_size=data_size)
    findings += [finding for tensor in tensors for finding in _size_findings(tensor)]
    return Shard(path=path, names=frozenset(header), tensors=tuple(tensors), faults=_faults(path, findings))


def _metadata_findings(metadata: object) -> list[Finding]:
    if metadata is None:
        return []
    if isinstance(metadata, dict) and all(isinstance(value, str) for value in metadata.values()):
        return []
    return [Finding("__metadata__ to map strings to strings", _short(metadata))]


def _tensors(header: dict[str, object]) -> tuple[list[Tensor], list[Finding]]:
    """The well-formed tensors by their place in the file, and what is wrong with the others."""
    tensors: list[Tensor] = []
    findings: list[Finding] = []
    for name, value in header.items():
        tensor = _tensor(name, value)
        if tensor is None:
            expected = f"tensor {name!r} to have a dtype, a shape and data_offsets [start, end]"
            findings.append(Finding(expected, _short(value)))
        else:
            tensors.append(tensor)
    return sorted(tensors, key=lambda tensor: (tensor.start, tensor.end)), findings


def _tensor(name: str, value: object) -> Tensor | None:
    if not isinstance(value, dict):
        return None
    dtype, shape, offsets = value.get("dtype"), value.get("shape"), value.get("data_offsets")
    if not isinstance(dtype, str) or not _naturals(shape) or not _naturals(offsets) or len(offsets) != 2:
        return None
    start, end = offsets
    return Tensor(name, dtype, tuple(shape), start, end) if start <= end else None


def _naturals(value: object) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(type(item) is int and 0 <= item < 1 << 64 for item in value)


def _coverage_findings(tensors: list[Tensor], *, data_size: int) -> Iterator[Finding]:
    """Walk the tensors in file order: each must start where the one before it ended, the last at the file's end."""
    position = 0
    for tensor in tensors:
        if tensor.start != position:
            what = "a hole" if tensor.start > position else "an overlap"
            yield Finding(
                f"tensor {tensor.name!r} to start at byte {position:,} of the data", f"{what}: {tensor.start:,}"
            )
        position = max(position, tensor.end)
    if position != data_size:
        yield Finding(f"{position:,} bytes of data, as the header says", f"{data_size:,} bytes")


def _size_findings(tensor: Tensor) -> Iterator[Finding]:
    bits = DTYPE_BITS.get(tensor.dtype)
    if bits is None:
        yield Finding(f"tensor {tensor.name!r} to have a dtype of safetensors", repr(tensor.dtype))
        return
    expected, found = bits * math.prod(tensor.shape), 8 * (tensor.end - tensor.start)
    if expected != found:
        shape = f"{tensor.dtype} {list(tensor.shape)}"
        yield Finding(f"tensor {tensor.name!r} of {shape} to take {_amount(expected)}", _amount(found))


def _amount(bits: int) -> str:
    if bits >= 1 << 67:  # beyond any file; Python refuses to print an integer of many thousand digits
        return "2^64 bytes or more"
    return f"{bits:,} bits" if bits % 8 else f"{bits // 8:,} bytes"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"
