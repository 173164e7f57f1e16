"""Lock -> text: canonical TOML, one record a block, so that two branches' additions merge by line.

The order of keys and records is fixed here and nowhere else; the same Lock always gives the same bytes.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bake.digest import Digest
    from bake.lock import Base, Lock, LockedModel, ModelId

    Scalar = str | int | bool | Sequence[str] | Digest | ModelId | None

HEADER = (
    "# Written by bake: edit what is asked (source, revision, include, exclude, base), then run `bake lock`.",
    "# Format: docs/models-lock.md in bake's repository.",
)


def dumps(lock: Lock) -> str:
    """The canonical text of a lock, ending in one newline."""
    blocks = ["\n".join([*(lock.comment or HEADER), f"version = {_version(lock.format)}"])]
    blocks += [_base(base) for base in lock.bases]
    blocks += [_model(model) for model in lock.models]
    if lock.ending:
        blocks.append("\n".join(lock.ending))
    return "\n\n".join(blocks) + "\n"


def _version(version: tuple[int, int]) -> str:
    major, minor = version
    return str(major) if minor == 0 else f'"{major}.{minor}"'


def _base(base: Base) -> str:
    lines = [*base.comment, f"[base.{_key(base.name)}]"]
    lines += _pairs({"image": base.image, "digest": base.digest, "verl": base.verl})
    if base.wheels:
        rows = (
            f'  {{ name = {_text(wheel.name)}, version = {_text(wheel.version)}, sha256 = "{wheel.digest.hex}" }},'
            for wheel in sorted(base.wheels, key=lambda wheel: wheel.name)
        )
        lines += ["wheels = [", *rows, "]"]
    return "\n".join(lines)


def _model(model: LockedModel) -> str:
    asked = {
        "name": model.id.name,
        "version": model.id.version,
        "source": model.source,
        "revision": model.revision,
        "include": model.include,
        "exclude": model.exclude,
        "base": model.base,
        "critic": model.critic,
        "reward_model": model.reward_model,
        "trust_remote_code": model.trust_remote_code,
    }
    resolved = {
        "asked_digest": model.asked_digest,
        "commit": model.commit,
        "license": model.license,
        "gated": model.gated,
        "set_digest": model.set_digest,
        "packer": model.packer,
    }
    head = "\n".join([*model.comment, "[[model]]", *_pairs(asked), *_pairs(resolved)])
    return "\n\n".join([head, *_records(model)])


def _records(model: LockedModel) -> Iterator[str]:
    for file in model.files:
        yield _record("model.file", {"path": file.path, "size": file.size, "sha256": file.digest.hex})
    for left in model.excluded:
        yield _record("model.excluded", {"path": left.path, "size": left.size, "reason": left.reason})
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
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")


def _key(name: str) -> str:
    return f'"{name}"' if "." in name else name
