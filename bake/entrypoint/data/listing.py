"""Listing: which files data.train_files and data.val_files mean: files, lists, globs, folders, `~`, remote places.

verl itself takes files and globs, and HDFS. What else a person means is spelled out for it.
"""

from __future__ import annotations

import difflib
import glob
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from bake.entrypoint.data.access import closed, locked_folder
from bake.entrypoint.data.formats import SUFFIXES
from bake.entrypoint.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bake.entrypoint.settings import Settings

Split = Literal["train", "val"]

_CHECK = "data-files"

_WORDS: dict[Split, frozenset[str]] = {
    "train": frozenset({"train", "training"}),
    "val": frozenset({"val", "valid", "validation", "test", "testing", "dev", "eval"}),
}
"""What files and folders are called by the split they hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """One string of data.train_files: the files it means. `direct` says that verl finds these very files under it."""

    given: str
    files: tuple[str, ...] = ()
    direct: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """All of one split. `key` is the setting."""

    split: Split
    key: str
    named: tuple[Named, ...]
    findings: tuple[Finding, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        """Each file once, in the order given."""
        return tuple(dict.fromkeys(file for named in self.named for file in named.files))


def list_files(split: Split, settings: Settings) -> Listing:
    """Looks at names only; opens no file."""
    key = f"data.{split}_files"
    given = [text for text in settings.texts(key) if text]
    if not given:
        return Listing(split=split, key=key, named=(), findings=(_not_given(key),))
    asked = _is_asked(settings, key)
    answers = [_readable(_resolve(text, split=split, key=key, asked=asked), key=key) for text in given]
    return Listing(
        split=split,
        key=key,
        named=tuple(answer for answer in answers if isinstance(answer, Named)),
        findings=tuple(answer for answer in answers if isinstance(answer, Finding)),
    )


def _is_asked(settings: Settings, key: str) -> bool:
    """val_files that were not given are made the files given for the training, by the entrypoint."""
    same = settings.texts(key) == settings.texts("data.train_files") and "data.train_files" in settings.given
    return same or key in settings.given


def listing_findings(train: Listing, val: Listing) -> tuple[Finding, ...]:
    """Both splits', without what val_files only says again of files that train_files names too."""
    first, second = ((*listing.findings, *remote_findings(listing)) for listing in (train, val))
    told = [
        replace(finding, what=finding.what.replace(train.key, val.key), todo=finding.todo.replace(train.key, val.key))
        for finding in first
    ]
    return (*first, *(finding for finding in second if finding not in told))


def _readable(answer: Named | Finding, *, key: str) -> Named | Finding:
    """The answer, or the files of it that this user may not read."""
    files = answer.files if isinstance(answer, Named) else ()
    locked = [file for file in files if not os.access(file, os.R_OK, effective_ids=True)]
    return closed(key, _few(locked), locked[0]) if locked else answer


def _resolve(given: str, *, split: Split, key: str, asked: bool) -> Named | Finding:
    text = given.removeprefix("file://")
    if re.match(r"[a-z0-9+]+://", text):
        return Named(given=given)
    path = os.path.expanduser(text)  # noqa: PTH111 - a Path would drop the slash that ends a folder
    if os.path.isfile(path):  # noqa: PTH113 - a Path would raise where a folder above may not be entered
        if "[" in path or "::" in path:
            return _pattern(given, key)
        return Named(given=given, files=(path,), direct=path == text)
    if locked := locked_folder(path):
        return closed(key, given, locked)
    if os.path.isdir(path):  # noqa: PTH112 - as above
        return _folder(given, path, split=split, key=key)
    if glob.has_magic(path) and "\0" not in path and (found := _globbed(path)):
        return Named(given=given, files=found, direct=path == text)
    return _missing(given, path, key=key, asked=asked)


def _globbed(pattern: str) -> tuple[str, ...]:
    found = sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207 - the pattern may be absolute
    return tuple(path for path in found if os.path.isfile(path))  # noqa: PTH113 - as below


def _folder(given: str, folder: str, *, split: Split, key: str) -> Named | Finding:
    """A folder's data files of one format. Where names tell splits apart, those of this split alone."""
    names = _listed(folder)
    split_folders = [f"{folder}/{name}" for name in names if _words(name) & _WORDS[split]]
    if locked := next(filter(None, map(locked_folder, split_folders)), None):
        return closed(key, given, locked)
    inner = [f"{name}/{child}" for name in names if _words(name) & _WORDS[split] for child in _listed(folder, name)]
    found = _data_files(folder, names) or _data_files(folder, inner)
    ours = [name for name in found if _words(name) & _WORDS[split]]
    others = [name for name in found if not _words(name) & (_WORDS["train"] | _WORDS["val"])]
    chosen = ours or (others if len(others) == len(found) else [])
    if not chosen:
        return _nothing_in(given, found or names, split=split, key=key)
    return Named(given=given, files=tuple(str(Path(folder, name)) for name in chosen), direct=False)


def _data_files(folder: str, names: Iterable[str]) -> list[str]:
    """Those of one format: a folder that holds the same rows twice, as parquet and as JSON, gives them once."""
    visible = [name for name in names if os.path.isfile(f"{folder}/{name}") and not _is_hidden(name)]  # noqa: PTH113
    by_suffix = ([name for name in visible if name.lower().endswith(suffix)] for suffix in SUFFIXES)
    return next(filter(None, by_suffix), [])


def _is_hidden(name: str) -> bool:
    return Path(name).name.startswith((".", "_"))


def _words(name: str) -> set[str]:
    return set(re.split(r"[^a-z]+", name.lower()))


def _listed(*parts: str) -> list[str]:
    try:
        return sorted(os.listdir(Path(*parts)))
    except OSError:
        return []


def _not_given(key: str) -> Finding:
    return Finding(
        check=_CHECK,
        severity="error",
        what=f"{key} names no file",
        why="verl reads both its training and its validation data before it trains, and fails without either",
        todo=f"give {key}=/data/FILE.parquet",
    )


def remote_findings(listing: Listing) -> tuple[Finding, ...]:
    """What is not on this machine is left to verl, and said."""
    places = [named.given for named in listing.named if not named.files]
    if not places:
        return ()
    return (
        Finding(
            check=_CHECK,
            severity="warning",
            what=f"{listing.key}: {', '.join(places)} {'is' if len(places) == 1 else 'are'} not on this machine",
            why="nothing of it is checked; verl copies hdfs:// itself and hands any other address to `datasets`",
            todo="mount the data, or copy it here, to have it checked before the models are loaded",
        ),
    )


def _pattern(given: str, key: str) -> Finding:
    return Finding(
        check=_CHECK,
        severity="error",
        what=f"{key}: {given} is there, and its name holds `[` or `::`",
        why="verl's reader takes these for a pattern or an address, and finds no file",
        todo="rename the file",
    )


def _nothing_in(given: str, names: list[str], *, split: Split, key: str) -> Finding:
    held = _few(names) if names else "nothing"
    wanted = "training" if split == "train" else "validation"
    return Finding(
        check=_CHECK,
        severity="error",
        what=f"{key}: the folder {given} holds {held}, and no file that is plainly {wanted} data",
        why="verl takes files and no folder; which of these to use is not for guessing",
        todo=f"name the file: {key}={given.rstrip('/')}/FILE.parquet",
    )


def _missing(given: str, path: str, *, key: str, asked: bool) -> Finding:
    where = "" if path == given else f" (that is, {path})"
    default = "" if asked else ", which is the default, as the setting was not given"
    nearest = _nearest(path)
    return Finding(
        check=_CHECK,
        severity="error",
        what=f"{key}: no such file: {given}{where}{default}; {nearest}",
        why="verl would fail once Ray is up and the tokenizer is loaded",
        todo=f"mount the data into the container (docker run -v /host/data:/data) and give {key}=/data/FILE.parquet",
    )


def _nearest(path: str) -> str:
    """What is there instead: names that are spelled alike, else the first names of the closest folder there is."""
    missing = Path(path).absolute()
    while not os.path.isdir(missing.parent):  # noqa: PTH112 - as above
        missing = missing.parent
    folder = missing.parent
    names = _listed(str(folder))
    alike = difflib.get_close_matches(missing.name, names, n=2)
    if alike:
        return f"did you mean {' or '.join(str(folder / name) for name in alike)}?"
    if missing != Path(path).absolute():
        return f"there is no {missing}, and {folder} holds {_few(names)}"
    return f"{folder} holds {_few(names)}"


def _few(names: list[str]) -> str:
    visible = [name for name in names if not name.startswith(".")]
    if not visible:
        return "nothing"
    more = f" and {len(visible) - 5} more" if len(visible) > 5 else ""
    return ", ".join(visible[:5]) + more
