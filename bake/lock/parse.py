"""Text -> Lock. Every error names its place (`model[2].file[0].sha256`); past this door nothing is checked twice."""

from __future__ import annotations

import re
from dataclasses import replace

import tomli

from bake.digest import Digest
from bake.errors import LockError
from bake.lock import (
    FORMAT,
    SCRATCH,
    Base,
    Lock,
    LockedLayer,
    LockedModel,
    ModelId,
    Resharded,
    Wheel,
    check_override,
    check_revision,
    check_shard_size,
    check_source,
    check_word,
)
from bake.lock.check import check_bases, check_model, check_models
from bake.lock.comments import collect
from bake.lock.dump import HEADER
from bake.lock.table import Table, shown
from bake.record import RecordedFile
from bake.select import Excluded, check_path

_MARKERS = ("<<<<<<<", "|||||||", "=======", ">>>>>>>")
_MARKER_LINE = re.compile(r"^(?:<{7}|\|{7}|={7}|>{7})(?:$| .*$)", re.MULTILINE)
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_VERSION = re.compile(r"([0-9]+)(?:\.([0-9]+))?")
_WHEEL_NAME = re.compile(r"[A-Za-z0-9]+(?:[._-]+[A-Za-z0-9]+)*")
_WHEEL_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+!_-]*")
_PATH_IMAGE = re.compile(r"oci:[^\x00-\x1f\x7f-\x9f\s](?:[^\x00-\x1f\x7f-\x9f]*[^\x00-\x1f\x7f-\x9f\s])?")
_REFERENCE = re.compile(
    r"(?:docker:)?[A-Za-z0-9][A-Za-z0-9._-]*(?::\d+(?=/))?(?:/[a-z0-9][a-z0-9._-]*)*(?::\w[\w.-]{0,127})?"
    r"(?:@sha256:[0-9a-f]{64})?",
    re.ASCII,
)

_BASE_KEYS = ("image", "digest", "verl", "wheels")
_MODEL_KEYS = (
    *("name", "version", "source", "revision", "include", "exclude", "max_shard_size"),
    *("base", "critic", "reward_model", "trust_remote_code", "overrides"),
    *("asked_digest", "commit", "license", "gated", "set_digest", "size", "packer", "resharder"),
    *("file", "excluded", "resharded", "layer"),
)


def parse(text: str, *, where: str = "models.lock") -> Lock:
    """Read a lock. Raises LockError with the place, what was expected and what was found."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    _refuse_conflicts(text, where=where)
    table = Table(_document(text, where=where), file=where)
    version = _format(table)
    table.lenient = version > FORMAT
    table.only("version", "base", "model")
    lock = Lock(
        format=version,
        bases=tuple(_base(name, base) for name, base in table.named_tables("base")),
        models=tuple(_model(model) for model in table.tables("model")),
    )
    check_bases(lock, table)
    check_models(lock, table)
    return _with_comments(lock, text)


def _refuse_conflicts(text: str, *, where: str) -> None:
    if not any(marker in text for marker in _MARKERS):
        return
    if conflict := _MARKER_LINE.search(text):
        line = text.count("\n", 0, conflict.start()) + 1
        raise LockError(
            f"{where}: line {line} is a merge conflict marker: {conflict.group()}",
            hint="keep the records of both sides (each is a block of its own), then run: bake lock --check",
        )


def _document(text: str, *, where: str) -> dict[str, object]:
    try:
        return tomli.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: TOMLDecodeError, and a number of thousands of digits
        raise LockError(
            f"{where}: not valid TOML: {error}",
            hint="take the file back from version control, or mend the line and run: bake lock --check",
        ) from error


def _format(table: Table) -> tuple[int, int]:
    value = table.value("version", hint="a lock starts with: version = 1")
    match = _VERSION.fullmatch(shown(value) if isinstance(value, int) else value if isinstance(value, str) else "")
    if match is None:
        raise table.error("version", f'expected the format\'s version, as 1 or "1.2", found {shown(value)}')
    version = int(match[1]), int(match[2] or 0)
    if version[0] != FORMAT[0]:
        raise table.error(
            "version",
            f"this bake reads format {FORMAT[0]}, found {shown(value)}",
            hint="install a newer bake, as this one was installed" if version[0] > FORMAT[0] else None,
        )
    return version


def _base(name: str, table: Table) -> Base:
    table.guard("", lambda: check_word(name, what="base name"))
    if name == SCRATCH:
        raise table.error("", f"{SCRATCH!r} is built in: an image of weights alone, on no base")
    table.only(*_BASE_KEYS)
    wheels = [_wheel(wheel) for wheel in table.tables("wheels")]
    names = [wheel.name for wheel in wheels]
    if len(set(names)) != len(names):
        raise table.error("wheels", f"{max(names, key=names.count)!r} is listed twice")
    return Base(
        name=name,
        image=table.parsed("image", _image),
        digest=table.optional("digest", Digest.parse),
        verl=table.optional("verl", _wheel_version),
        wheels=tuple(sorted(wheels, key=lambda wheel: wheel.name)),
    )


def _wheel(table: Table) -> Wheel:
    table.only("name", "version", "sha256")
    return Wheel(
        name=table.parsed("name", _wheel_name),
        version=table.parsed("version", _wheel_version),
        digest=table.parsed("sha256", Digest.parse_hex),
    )


def _model(table: Table) -> LockedModel:
    table.only(*_MODEL_KEYS)
    files = [_file(file) for file in table.tables("file")]
    excluded = [_excluded(left) for left in table.tables("excluded")]
    resharded = [_resharded(item) for item in table.tables("resharded")]
    model = LockedModel(
        id=ModelId(
            table.parsed("name", lambda text: check_word(text, what="name")),
            table.parsed("version", lambda text: check_word(text, what="version")),
        ),
        source=table.parsed("source", check_source),
        revision=table.optional("revision", check_revision),
        include=table.texts("include"),
        exclude=table.texts("exclude"),
        max_shard_size=table.optional("max_shard_size", check_shard_size),
        base=table.optional("base", lambda text: check_word(text, what="base name")) or SCRATCH,
        critic=table.optional("critic", ModelId.parse),
        reward_model=table.optional("reward_model", ModelId.parse),
        trust_remote_code=table.flag("trust_remote_code"),
        overrides=table.texts("overrides", check_override),
        asked_digest=table.optional("asked_digest", Digest.parse),
        commit=table.optional("commit", _commit),
        license=table.optional("license", str),
        gated=table.flag("gated"),
        set_digest=table.optional("set_digest", Digest.parse),
        packer=table.optional_count("packer"),
        resharder=table.optional_count("resharder"),
        files=tuple(sorted(files, key=lambda file: file.path)),
        excluded=tuple(sorted(excluded, key=lambda left: left.path)),
        resharded=tuple(sorted(resharded, key=lambda item: item.source.path)),
        layers=tuple(_layer(layer) for layer in table.tables("layer")),
    )
    check_model(model, table)
    return model


def _file(table: Table) -> RecordedFile:
    table.only("path", "size", "sha256")
    return _recorded(table)


def _resharded(table: Table) -> Resharded:
    table.only("path", "size", "sha256", "files")
    source = _recorded(table)
    table.value("files")
    return Resharded(source=source, files=table.texts("files"))


def _recorded(table: Table) -> RecordedFile:
    return RecordedFile(
        path=table.parsed("path", _path), size=table.size("size"), digest=table.parsed("sha256", Digest.parse_hex)
    )


def _excluded(table: Table) -> Excluded:
    table.only("path", "size", "reason")
    return Excluded(path=table.text("path"), size=table.optional_size("size"), reason=table.text("reason"))


def _layer(table: Table) -> LockedLayer:
    table.only("diff_id", "size", "files")
    diff_id = table.parsed("diff_id", Digest.parse)
    size = table.size("size")
    table.value("files")
    return LockedLayer(diff_id=diff_id, size=size, files=table.texts("files"))


def _path(text: str) -> str:
    if fault := check_path(text):
        raise ValueError(f"expected a file's path inside the model's folder, found {shown(text)}: {fault}")
    return text


def _commit(text: str) -> str:
    if not _COMMIT.fullmatch(text):
        raise ValueError(f"expected a commit of 40 or 64 lower-case hex digits, found {shown(text)}")
    return text


def _image(text: str) -> str:
    if not (_PATH_IMAGE.fullmatch(text) if text.startswith("oci:") else _REFERENCE.fullmatch(text)):
        raise ValueError(
            "expected a reference of a registry (HOST/NAME:TAG), docker:NAME:TAG in the daemon, or oci:PATH relative "
            f"to the lock, found {shown(text)}"
        )
    return text


def _wheel_name(text: str) -> str:
    if not _WHEEL_NAME.fullmatch(text):
        raise ValueError(f"expected the name of a Python project, found {shown(text)}")
    return text


def _wheel_version(text: str) -> str:
    if not _WHEEL_VERSION.fullmatch(text):
        raise ValueError(f"expected a version of a Python project, found {shown(text)}")
    return text


def _with_comments(lock: Lock, text: str) -> Lock:
    comments = collect(text)
    top = comments.pop("", ())
    ending = comments.pop("end", ())
    models = [replace(model, comment=comments.pop(f"model[{at}]", ())) for at, model in enumerate(lock.models)]
    bases = [replace(base, comment=comments.pop(f"base.{base.name}", ())) for base in lock.bases]
    strays = [line for lines in comments.values() for line in lines]
    return replace(
        lock,
        bases=tuple(sorted(bases, key=lambda base: base.name)),
        models=tuple(sorted(models, key=lambda model: model.id)),
        comment=() if top == HEADER else top,
        ending=(*strays, *ending),
    )
