"""Index: `*.safetensors.index.json`, which says in what shard each tensor lies, held against the shards' own headers.

Shards and index belong together by the start of their paths: `vae/model-00001-of-00002.safetensors` and
`vae/model.safetensors.index.json` are one family, `vae/model`. transformers reads shards through their index alone,
so numbered shards without one do not load.
"""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bake.entrypoint.fault import FETCH_AGAIN, Fault

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from bake.entrypoint.document import Document
    from bake.entrypoint.shards import Shard

_INDEX = re.compile(r"(?P<stem>.+)\.safetensors\.index(?:\.(?P<variant>[^./]+))?\.json")
_SHARD = re.compile(r"(?P<stem>.+)-\d{5}-of-\d{5}\.safetensors")

_ONE_SNAPSHOT = "take the index and all its shards from the same commit"


@dataclass(frozen=True, slots=True)
class Index:
    """One index file: the shard of each tensor, as a path below the model's folder."""

    path: str
    shard_of: Mapping[str, str]

    @property
    def shards(self) -> frozenset[str]:
        return frozenset(self.shard_of.values())


def is_index(path: str) -> bool:
    return _INDEX.fullmatch(path) is not None


def check_indexes(
    documents: Mapping[str, Document],
    shards: Mapping[str, Shard],
    *,
    paths: Collection[str],
    present: Collection[str],
) -> tuple[Fault, ...]:
    """Every disagreement between the indexes that parse and the shards whose header can be read.

    `paths` are the model's own files. `present` are all that exist or whose absence is told elsewhere, so that one
    cause gives one fault.
    """
    faults: list[Fault] = []
    indexes: list[Index] = []
    for path, document in documents.items():
        index, found = _parse(path, document)
        faults += found
        if index is not None:
            indexes.append(index)
    for index in indexes:
        faults += _missing_shards(index, present)
        faults += _disagreements(index, shards)
    faults += _unnamed_shards(indexes, paths, present)
    return tuple(faults)


def _parse(path: str, document: Document) -> tuple[Index | None, list[Fault]]:
    weight_map = document.value.get("weight_map") if isinstance(document.value, dict) else None
    strings = isinstance(weight_map, dict) and all(isinstance(value, str) for value in weight_map.values())
    if not weight_map or not strings:
        found = "none" if weight_map is None else "something else"
        return None, [_fault(path, "a weight_map from tensor names to shards", found, FETCH_AGAIN)]
    folder = posixpath.dirname(path)
    paths = {value: posixpath.normpath(posixpath.join(folder, value)) for value in set(weight_map.values())}
    shard_of = {name: paths[value] for name, value in weight_map.items()}
    twice = [_fault(path, "each key once", f"{key!r} twice", FETCH_AGAIN) for key in document.twice]
    return Index(path, shard_of), twice


def _missing_shards(index: Index, present: Collection[str]) -> Iterator[Fault]:
    for shard in sorted(index.shards - set(present)):
        count = sum(value == shard for value in index.shard_of.values())
        yield _fault(index.path, f"{shard}, with {_tensors(count)}", "no such file", FETCH_AGAIN)


def _disagreements(index: Index, shards: Mapping[str, Shard]) -> Iterator[Fault]:
    """Tensors that the index and the headers place differently, grouped by both places: one fault a group."""
    unread = {shard for shard in index.shards if shard not in shards or shards[shard].names is None}
    places = _places(shards[shard] for shard in sorted(index.shards - unread))
    groups: defaultdict[tuple[str | None, tuple[str, ...]], list[str]] = defaultdict(list)
    for name in sorted(index.shard_of.keys() | places.keys()):
        listed, held = index.shard_of.get(name), places.get(name, ())
        if held != (listed,) and not (listed in unread and not held):
            groups[listed, held].append(name)
    for (listed, held), names in groups.items():
        expected = f"{_names(names)} in {listed or 'the index'}"
        found = f"{'it' if len(names) == 1 else 'them'} in {' and '.join(held) or 'no shard'}"
        yield _fault(index.path, expected, found, _ONE_SNAPSHOT)


def _places(shards: Iterable[Shard]) -> dict[str, tuple[str, ...]]:
    """The shards that hold each tensor."""
    places: dict[str, tuple[str, ...]] = {}
    for shard in shards:
        for name in shard.names or ():
            places[name] = (*places.get(name, ()), shard.path)
    return places


def _unnamed_shards(indexes: list[Index], paths: Collection[str], present: Collection[str]) -> Iterator[Fault]:
    """Numbered shards that no index names: each one where its family has an index, else one fault a family."""
    named = {shard for index in indexes for shard in index.shards}
    parsed = {_index_family(index.path) for index in indexes}
    indexed = {_index_family(path) for path in present}
    unnamed: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted(set(paths) - named):
        if match := _SHARD.fullmatch(path):
            unnamed[match["stem"]].append(path)
    for family, group in unnamed.items():
        if family in parsed:
            yield from (
                _fault(path, "a shard that its index names", "no mention of it", _ONE_SNAPSHOT) for path in group
            )
        elif family not in indexed:
            expected = f"an index, since weights are in numbered shards ({len(group)} of them)"
            yield _fault(f"{family}.safetensors.index.json", expected, "no such file", FETCH_AGAIN)


def _index_family(path: str) -> str | None:
    match = _INDEX.fullmatch(path)
    if match is None:
        return None
    return f"{match['stem']}.{match['variant']}" if match["variant"] else match["stem"]


def _names(names: list[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:3])
    rest = f" and {len(names) - 3:,} more" if len(names) > 3 else ""
    return f"{'tensor' if len(names) == 1 else 'tensors'} {shown}{rest}"


def _tensors(count: int) -> str:
    return "1 tensor" if count == 1 else f"{count:,} tensors"


def _fault(path: str, expected: str, found: str, hint: str) -> Fault:
    return Fault(path=path, kind="index", expected=expected, found=found, hint=hint)
