"""`verify`: the record against the files, and at level `load` against what this image's transformers makes of them."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from bake.entrypoint.amounts import size
from bake.entrypoint.fault import report
from bake.entrypoint.installed import version_of
from bake.entrypoint.launch import PROFILE
from bake.entrypoint.load import load_faults, static_faults
from bake.entrypoint.speech import Parser, show, show_document, tell
from bake.entrypoint.tree import FolderTree
from bake.entrypoint.verify import load_record, verify
from bake.errors import ModelFault, UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence

    from bake.entrypoint.fault import Fault
    from bake.record import Record, RecordedModel

Depth = Literal["quick", "full", "load"]
"""`quick`: names, sizes, modes, headers. `full`: every byte too. `load`: quick, and then as transformers loads it."""

DEPTHS: tuple[Depth, ...] = get_args(Depth)

RECORD = Path(__file__).parents[3] / "record.json"
"""/opt/bake/record.json in an image, beside the folder that holds this package."""

_ROOT = Path("/")


def verify_word(words: Sequence[str]) -> None:
    """Raises ModelFault where anything is wrong with a model."""
    options = _options(words)
    record = load_record(options.record)
    start = time.monotonic()
    found = check_models(record, depth=options.level, root=options.root, chat_template=_brings_template(record))
    if options.json:
        show_document(document(found))
    else:
        for line in lines(found, depth=options.level, seconds=time.monotonic() - start, root=options.root):
            show(line)
    refuse(found, hint="each fault says what to do")


def _options(words: Sequence[str]) -> argparse.Namespace:
    parser = Parser("verify")
    level = default_level()
    parser.add_argument("--level", choices=DEPTHS, default="quick" if level == "off" else level)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument("--root", type=Path, default=_ROOT)
    return parser.parse_args(list(words))


def default_level() -> str:
    """What BAKE_VERIFY says. Raises UsageError for another word."""
    level = os.environ.get("BAKE_VERIFY") or "quick"
    if level not in {*DEPTHS, "off"}:
        raise UsageError(f"BAKE_VERIFY is {level!r} (expected quick, full, load or off)")
    return level


def _brings_template(record: Record) -> bool:
    """Whether settings that every training of this image starts with bring a chat template, as far as can be told."""
    try:
        profile = PROFILE.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        profile = ""
    return any("chat_template" in text for text in (*record.overrides, profile))


def check_models(
    record: Record, *, depth: Depth, root: Path = _ROOT, chat_template: bool = False
) -> dict[RecordedModel, tuple[Fault, ...]]:
    """Every fault of every model, in the record's order. `chat_template`: the settings bring one for the actor."""
    return {model: _check(model, depth=depth, root=root, chat_template=chat_template) for model in record.models}


def _check(model: RecordedModel, *, depth: Depth, root: Path, chat_template: bool) -> tuple[Fault, ...]:
    """Modes count in the image itself, not on a volume that a cluster mounted with modes of its own.

    A model with a file at fault is not loaded: transformers would only say so again, in other words.
    """
    folder = _folder(model, root)
    level = "quick" if depth == "load" else depth
    faults = verify(model, FolderTree(folder), level=level, check_modes=root == _ROOT)
    return load_faults(model, folder, chat_template=chat_template) if depth == "load" and not faults else faults


def _check_statically(record: Record, *, chat_template: bool) -> dict[RecordedModel, tuple[Fault, ...]]:
    """What can be told of loading without transformers itself, in milliseconds: this runs before every training."""
    transformers = version_of("transformers")
    return {
        model: static_faults(model, _folder(model, _ROOT), transformers=transformers, chat_template=chat_template)
        for model in record.models
    }


def verified(
    record: Record, *, level: Depth | Literal["off"], chat_template: bool, statically: bool = False
) -> dict[RecordedModel, tuple[Fault, ...]]:
    """The faults of every model, told on stderr. `statically`: also those that `load` would find, as far as it goes."""
    if level == "off":
        tell("warning: the models are not verified (level off)")
        return dict.fromkeys(record.models, ())
    begin = time.monotonic()
    found = check_models(record, depth=level, chat_template=chat_template)
    if statically and level != "load":
        static = _check_statically(record, chat_template=chat_template)
        found = {model: faults or static[model] for model, faults in found.items()}
    for line in lines(found, depth=level, seconds=time.monotonic() - begin):
        tell(line)
    return found


def _folder(model: RecordedModel, root: Path) -> Path:
    return root / model.path.lstrip("/")


def lines(
    found: Mapping[RecordedModel, tuple[Fault, ...]], *, depth: str, seconds: float, root: Path = _ROOT
) -> Iterator[str]:
    """What was found, for people."""
    for model, faults in found.items():
        if faults:
            yield from report(faults, folder=str(_folder(model, root)))
        else:
            read = f"{size(sum(file.size for file in model.files))} in " if depth == "full" else ""
            cost = f"{depth}, {read}{seconds:.1f} s"
            yield f"{model.name}@{model.version}: {len(model.files)} files are as recorded ({cost})"


def document(found: Mapping[RecordedModel, tuple[Fault, ...]]) -> list[dict[str, object]]:
    """What was found, for programs."""
    return [
        {
            "name": model.name,
            "version": model.version,
            "roles": list(model.roles),
            "path": model.path,
            "set_digest": str(model.set_digest),
            "faults": [fault.document() for fault in faults],
        }
        for model, faults in found.items()
    ]


def refuse(found: Mapping[RecordedModel, tuple[Fault, ...]], *, hint: str) -> None:
    """Raise ModelFault where there is a fault."""
    faulty = [f"{len(faults)} in {model.name}@{model.version}" for model, faults in found.items() if faults]
    if faulty:
        raise ModelFault(f"faults: {', '.join(faulty)}", hint=hint)
