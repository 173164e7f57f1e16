"""Lock -> text: canonical TOML, one record a block, so that two branches' additions merge by line.

The order of keys and records is fixed here and nowhere else; the same Lock always gives the same bytes. Every record
ends with a key that it must have, and a model's own keys come before the files that prove them: so a text that was cut
anywhere is refused, or holds whole records only (docs/models-lock.md, "A lock that was cut").
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from bake.errors import LockError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bake.digest import Digest
    from bake.lock import Base, Lock, LockedModel, ModelId

    Scalar = str | int | bool | Sequence[str] | Digest | ModelId | None

HEADER = (
    "# Written by bake: edit what is asked (source, revision, include, exclude, base), then run `bake lock`.",
    "# Format: docs/models-lock.md in bake's repository.",
)
"""The comment at the top of a lock that has none of its own."""

_BARE_KEY = re.compile(r"[\w-]+", re.ASCII)
_SURROGATE = re.compile("[\ud800-\udfff]")


def dumps(lock: Lock) -> str:
    """The canonical text of a lock, ending in one newline. Raises LockError for text that UTF-8 cannot carry."""
    blocks = ["\n".join([*(lock.comment or HEADER), f"version = {_version(lock.least_format)}"])]
    blocks += [_base(base) for base in sorted(lock.bases, key=lambda base: base.name)]
    blocks += [_model(model) for model in sorted(lock.models, key=lambda model: model.id)]
    if lock.ending:
        blocks.append("\n".join(lock.ending))
    return "\n\n".join(blocks) + "\n"


def key_text(name: str) -> str:
    """A key as TOML writes it: quoted where it must be, and so always on one line."""
    return name if _BARE_KEY.fullmatch(name) else _text(name)


def _version(version: tuple[int, int]) -> str:
    major, minor = version
    return str(major) if minor == 0 else f'"{major}.{minor}"'


def _base(base: Base) -> str:
    lines = [*base.comment, f"[base.{key_text(base.name)}]"]
    lines += _pairs({"verl": base.verl})
    if base.wheels:
        rows = (
            f'  {{ name = {_text(wheel.name)}, version = {_text(wheel.version)}, sha256 = "{wheel.digest.hex}" }},'
            for wheel in sorted(base.wheels, key=lambda wheel: wheel.name)
        )
        lines += ["wheels = [", *rows, "]"]
    lines += _pairs({"digest": base.digest, "image": base.image})
    return "\n".join(lines)


def _model(model: LockedModel) -> str:
    identity = {
        "name": model.id.name,
        "version": model.id.version,
        "set_digest": model.set_digest,
    }
    asked = {
        "base": model.base,
        "critic": model.critic,
        "reward_model": model.reward_model,
        "trust_remote_code": model.trust_remote_code,
        "overrides": model.overrides,
        "include": model.include,
        "exclude": model.exclude,
        "max_shard_size": model.max_shard_size,
        "revision": model.revision,
        "source": model.source,
    }
    resolved = {
        "asked_digest": model.asked_digest,
        "commit": model.commit,
        "license": model.license,
        "gated": model.gated,
        "size": model.size if model.is_locked else None,
        "packer": model.packer,
        "resharder": model.resharder,
    }
    head = [*model.comment, "[[model]]", *_pairs(identity), *_pairs(asked), *_pairs(resolved)]
    return "\n\n".join(["\n".join(head), *_records(model)])


def _records(model: LockedModel) -> Iterator[str]:
    for left in sorted(model.excluded, key=lambda left: left.path):
        yield _record("model.excluded", {"path": left.path, "size": left.size, "reason": left.reason})
    for item in sorted(model.resharded, key=lambda item: item.source.path):
        source = item.source
        yield _record(
            "model.resharded",
            {"path": source.path, "size": source.size, "sha256": source.digest.hex, "files": item.files},
        )
    for file in sorted(model.files, key=lambda file: file.path):
        yield _record("model.file", {"path": file.path, "size": file.size, "sha256": file.digest.hex})
    for layer in model.layers:
        yield _record("model.layer", {"diff_id": layer.diff_id, "size": layer.size, "files": layer.files})


def _record(table: str, values: Mapping[str, Scalar]) -> str:
    return "\n".join(f"  {line}" for line in [f"[[{table}]]", *_pairs(values)])


def _pairs(values: Mapping[str, Scalar]) -> Iterator[str]:
    """`key = value` lines; what is absent, false or empty is left out."""
    for key, value in values.items():
        if value is None or value is False or value == ():
            continue
        yield f"{key} = {_value(value)}"


def _value(value: Scalar) -> str:
    if value is True:
        return "true"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, tuple | list):
        return "[" + ", ".join(_text(item) for item in value) + "]"
    return _text(str(value))


def _text(value: str) -> str:
    """A TOML basic string; JSON's escapes are a subset of TOML's, but for DEL, which TOML wants escaped."""
    if _SURROGATE.search(value):
        raise LockError(f"expected text that UTF-8 can carry, found {value!r}", hint="rename it, or leave it out")
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
