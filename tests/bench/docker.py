"""What an image in the Docker daemon costs: bake's two builders, against `docker buildx build` with COPY.

Random weights in 8 shards (2 GiB, --size for less) go from a folder into the daemon, each contender uncached;
then the base changes, and each builds again with the caches that it has. Peak memory is that of the client's processes:
the daemon's own is not counted. Bytes written are what the disks wrote meanwhile, whoever asked for it. Needs a daemon
that nobody else uses, since build caches are emptied, and about six times the size of disk.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench.measure import Cost, Row, Table, against, bake, parser, report, run, scratch_folder
from tests.bench.weights import write_model

MODEL = "bench@v1.0.0"
SHARDS = 8
BASES = ("bake-bench-base:one", "bake-bench-base:two")
_SECTOR = 512
_DISK = re.compile(r"(?:[sv]d[a-z]+|nvme\d+n\d+|xvd[a-z]+)")


@dataclass(slots=True)
class Workshop:
    """A locked model in a folder, a base that can be changed, and what each contender wrote to disk, by name."""

    folder: Path
    base: str = BASES[0]
    written: dict[str, list[int]] = field(default_factory=dict)

    def copy(self) -> Cost:
        return self._buildx("copy", "COPY model/ /opt/models/bench/\n")

    def link(self) -> Cost:
        names = sorted(path.name for path in (self.folder / "model").iterdir())
        steps = "".join(f"COPY --link model/{name} /opt/models/bench/{name}\n" for name in names)
        return self._buildx("link", steps)

    def direct(self) -> Cost:
        return self._bake("direct")

    def rendered(self) -> Cost:
        return self._bake("docker")

    def _bake(self, builder: str) -> Cost:
        lock = self.folder / f"{self.base.rpartition(':')[2]}.lock"
        words = bake("--lock", lock, "build", MODEL, "--builder", builder, "--to", f"docker:bake-bench:{builder}")
        return self._measure(f"bake {builder}", words)

    def _buildx(self, name: str, steps: str) -> Cost:
        (self.folder / f"{name}.Dockerfile").write_text(f"FROM {self.base}\n{steps}", "utf-8")
        words = ("docker", "buildx", "build", "--load", "--provenance=false", "--tag", f"bake-bench:{name}")
        return self._measure(name, (*words, "--file", str(self.folder / f"{name}.Dockerfile"), str(self.folder)))

    def _measure(self, name: str, command: tuple[str, ...]) -> Cost:
        os.sync()
        before = bytes_written()
        cost = run(command, cache=self.folder / "store")
        os.sync()
        self.written.setdefault(f"{name} on {self.base.rpartition(':')[2]}", []).append(bytes_written() - before)
        return cost


def main() -> None:
    options = parser(__doc__ or "")
    options.add_argument(
        "--size", type=int, default=2048, metavar="MIB", help="size of the model (default: %(default)s)"
    )
    chosen = options.parse_args()
    with scratch_folder(chosen.folder) as folder:
        shop = make_workshop(folder, size=chosen.size << 20)
        try:
            tables = measure(shop, rounds=chosen.rounds, size=chosen.size)
        finally:
            empty_daemon()
            docker("image", "rm", "--force", *BASES)
    report(tables, path=chosen.json)
    print("\nMiB written to disk, median")
    for name, figures in sorted(shop.written.items()):
        print(f"  {name:<42}{sorted(figures)[len(figures) // 2] >> 20:>9}")


def measure(shop: Workshop, *, rounds: int, size: int) -> list[Table]:
    first: dict[str, list[Cost]] = {}
    changed: dict[str, list[Cost]] = {}
    contenders = {
        "docker buildx build, COPY model/": shop.copy,
        "docker buildx build, COPY --link a shard": shop.link,
        "bake build --builder docker": shop.rendered,
        "bake build": shop.direct,
    }
    for _ in range(rounds):
        for name, build in contenders.items():
            empty_daemon()
            shutil.rmtree(shop.folder / "store", ignore_errors=True)
            shop.base = BASES[0]
            first.setdefault(name, []).append(build())
            shop.base = BASES[1]
            changed.setdefault(name, []).append(build())
    return [
        table(f"An image of {size} MiB in the daemon, nothing cached", first),
        table("The same model on another base, with what is cached", changed),
    ]


def table(title: str, costs: dict[str, list[Cost]]) -> Table:
    rows = [
        Row(name, tuple(cost.seconds for cost in taken), max(cost.peak for cost in taken))
        for name, taken in costs.items()
    ]
    return Table(title, against(rows[0], rows))


def make_workshop(folder: Path, *, size: int) -> Workshop:
    write_model(folder / "model", shards=SHARDS, shard_size=size // SHARDS)
    for base in BASES:
        import_base(base)
        lock = folder / f"{base.rpartition(':')[2]}.lock"
        lock.write_text(f'version = 1\n\n[base.bench]\nimage = "docker:{base}"\n', "utf-8")
        run(bake("--lock", lock, "lock"), cache=folder / "store")
        run(bake("--lock", lock, "add", MODEL, "dir://model"), cache=folder / "store")
    return Workshop(folder)


def import_base(name: str) -> None:
    """A base of one small file, which is enough to build on."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        content = name.encode()
        info = tarfile.TarInfo("etc/base")
        info.size = len(content)
        archive.addfile(info, io.BytesIO(content))
    subprocess.run(["docker", "import", "-", name], input=packed.getvalue(), check=True, stdout=subprocess.DEVNULL)


def empty_daemon() -> None:
    names = [f"bake-bench:{name}" for name in ("copy", "link", "direct", "docker")]
    docker("image", "rm", "--force", *names)
    docker("image", "prune", "--force")
    docker("buildx", "prune", "--all", "--force")


def docker(*words: str) -> None:
    subprocess.run(["docker", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def bytes_written() -> int:
    """Bytes that whole disks have written since the machine started (Linux, /proc/diskstats, field 10)."""
    lines = (line.split() for line in Path("/proc/diskstats").read_text("ascii").splitlines())
    return sum(int(words[9]) * _SECTOR for words in lines if _DISK.fullmatch(words[2]))


if __name__ == "__main__":
    main()
