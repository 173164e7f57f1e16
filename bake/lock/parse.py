"""Text -> Lock. Every error names its place (`model[2].file[0].sha256`); past this door nothing is checked twice."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import tomllib

from bake.digest import Digest
from bake.errors import LockError
from bake.lock import FORMAT, SCRATCH, Base, Lock, LockedLayer, LockedModel, ModelId, Wheel, check_source, check_word
from bake.lock.comments import collect
from bake.lock.table import Table
from bake.record import RecordedFile, set_digest
from bake.select import Excluded, check_path

if TYPE_CHECKING:
    from collections.abc import Iterable

_MERGE = re.compile(r"^(?:<{7} |={7}$|>{7} |\|{7} )", re.MULTILINE)
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


def parse(text: str, *, where: str = "models.lock") -> Lock:
    """Read a lock. Raises LockError with the place, what was expected and what was found."""
    if conflict := _MERGE.search(text):
        line = text.count("\n", 0, conflict.start()) + 1
        raise LockError(
            f"{where}: line {line} is a merge conflict marker: {conflict.group().strip()}",
            hint="keep the records of both sides (each is a block of its own), then run: bake lock --check",
        )
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise LockError(
            f"{where}: not valid TOML: {error}",
            hint="take the file back from version control, or mend the line and run: bake lock --check",
        ) from error
    table = Table(document, file=where)
    version = _format(table)
    table.lenient = version > FORMAT
    lock = Lock(
        format=version,
        bases=tuple(_base(name, base) for name, base in table.named_tables("base")),
        models=tuple(_model(model) for model in table.tables("model")),
    )
    table.finish()
    _check_bases(lock, table)
    _check_models(lock, table)
    return _with_comments(lock, text)


def _format(table: Table) -> tuple[int, int]:
    value = table.take("version")
    match = re.fullmatch(r"(\d+)(?:\.(\d+))?", str(value)) if isinstance(value, int | str) else None
    if match is None or isinstance(value, bool):
        raise table.error("version", f'expected the format\'s version, as 1 or "1.2", found {value!r}')
    version = int(match[1]), int(match[2] or 0)
    if version[0] != FORMAT[0]:
        raise table.error(
            "version",
            f"this bake reads format {FORMAT[0]}, found {value}",
            hint="upgrade bake: pip install --upgrade bake" if version[0] > FORMAT[0] else None,
        )
    return version


def _base(name: str, table: Table) -> Base:
    table.guard("", lambda: check_word(name, what="base name"))
    if name == SCRATCH:
        raise table.error("", f"{SCRATCH!r} is built in: an image of weights alone, on no base")
    base = Base(
        name=name,
        image=table.text("image"),
        digest=table.optional("digest", Digest.parse),
        verl=table.optional("verl", str),
        wheels=tuple(_wheel(wheel) for wheel in table.tables("wheels")),
    )
    table.finish()
    return base


def _wheel(table: Table) -> Wheel:
    wheel = Wheel(
        name=table.text("name"), version=table.text("version"), digest=table.parsed("sha256", Digest.parse_hex)
    )
    table.finish()
    return wheel


def _model(table: Table) -> LockedModel:
    model = LockedModel(
        id=ModelId(
            table.parsed("name", lambda text: check_word(text, what="name")),
            table.parsed("version", lambda text: check_word(text, what="version")),
        ),
        source=table.parsed("source", check_source),
        revision=table.optional("revision", _revision),
        include=table.texts("include"),
        exclude=table.texts("exclude"),
        base=table.optional("base", str) or SCRATCH,
        critic=table.optional("critic", ModelId.parse),
        reward_model=table.optional("reward_model", ModelId.parse),
        trust_remote_code=table.flag("trust_remote_code"),
        asked_digest=table.optional("asked_digest", Digest.parse),
        commit=table.optional("commit", _commit),
        license=table.optional("license", str),
        gated=table.flag("gated"),
        set_digest=table.optional("set_digest", Digest.parse),
        packer=table.optional_integer("packer"),
        files=tuple(_file(file) for file in table.tables("file")),
        excluded=tuple(_excluded(left) for left in table.tables("excluded")),
        layers=tuple(_layer(layer) for layer in table.tables("layer")),
    )
    table.finish()
    _check_resolved(model, table)
    _check_paths(model, table)
    return replace(model, files=tuple(sorted(model.files, key=lambda file: file.path.encode())))


def _file(table: Table) -> RecordedFile:
    file = RecordedFile(
        path=table.parsed("path", _path), size=table.size("size"), digest=table.parsed("sha256", Digest.parse_hex)
    )
    table.finish()
    return file


def _excluded(table: Table) -> Excluded:
    left = Excluded(path=table.text("path"), size=table.optional_integer("size"), reason=table.text("reason"))
    table.finish()
    return left


def _layer(table: Table) -> LockedLayer:
    layer = LockedLayer(
        diff_id=table.parsed("diff_id", Digest.parse), size=table.size("size"), files=table.texts("files")
    )
    table.finish()
    return layer


def _path(text: str) -> str:
    if fault := check_path(text):
        raise ValueError(f"expected a file's path inside the model's folder, found {text!r}: {fault}")
    return text


def _commit(text: str) -> str:
    if not _COMMIT.fullmatch(text):
        raise ValueError(f"expected a commit of 40 lower-case hex digits, found {text!r}")
    return text


def _revision(text: str) -> str:
    if not text or text.startswith("-") or not text.isprintable() or " " in text:
        raise ValueError(f"expected a branch, tag or commit, found {text!r}")
    return text


def _check_resolved(model: LockedModel, table: Table) -> None:
    """A model is resolved whole or not at all, and its set_digest is that of its files."""
    parts: dict[str, object] = {
        "asked_digest": model.asked_digest,
        "set_digest": model.set_digest,
        "file": model.files or None,
    }
    if model.source.startswith("hf://"):
        parts["commit"] = model.commit
    absent = [key for key, value in parts.items() if value is None]
    if absent and (len(absent) < len(parts) or model.layers or model.excluded):
        raise table.error(
            absent[0],
            f"{model.id} is only half resolved: no {', '.join(absent)}",
            hint="take the record back from version control; to resolve it anew, delete all but what is asked "
            f"and run: bake lock {model.id}",
        )
    if model.set_digest is not None and model.set_digest != (found := set_digest(model.files)):
        raise table.error(
            "set_digest",
            f"expected {model.set_digest}, found {found} over the files listed: a record of {model.id} was edited, "
            "lost or merged wrongly",
            hint=f"take the record back from version control, or resolve it anew: bake lock --upgrade {model.id}",
        )


def _check_paths(model: LockedModel, table: Table) -> None:
    paths = {file.path for file in model.files}
    if twice := _first_repeat(file.path for file in model.files):
        raise table.error("file", f"{twice!r} is listed twice")
    for path in sorted(paths):
        folders = (path[:at] for at in range(len(path)) if path[at] == "/")
        if folder := next((folder for folder in folders if folder in paths), None):
            raise table.error("file", f"{folder!r} is listed as a file and as a folder, of {path!r}")
    for number, layer in enumerate(model.layers):
        if unknown := sorted(set(layer.files) - paths):
            raise table.error(f"layer[{number}].files", f"{unknown[0]!r} is no file of {model.id}")


def _check_bases(lock: Lock, table: Table) -> None:
    known = {SCRATCH, *(base.name for base in lock.bases)}
    for number, model in enumerate(lock.models):
        if model.base not in known:
            raise table.error(
                f"model[{number}].base",
                f"expected one of {', '.join(sorted(known))}, found {model.base!r}",
                hint=f'add a [base.{model.base}] table with an image, or set base = "{SCRATCH}"',
            )


def _check_models(lock: Lock, table: Table) -> None:
    ids = {model.id for model in lock.models}
    seen: dict[ModelId, int] = {}
    for number, model in enumerate(lock.models):
        if model.id in seen:
            raise table.error(
                f"model[{number}]",
                f"{model.id} is already model[{seen[model.id]}]",
                hint="a version is immutable: delete one of the two, or give it another version",
            )
        seen[model.id] = number
        for role in ("critic", "reward_model"):
            other = getattr(model, role)
            if other is not None and other not in ids:
                raise table.error(f"model[{number}].{role}", f"no model {other} in the lock")


def _with_comments(lock: Lock, text: str) -> Lock:
    comments = collect(text)
    models = [replace(model, comment=comments.get(f"model[{number}]", ())) for number, model in enumerate(lock.models)]
    bases = [replace(base, comment=comments.get(f"base.{base.name}", ())) for base in lock.bases]
    return replace(
        lock,
        bases=tuple(sorted(bases, key=lambda base: base.name)),
        models=tuple(sorted(models, key=lambda model: model.id)),
        comment=comments.get("", ()),
        ending=comments.get("end", ()),
    )


def _first_repeat(values: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for value in values:
        if value in seen:
            return value
        seen.add(value)
    return None
