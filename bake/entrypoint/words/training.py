"""`train` and `preflight`: the same checks in the same order; after those of `train`, verl takes the process over.

First what verl will be told, since a typing error should not wait for a model to be read; then the model, the machine
and the data.
"""

from __future__ import annotations

import os
import shlex
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NoReturn

from bake.entrypoint import data
from bake.entrypoint.finding import paragraphs
from bake.entrypoint.launch import masked, plan_launch
from bake.entrypoint.machine import look
from bake.entrypoint.preflight import CHECKS, preflight
from bake.entrypoint.preflight.situation import Situation
from bake.entrypoint.process import become
from bake.entrypoint.speech import Parser, show, show_document, tell
from bake.entrypoint.verify import load_record
from bake.entrypoint.words.verifying import (
    DEPTHS,
    RECORD,
    Depth,
    default_level,
    document,
    refuse,
    verified,
)
from bake.errors import LaunchError, PreflightFault, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bake.entrypoint.fault import Fault
    from bake.entrypoint.finding import Finding
    from bake.entrypoint.launch import Launch
    from bake.entrypoint.settings import Settings
    from bake.record import Record, RecordedModel

ALL = "all"
"""--no-preflight=all leaves every check out."""

_CHAT_TEMPLATES = (
    "actor_rollout_ref.model.custom_chat_template",
    "data.apply_chat_template_kwargs.chat_template",
)
"""Settings that bring a chat template, so that the model need not have one."""

_STOPPED = "training was not started; each fault above says what to do"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """`words` are Hydra's own flags and overrides; `columns`, verl's field names to those of the data files."""

    level: Depth | Literal["off"] = "quick"
    json: bool = False
    dry_run: bool = False
    skip: frozenset[str] = frozenset()
    columns: Mapping[str, str] = field(default_factory=dict)
    words: tuple[str, ...] = ()


def train_word(words: Sequence[str]) -> None:
    """Check everything, then become verl. Raises LaunchError, ModelFault or PreflightFault."""
    options = read_options("train", words)
    launch, _ = check(options, write=not options.dry_run)
    if options.dry_run:
        show_launch(launch, options)
    else:
        start(launch)


def preflight_word(words: Sequence[str]) -> None:
    """All that `train` checks, and no training. Raises what `train` raises."""
    options = read_options("preflight", words)
    check(options, write=False)


def start(launch: Launch) -> NoReturn:
    """verl replaces this process, so that signals and the exit code are its own."""
    tell(f"starting verl: {shlex.join(masked(word) for word in launch.command)}")
    become(launch.command, launch.environ)


def show_launch(launch: Launch, options: Options) -> None:
    """The command that would start verl, to copy or to read by a program."""
    changed = {name: value for name, value in launch.environ.items() if os.environ.get(name) != value}
    if options.json:
        show_document({"command": list(launch.command), "environment": changed, "notes": list(launch.notes)})
        return
    assignments = [f"{name}={shlex.quote(value)}" for name, value in sorted(changed.items())]
    show(" ".join([*assignments, shlex.join(launch.command)]))


def read_options(word: str, words: Sequence[str]) -> Options:
    """The options of `train`, `preflight` and `ray-head`; what is not one of them is Hydra's."""
    parser = Parser(word)
    parser.add_argument("--level", choices=[*DEPTHS, "off"], default=default_level())
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--no-preflight", action="append", default=[], metavar="NAME")
    parser.add_argument("--map", action="append", default=[], metavar="FIELD=COLUMN")
    read, rest = parser.parse_known_args(list(words))
    return Options(
        level=read.level,
        json=read.json,
        dry_run=read.dry_run,
        skip=frozenset(name for names in read.no_preflight for name in names.split(",")),
        columns=_columns(read.map),
        words=tuple(rest),
    )


def _columns(texts: Sequence[str]) -> dict[str, str]:
    """What --map says. Raises UsageError for another form, and for a field that is named twice."""
    columns: dict[str, str] = {}
    for text in texts:
        field_name, equals, column = text.partition("=")
        if not (field_name and equals and column):
            raise UsageError(f"--map: expected FIELD=COLUMN, found {text!r}", hint="for example --map prompt=question")
        if columns.setdefault(field_name, column) != column:
            raise UsageError(f"--map: {field_name} is {columns[field_name]} and {column}", hint="give it once")
    return columns


def check(options: Options, *, write: bool, cluster: bool = False) -> tuple[Launch, Situation]:
    """What verl will be started with, after every check; at once where verl is only asked about itself (--cfg job).

    `write`: data files that must be converted are. Raises LaunchError, ModelFault or PreflightFault.
    """
    begin = time.monotonic()
    record = load_record(RECORD)
    machine = look(os.environ)
    launch = plan_launch(options.words, record=record, environ=os.environ, gpus=len(machine.gpus), cluster=cluster)
    situation = Situation(
        settings=launch.settings,
        models=record.models,
        machine=machine,
        environ=launch.environ,
        release=launch.release,
        is_head=cluster,
    )
    if launch.inspects:
        return launch, situation
    _refuse_alone(launch)
    for note in launch.notes:
        tell(f"set: {note}")
    found = _sound(record, options, settings=launch.settings)
    findings, prepared = _preflight(situation, options, write=write, cluster=cluster)
    if options.json:
        show_document({"models": document(found), "findings": [finding.document() for finding in findings]})
    for line in paragraphs(findings):
        tell(line)
    _refuse_errors(findings)
    for note in prepared.notes:
        tell(note)
    tell(f"checked in {time.monotonic() - begin:.1f} s")
    return launch.with_overrides(prepared.overrides), situation


def _refuse_alone(launch: Launch) -> None:
    """verl would say so after a minute: Total available GPUs … less than … desired (single_controller/ray/base.py)."""
    nodes = launch.settings.number("trainer.nnodes") or 1
    if nodes > 1 and launch.environ.get("RAY_ADDRESS") == "local":
        raise LaunchError(
            f"trainer.nnodes is {nodes:g}, and a training that `train` starts has this node alone",
            hint="say `ray-head` here in place of `train`, and `ray-worker HOST` on the other nodes",
        )


def _sound(record: Record, options: Options, *, settings: Settings) -> dict[RecordedModel, tuple[Fault, ...]]:
    """The models, which have no fault. Raises ModelFault."""
    template = settings.first(*_CHAT_TEMPLATES) is not None
    found = verified(record, level=options.level, chat_template=template, statically=True)
    if options.json and any(found.values()):
        show_document({"models": document(found), "findings": []})
    refuse(found, hint=_STOPPED)
    return found


def _preflight(
    situation: Situation, options: Options, *, write: bool, cluster: bool
) -> tuple[tuple[Finding, ...], data.Prepared]:
    """Without a check, data files are still converted: verl could not read them otherwise."""
    skip = frozenset({*CHECKS, *data.DATA_CHECKS}) if ALL in options.skip else options.skip
    if ALL in options.skip:
        tell("warning: no preflight: neither the machine nor the data are checked (--no-preflight=all)")
    else:
        for name in sorted(skip):
            tell(f"warning: check {name} is left out (--no-preflight={name})")
    findings = preflight(situation, skip=skip, also=data.DATA_CHECKS)
    scratch = _scratch(situation.environ, cluster=cluster)
    prepared = data.prepare(situation, columns=options.columns, scratch=scratch, skip=skip, write=write)
    return (*findings, *prepared.findings), prepared


def _scratch(environ: Mapping[str, str], *, cluster: bool) -> Path | None:
    """Where converted data files go: of a cluster, every node must see them. None where nothing can be written."""
    if given := environ.get("BAKE_SCRATCH"):
        return Path(given)
    try:
        return Path.cwd() / ".bake-data" if cluster else Path(tempfile.gettempdir()) / "bake-data"
    except FileNotFoundError:
        return None


def _refuse_errors(findings: Sequence[Finding]) -> None:
    errors = [finding.check for finding in findings if finding.severity == "error"]
    if errors:
        skip = f"--no-preflight={errors[0]}"
        raise PreflightFault(
            f"preflight: {', '.join(dict.fromkeys(errors))}",
            hint=f"nothing was started; each finding says what to do ({skip} leaves that check out)",
        )
