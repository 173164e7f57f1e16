"""LayerPlan + Snapshot -> the bytes of a reproducible tar, and its diff_id. One pass, and nothing enters unverified.

A layer whose diff_id is known proves that alone: one hash a byte. Otherwise each file's sha256 is proven as the
diff_id is computed: two hashes in the same read.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from bake import tar
from bake.digest import CHUNK, Digest, read_into, stream_digest
from bake.errors import DigestError, LockError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from bake.plan import LayerPlan
    from bake.record import RecordedFile
    from bake.snapshot import Snapshot


class Sink(Protocol):
    """Where a layer's bytes go. What is written is what was hashed: the very same buffer."""

    def write(self, content: bytes | memoryview, /) -> object: ...


class Discard:
    """A sink that keeps nothing: for a layer's digest alone."""

    def write(self, content: bytes | memoryview, /) -> object:
        return len(content)


def pack(
    layer: LayerPlan, snapshot: Snapshot, sink: Sink, *, advance: Callable[[int], object] = lambda _: None
) -> Digest:
    """Write a layer into a sink and return its diff_id.

    Raises DigestError where a file's bytes are not those of the lock, and LockError where they are but the lock's
    diff_id is not theirs. What the sink then holds must be thrown away.
    """
    prove = _prove if layer.diff_id is None else None
    diff_id = _write(layer, snapshot, sink, settle=prove, advance=advance)
    if layer.diff_id is not None and diff_id != layer.diff_id:
        raise blame(layer, {file.path: _own_digest(snapshot, file) for file in layer.files}, found=diff_id)
    return diff_id


def learn(
    layer: LayerPlan, snapshot: Snapshot, *, advance: Callable[[int], object] = lambda _: None
) -> tuple[Digest, Mapping[str, Digest]]:
    """Read a layer's files once: its diff_id, and each file's sha256 by path, whatever the plan says they are."""
    found: dict[str, Digest] = {}
    diff_id = _write(
        layer, snapshot, Discard(), settle=lambda file, own: found.update({file.path: own}), advance=advance
    )
    return diff_id, found


class PassingLayer:
    """The diff_id of a layer of one file, computed while the file's bytes go by on their way elsewhere."""

    def __init__(self, layer: LayerPlan) -> None:
        (file,) = layer.files
        self._hasher = hashlib.sha256()
        self._size = file.size
        self._shown = 0
        for header, _ in members(layer):
            self._hasher.update(header)

    @property
    def complete(self) -> bool:
        """Whether every byte of the file was shown."""
        return self._shown == self._size

    def show(self, content: bytes) -> None:
        self._hasher.update(content)
        self._shown += len(content)

    def diff_id(self) -> Digest:
        """Call once, after the last byte was shown."""
        self._hasher.update(bytes(tar.padding(self._size)) + tar.TRAILER)
        return Digest(self._hasher.hexdigest())


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory of a layer that is made in memory."""

    path: str
    mode: int = tar.DIRECTORY_MODE


@dataclass(frozen=True, slots=True)
class File:
    """A file of a layer that is made in memory; `read` gives its bytes when they are due."""

    path: str
    read: Callable[[], bytes]

    @classmethod
    def of(cls, path: str, content: bytes) -> File:
        return cls(path, lambda: content)


@dataclass(frozen=True, slots=True)
class Link:
    """A symbolic link of a layer that is made in memory."""

    path: str
    target: str


def pack_entries(entries: Sequence[Directory | File | Link]) -> bytes:
    """A small layer in memory."""
    return b"".join(stream_entries(entries))


def stream_entries(entries: Sequence[Directory | File | Link]) -> Iterator[bytes]:
    """A layer of entries, in the same form as any other, with one file in memory at a time.

    Parent directories are added where none is given.
    """
    given = {entry.path: entry for entry in entries}
    above = {folder: Directory(folder) for entry in entries for folder in tar.parents(entry.path)}
    members = above | given
    for path in sorted(members, key=tar.tree_order):
        yield _entry(members[path])
    yield tar.TRAILER


def _entry(entry: Directory | File | Link) -> bytes:
    match entry:
        case Directory(path, mode):
            return tar.directory_header(path, mode=mode)
        case Link(path, target):
            return tar.link_header(path, target)
        case File(path, read):
            content = read()
            return tar.file_header(path, size=len(content)) + content + bytes(tar.padding(len(content)))


def members(layer: LayerPlan) -> Iterator[tuple[bytes, RecordedFile | None]]:
    """Each header in tar order, and the file whose body follows it."""
    files = {layer.target(file): file for file in layer.files}
    for path in sorted([*layer.directories, *files], key=tar.tree_order):
        file = files.get(path)
        yield (tar.file_header(path, size=file.size) if file else tar.directory_header(path)), file


def offsets(layer: LayerPlan) -> dict[str, int]:
    """Where each file's bytes begin in the tar, by the file's path below the folder."""
    found, position = {}, 0
    for header, file in members(layer):
        position += len(header)
        if file is not None:
            found[file.path] = position
            position += file.size + tar.padding(file.size)
    return found


def _put(content: bytes, sink: Sink, show: Callable[[bytes], object]) -> None:
    sink.write(content)
    show(content)


def _write(
    layer: LayerPlan,
    snapshot: Snapshot,
    sink: Sink,
    *,
    settle: Callable[[RecordedFile, Digest], object] | None,
    advance: Callable[[int], object],
) -> Digest:
    """Write a whole layer; with `settle`, each file's own sha256 is computed in the same read and handed to it."""
    whole = hashlib.sha256()
    for header, file in members(layer):
        _put(header, sink, whole.update)
        if file is not None:
            own = hashlib.sha256() if settle else None
            _copy(file, snapshot, sink, show=_shower(whole.update, own.update if own else None, advance))
            if settle and own:
                settle(file, Digest(own.hexdigest()))
            _put(bytes(tar.padding(file.size)), sink, whole.update)
    _put(tar.TRAILER, sink, whole.update)
    return Digest(whole.hexdigest())


def _shower(
    whole: Callable[[memoryview], object], own: Callable[[memoryview], object] | None, advance: Callable[[int], object]
) -> Callable[[memoryview], object]:
    def show(part: memoryview) -> None:
        whole(part)
        if own is not None:
            own(part)
        advance(len(part))

    return show


def _copy(file: RecordedFile, snapshot: Snapshot, sink: Sink, *, show: Callable[[memoryview], object]) -> None:
    buffer = memoryview(bytearray(min(CHUNK, file.size)))
    left = file.size
    with snapshot.open(file.path) as stream:
        while left:
            part = buffer[: read_into(stream, buffer[: min(len(buffer), left)])]
            if not part:
                raise changed(file, f"{file.size} bytes", f"{file.size - left}")
            sink.write(part)
            show(part)
            left -= len(part)
        if stream.read(1):
            raise changed(file, f"{file.size} bytes", "more")


def _prove(file: RecordedFile, found: Digest) -> None:
    if found != file.digest:
        raise changed(file, str(file.digest), str(found))


def changed(file: RecordedFile, expected: str, found: str) -> DigestError:
    return DigestError(
        f"{file.path}: expected {expected}, found {found}",
        hint="the file is not the one that was locked, or it changed while it was read; "
        "a changed model is a new version: bake add NAME@NEW_VERSION SOURCE",
    )


def blame(layer: LayerPlan, digests: Mapping[str, Digest], *, found: Digest) -> DigestError | LockError:
    """The layer is not the one that the lock names, but `found`: say which files are at fault, or that the lock is.

    `digests` are the files' own, by path.
    """
    faults = [
        changed(file, str(file.digest), str(digests[file.path]))
        for file in layer.files
        if digests[file.path] != file.digest
    ]
    if faults:
        return DigestError("\n".join(fault.message for fault in faults), hint=faults[0].hint)
    return LockError(
        f"{layer.model}: expected a layer of diff_id {layer.diff_id}, found {found}, "
        "though every file in it is as locked",
        hint=f"delete packer and the [[model.layer]] records of {layer.model}; the next build writes them anew",
    )


def _own_digest(snapshot: Snapshot, file: RecordedFile) -> Digest:
    with snapshot.open(file.path) as stream:
        return stream_digest(stream)[0]
