"""Reshard: one safetensors file -> several that are no larger than a limit, every tensor's bytes as they were.

A shard is a header of its own, then a stretch of the file that it comes from: so the file's header and the limit decide
every shard, and bytes are only ever copied. docs/models-lock.md, "[[model.resharded]]", is the specification.
"""

from __future__ import annotations

import io
import itertools
import json
import posixpath
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bake.entrypoint.document import parse_keys
from bake.entrypoint.shards import MAX_HEADER, read_shard
from bake.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bake.entrypoint.shards import Tensor

RULE = 1
"""The version of the rule by which files are divided and named. Stamped into the lock."""

LENGTH = 8
"""Bytes at the start of a safetensors file that say how long its header is."""

_ENDING = ".safetensors"
_INDEX = ".safetensors.index.json"
_NUMBERED = re.compile(r"(?P<stem>.+)-\d{5}-of-(?P<count>\d{5})\.safetensors")
_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_MOST = 99_999
_WHOLE = ("model.safetensors", "diffusion_pytorch_model.safetensors")
"""Names of whole files that transformers and diffusers look for an index of (SAFE_WEIGHTS_INDEX_NAME)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """One shard to be made: `head`, then the bytes of the file that it comes from, from `start` to `end`.

    Without a head it is that file itself, under another name; what tensors it holds is then not known.
    """

    path: str
    head: bytes
    start: int
    end: int
    tensors: tuple[str, ...]

    @property
    def is_whole(self) -> bool:
        return not self.head

    @property
    def size(self) -> int:
        return len(self.head) + self.end - self.start


def head_size(start: bytes) -> int:
    """Bytes of a file's length and header, by its first 8. What is no header is read as far as one may go."""
    return LENGTH + min(int.from_bytes(start[:LENGTH], "little"), MAX_HEADER)


def divide(path: str, head: bytes, *, size: int, limit: int) -> tuple[Shard, ...]:
    """The shards of a file of `size` bytes that begins with `head`; one only where it cannot be divided.

    Tensors keep their order. A shard ends where the next tensor would make its file larger than `limit` bytes, so a
    tensor that is too large alone has a shard of its own. Raises SourceError where the header is not that of a whole
    file.
    """
    tensors, metadata = _read(path, head, size=size)
    groups = list(_groups(tensors, metadata, data=len(head), limit=limit))
    if len(groups) > _MOST:
        raise SourceError(
            f"{path}: shards of so few bytes would be {len(groups):,}", hint="a larger max_shard_size makes fewer"
        )
    return tuple(
        Shard(
            path=shard_path(path, number, len(groups)),
            head=_head(group, metadata, data=len(head)),
            start=len(head) + group[0].start,
            end=len(head) + group[-1].end,
            tensors=tuple(tensor.name for tensor in group),
        )
        for number, group in enumerate(groups, start=1)
    )


def whole(path: str, *, size: int) -> Shard:
    """A file that is not divided, as a shard."""
    return Shard(path=path, head=b"", start=0, end=size, tensors=())


def numbered(divided: Mapping[str, Sequence[Shard]], sizes: Mapping[str, int]) -> dict[str, tuple[Shard, ...]]:
    """Each file that was divided, or whose number changes by that, with its shards under their names.

    `sizes` are those of all files that an index names: shards are counted, so that where one is divided, the others of
    its family (`model-00001-of-00003.safetensors` and so on) get new numbers.
    """
    families: dict[str, list[str]] = {}
    for path in sorted({*divided, *sizes}):
        found = _NUMBERED.fullmatch(path)
        family = f"{found['stem']} of {found['count']}" if found else path
        families.setdefault(family, []).append(path)
    placed: dict[str, tuple[Shard, ...]] = {}
    for paths in families.values():
        if divided.keys() & set(paths):
            placed |= _number(paths, divided, sizes)
    return placed


def _number(
    paths: Sequence[str], divided: Mapping[str, Sequence[Shard]], sizes: Mapping[str, int]
) -> dict[str, tuple[Shard, ...]]:
    shards = {path: divided[path] if path in divided else (whole(path, size=sizes[path]),) for path in paths}
    count = sum(map(len, shards.values()))
    found = _NUMBERED.fullmatch(paths[0])
    name = f"{found['stem']}{_ENDING}" if found else paths[0]
    numbers = itertools.count(1)
    return {
        path: tuple(replace(shard, path=shard_path(name, next(numbers), count)) for shard in parts)
        for path, parts in shards.items()
    }


def shard_path(path: str, number: int, count: int) -> str:
    """`model.safetensors` -> `model-00001-of-00003.safetensors`, as transformers names them."""
    return f"{path.removesuffix(_ENDING)}-{number:05}-of-{count:05}{_ENDING}"


def is_too_large(path: str, size: int, *, limit: int) -> bool:
    return path.endswith(_ENDING) and size > limit


def own_index(path: str) -> str | None:
    """The index that loaders look for once a whole file is in shards; None where they look for none."""
    return path.removesuffix(_ENDING) + _INDEX if posixpath.basename(path) in _WHOLE else None


def indexed(index_path: str, content: bytes) -> dict[str, str]:
    """The file of each tensor by an index, as paths in the model's folder. Raises SourceError."""
    folder = posixpath.dirname(index_path)
    weight_map = _index(index_path, content)["weight_map"]
    return {name: posixpath.normpath(posixpath.join(folder, shard)) for name, shard in weight_map.items()}


def new_index(shards: Sequence[Shard]) -> bytes:
    """The index of a file that had none; it lies beside its shards."""
    total = sum(shard.end - shard.start for shard in shards)
    weight_map = {name: posixpath.basename(shard.path) for shard in shards for name in shard.tensors}
    return _dump({"metadata": {"total_size": total}, "weight_map": weight_map})


def changed_index(index_path: str, content: bytes, divided: Mapping[str, Sequence[Shard]]) -> bytes:
    """An index in which tensors of files that were divided lie in their shards. Raises SourceError.

    What else it says stays. `divided` are shards by the path of the file that they come from.
    """
    document = _index(index_path, content)
    weight_map = document["weight_map"]
    places = {
        path: {name: shard.path for shard in shards for name in shard.tensors} for path, shards in divided.items()
    }
    renamed = {path: shards[0].path for path, shards in divided.items() if shards[0].is_whole}
    named = indexed(index_path, content)
    for name, path in named.items():
        if path not in places:
            continue
        if (place := renamed.get(path) or places[path].get(name)) is None:
            raise SourceError(f"{index_path}: expected tensor {name!r} in {path}, and its header has none")
        weight_map[name] = posixpath.join(posixpath.dirname(weight_map[name]), posixpath.basename(place))
    for path in sorted((places.keys() - renamed.keys()) & set(named.values())):
        if left := [name for name in places[path] if named.get(name) != path]:
            raise SourceError(f"{index_path}: expected every tensor of {path}, and it lacks {', '.join(sorted(left))}")
    return _dump(document)


def _read(path: str, head: bytes, *, size: int) -> tuple[Sequence[Tensor], dict[str, str] | None]:
    """A header's tensors in the order of their bytes, and its `__metadata__`."""
    found = read_shard(path, io.BytesIO(head), size=size)
    faults = [f"expected {fault.expected}, found {fault.found}" for fault in found.faults]
    if not faults and not found.tensors:
        faults = ["expected a tensor or more, found none"]
    if faults:
        raise SourceError("\n  ".join([f"{path}: its header is not that of a whole safetensors file", *faults]))
    header = parse_keys(head[LENGTH:]).value
    metadata = header.get("__metadata__") if isinstance(header, dict) else None
    return found.tensors, metadata


def _groups(
    tensors: Sequence[Tensor], metadata: dict[str, str] | None, *, data: int, limit: int
) -> Iterator[list[Tensor]]:
    """The tensors of each shard: as many as fit. `data` is where tensors begin in the file that they come from."""
    empty = len(_text([], metadata))
    group: list[Tensor] = []
    text = empty
    for tensor in tensors:
        first = group[0] if group else tensor
        text += _entry_size(tensor, first=first) + (1 if text > 2 else 0)  # a comma, but not behind the brace
        if group and _padded(text, data + first.start) + tensor.end - first.start > limit:
            yield group
            group, text = [], empty + _entry_size(tensor, first=tensor) + (1 if empty > 2 else 0)
        group.append(tensor)
    yield group


def _head(group: Sequence[Tensor], metadata: dict[str, str] | None, *, data: int) -> bytes:
    text = _text(group, metadata)
    length = _padded(len(text), data + group[0].start) - LENGTH
    return length.to_bytes(LENGTH, "little") + text.ljust(length)


def _padded(text: int, position: int) -> int:
    """Bytes of length and header so that a tensor keeps its place in a word of 8 bytes: PyTorch refuses odd ones."""
    return LENGTH + text + (position - text) % 8


def _text(group: Sequence[Tensor], metadata: dict[str, str] | None) -> bytes:
    """The header as safetensors itself writes it (serde_json: compact, UTF-8 as it is)."""
    document: dict[str, object] = {} if metadata is None else {"__metadata__": metadata}
    document |= {tensor.name: _entry(tensor, first=group[0]) for tensor in group}
    return _json(document)


def _entry(tensor: Tensor, *, first: Tensor) -> dict[str, object]:
    offsets = [tensor.start - first.start, tensor.end - first.start]
    return {"dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": offsets}


def _entry_size(tensor: Tensor, *, first: Tensor) -> int:
    return len(_json({tensor.name: _entry(tensor, first=first)})) - len("{}")


def _json(document: dict[str, object]) -> bytes:
    try:
        return _COMPACT.encode(document).encode()
    except UnicodeEncodeError as error:
        raise SourceError(f"a header names {error.object[error.start : error.end]!r}, which is no text") from error


def _index(path: str, content: bytes) -> dict[str, dict[str, str]]:
    try:
        document = parse_keys(content).value
    except ValueError as error:
        raise SourceError(f"{path}: no index of shards: {error}") from error
    weight_map = document.get("weight_map") if isinstance(document, dict) else None
    if not isinstance(weight_map, dict) or not all(isinstance(shard, str) for shard in weight_map.values()):
        raise SourceError(f"{path}: no index of shards: expected a weight_map from tensor names to files")
    assert isinstance(document, dict)  # noqa: S101 - it has a weight_map
    return document


def _dump(document: Mapping[str, object]) -> bytes:
    """As transformers writes an index (PreTrainedModel.save_pretrained)."""
    return (json.dumps(document, indent=2, sort_keys=True) + "\n").encode()
