"""Resharding: a model's safetensors files that are larger than asked become several, when the model is locked.

Each such file is read once: its sha256 is proven, and those of its shards are computed, in the same pass.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from bake import disk
from bake.api.making import read_head
from bake.api.passing import PassingShards
from bake.api.workers import Workers, results
from bake.digest import Digest
from bake.entrypoint.index import is_index
from bake.errors import OutputError, SourceError
from bake.lock import LockedModel, Resharded
from bake.record import RecordedFile
from bake.reshard import RULE, Shard, changed_index, divide, indexed, is_too_large, new_index, numbered, own_index
from bake.units import count_text, size_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from bake.api.workspace import Workspace


class Source(Protocol):
    """The files of a model as they are where it comes from. Their digests may be unknown."""

    def read(self, file: RecordedFile, offset: int, stop: int | None) -> Iterator[bytes]: ...

    def known(self, file: RecordedFile) -> Digest | None:
        """A file's sha256, where it need not be read for it."""
        ...

    def bytes_to_fetch(self, file: RecordedFile) -> int:
        """How many bytes `show` would write into the store."""
        ...

    def show(self, file: RecordedFile, show: Callable[[bytes], object]) -> Digest:
        """Show every byte of a file in order; returns the sha256 that they were proven to have."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Resharding:
    """A model's files as they are to be baked, those of `resharded` by their digests, and what they were made of."""

    files: tuple[RecordedFile, ...]
    resharded: tuple[Resharded, ...] = ()

    @property
    def made(self) -> Mapping[str, RecordedFile]:
        paths = {path for item in self.resharded for path in item.files}
        return {file.path: file for file in self.files if file.path in paths}


def reshard(workspace: Workspace, model: LockedModel, files: Sequence[RecordedFile], source: Source) -> Resharding:
    """Divide what is larger than the model asks for. Raises SourceError, DigestError, OutputError, NetworkError."""
    limit = model.shard_limit
    large = [file for file in files if limit is not None and is_too_large(file.path, file.size, limit=limit)]
    if not large or limit is None:
        return Resharding(files=tuple(files))
    indexes = dict(_read_whole(source, file) for file in files if is_index(file.path))
    divisible = _divisible(workspace, model, large, indexes, paths={file.path for file in files})
    parts = {file: divide(file.path, read_head(file, source.read), size=file.size, limit=limit) for file in divisible}
    divided = {file.path: shards for file, shards in parts.items() if len(shards) > 1 or shards[0].size <= limit}
    placed = _placed(files, divided, indexes)
    _warn_of_large(workspace, model, parts, placed)
    if not divided:
        return Resharding(files=tuple(files))
    changed = _changed_indexes(indexes, placed)
    _refuse_collisions(model, files, placed)
    if known := _known(model, files, [*placed, *changed], source):
        return known
    made = _read_once(workspace, model, placed, source)
    return _join(files, placed, made, indexes=indexes, changed=changed)


def _read_whole(source: Source, file: RecordedFile) -> tuple[RecordedFile, bytes]:
    content: list[bytes] = []
    digest = source.show(file, content.append)
    return replace(file, digest=digest), b"".join(content)


def _divisible(
    workspace: Workspace,
    model: LockedModel,
    large: Sequence[RecordedFile],
    indexes: Mapping[RecordedFile, bytes],
    *,
    paths: set[str],
) -> list[RecordedFile]:
    """The files that loaders will find in shards too: through an index that names them, or by their own name."""
    named = {path for file, content in indexes.items() for path in indexed(file.path, content).values()}
    found = []
    for file in large:
        index = own_index(file.path)
        if file.path in named:
            found.append(file)
        elif index in paths:
            raise SourceError(
                f"{model.id}: {file.path} cannot be divided: {index} is there too, and names other files",
                hint=f"leave this one out: --exclude {file.path}",
            )
        elif index is None:
            workspace.progress.warn(
                f"{model.id}: {file.path} has {size_text(file.size)} and is left whole: no index names it, "
                "and loaders look for none"
            )
        else:
            found.append(file)
    return found


def _warn_of_large(
    workspace: Workspace,
    model: LockedModel,
    parts: Mapping[RecordedFile, Sequence[Shard]],
    placed: Mapping[RecordedFile, Sequence[Shard]],
) -> None:
    """What is larger than asked holds one tensor: it has that shard alone."""
    limit = model.shard_limit or 0
    for file, shards in parts.items():
        paths = [shard.path for shard in placed[file]] if file in placed else [file.path]
        for path, shard in zip(paths, shards, strict=True):
            if shard.size > limit:
                workspace.progress.warn(
                    f"{model.id}: {path} has {size_text(shard.size)}, more than {model.max_shard_size}: tensor "
                    f"{shard.tensors[0]!r} alone is that large, and none is divided"
                )


def _placed(
    files: Sequence[RecordedFile], divided: Mapping[str, Sequence[Shard]], indexes: Mapping[RecordedFile, bytes]
) -> dict[RecordedFile, tuple[Shard, ...]]:
    """The shards of every file that does not stay as it is."""
    named = {path for file, content in indexes.items() for path in indexed(file.path, content).values()}
    by_path = {file.path: file for file in files}
    shards = numbered(divided, {path: by_path[path].size for path in named if path in by_path})
    return {by_path[path]: shards[path] for path in sorted(shards)}


def _changed_indexes(
    indexes: Mapping[RecordedFile, bytes], divided: Mapping[RecordedFile, Sequence[Shard]]
) -> dict[RecordedFile, bytes]:
    """The indexes that name a file which does not stay as it is, and what they become. Raises SourceError."""
    by_path = {file.path: shards for file, shards in divided.items()}
    return {
        file: changed_index(file.path, content, by_path)
        for file, content in indexes.items()
        if not by_path.keys().isdisjoint(indexed(file.path, content).values())
    }


def _known(
    model: LockedModel, files: Sequence[RecordedFile], sources: Sequence[RecordedFile], source: Source
) -> Resharding | None:
    """What the lock says already, where the very same files were divided in the same way: they need not be read."""
    if model.is_stale or model.resharder != RULE:
        return None
    now = {file.path: (file.size, source.known(file)) for file in sources}
    if now != {item.source.path: (item.source.size, item.source.digest) for item in model.resharded}:
        return None
    kept = [file for file in files if file.path not in now]
    made = [file for file in model.files if file.path in model.made]
    return Resharding(files=_sorted([*kept, *made]), resharded=model.resharded)


def _refuse_collisions(
    model: LockedModel, files: Sequence[RecordedFile], placed: Mapping[RecordedFile, Sequence[Shard]]
) -> None:
    stay = {file.path for file in files if file not in placed}
    if taken := sorted(stay & {shard.path for shards in placed.values() for shard in shards}):
        raise SourceError(
            f"{model.id}: shards of {', '.join(file.path for file in placed)} would have the names of other files: "
            f"{', '.join(taken)}",
            hint="--exclude GLOB leaves those out",
        )


def _read_once(
    workspace: Workspace, model: LockedModel, placed: Mapping[RecordedFile, Sequence[Shard]], source: Source
) -> dict[RecordedFile, tuple[Digest, list[RecordedFile]]]:
    """The digest of each file, and its shards. One that only gets another name is not read if its digest is known."""
    renamed = {
        file: (digest, [RecordedFile(path=shards[0].path, size=file.size, digest=digest)])
        for file, shards in placed.items()
        if shards[0].is_whole and (digest := source.known(file))
    }
    divided = {file: shards for file, shards in placed.items() if file not in renamed}
    _announce(workspace, model, divided, source)
    total = sum(file.size for file in divided)
    with workspace.progress.task(f"{model.id}: re-sharding", total) as advance, Workers() as workers:
        watched = workers.watch(advance)
        passing = {file: PassingShards(model, file, shards) for file, shards in divided.items()}
        digests = results(workers.download(_show, source, file, passing[file], watched) for file in divided)
    read = zip(divided, digests, strict=True)
    return renamed | {file: (digest, passing[file].finish(workspace)) for file, digest in read}


def _show(source: Source, file: RecordedFile, passing: PassingShards, advance: Callable[[int], object]) -> Digest:
    def show(content: bytes) -> None:
        passing.show(content)
        advance(len(content))

    return source.show(file, show)


def _announce(
    workspace: Workspace, model: LockedModel, divided: Mapping[RecordedFile, Sequence[Shard]], source: Source
) -> None:
    """Say what is read for it, before it is. Raises OutputError where it will not fit into the store."""
    to_fetch = sum(source.bytes_to_fetch(file) for file in divided)
    if to_fetch > (free := disk.free_bytes(workspace.store.root)):
        raise OutputError(
            f"no space to fetch {size_text(to_fetch)} into {workspace.store.root}: {size_text(free)} free",
            hint="free some, or set BAKE_CACHE to another place; bake cache prune empties the store",
        )
    for file, shards in divided.items():
        if shards[0].is_whole:
            continue
        fetched = ", fetched into the store once" if source.bytes_to_fetch(file) else ""
        workspace.progress.note(
            f"{model.id}: {file.path} ({size_text(file.size)}{fetched}) becomes {count_text(len(shards), 'shard')}"
        )


def _join(
    files: Sequence[RecordedFile],
    divided: Mapping[RecordedFile, Sequence[Shard]],
    made: Mapping[RecordedFile, tuple[Digest, list[RecordedFile]]],
    *,
    indexes: Mapping[RecordedFile, bytes],
    changed: Mapping[RecordedFile, bytes],
) -> Resharding:
    resharded, new = [], []
    named = {path for file in changed for path in indexed(file.path, indexes[file]).values()}
    for file, content in changed.items():
        new.append(_recorded(file.path, content))
        resharded.append(Resharded(source=file, files=(file.path,)))
    for file, (digest, shards) in made.items():
        index = own_index(file.path)
        if file.path not in named and index is not None:
            shards.append(_recorded(index, new_index(divided[file])))
        new += shards
        paths = tuple(shard.path for shard in shards)
        resharded.append(Resharded(source=replace(file, digest=digest), files=paths))
    gone = {item.source.path for item in resharded}
    return Resharding(
        files=_sorted([*(file for file in files if file.path not in gone), *new]), resharded=tuple(resharded)
    )


def _recorded(path: str, content: bytes) -> RecordedFile:
    return RecordedFile(path=path, size=len(content), digest=Digest.of(content))


def _sorted(files: Sequence[RecordedFile]) -> tuple[RecordedFile, ...]:
    return tuple(sorted(files, key=lambda file: file.path))
