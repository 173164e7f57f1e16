"""What `bake verify` costs: `full` against sha256sum on as many shards at once, `quick` on 160 shards of 4 GiB.

`full` reads 2 GiB of random weights with a warm cache, as a folder and as an OCI layout. The 160 shards are sparse
files with real headers, so they take no room. openssl stands beside sha256sum because some builds of sha256sum do not
use the processor's own instructions. About 4 GB of disk below --folder.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from bake.digest import Digest
from bake.lock import Lock, LockedModel, ModelId
from bake.lock.dump import dumps
from bake.record import RecordedFile
from tests.bench.measure import (
    Table,
    against,
    bake,
    compare,
    on_all_cores,
    parser,
    pin,
    report,
    run,
    scratch_folder,
)
from tests.bench.weights import write_model

MODEL = "bench@v1.0.0"
SHARDS = 8
SIZE = 2 << 30
MANY = 160
MANY_SIZE = 4 << 30


def main() -> None:
    options = parser(__doc__ or "").parse_args()
    with scratch_folder(options.folder) as folder:
        tables = [
            full(folder / "full", rounds=options.rounds),
            quick(folder / "quick", rounds=options.rounds),
        ]
    report(tables, path=options.json)


def full(folder: Path, *, rounds: int) -> Table:
    model, image = folder / "model", folder / "image"
    shards = write_model(model, shards=SHARDS, shard_size=SIZE // SHARDS)
    lock, store = folder / "models.lock", folder / "store"
    pin(lock, MODEL, "dir://model", cache=store)
    run(bake("--lock", lock, "build", MODEL, "--to", f"oci:{image}"), cache=store)
    verify = bake("--lock", lock, "verify", "--level", "full")
    rows = compare(
        "verify full",
        {
            "sha256sum, on all cores": lambda: run(on_all_cores(shards, "sha256sum")),
            "openssl dgst -sha256, on all cores": lambda: run(on_all_cores(shards, "openssl", "dgst", "-sha256")),
            "bake verify FOLDER": lambda: run((*verify, str(model), "--against", MODEL)),
            "bake verify oci:IMAGE": lambda: run((*verify, f"oci:{image}")),
        },
        rounds=rounds,
    )
    return Table(f"verify --level full, {SIZE >> 30} GiB in {SHARDS} shards", against(rows[0], rows))


def quick(folder: Path, *, rounds: int) -> Table:
    """The digests in this lock are made up: `quick` reads no weights, and so compares none."""
    model, lock = folder / "model", folder / "models.lock"
    write_model(model, shards=MANY, shard_size=MANY_SIZE, sparse=True)
    files = [
        RecordedFile(path=path.name, size=path.stat().st_size, digest=Digest.of(path.name.encode()))
        for path in model.iterdir()
    ]
    asked = LockedModel(id=ModelId.parse(MODEL), source="dir://model")
    lock.write_text(dumps(Lock(models=(asked.resolve(files=files, excluded=(), commit=None),))), "utf-8")
    verify = bake("--lock", lock, "verify", "--level", "quick", model, "--against", MODEL)
    rows = compare(
        "verify quick",
        {
            "python -c pass": lambda: run((sys.executable, "-c", "pass")),
            "bake verify FOLDER": lambda: run(verify),
        },
        rounds=rounds,
    )
    return Table(f"verify --level quick, {MANY} sparse shards of {MANY_SIZE >> 30} GiB", rows)


if __name__ == "__main__":
    main()
