"""Select: which files of a snapshot are the model, and why each of the others is left out.

Selecting is pure: paths and sizes in, paths and reasons out. Every file comes out exactly once, kept or excluded.

The first rule that fits decides:

1. a user's exclude glob drops a file;
2. a user's include glob keeps one that a rule below would drop;
3. hidden files and cache files are dropped;
4. so are formats that verl cannot load (ONNX, GGUF, TensorFlow, Flax, OpenVINO, Core ML, Metal, Rust);
5. so is what a training run leaves behind, but not the model (optimizer, scheduler, event logs);
6. so is a second copy of the weights, only where complete safetensors are beside it;
7. so is documentation, but never a licence;
8. everything else is kept.

A glob is matched against the whole path, case counts, and `*` crosses `/`: `*.bin` is every .bin at any depth. A glob
that names a folder, with or without a `/` at its end, matches all that is below it: `original`, `original/`,
`original/*` drop the same files.
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from bake.snapshot import SourceFile

_SHARD = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.safetensors")
_NOT_THE_WEIGHTS = ("consolidated*", "adapter*", "value_head*")
_WHOLE = ("*model.safetensors",)
_PICKLES = ("*.bin", "*.pth", "*.pt", "*.ckpt", "*.bin.index.json")
_CONSOLIDATED = ("consolidated*.safetensors", "consolidated*.pth", "consolidated*.safetensors.index.json")
_LEGAL = ("license*", "notice*", "copying*")

MAX_PATH_BYTES = 1024
MAX_COMPONENT_BYTES = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class Excluded:
    """A file that is left out. `size` is None for a folder that was not looked into (its path ends with `/`)."""

    path: str
    size: int | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Both sides of the choice, each sorted by path."""

    kept: tuple[SourceFile, ...]
    excluded: tuple[Excluded, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """Lower-case globs for a file's name, and for any folder above it."""

    reason: str
    names: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()

    def fits(self, path: str) -> bool:
        *folders, name = path.lower().split("/")
        return _any(name, self.names) or any(_any(folder, self.folders) for folder in folders)


_NEVER_A_MODEL = (
    _Rule(reason="a hidden file", names=(".*",), folders=(".*",)),
    _Rule(
        reason="a cache file",
        names=("*.pyc", "*.lock", "*.incomplete", "*.metadata", "thumbs.db"),
        folders=("__pycache__",),
    ),
    _Rule(reason="ONNX, which verl cannot load", names=("*.onnx", "*.onnx_data*", "*.onnx.data"), folders=("onnx",)),
    _Rule(reason="GGUF or GGML, which verl cannot load", names=("*.gguf", "*.ggml", "ggml-*.bin")),
    _Rule(reason="TensorFlow, which verl cannot load", names=("*.h5", "*.tflite", "tf_model*", "saved_model.pb")),
    _Rule(reason="Flax, which verl cannot load", names=("*.msgpack",)),
    _Rule(
        reason="OpenVINO, which verl cannot load",
        names=("openvino_*.xml", "openvino_*.bin"),
        folders=("openvino",),
    ),
    _Rule(reason="Core ML, which verl cannot load", names=("*.mlmodel",), folders=("coreml", "*.mlpackage")),
    _Rule(reason="Metal, which verl cannot load", folders=("metal",)),
    _Rule(reason="Rust's own format, which verl cannot load", names=("*.ot",)),
    _Rule(
        reason="left behind by a training run",
        names=(
            "optimizer.pt",
            "optimizer.bin",
            "scheduler.pt",
            "rng_state*",
            "trainer_state.json",
            "training_args.bin",
            "events.out.tfevents*",
        ),
    ),
)

_DOCUMENTATION = _Rule(
    reason="documentation",
    names=(
        *("*.md", "*.pdf"),
        *("*.png", "*.jpg", "*.jpeg", "*.gif", "*.svg", "*.webp", "*.bmp", "*.ico"),
        *("*.mp4", "*.mov", "*.webm", "*.avi"),
    ),
)


def select(
    files: Sequence[SourceFile],
    *,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    skipped: Sequence[Excluded] = (),
) -> Selection:
    """Sort `files` into kept and excluded by the rules above. `skipped` is what the source left out by itself."""
    complete = _folders_with_complete_safetensors(files)
    kept: list[SourceFile] = []
    excluded = list(skipped)
    for file in files:
        reason = _reason(file.path, include=include, exclude=exclude, complete=complete)
        if reason is None:
            kept.append(file)
        else:
            excluded.append(Excluded(path=file.path, size=file.size, reason=reason))
    return Selection(kept=tuple(sorted(kept, key=_path)), excluded=tuple(sorted(excluded, key=_path)))


def check_path(path: str) -> str | None:
    """What is wrong with `path` as a file's path in a model, to be read after the path; None if nothing is.

    The one grammar: relative, `/` between components, in UTF-8, nothing that a tar, an image layer
    (OCI image specification, layer.md, "Whiteouts") or a file system would read as something else.
    """
    return next((fault for check in _PATH_CHECKS if (fault := check(path)) is not None), None)


def _path(file: SourceFile | Excluded) -> str:
    return file.path


def _any(name: str, globs: Iterable[str]) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)


def _reason(path: str, *, include: Sequence[str], exclude: Sequence[str], complete: frozenset[str]) -> str | None:
    """Why a file is left out; None if it is kept."""
    if glob := _matching(path, exclude):
        return f"excluded by the glob {glob!r}"
    if _matching(path, include):
        return None
    for rule in _NEVER_A_MODEL:
        if rule.fits(path):
            return rule.reason
    if reason := _second_copy(path, complete):
        return reason
    if _DOCUMENTATION.fits(path) and not _any(posixpath.basename(path).lower(), _LEGAL):
        return _DOCUMENTATION.reason
    return None


def _matching(path: str, globs: Iterable[str]) -> str | None:
    """The first glob that matches the path, or that names a folder above it."""
    return next((glob for glob in globs if fnmatchcase(path, glob) or fnmatchcase(path, glob.rstrip("/") + "/*")), None)


def _second_copy(path: str, complete: frozenset[str]) -> str | None:
    name = posixpath.basename(path.lower())
    if _below_original(path, complete):
        return "a second copy of the weights (the original format beside complete safetensors)"
    if posixpath.dirname(path) not in complete:
        return None
    if _any(name, _CONSOLIDATED):
        return "a second copy of the weights (a consolidated file beside complete safetensors)"
    if _any(name, _PICKLES) and not name.startswith("adapter"):
        return "a second copy of the weights (PyTorch pickle beside complete safetensors)"
    return None


def _below_original(path: str, complete: frozenset[str]) -> bool:
    """Whether a folder `original` is above the path, with complete safetensors beside that folder."""
    above, folder, _ = f"/{path}".partition("/original/")
    return bool(folder) and above.removeprefix("/") in complete


def _folders_with_complete_safetensors(files: Iterable[SourceFile]) -> frozenset[str]:
    """Folders that hold a whole model as safetensors: one file, or every shard from 1 to N of N."""
    complete: set[str] = set()
    shards: dict[tuple[str, str, int], set[int]] = {}
    for file in files:
        folder, name = posixpath.split(file.path)
        if not name.endswith(".safetensors") or _any(name, _NOT_THE_WEIGHTS):
            continue
        if found := _SHARD.fullmatch(name):
            count = int(found["count"])
            shards.setdefault((folder, found["stem"], count), set()).add(int(found["number"]))
        elif _any(name, _WHOLE):
            complete.add(folder)
    whole = {key for key, numbers in shards.items() if numbers == set(range(1, key[2] + 1))}
    return frozenset((complete - {folder for folder, _, _ in shards}) | {folder for folder, _, _ in whole})


def _check_encoding(path: str) -> str | None:
    if any("\ud800" <= character <= "\udfff" for character in path):
        return "is not valid UTF-8"
    control = next((character for character in path if unicodedata.category(character) == "Cc"), None)
    return None if control is None else f"holds the control character U+{ord(control):04X}"


def _check_separators(path: str) -> str | None:
    if not path:
        return "is empty"
    if "\\" in path:
        return "holds a backslash"
    if path.startswith("/"):
        return "is not relative: it starts with '/'"
    return "has an empty component (a double '/' or one at its end)" if "" in path.split("/") else None


def _check_components(path: str) -> str | None:
    for component in path.split("/"):
        if component in {".", ".."}:
            return f"has the component {component!r}"
        if component.startswith(".wh."):
            return f"has the component {component!r}: in an image layer '.wh.' deletes a file"
    return None


def _check_lengths(path: str) -> str | None:
    longest = max(len(component.encode()) for component in path.split("/"))
    if longest > MAX_COMPONENT_BYTES:
        return f"has a component of {longest} bytes (at most {MAX_COMPONENT_BYTES})"
    size = len(path.encode())
    return f"is {size} bytes long (at most {MAX_PATH_BYTES})" if size > MAX_PATH_BYTES else None


_PATH_CHECKS: tuple[Callable[[str], str | None], ...] = (
    _check_encoding,
    _check_separators,
    _check_components,
    _check_lengths,
)
