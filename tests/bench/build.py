"""What a direct build costs, against the two things that must happen: a copy, and one sha256 of every byte.

2 GiB of random weights in 8 shards go from a folder to an OCI layout on the same file system, with a warm cache.
Beside it: a first build that knows no diff_ids (two hashes), a second build of the same lock, a build on another base,
and with --big the peak memory at 8 GiB (sparse files). About 8 GB of disk below --folder, 18 GB with --big.
"""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from bake.image import LAYER, AddedLayer, append
from bake.layer import File, pack_entries
from bake.layout import Layout
from bake.lock import Base, ModelId
from bake.lock.dump import dumps
from bake.lock.parse import parse
from tests.bench.measure import (
    Cost,
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
    total,
)
from tests.bench.weights import write_model

MODEL = "bench@v1.0.0"
SHARDS = 8
SIZE = 2 << 30
BIG = 8 << 30


@dataclass(frozen=True, slots=True)
class Workshop:
    """A locked model in a folder, and what each contender does with it. `lock` is the text of models.lock."""

    folder: Path
    shards: tuple[Path, ...]
    lock: str

    def copy(self) -> Cost:
        target = emptied(self.folder / "copy")
        return run(("cp", "-r", str(self.folder / "model"), str(target)))

    def hash(self) -> Cost:
        return run(on_all_cores(self.shards, "openssl", "dgst", "-sha256"))

    def build(self, *, lock: str | None = None, keep_store: bool = False, keep_output: bool = False) -> Cost:
        """One build. What is not kept from the build before is removed first, outside of the time taken."""
        store, output = self.folder / "store", self.folder / "image"
        if not keep_store:
            emptied(store)
        if not keep_output:
            emptied(output)
        path = self.folder / "models.lock"
        path.write_text(lock or self.lock, "utf-8")
        return run(bake("--lock", path, "build", MODEL, "--to", f"oci:{output}"), cache=store)


def main() -> None:
    options = parser(__doc__ or "")
    options.add_argument("--big", action="store_true", help="also build 8 GiB of sparse files, for the peak memory")
    chosen = options.parse_args()
    with scratch_folder(chosen.folder) as folder:
        shop = make_workshop(folder / "random", size=SIZE)
        tables = [first_builds(shop, rounds=chosen.rounds), later_builds(shop, rounds=chosen.rounds)]
        if chosen.big:
            shutil.rmtree(shop.folder)
            tables.append(big_build(make_workshop(folder / "sparse", size=BIG, sparse=True)))
    report(tables, path=chosen.json)


def first_builds(shop: Workshop, *, rounds: int) -> Table:
    """Nothing in the store, no output."""
    unknown = without_layers(shop.lock)
    copied, hashed, built, discovered = compare(
        "first build",
        {
            "cp -r": shop.copy,
            "openssl dgst -sha256, on all cores": shop.hash,
            "bake build": shop.build,
            "bake build, no diff_id in the lock": lambda: shop.build(lock=unknown),
        },
        rounds=rounds,
    )
    both = total("cp -r, then openssl dgst", (copied, hashed))
    return Table(
        f"A first build of {SIZE >> 30} GiB in {SHARDS} shards, empty store",
        against(both, (copied, hashed, both, built, discovered)),
    )


def later_builds(shop: Workshop, *, rounds: int) -> Table:
    """The store holds what the first build left there; each contender leaves it and the output for the next."""
    other = on_another_base(shop)
    rows = compare(
        "second build",
        {
            "the first build": shop.build,
            "again, output deleted": lambda: shop.build(keep_store=True),
            "again, output kept": lambda: shop.build(keep_store=True, keep_output=True),
            "on another base, output deleted": lambda: shop.build(lock=other, keep_store=True),
        },
        rounds=rounds,
        rotate=False,
    )
    return Table("A second build of the same lock", against(rows[0], rows))


def big_build(shop: Workshop) -> Table:
    rows = compare("big build", {"bake build": shop.build}, rounds=1)
    return Table(f"{BIG >> 30} GiB in {SHARDS} shards, for the peak memory", rows)


def make_workshop(folder: Path, *, size: int, sparse: bool = False) -> Workshop:
    shards = write_model(folder / "model", shards=SHARDS, shard_size=size // SHARDS, sparse=sparse)
    lock = folder / "models.lock"
    pin(lock, MODEL, "dir://model", cache=folder / "store")
    return Workshop(folder, shards, lock.read_text("utf-8"))


def without_layers(lock: str) -> str:
    """The lock as it is before anything was packed: no diff_id is known."""
    found = parse(lock)
    model = replace(found.find(ModelId.parse(MODEL)), packer=None, layers=())
    return dumps(found.with_model(model))


def on_another_base(shop: Workshop) -> str:
    """The lock with its model on a base: a small image in another OCI layout."""
    layout = Layout(shop.folder / "base")
    layout.prepare("base")
    layer = layout.add(pack_entries([File.of("etc/base", b"a base\n")]), media_type=LAYER)
    added = AddedLayer(descriptor=layer, created_by="a base")
    base = append(None, [added], environment={}, labels={}, entrypoint=(), command=(), workdir="")
    layout.stage(base)
    layout.publish(base, model="base", tag="base")
    found = parse(shop.lock)
    model = replace(found.find(ModelId.parse(MODEL)), base="other")
    other = Base(name="other", image="oci:base", digest=base.descriptor.digest)
    return dumps(found.with_base(other).with_model(model))


def emptied(folder: Path) -> Path:
    """The path with nothing there, and nothing left to write back that would slow the next contender."""
    shutil.rmtree(folder, ignore_errors=True)
    os.sync()
    return folder


if __name__ == "__main__":
    main()
