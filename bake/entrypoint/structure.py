"""Structure: what a model's files must be to load, whatever they hold: JSON, safetensors headers, index, weights.

Needs no record. Reads JSON files whole and of each safetensors file only the header.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bake.entrypoint.document import Document, parse, parse_keys
from bake.entrypoint.fault import FETCH_AGAIN, Fault
from bake.entrypoint.index import check_indexes, is_index
from bake.entrypoint.shards import Shard, read_shard

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from bake.entrypoint.tree import Entry, Tree

_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth")


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What one file was found to hold: a shard's header, an index, or nothing that another file depends on."""

    path: str
    faults: tuple[Fault, ...] = ()
    shard: Shard | None = None
    index: Document | None = None


def read_content(entry: Entry, tree: Tree) -> Content:
    """Read as much of one file as its structure needs. Raises OSError where reading fails."""
    if entry.path.endswith(_WEIGHTS) and not entry.size:
        return Content(path=entry.path, faults=(_empty(entry),))
    if entry.path.endswith(".safetensors"):
        with tree.open(entry.path) as stream:
            shard = read_shard(entry.path, stream, size=entry.size)
        return Content(path=entry.path, faults=shard.faults, shard=shard)
    if entry.path.endswith(".json"):
        with tree.open(entry.path) as stream:
            content = stream.read()
        return _json_content(entry.path, content)
    return Content(path=entry.path)


def _json_content(path: str, content: bytes) -> Content:
    try:
        if is_index(path):
            return Content(path=path, index=parse_keys(content))
        parse(content)
    except ValueError as error:
        fault = Fault(path=path, kind="json", expected="a JSON document in UTF-8", found=str(error), hint=FETCH_AGAIN)
        return Content(path=path, faults=(fault,))
    return Content(path=path)


def check_structure(
    contents: Collection[Content], *, paths: Collection[str], present: Collection[str]
) -> Iterator[Fault]:
    """The faults of each file's content, of the indexes against the shards, and of what no model can lack.

    `paths` are the model's own files; `present` adds the files that exist beside them.
    """
    for content in contents:
        yield from content.faults
    yield from check_indexes(
        {content.path: content.index for content in contents if content.index is not None},
        {content.path: content.shard for content in contents if content.shard is not None},
        paths=paths,
        present=present,
    )
    yield from _needs(present)


def _needs(present: Collection[str]) -> Iterator[Fault]:
    if "config.json" not in present:
        yield Fault(
            path="config.json",
            kind="missing",
            expected="the model's configuration",
            found="no such file",
            hint="name the folder that holds config.json, and fetch all of its files",
        )
    if not any(_is_weights(path) for path in present):
        yield Fault(
            path=".",
            kind="missing",
            expected="weights, such as model.safetensors",
            found="no *.safetensors and no pytorch_model*.bin",
            hint="fetch the weights too; verl loads these two formats",
        )


def _is_weights(path: str) -> bool:
    if posixpath.dirname(path):
        return False
    return path.endswith(".safetensors") or (path.startswith("pytorch_model") and path.endswith(".bin"))


def _empty(entry: Entry) -> Fault:
    return Fault(path=entry.path, kind="truncated", expected="weights", found="an empty file", hint=FETCH_AGAIN)
