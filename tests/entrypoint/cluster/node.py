"""A node of a cluster as a program: `python node.py head|worker …`, as an image would be one.

    head  [--nodes N] [--gpus-per-node N] [--cpus N] [OPTION…] -- COMMAND…
    worker HEAD [OPTION…]

Both take `--model NAME=DIGEST` and `--fault LINE`; every other OPTION is one of `Meeting`.
"""

from __future__ import annotations

import argparse
import os
import sys

from bake.entrypoint.cluster import Report, report_of
from bake.entrypoint.cluster.head import run_head
from bake.entrypoint.cluster.meeting import Meeting
from bake.entrypoint.cluster.worker import run_worker
from bake.errors import BakeError, Terminated


def main(words: list[str]) -> int:
    end = words.index("--") if "--" in words else len(words)
    options, rest = _options(words[:end])
    meeting, _ = Meeting.parse(rest, os.environ)
    own = report_of((), faults=options.fault, environ=os.environ)
    report = Report(
        host=options.host or own.host,
        models=tuple(tuple(model.split("=")) for model in options.model),
        faults=own.faults,
        software=own.software,
    )
    try:
        if options.role == "worker":
            return run_worker(options.head, report=report, environ=os.environ, tell=_tell, meeting=meeting)
        return run_head(
            words[end + 1 :],
            nodes=options.nodes,
            gpus_per_node=options.gpus_per_node,
            cpus=options.cpus,
            report=report,
            environ=os.environ,
            tell=_tell,
            meeting=meeting,
        )
    except BakeError as error:
        _tell(f"error: {error.message}")
        if error.hint:
            _tell(f"hint: {error.hint}")
        return error.code
    except KeyboardInterrupt as interrupt:
        return 143 if isinstance(interrupt, Terminated) else 130


def _options(words: list[str]) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("role", choices=["head", "worker"])
    parser.add_argument("head", nargs="?", default="")
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--gpus-per-node", type=int, default=1)
    parser.add_argument("--cpus", type=int, default=0)
    parser.add_argument("--host")
    parser.add_argument("--model", action="append", default=[])
    parser.add_argument("--fault", action="append", default=[])
    return parser.parse_known_args(words)


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
