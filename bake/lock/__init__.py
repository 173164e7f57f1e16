"""Lock: what models.lock holds, as values. Asked and resolved stand side by side; nothing here reads or writes a file.

`parse` and `dumps` (in `bake.lock.parse` and `bake.lock.dump`) are the only two ways between values and text.
docs/models-lock.md is the specification of the format.
"""

from __future__ import annotations

import difflib
import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bake.digest import Digest
from bake.errors import LockError
from bake.record import RecordedFile, set_digest
from bake.reshard import RULE
from bake.units import parse_size

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bake.select import Excluded

FORMAT = (1, 1)
"""The newest (major, minor) of the format that this bake reads; it writes the oldest that can say everything."""

PLAIN = (1, 0)
"""The format of a lock in which no model asks for a shard size."""

SCRATCH = "scratch"
"""The base that is no base: an image of weights alone."""

_WORD = re.compile(r"[a-z0-9]+(?:[._-][a-z0-9]+)*")
_WORD_LIMIT = 63
_SHOWN = 130  # two words of the greatest length, and what is between them
GRAMMAR = "lower-case letters and digits, with single '.', '_' or '-' between them, at most 63 characters"

_SOURCE = re.compile(
    r"(?:hf://(?:[A-Za-z0-9][\w.-]*/)?[\w-][\w.-]*)|(?:dir://[^\x00-\x1f\x7f\ud800-\udfff]+)", re.ASCII
)
_REVISION = re.compile(r"(?!-)[^\s\x00-\x1f\x7f-\x9f\ud800-\udfff]+")
_OVERRIDE = re.compile(
    r"(?:~[\w/@.-]+(?:=[^\x00-\x1f\x7f-\x9f\ud800-\udfff]*)?)|(?:\+{0,2}[\w/@.-]+=[^\x00-\x1f\x7f-\x9f\ud800-\udfff]*)",
    re.ASCII,
)
SOURCES = "hf://ORG/NAME (Hugging Face Hub) or dir://PATH (a folder, relative to the lock)"


def check_word(text: str, *, what: str) -> str:
    """A name or a version, safe as path, image tag, label and Hydra value. Raises ValueError with what was found."""
    if len(text) > _WORD_LIMIT or not _WORD.fullmatch(text):
        raise ValueError(f"expected a {what} of {GRAMMAR}, found {_short(text, limit=_WORD_LIMIT)}")
    return text


def check_source(text: str) -> str:
    """A source: `hf://org/name` or `dir://path`. Raises ValueError with what was found."""
    if not _SOURCE.fullmatch(text):
        raise ValueError(f"expected {SOURCES}, found {_short(text)}")
    return text


def check_revision(text: str) -> str:
    """A branch, tag or commit of a Hub repository. Raises ValueError with what was found."""
    if not _REVISION.fullmatch(text):
        raise ValueError(f"expected a branch, tag or commit, found {_short(text)}")
    return text


def check_shard_size(text: str) -> str:
    """The size in words that no shard may exceed, `5GB`. Raises ValueError with what was found."""
    parse_size(text)
    return text


def check_override(text: str) -> str:
    """Hydra's `key=value`, with `+` or `++` before it, or `~key`. Raises ValueError with what was found."""
    if not _OVERRIDE.fullmatch(text):
        raise ValueError(f"expected an override of verl's configuration, KEY=VALUE, found {_short(text)}")
    return text


def _short(text: str, *, limit: int = _SHOWN) -> str:
    return repr(text if len(text) <= limit else text[:limit] + "…")


@dataclass(frozen=True, slots=True, order=True)
class ModelId:
    """NAME@VERSION: the name of one model in a lock."""

    name: str
    version: str

    @classmethod
    def parse(cls, text: str) -> ModelId:
        """Read `NAME@VERSION`. Raises ValueError with what was found."""
        name, at, version = text.partition("@")
        if not at:
            raise ValueError(f"expected NAME@VERSION, found {_short(text)}")
        return cls(check_word(name, what="name"), check_word(version, what="version"))

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """A Python wheel that a base lacks, by the sha256 that its index publishes."""

    name: str
    version: str
    digest: Digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """What an image is built on: `image` as asked (a registry reference or `oci:PATH`), `digest` as resolved."""

    name: str
    image: str
    digest: Digest | None = None
    verl: str | None = None
    wheels: tuple[Wheel, ...] = ()
    comment: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedLayer:
    """A layer as it was packed: the sha256 and size in bytes of its tar, and the files in it."""

    diff_id: Digest
    size: int
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resharded:
    """A file of the source that is not baked as it is, and the paths of the model's files that are made of it."""

    source: RecordedFile
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedModel:
    """One `[[model]]`: first what was asked, then what it resolved to (empty until `bake lock` has run)."""

    id: ModelId
    source: str
    revision: str | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    max_shard_size: str | None = None
    base: str = SCRATCH
    critic: ModelId | None = None
    reward_model: ModelId | None = None
    trust_remote_code: bool = False
    overrides: tuple[str, ...] = ()
    comment: tuple[str, ...] = ()

    asked_digest: Digest | None = None
    commit: str | None = None
    license: str | None = None
    gated: bool = False
    set_digest: Digest | None = None
    packer: int | None = None
    resharder: int | None = None
    files: tuple[RecordedFile, ...] = ()
    excluded: tuple[Excluded, ...] = ()
    resharded: tuple[Resharded, ...] = ()
    layers: tuple[LockedLayer, ...] = ()

    @property
    def is_locked(self) -> bool:
        return self.set_digest is not None

    @property
    def is_stale(self) -> bool:
        """True where what is asked was edited after it was resolved."""
        return self.is_locked and self.asked_digest != self.asked()

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    @property
    def shard_limit(self) -> int | None:
        """The most bytes that a safetensors file may have; None where none was asked for."""
        return parse_size(self.max_shard_size) if self.max_shard_size else None

    @property
    def made(self) -> frozenset[str]:
        """The paths of files that are not in the source, but made of files that are."""
        return frozenset(path for item in self.resharded for path in item.files)

    @property
    def source_files(self) -> tuple[RecordedFile, ...]:
        """The model's files as its source has them: whole, where they are baked in shards."""
        kept = [file for file in self.files if file.path not in self.made]
        return tuple(sorted([*kept, *(item.source for item in self.resharded)], key=lambda file: file.path))

    def asked(self) -> Digest:
        """The digest of what decides the files: source, revision, include, exclude, and a shard size where given."""
        asked = [self.source, self.revision, self.include, self.exclude]
        asked += [self.max_shard_size] if self.max_shard_size else []
        return Digest.of(json.dumps(asked, ensure_ascii=False, separators=(",", ":")).encode(errors="backslashreplace"))

    def resolve(
        self,
        *,
        files: Iterable[RecordedFile],
        excluded: Iterable[Excluded],
        commit: str | None,
        resharded: Iterable[Resharded] = (),
    ) -> LockedModel:
        """This model with its files pinned; layers that were known before are forgotten.

        Files that are left out may have any name; one that is not UTF-8 is recorded with its odd bytes escaped.
        """
        ordered = tuple(sorted(files, key=lambda file: file.path))
        whole = tuple(sorted(resharded, key=lambda item: item.source.path))
        left_out = (replace(left, path=left.path.encode(errors="backslashreplace").decode()) for left in excluded)
        return replace(
            self,
            asked_digest=self.asked(),
            commit=commit,
            set_digest=set_digest(ordered),
            files=ordered,
            excluded=tuple(sorted(left_out, key=lambda left: left.path)),
            packer=None,
            resharder=RULE if whole else None,
            resharded=whole,
            layers=(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """The whole of models.lock, sorted: bases by name, models by name and version."""

    bases: tuple[Base, ...] = ()
    models: tuple[LockedModel, ...] = ()
    format: tuple[int, int] = PLAIN
    comment: tuple[str, ...] = ()
    ending: tuple[str, ...] = ()

    @property
    def least_format(self) -> tuple[int, int]:
        """The oldest format, from the lock's own on, that can say all that the lock does."""
        is_used = any(model.max_shard_size or model.resharded for model in self.models)
        return max(self.format, FORMAT if is_used else PLAIN)

    def find(self, model: ModelId) -> LockedModel:
        """The model of that name and version. Raises LockError that names near ones."""
        for found in self.models:
            if found.id == model:
                return found
        raise LockError(f"no model {model} in the lock", hint=self._near(model))

    def find_base(self, name: str) -> Base | None:
        """The base of that name; None is scratch."""
        return next((base for base in self.bases if base.name == name), None)

    def with_model(self, model: LockedModel) -> Lock:
        """This lock with one model added or put in place of the one of that name and version."""
        others = [other for other in self.models if other.id != model.id]
        return replace(self, models=tuple(sorted([*others, model], key=lambda item: item.id)))

    def with_base(self, base: Base) -> Lock:
        """This lock with one base added or put in place of the one of that name."""
        others = [other for other in self.bases if other.name != base.name]
        return replace(self, bases=tuple(sorted([*others, base], key=lambda item: item.name)))

    def _near(self, model: ModelId) -> str:
        known = [str(found.id) for found in self.models]
        near = difflib.get_close_matches(str(model), known, n=3, cutoff=0.5)
        if near:
            return f"did you mean {' or '.join(near)}?"
        if not known:
            return "the lock is empty: bake add NAME@VERSION SOURCE"
        return "bake list shows every model; bake add NAME@VERSION SOURCE adds one"
