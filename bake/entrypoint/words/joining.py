"""`ray-head` and `ray-worker`: one training on several nodes. Every node verifies, and reports what it found."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from bake.entrypoint.cluster import report_of
from bake.entrypoint.cluster.head import run_head
from bake.entrypoint.cluster.meeting import Meeting
from bake.entrypoint.cluster.worker import run_worker
from bake.entrypoint.preflight.cpus import reserved_cpus
from bake.entrypoint.speech import Parser, tell
from bake.entrypoint.verify import load_record
from bake.entrypoint.words.training import check, read_options, show_launch, start
from bake.entrypoint.words.verifying import DEPTHS, RECORD, default_level, verified
from bake.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bake.entrypoint.fault import Fault
    from bake.record import RecordedModel


def head_word(words: Sequence[str]) -> None:
    """Check as `train` does, bring the nodes together, train; the exit code is verl's.

    Raises what `train` raises, and ClusterError.
    """
    meeting, rest = Meeting.parse(words, os.environ)
    options = read_options("ray-head", rest)
    launch, situation = check(options, write=not options.dry_run, cluster=True)
    if options.dry_run:
        show_launch(launch, options)
        return
    if launch.inspects:
        start(launch)
    nodes = _whole(launch.settings.number("trainer.nnodes"))
    code = run_head(
        launch.command,
        nodes=nodes,
        gpus_per_node=_whole(launch.settings.number("trainer.n_gpus_per_node")),
        cpus=reserved_cpus(situation, nodes=nodes),
        report=report_of(situation.models, faults=(), environ=launch.environ),
        environ=launch.environ,
        tell=tell,
        meeting=meeting,
    )
    sys.exit(code)


def worker_word(words: Sequence[str]) -> None:
    """Verify, tell the head, serve its training; the exit code is the training's. Raises ModelFault, ClusterError."""
    meeting, rest = Meeting.parse(words, os.environ)
    parser = Parser("ray-worker")
    parser.add_argument("head", metavar="HOST[:PORT]")
    parser.add_argument("--level", choices=[*DEPTHS, "off"], default=default_level())
    options = parser.parse_args(rest)
    record = load_record(RECORD)
    found = verified(record, level=options.level, chat_template=True)  # its settings are the head's to check
    own = report_of(record.models, faults=_short(found), environ=os.environ)
    sys.exit(run_worker(options.head, report=own, environ=os.environ, tell=tell, meeting=meeting))


def _short(found: Mapping[RecordedModel, tuple[Fault, ...]]) -> tuple[str, ...]:
    """One line a fault, for the head's log."""
    return tuple(f"{model.path}/{fault}" for model, faults in found.items() for fault in faults)


def _whole(value: float | None) -> int:
    if value is None or value < 1 or value != int(value):
        raise UsageError(
            f"ray-head: expected whole numbers in trainer.nnodes and trainer.n_gpus_per_node, found {value}",
            hint="for example trainer.nnodes=2 trainer.n_gpus_per_node=8",
        )
    return int(value)
