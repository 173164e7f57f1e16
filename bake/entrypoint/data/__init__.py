"""Data: whether verl can train on the data files that were given, checked before any model is loaded; and files that
it would refuse for their format or their columns, written anew so that it takes them.

The rule: what is refused here, verl fails over, or trains on in vain. What cannot be known is said to be unchecked.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING

from bake.entrypoint.data.columns import columns_of, unknown_fields
from bake.entrypoint.data.context import context_findings
from bake.entrypoint.data.counts import train_findings, val_findings
from bake.entrypoint.data.dataset import custom_dataset, unmapped
from bake.entrypoint.data.flaws import findings_of
from bake.entrypoint.data.lengths import (
    Measured,
    broken_template,
    kept_share,
    length_findings,
    measure,
    no_template,
    not_counted,
)
from bake.entrypoint.data.listing import list_files, listing_findings
from bake.entrypoint.data.looking import look
from bake.entrypoint.data.rewards import function_findings, scoring_of
from bake.entrypoint.data.rewriting import rewrite
from bake.entrypoint.data.template import TemplateError
from bake.entrypoint.data.tokens import TokenizerError, load_tokenizer
from bake.entrypoint.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from bake.entrypoint.data.columns import Columns
    from bake.entrypoint.data.listing import Listing
    from bake.entrypoint.data.looking import Looked
    from bake.entrypoint.data.table import Table
    from bake.entrypoint.override import Override
    from bake.entrypoint.preflight.situation import Situation

DATA_CHECKS: tuple[str, ...] = (
    "data-files",
    "data-columns",
    "data-prompts",
    "data-rewards",
    "data-rows",
    "data-template",
    "data-lengths",
)
"""The names that --no-preflight takes, for the data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """`overrides` name files that were spelled out or written anew, and come after the user's own."""

    findings: tuple[Finding, ...]
    overrides: tuple[Override, ...]
    notes: tuple[str, ...]


def prepare(
    situation: Situation,
    *,
    columns: Mapping[str, str],
    scratch: Path | None,
    skip: Collection[str] = (),
    write: bool = True,
) -> Prepared:
    """Check the data, and make of it what this verl takes.

    `columns` is --map: verl's field (prompt, ground_truth, data_source) to the file's column; data_source may also be
    the value that all rows get. `scratch` is a folder that files may be written to, created where it is not there;
    None where there is none, which is an error only where a file must be written. `skip` are names of DATA_CHECKS:
    with all of them skipped, files are still spelled out, mapped and converted. Nothing is written where an error is
    found, nor without `write`: the overrides then name the files as they would be.
    """
    wanted = _Wanted(frozenset(skip))
    scoring = scoring_of(situation.settings, situation.release)
    wanted.add(unknown_fields(columns))
    wanted.add(function_findings(scoring, situation.release))
    wanted.add(context_findings(situation))
    custom = custom_dataset(situation.settings)
    if custom is not None:
        wanted.add([*([custom.finding] if custom.finding else []), *unmapped(columns, custom)])
        undone = "; --map is left undone" if columns else ""
        note = f"data: {custom.path} reads the data files; what they hold was not checked{undone}"
        return Prepared(findings=wanted.told(), overrides=(), notes=(note,))
    if find_spec("pyarrow") is None:
        wanted.add([_no_pyarrow()])
        return Prepared(findings=wanted.told(), overrides=(), notes=())
    reading = columns_of(situation.settings, columns, release=situation.release, sources=scoring.sources)
    splits = list_files("train", situation.settings), list_files("val", situation.settings)
    tables, notes = _check_files(splits, situation, reading, wanted, scored=scoring.reads)
    if wanted.fails:
        return Prepared(findings=wanted.told(), overrides=(), notes=notes)
    done = rewrite(splits, tables, reading, situation=situation, scratch=scratch, write=write)
    wanted.add(finding for finding in done.findings if finding.severity == "warning")
    failed = tuple(finding for finding in done.findings if finding.severity == "error")  # verl would fail: not skipped
    return Prepared(findings=(*wanted.told(), *failed), overrides=done.overrides, notes=(*notes, *done.notes))


def _no_pyarrow() -> Finding:
    return Finding(
        check="data-files",
        severity="error",
        what="this image has no pyarrow: the data were not checked",
        why="verl reads its data with it",
        todo="build the image with a base that has what verl needs",
    )


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Findings as they come up, without those of the checks that are skipped."""

    skip: frozenset[str]
    found: list[Finding] = field(default_factory=list)

    def add(self, findings: Collection[Finding] | Iterator[Finding]) -> None:
        self.found.extend(finding for finding in findings if finding.check not in self.skip)

    def told(self) -> tuple[Finding, ...]:
        """Each once, in the order of DATA_CHECKS."""
        return tuple(sorted(dict.fromkeys(self.found), key=lambda finding: DATA_CHECKS.index(finding.check)))

    @property
    def fails(self) -> bool:
        return any(finding.severity == "error" for finding in self.found)


def _check_files(
    listings: tuple[Listing, Listing], situation: Situation, columns: Columns, wanted: _Wanted, *, scored: bool
) -> tuple[Mapping[str, Table], tuple[str, ...]]:
    """The tables of the files that opened, and the notes."""
    train, val = listings
    splits = _look(train, val, columns, scored=scored, filtering=_filters(situation))
    wanted.add(listing_findings(train, val))
    for _, seen in splits:
        wanted.add(seen.findings)
    measured = _measure(splits, situation, columns, wanted)
    for (listing, seen), prompts in zip(splits, measured, strict=True):
        wanted.add(length_findings(prompts, situation, key=listing.key))
        if _is_complete(listing, seen):
            kept = kept_share(prompts, situation)
            wanted.add(train_findings(seen.rows, situation, kept=kept) if listing is train else val_findings(seen.rows))
    told = zip(splits, measured, strict=True)
    notes = tuple(note for (listing, seen), prompts in told for note in _notes(listing, seen, prompts))
    return {path: table for _, seen in splits for path, table in seen.tables.items()}, notes


def _look(
    train: Listing, val: Listing, columns: Columns, *, scored: bool, filtering: bool
) -> tuple[tuple[Listing, Looked], ...]:
    """Both splits; where they are the same files, these are looked at once, and what is wrong is told once."""
    seen = look(train, columns, scored=scored, filtering=filtering)
    if train.files and train.files == val.files:
        return (train, seen), (val, replace(seen, findings=(), prompts=(), looked=0))
    return (train, seen), (val, look(val, columns, scored=scored, filtering=filtering))


def _filters(situation: Situation) -> bool:
    """Whether verl drops rows whose prompt it cannot render: 0.5 fails over them while it filters."""
    old = situation.release is not None and situation.release < (0, 6)
    return situation.settings.flag("data.filter_overlong_prompts") and not old


def _is_complete(listing: Listing, seen: Looked) -> bool:
    """Whether the rows of a split are known: no file of it is elsewhere, missing or damaged."""
    named = all(named.files for named in listing.named) and not listing.findings
    return bool(listing.files) and named and len(seen.tables) == len(listing.files)


def _measure(
    splits: Sequence[tuple[Listing, Looked]], situation: Situation, columns: Columns, wanted: _Wanted
) -> list[Measured]:
    """Each split's prompts through the model's own template and tokenizer."""
    nothing = [Measured() for _ in splits]
    if not any(seen.prompts for _, seen in splits) or {"data-template", "data-lengths"} <= wanted.skip:
        return nothing
    try:
        tokenizer = load_tokenizer(situation)
    except TokenizerError as error:
        wanted.add([not_counted(str(error))])
        return nothing
    except TemplateError as fault:
        wanted.add([broken_template(fault)])
        return nothing
    if tokenizer.template is None:
        wanted.add([no_template(tokenizer)])
        return nothing
    if tokenizer.backend is None:
        wanted.add([not_counted(tokenizer.trouble)])
    measured = [measure(seen.prompts, tokenizer, column=columns.prompt) for _, seen in splits]
    for (listing, seen), prompts in zip(splits, measured, strict=True):
        wanted.add(findings_of(prompts.flaws, key=listing.key, looked=seen.looked, filtering=_filters(situation)))
    return measured


def _notes(listing: Listing, seen: Looked, prompts: Measured) -> Iterator[str]:
    """One line a split: how much there is, how much of it was looked at."""
    if not seen.looked:
        return
    files = "1 file" if len(seen.tables) == 1 else f"{len(seen.tables):,} files"
    rows = "1 row" if seen.rows == 1 else f"{seen.rows:,} rows"
    longest = f", the longest prompt of these {max(prompts.lengths)[0]:,} tokens" if prompts.lengths else ""
    yield f"data: {listing.key}: {files}, {rows}; {seen.looked:,} looked at{longest}"
