"""What the entrypoint costs before verl starts: verify, launch and preflight, on a model of 160 shards of 4 GiB.

The shards are sparse files with real headers, and the data is a parquet file of 100,000 rows. verl is 0.9.1 as it is
unpacked by `.ci/verl up`, whose folder BAKE_VERL names: its configuration is composed, nothing of it is imported. On a
machine without GPUs preflight says so and ends with 11, after all of its checks.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import pyarrow as pa
import pyarrow.parquet

from bake.digest import Digest
from bake.record import Record, RecordedFile, RecordedModel, set_digest
from tests.bench.measure import Table, compare, parser, report, run, scratch_folder
from tests.bench.weights import write_model
from tests.entrypoint.image import put_entrypoint

MANY = 160
MANY_SIZE = 4 << 30
ROWS = 100_000
TINY = Path(__file__).parents[1] / "models" / "tiny-llama"


def main() -> None:
    options = parser(__doc__ or "").parse_args()
    place = os.environ.get("BAKE_VERL")
    if not place:
        raise SystemExit('error: BAKE_VERL is not set\nhint: eval "$(.ci/verl up)"')
    with scratch_folder(options.folder) as folder:
        table = start(folder, verl=Path(place) / "0.9.1", rounds=options.rounds)
    report([table], path=options.json)


def start(folder: Path, *, verl: Path, rounds: int) -> Table:
    model = write_image(folder)
    write_rows(folder / "train.parquet")
    environ = {"VERL_MODEL_PATH": str(model), "PYTHONPATH": str(verl)}
    image = (sys.executable, str(folder / "opt/bake"))
    words = (f"data.train_files={folder}/train.parquet", "actor_rollout_ref.rollout.name=vllm")
    rows = compare(
        "entrypoint",
        {
            "python -c pass": lambda: run((sys.executable, "-c", "pass")),
            "IMAGE help": lambda: run((*image, "help"), environ=environ),
            "IMAGE verify": lambda: run((*image, "verify"), environ=environ),
            "IMAGE preflight, which verifies first": lambda: run(
                (*image, "preflight", *words), environ=environ, codes=(0, 11)
            ),
        },
        rounds=rounds,
    )
    return Table(f"before verl starts, {MANY} sparse shards of {MANY_SIZE >> 30} GiB and {ROWS:,} rows", rows)


def write_image(root: Path) -> Path:
    """The entrypoint as it lies in an image, and a model; returns the model's folder.

    The digests are made up: `quick` reads no weights, and so compares none.
    """
    put_entrypoint(root)
    model = root / "model"
    write_model(model, shards=MANY, shard_size=MANY_SIZE, sparse=True)
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(TINY / name, model / name)
    files = tuple(
        RecordedFile(path=path.name, size=path.stat().st_size, digest=Digest.of(path.name.encode()))
        for path in sorted(model.iterdir())
    )
    recorded = RecordedModel(
        name="bench",
        version="v1",
        roles=("actor",),
        path=str(model),
        source="dir://model",
        commit=None,
        set_digest=set_digest(files),
        files=files,
    )
    (root / "opt/bake/record.json").write_bytes(Record(models=(recorded,)).dumps())
    return model


def write_rows(path: Path) -> None:
    rows = [
        {
            "data_source": "openai/gsm8k",
            "prompt": [{"role": "user", "content": f"What is {number} + {number}?"}],
            "reward_model": {"style": "rule", "ground_truth": str(2 * number)},
        }
        for number in range(ROWS)
    ]
    pa.parquet.write_table(pa.Table.from_pylist(rows), path)


if __name__ == "__main__":
    main()
