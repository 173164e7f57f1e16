"""Making: files of a model that its source does not have, of those that it has: shards of a large file, and an index.

A recipe says which bytes a file is, and proves none of them: whoever reads them knows the sha256 that they must have.
"""

from __future__ import annotations

import io
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, BinaryIO

from bake.entrypoint.index import is_index
from bake.errors import DigestError, LockError
from bake.reshard import RULE, Shard, changed_index, divide, head_size, new_index, whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bake.lock import LockedModel, Resharded
    from bake.record import RecordedFile

    Read = Callable[[RecordedFile, int, int | None], Iterator[bytes]]
    """The bytes of a file of the source, from one byte up to another or to the file's end."""

_HEAD = 256 << 10
"""Bytes read at once for a header: most are shorter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A file to be made: `head`, then the bytes of a file of the source from `start` to `end`."""

    head: bytes
    source: RecordedFile | None = None
    start: int = 0
    end: int = 0

    @property
    def size(self) -> int:
        return len(self.head) + self.end - self.start

    def stream(self, read: Read, offset: int) -> Iterator[bytes]:
        """The file's bytes from `offset` on."""
        if head := self.head[offset:]:
            yield head
        start = self.start + max(offset - len(self.head), 0)
        if self.source is not None and start < self.end:
            yield from read(self.source, start, self.end)

    def open(self, open_source: Callable[[RecordedFile], BinaryIO]) -> BinaryIO:
        """The file, to be read from its start to its end. Closing it closes what `open_source` has opened."""
        source = io.BytesIO() if self.source is None else open_source(self.source)
        return Spliced(self.head, source, start=self.start, end=self.end)  # type: ignore[return-value]


class Recipes:
    """How each file is made that a model's source does not have. Several threads may use it.

    A header is read once, and not before a file is asked for that is made with it.
    """

    def __init__(self, model: LockedModel, read: Read) -> None:
        self._model = model
        self._read = read
        self._wanted = {path: item for item in model.resharded for path in item.files}
        self._files = {file.path: file for file in model.files if file.path in self._wanted}
        self._shards: dict[str, tuple[Shard, ...]] = {}
        self._found: dict[str, Recipe] = {}
        self._reading = threading.Lock()

    def find(self, path: str) -> Recipe | None:
        """The recipe of a file; None where the source has it. Raises what reading the source raises.

        And DigestError where the source's header is another than that of the locked file, LockError where the files
        were made by a rule that this bake does not know.
        """
        if path not in self._wanted:
            return None
        if self._model.resharder != RULE:
            raise LockError(
                f"{self._model.id}: {path} was made by resharder {self._model.resharder}, and this bake has {RULE}",
                hint=f"use a bake that has it, or resolve the model anew: bake lock --upgrade {self._model.id}",
            )
        item = self._wanted[path]
        with self._reading:
            if path not in self._found:
                self._found |= self._learn(item)
        if self._found[path].size != self._files[path].size:
            raise _another_header(item.source)
        return self._found[path]

    def _learn(self, item: Resharded) -> dict[str, Recipe]:
        if is_index(item.source.path):
            content = b"".join(self._read(item.source, 0, None))
            others = [other for other in self._model.resharded if not is_index(other.source.path)]
            divided = {other.source.path: self._divide(other) for other in others}
            return {path: Recipe(head=changed_index(item.source.path, content, divided)) for path in item.files}
        shards = self._divide(item)
        found = {
            shard.path: Recipe(head=shard.head, source=item.source, start=shard.start, end=shard.end)
            for shard in shards
        }
        return found | {path: Recipe(head=new_index(shards)) for path in item.files if is_index(path)}

    def _divide(self, item: Resharded) -> tuple[Shard, ...]:
        """The shards of a file, under the names that the lock has for them."""
        source, paths = item.source, [path for path in item.files if not is_index(path)]
        if self._files[paths[0]].digest == source.digest:
            return (whole(paths[0], size=source.size),)
        if source.path not in self._shards:
            head = read_head(source, self._read)
            limit = self._model.shard_limit or source.size
            shards = divide(source.path, head, size=source.size, limit=limit)
            if len(shards) != len(paths):
                raise _another_header(source)
            named = zip(shards, paths, strict=True)
            self._shards[source.path] = tuple(replace(shard, path=path) for shard, path in named)
        return self._shards[source.path]


def _another_header(source: RecordedFile) -> DigestError:
    return DigestError(
        f"{source.path}: expected the header of the file that was locked, found another",
        hint="a changed model is a new version: bake add NAME@NEW_VERSION SOURCE",
    )


class Spliced(io.RawIOBase):
    """Bytes, and behind them a stretch of an open file, read as one file from its start to its end."""

    def __init__(self, head: bytes, source: BinaryIO, *, start: int, end: int) -> None:
        self._head = memoryview(head)
        self._source = source
        self._left = end - start
        source.seek(start)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override] # typeshed's Buffer is Python 3.12's
        view = memoryview(buffer).cast("B")
        if self._head:
            count = min(len(view), len(self._head))
            view[:count], self._head = self._head[:count], self._head[count:]
            return count
        count = self._source.readinto(view[: self._left]) or 0  # type: ignore[attr-defined] # as in bake.digest
        self._left -= count
        return int(count)

    def close(self) -> None:
        self._source.close()
        super().close()


def read_head(source: RecordedFile, read: Read) -> bytes:
    """A safetensors file's length and header."""
    start = b"".join(read(source, 0, min(_HEAD, source.size)))
    size = min(head_size(start), source.size)
    return (start + b"".join(read(source, len(start), size)))[:size] if size > len(start) else start[:size]


def sources_of(model: LockedModel, path: str) -> Sequence[RecordedFile]:
    """The files that one is made of; none where the source has it. An index is made of all that were divided."""
    whole = [item.source for item in model.resharded]
    if is_index(path) and path in model.made:
        return whole
    return [item.source for item in model.resharded if path in item.files]
