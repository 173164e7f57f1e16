"""Streaming: a planned layer as the source of an upload. Its tar is made while it is sent, and is kept nowhere.

Every byte is hashed as it goes by, and the last piece comes only when all before it was proven: an upload of other
bytes never reaches its end, so that no registry ever names them.
"""

from __future__ import annotations

import copy
import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bake import layer, tar
from bake.api.scanning import token_fault
from bake.digest import Digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from bake.plan import LayerPlan
    from bake.record import RecordedFile
    from bake.scan import Scanner

    Files = Callable[[RecordedFile, int], Iterator[bytes]]

_EVERY = 16 << 20
"""So many bytes at most are read once more where an upload broke: few of the Hub's, and few points to remember."""


@dataclass(slots=True)
class _Point:
    """How far a layer was read, and what was made of it: the hash of all, that of the file it is in, and the scan."""

    offset: int
    whole: hashlib._Hash
    own: hashlib._Hash
    scanner: Scanner | None

    def copy(self) -> _Point:
        return replace(self, whole=self.whole.copy(), own=self.own.copy(), scanner=copy.copy(self.scanner))

    def show(self, content: bytes) -> None:
        self.whole.update(content)
        if self.scanner:
            self.scanner.show(content)
        self.offset += len(content)


class LayerStream:
    """The bytes of a layer's tar from any offset on. It plays the roles of `bake.registry.Source` and `Unnamed`.

    `digest` is the layer's diff_id, as soon as it is known. Reading raises DigestError where a file's bytes are not
    those of the lock, LockError where they are but the lock's diff_id is not theirs, and CheckFailed where the scanner
    finds a token.
    """

    def __init__(
        self,
        plan: LayerPlan,
        files: Files,
        *,
        prove_files: bool,
        scanner: Scanner | None = None,
        every: int = _EVERY,
    ) -> None:
        """`files(file, offset)` reads a file; `every` so many bytes, reading may be taken up again.

        With `prove_files`, each file's own sha256 is computed too: it must be where the diff_id is not known, and is
        worth it where a wrong file should be found before all of the layer was fetched.
        """
        self.size = plan.size
        self.digest = plan.diff_id
        self._plan = plan
        self._files = files
        self._prove_files = prove_files or plan.diff_id is None
        self._every = every
        self._parts = list(_parts(plan))
        self._points = [_Point(0, hashlib.sha256(), hashlib.sha256(), scanner)]
        self._live: Iterator[bytes] = iter(())
        self._last = (-1, b"")

    def __call__(self, offset: int) -> Iterator[bytes]:
        start, piece = self._last
        if not 0 <= start <= offset <= start + len(piece):
            self._take_up(offset)
            start, piece = self._last
        if rest := piece[offset - start :]:
            yield rest
        while self._advance():
            yield self._last[1]

    def _take_up(self, offset: int) -> None:
        """Read on from the last point before an offset, up to the piece that holds it."""
        while self._points[-1].offset > offset:
            self._points.pop()
        point = self._points[-1].copy()
        self._last = (point.offset, b"")
        self._live = self._read(point)
        while self._last[0] + len(self._last[1]) < offset and self._advance():
            pass

    def _advance(self) -> bool:
        """Read the next piece; returns whether there was one. While it is not there, the last one is not to be had."""
        start, piece = self._last
        self._last = (-1, b"")
        following = next(self._live, None)
        self._last = (start, piece) if following is None else (start + len(piece), following)
        return following is not None

    def _read(self, point: _Point) -> Iterator[bytes]:
        begun = point.offset
        for start, part, size in self._parts:
            if start + size < begun or (start < begun == start + size):
                continue
            skip = max(begun - start, 0)
            if not isinstance(part, bytes):
                yield from self._read_file(part, point, skip=skip)
                continue
            point.show(part[skip:])
            if start + size == self.size:
                self._settle(point)
            yield part[skip:]

    def _read_file(self, file: RecordedFile, point: _Point, *, skip: int) -> Iterator[bytes]:
        position = skip
        if not skip:
            point.own = hashlib.sha256()
        for piece in self._files(file, skip):
            position += len(piece)
            if position > file.size:
                raise layer.changed(file, f"{file.size} bytes", "more")
            point.show(piece)
            if self._prove_files:
                point.own.update(piece)
            if position < file.size and point.offset >= self._points[-1].offset + self._every:
                self._points.append(point.copy())
            yield piece
        if position < file.size:
            raise layer.changed(file, f"{file.size} bytes", f"{position}")
        if self._prove_files and (found := Digest(point.own.hexdigest())) != file.digest:
            raise layer.changed(file, str(file.digest), str(found))

    def _settle(self, point: _Point) -> None:
        """All was read: it is the layer, and holds no token, or there will be no last piece."""
        found = Digest(point.whole.hexdigest())
        if self.digest not in {None, found}:
            raise layer.blame(self._plan, {file.path: self._own_digest(file) for file in self._plan.files}, found=found)
        if point.scanner and point.scanner.found:
            raise token_fault(f"layer {found} ({layer_words(self._plan)})")
        self.digest = found

    def _own_digest(self, file: RecordedFile) -> Digest:
        return file.digest if self._prove_files else _digest(self._files(file, 0))


def layer_words(plan: LayerPlan) -> str:
    """A layer as people know it: the model, and the files in it."""
    first, *others = (file.path for file in plan.files)
    return f"{plan.model}: {first}{f' and {len(others)} more' if others else ''}"


def _parts(plan: LayerPlan) -> Iterator[tuple[int, bytes | RecordedFile, int]]:
    """What a layer's tar is made of: where it starts, bytes or a file, and how many bytes that is."""
    position, between = 0, b""
    for header, file in layer.members(plan):
        between += header
        if file is not None:
            yield position, between, len(between)
            yield position + len(between), file, file.size
            position += len(between) + file.size
            between = bytes(tar.padding(file.size))
    between += tar.TRAILER
    yield position, between, len(between)


def _digest(pieces: Iterable[bytes]) -> Digest:
    hasher = hashlib.sha256()
    for piece in pieces:
        hasher.update(piece)
    return Digest(hasher.hexdigest())
