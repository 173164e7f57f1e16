"""Measure: run a command, tell its time and its peak memory; compare several in one run; print one table.

Figures from different runs are not compared: every contender runs once a round, in an order that moves on by one each
round, and the median of five rounds is told. Nothing here asserts a time.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Cost:
    """What one command took: wall seconds, and the largest resident set of any of its processes in bytes.

    The system counts from the fork on, so `peak` is never below what this process itself holds.
    """

    seconds: float
    peak: int


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table. `ratio` is the median against the row that the table compares with."""

    name: str
    rounds: tuple[float, ...]
    peak: int
    ratio: float | None = None

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)


@dataclass(frozen=True, slots=True)
class Table:
    """A title that says what was done, and what each contender took."""

    title: str
    rows: tuple[Row, ...]


def bake(*words: str | Path) -> tuple[str, ...]:
    """The command line of the bake that belongs to this Python."""
    beside = Path(sys.executable).with_name("bake")
    program = (str(beside),) if beside.exists() else (sys.executable, "-m", "bake")
    return (*program, *map(str, words))


def pin(lock: Path, model: str, source: str, *, cache: Path) -> None:
    """Write a lock that holds one model, on no base."""
    run(bake("--lock", lock, "init"), cache=cache)
    run(bake("--lock", lock, "add", model, source, "--base", "scratch"), cache=cache)


def run(
    command: Sequence[str],
    *,
    cache: Path | None = None,
    environ: Mapping[str, str] = MappingProxyType({}),
    codes: Sequence[int] = (0,),
) -> Cost:
    """Run a command to its end, with `cache` as bake's store.

    Stops the bench with its stderr when it ends with another code than these.
    """
    environment = {**os.environ, **environ, **({"BAKE_CACHE": str(cache)} if cache else {})}
    with tempfile.TemporaryFile() as errors:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in codes:
            errors.seek(0)
            said = errors.read().decode(errors="replace").strip()
            raise SystemExit(f"error: exit code {process.returncode}: {' '.join(command)}\n{said}")
    unit = 1 if sys.platform == "darwin" else 1024  # getrusage(2): bytes there, KiB on Linux
    return Cost(seconds, usage.ru_maxrss * unit)


def on_all_cores(files: Sequence[Path], *words: str) -> tuple[str, ...]:
    """The command that runs `words FILE` for every file, as many at once as there are cores."""
    script = 'cores=$1; words=$2; shift 2; printf "%s\\0" "$@" | xargs -0 -n 1 -P "$cores" $words'
    return ("sh", "-c", script, "sh", str(cores()), " ".join(words), *map(str, files))


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def compare(
    title: str, contenders: Mapping[str, Callable[[], Cost]], *, rounds: int = ROUNDS, rotate: bool = True
) -> tuple[Row, ...]:
    """Run every contender once a round; one row a contender, in the order given.

    Each round starts with the next one, unless `rotate` is off: then one contender may build on the one before.
    """
    costs: dict[str, list[Cost]] = {name: [] for name in contenders}
    names = list(contenders)
    for number in range(rounds):
        first = number % len(names) if rotate else 0
        for name in names[first:] + names[:first]:
            tell(f"{title}: round {number + 1} of {rounds}: {name}")
            costs[name].append(contenders[name]())
    tell("")
    return tuple(
        Row(name, tuple(cost.seconds for cost in taken), max(cost.peak for cost in taken))
        for name, taken in costs.items()
    )


def tell(progress: str) -> None:
    """Show what runs, on one line of a terminal."""
    if sys.stderr.isatty():
        print(f"\r{progress}\033[K", end="", file=sys.stderr, flush=True)


def total(name: str, rows: Sequence[Row]) -> Row:
    """Two things done one after the other, as one row: round by round."""
    sums = tuple(sum(each) for each in zip(*(row.rounds for row in rows), strict=True))
    return Row(name, sums, max(row.peak for row in rows))


def against(base: Row, rows: Sequence[Row]) -> tuple[Row, ...]:
    """The rows with their ratio to the median of `base`."""
    return tuple(Row(row.name, row.rounds, row.peak, row.median / base.median) for row in rows)


def report(tables: Sequence[Table], *, path: Path | None) -> None:
    """Print the tables, and write them to `path` as JSON."""
    print(f"{cores()} cores, Python {sys.version.split()[0]}, {sys.platform}; medians of one run")
    for table in tables:
        print(f"\n{table.title}\n{'':<44}{'seconds':>9}{'ratio':>8}{'least':>9}{'most':>9}{'peak MiB':>10}")
        for row in table.rows:
            ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
            spread = f"{min(row.rounds):>9.3f}{max(row.rounds):>9.3f}"
            print(f"  {row.name:<42}{row.median:>9.3f}{ratio:>8}{spread}{row.peak / 2**20:>10.0f}")
    if path:
        path.write_text(json.dumps(_document(tables), indent=2) + "\n", "utf-8")


def _document(tables: Sequence[Table]) -> dict[str, Any]:
    return {
        "machine": {"cores": cores(), "python": sys.version.split()[0], "platform": sys.platform},
        "tables": [
            {
                "title": table.title,
                "rows": [
                    {
                        "name": row.name,
                        "median_seconds": row.median,
                        "rounds": list(row.rounds),
                        "ratio": row.ratio,
                        "peak_bytes": row.peak,
                    }
                    for row in table.rows
                ],
            }
            for table in tables
        ],
    }


def parser(purpose: str) -> argparse.ArgumentParser:
    """The options that every bench has."""
    options = argparse.ArgumentParser(description=purpose.splitlines()[0])
    options.add_argument("--json", type=Path, metavar="FILE", help="also write every figure to FILE")
    options.add_argument(
        "--rounds", type=int, default=ROUNDS, help="rounds to take the median of (default: %(default)s)"
    )
    options.add_argument(
        "--folder",
        type=Path,
        default=Path("build"),
        help="where to make a temporary folder, on the file system to measure (default: %(default)s)",
    )
    return options


@contextmanager
def scratch_folder(parent: Path) -> Iterator[Path]:
    """A temporary folder below `parent`, removed at the end."""
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=parent) as name:
        yield Path(name).resolve()
