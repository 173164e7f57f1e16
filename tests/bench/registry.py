"""What a push costs, against plain curl of the same bytes (the limit) and skopeo, into docker-registry on this machine.

2 GiB of random weights in 8 shards (--size for less) lie in a folder, warm in the cache. Each contender meets a
registry that is empty, five uploads go at once, and the second push finds what the first left. Peak memory is that of
the client's processes; the registry's own is not counted. Needs docker-registry (.ci/engine up installs it), skopeo and
curl, and about three times the size of disk below --folder.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench.build import without_layers
from tests.bench.measure import Cost, Table, against, bake, compare, parser, pin, report, run, scratch_folder
from tests.bench.weights import write_model

MODEL = "bench@v1.0.0"
SHARDS = 8
AT_ONCE = 5
"""As bake.registry.profiles has it for a registry of no known name."""

_CONFIG = """\
version: 0.1
log: {{level: error, accesslog: {{disabled: true}}}}
storage: {{filesystem: {{rootdirectory: "{folder}"}}}}
http: {{addr: "127.0.0.1:{port}"}}
"""

_UPLOAD = """\
where=$(curl -sS -X POST -D - -o /dev/null -H 'Content-Length: 0' "http://$1/v2/curl/blobs/uploads/" |
    tr -d '\\r' | sed -n 's/^[Ll]ocation: //p')
exec curl -sS --fail -o /dev/null -T "$2" -H 'Content-Type: application/octet-stream' "$where&digest=sha256:$3"
"""
"""One shard by "POST then PUT": address, file, digest."""


@dataclass(slots=True)
class Workshop:
    """A locked model in a folder, its image in a layout, and a registry. `lock` is the text of models.lock."""

    folder: Path
    lock: str
    digests: dict[Path, str]
    port: int
    process: subprocess.Popen[bytes] | None = field(default=None)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def curl(self) -> Cost:
        self.empty_registry()
        words = [word for path, digest in self.digests.items() for word in (self.address, str(path), digest)]
        script = f"printf '%s\\0' \"$@\" | xargs -0 -n 3 -P {AT_ONCE} sh -c {shlex.quote(_UPLOAD)} sh"
        return run(("sh", "-c", script, "sh", *words))

    def skopeo(self) -> Cost:
        self.empty_registry()
        target = f"docker://{self.address}/skopeo:v1"
        words = ("skopeo", "copy", "-q", "--dest-tls-verify=false", f"oci:{self.folder}/image", target)
        return run(words, environ={"XDG_DATA_HOME": str(emptied(self.folder / "skopeo"))})

    def push(self, *, lock: str | None = None, again: bool = False) -> Cost:
        if not again:
            self.empty_registry()
            emptied(self.folder / "store")
        path = self.folder / "models.lock"
        path.write_text(lock or self.lock, "utf-8")
        return run(bake("--lock", path, "build", MODEL, "--to", f"{self.address}/bake:v1"), cache=self.folder / "store")

    def empty_registry(self) -> None:
        self.stop_registry()
        emptied(self.folder / "registry")
        config = self.folder / "registry.yml"
        config.write_text(_CONFIG.format(folder=self.folder / "registry", port=self.port))
        self.process = subprocess.Popen(
            ["docker-registry", "serve", config], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until = time.monotonic() + 30
        while not listens(self.port):
            if time.monotonic() > until:
                raise SystemExit("error: docker-registry does not answer")
            time.sleep(0.02)

    def stop_registry(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


def main() -> None:
    options = parser(__doc__ or "")
    options.add_argument("--size", type=float, default=2.0, metavar="GIB", help="of all shards (default: %(default)s)")
    options.set_defaults(rounds=3)
    chosen = options.parse_args()
    if missing := [name for name in ("docker-registry", "skopeo", "curl") if shutil.which(name) is None]:
        raise SystemExit(
            f"error: not on the PATH: {', '.join(missing)}\nhint: .ci/engine up; apt-get install skopeo curl"
        )
    with scratch_folder(chosen.folder) as folder:
        shop = make_workshop(folder, size=int(chosen.size * 2**30))
        try:
            table = pushes(shop, rounds=chosen.rounds, size=chosen.size)
        finally:
            shop.stop_registry()
    report([table], path=chosen.json)


def pushes(shop: Workshop, *, rounds: int, size: float) -> Table:
    unknown = without_layers(shop.lock)
    rows = compare(
        "push",
        {
            f"curl -T of the shards, {AT_ONCE} at once": shop.curl,
            "skopeo copy of a ready layout": shop.skopeo,
            "bake build --to REF, no diff_id in the lock": lambda: shop.push(lock=unknown),
            "bake build --to REF": shop.push,
            "bake build --to REF, again": lambda: shop.push(again=True),
        },
        rounds=rounds,
    )
    return Table(f"A push of {size:g} GiB in {SHARDS} shards into an empty registry", against(rows[0], rows))


def make_workshop(folder: Path, *, size: int) -> Workshop:
    shards = write_model(folder / "model", shards=SHARDS, shard_size=size // SHARDS)
    lock = folder / "models.lock"
    pin(lock, MODEL, "dir://model", cache=folder / "store")
    run(bake("--lock", lock, "build", MODEL, "--to", f"oci:{folder}/image"), cache=folder / "store")
    return Workshop(folder, lock.read_text("utf-8"), {path: digest_of(path) for path in shards}, free_port())


def digest_of(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def listens(port: int) -> bool:
    with socket.socket() as knock:
        return knock.connect_ex(("127.0.0.1", port)) == 0


def emptied(folder: Path) -> Path:
    """The path with an empty folder there, and nothing left to write back that would slow the next contender."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    os.sync()
    return folder


if __name__ == "__main__":
    main()
