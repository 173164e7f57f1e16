"""Record: path, size and digest of every baked file. The lock's projection that travels inside the image.

`record.json` in the image is canonical JSON, so that one lock gives one record, byte for byte.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from bake.digest import Digest
from bake.errors import ImageError

VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedFile:
    """One file of a model: its path below the model's folder, its size in bytes, its sha256."""

    path: str
    size: int
    digest: Digest


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedModel:
    """One model in an image. `path` is the absolute folder it was baked into; `roles` says what it is for."""

    name: str
    version: str
    roles: tuple[str, ...]
    path: str
    source: str
    commit: str | None
    set_digest: Digest
    files: tuple[RecordedFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    models: tuple[RecordedModel, ...]

    def dumps(self) -> bytes:
        """Canonical JSON: sorted keys, two-space indent, a newline at the end, no clock and no host."""
        document = {"version": VERSION, "models": [_model_document(model) for model in self.models]}
        return (json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()

    @classmethod
    def parse(cls, content: bytes, *, where: str = "record.json") -> Record:
        """Read what `dumps` wrote. Raises ImageError that names the place of the fault."""
        try:
            document = json.loads(content)
            if document["version"] != VERSION:
                raise ImageError(
                    f"{where}: expected record version {VERSION}, found {document['version']!r}",
                    hint="read this image with the version of bake that made it, or a newer one",
                )
            return cls(models=tuple(_parse_model(model) for model in document["models"]))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ImageError(f"{where}: not a record of baked models: {error!r}") from error


def set_digest(files: tuple[RecordedFile, ...]) -> Digest:
    """The content's own name, however it is packed: sha256 of the sorted `sha256  path` lines.

    The same value as `sha256sum FILES | LC_ALL=C sort | sha256sum` in the model's folder.
    """
    lines = sorted(f"{file.digest.hex}  {file.path}\n".encode() for file in files)
    return Digest.of(b"".join(lines))


def _model_document(model: RecordedModel) -> dict[str, Any]:
    return {
        "name": model.name,
        "version": model.version,
        "roles": list(model.roles),
        "path": model.path,
        "source": model.source,
        "commit": model.commit,
        "set_digest": str(model.set_digest),
        "files": [{"path": file.path, "size": file.size, "sha256": file.digest.hex} for file in model.files],
    }


def _parse_model(document: dict[str, Any]) -> RecordedModel:
    return RecordedModel(
        name=str(document["name"]),
        version=str(document["version"]),
        roles=tuple(str(role) for role in document["roles"]),
        path=str(document["path"]),
        source=str(document["source"]),
        commit=document["commit"],
        set_digest=Digest.parse(document["set_digest"]),
        files=tuple(
            RecordedFile(path=file["path"], size=int(file["size"]), digest=Digest.parse_hex(file["sha256"]))
            for file in document["files"]
        ),
    )
