"""How quickly bake starts, and how quickly it reads a large lock.

`bake --help` stands against Python itself, and `bake list` on 300 models with 10,000 files against tomllib alone.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from bake.digest import Digest
from bake.lock import Lock, LockedLayer, LockedModel, ModelId
from bake.lock.dump import dumps
from bake.record import RecordedFile
from tests.bench.measure import Table, against, bake, compare, parser, report, run, scratch_folder

MODELS = 300
FILES = 10_000


def main() -> None:
    options = parser(__doc__ or "").parse_args()
    with scratch_folder(options.folder) as folder:
        lock = folder / "models.lock"
        lock.write_text(dumps(large_lock()), "utf-8")
        python = (sys.executable, "-c")
        starting = compare(
            "start",
            {
                "python -c pass": lambda: run((*python, "pass")),
                "python -c 'import click'": lambda: run((*python, "import click")),
                "bake --help": lambda: run(bake("--help")),
            },
            rounds=options.rounds,
        )
        read = "import sys, tomllib; tomllib.load(open(sys.argv[1], 'rb'))"
        listing = compare(
            "list",
            {
                "python: tomllib.load": lambda: run((*python, read, str(lock))),
                "bake list": lambda: run(bake("--lock", lock, "list")),
            },
            rounds=options.rounds,
        )
    tables = (
        Table("Starting", against(starting[0], starting)),
        Table(f"A lock of {MODELS} models and {FILES:,} files", against(listing[0], listing)),
    )
    report(tables, path=options.json)


def large_lock() -> Lock:
    """MODELS models that share FILES files as evenly as they can, each with its layers known."""
    bounds = [FILES * number // MODELS for number in range(MODELS + 1)]
    models = (large_model(number, files=end - start) for number, (start, end) in enumerate(pairwise(bounds)))
    return Lock(models=tuple(models))


def large_model(number: int, *, files: int) -> LockedModel:
    recorded = tuple(
        RecordedFile(
            path=f"model-{shard:05}-of-{files:05}.safetensors",
            size=4 << 30,
            digest=Digest.of(f"{number} {shard}".encode()),
        )
        for shard in range(1, files + 1)
    )
    asked = LockedModel(id=ModelId(f"model-{number:03}", "v1.0.0"), source=f"hf://org/model-{number:03}")
    layers = tuple(LockedLayer(diff_id=file.digest, size=file.size + 2048, files=(file.path,)) for file in recorded)
    locked = asked.resolve(files=recorded, excluded=(), commit=f"{number:040x}")
    return replace(locked, packer=1, layers=layers)


if __name__ == "__main__":
    main()
