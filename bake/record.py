"""Record: path, size and digest of every baked file. The lock's projection that travels inside the image.

`record.json` in the image is canonical JSON, so that one lock gives one record, byte for byte.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from bake.digest import Digest
from bake.errors import ImageError

if TYPE_CHECKING:
    from collections.abc import Callable

VERSION = 1

_T = TypeVar("_T")
_KINDS: dict[type, str] = {
    str: "a string",
    int: "a whole number",
    float: "a fraction",
    bool: "true or false",
    list: "an array",
    dict: "an object",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedFile:
    """One file of a model: its path below the model's folder, its size in bytes, its sha256."""

    path: str
    size: int
    digest: Digest


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedModel:
    """One model in an image. `path` is the absolute folder it was baked into; `roles` says what it is for.

    `trust_remote_code` says whether the model's own Python code may run.
    """

    name: str
    version: str
    roles: tuple[str, ...]
    path: str
    source: str
    commit: str | None
    set_digest: Digest
    files: tuple[RecordedFile, ...]
    trust_remote_code: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What an image holds. `overrides` are Hydra's, from the lock: they come before those of the command line."""

    models: tuple[RecordedModel, ...]
    overrides: tuple[str, ...] = ()

    def dumps(self) -> bytes:
        """Canonical JSON: sorted keys, two-space indent, a newline at the end, no clock and no host."""
        document = {
            "version": VERSION,
            "models": [_model_document(model) for model in self.models],
            "overrides": list(self.overrides),
        }
        return (json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()

    @classmethod
    def parse(cls, content: bytes, *, where: str = "record.json") -> Record:
        """Read what `dumps` wrote. Raises ImageError that names the place of the fault."""
        try:
            document = json.loads(content)
            version = _take(document, "version", int, at="")
            if version != VERSION:
                raise ImageError(
                    f"{where}: expected record version {VERSION}, found {version}",
                    hint="read this image with the version of bake that made it, or a newer one",
                )
            models = _take(document, "models", list, at="")
            return cls(
                models=tuple(_parse_model(model, at=f"models[{at}]") for at, model in enumerate(models)),
                overrides=_texts(document, "overrides", at=""),
            )
        except (ValueError, RecursionError) as error:
            raise ImageError(f"{where}: not a record of baked models: {error}") from error


def set_digest(files: tuple[RecordedFile, ...]) -> Digest:
    """The content's own name, however it is packed: sha256 of the sorted `sha256  path` lines.

    The same value as `sha256sum FILES | LC_ALL=C sort | sha256sum` in the model's folder.
    """
    lines = sorted(f"{file.digest.hex}  {file.path}".encode() for file in files)
    return Digest.of(b"".join(line + b"\n" for line in lines))


def _model_document(model: RecordedModel) -> dict[str, Any]:
    return {
        "name": model.name,
        "version": model.version,
        "roles": list(model.roles),
        "path": model.path,
        "source": model.source,
        "commit": model.commit,
        "set_digest": str(model.set_digest),
        "trust_remote_code": model.trust_remote_code,
        "files": [{"path": file.path, "size": file.size, "sha256": file.digest.hex} for file in model.files],
    }


def _parse_model(document: Any, *, at: str) -> RecordedModel:
    files = _take(document, "files", list, at=at)
    model = RecordedModel(
        name=_take(document, "name", str, at=at),
        version=_take(document, "version", str, at=at),
        roles=_texts(document, "roles", at=at),
        path=_take(document, "path", str, at=at),
        source=_take(document, "source", str, at=at),
        commit=None if document.get("commit") is None else _take(document, "commit", str, at=at),
        set_digest=_parse_digest(document, "set_digest", Digest.parse, at=at),
        files=tuple(_parse_file(file, at=f"{at}.files[{number}]") for number, file in enumerate(files)),
        trust_remote_code=_take(document, "trust_remote_code", bool, at=at),
    )
    if (found := set_digest(model.files)) != model.set_digest:
        raise ValueError(f"{at}.set_digest: expected {model.set_digest}, found {found} over the files listed")
    return model


def _parse_file(document: Any, *, at: str) -> RecordedFile:
    size = _take(document, "size", int, at=at)
    if size < 0:
        raise ValueError(f"{at}.size: expected a number of bytes, found {size}")
    return RecordedFile(
        path=_take(document, "path", str, at=at),
        size=size,
        digest=_parse_digest(document, "sha256", Digest.parse_hex, at=at),
    )


def _parse_digest(document: Any, key: str, parser: Callable[[str], Digest], *, at: str) -> Digest:
    text = _take(document, key, str, at=at)
    try:
        return parser(text)
    except ValueError as error:
        raise ValueError(f"{at}.{key}: {error}") from error


def _texts(document: Any, key: str, *, at: str) -> tuple[str, ...]:
    place = f"{at}.{key}" if at else key
    texts = _take(document, key, list, at=at)
    return tuple(_check(text, str, at=f"{place}[{number}]") for number, text in enumerate(texts))


def _take(document: Any, key: str, kind: type[_T], *, at: str) -> _T:
    holder = _check(document, dict, at=at or "document")
    place = f"{at}.{key}" if at else key
    if key not in holder:
        raise ValueError(f"{place}: missing")
    return _check(holder[key], kind, at=place)


def _check(value: Any, kind: type[_T], *, at: str) -> _T:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f"{at}: expected {_KINDS[kind]}, found {_KINDS.get(type(value), 'null')}")
    return value
