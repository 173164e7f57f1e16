"""What a push costs, against curl of the same bytes (the limit) and other tools, into docker-registry on this machine.

2 GiB of random weights in 8 shards (--size for less) lie in a folder, warm in the cache. Each contender meets a
registry that is empty, then pushes the same once more, and then the same weights on another base. `docker push` has the
image in its daemon beforehand (the classic image store), crane and skopeo have it in a layout: what that took is not
counted; bake makes it while it pushes, but where it was built before. Peak memory is that of the client's processes,
and neither the registry's nor the daemon's. Client, daemon and registry share the cores: on a machine with few, a
client's own work counts for more than it does elsewhere.

Needs docker-registry, crane and an engine (eval "$(.ci/engine up)"), skopeo and curl, and about eight times the size of
disk, four of them below --folder.
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
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench.build import without_layers
from tests.bench.measure import Cost, Row, Table, against, bake, parser, report, run, scratch_folder, tell
from tests.bench.weights import write_model
from tests.cli.test_bases import make_base

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MODEL = "bench@v1.0.0"
BASES = ("one", "two")
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
    """A model in a folder, locked on each base, in a layout of each, in the daemon on each; and a registry.

    `digests` are those of its shards, `docker` is the environment that names the daemon.
    """

    folder: Path
    digests: dict[Path, str]
    port: int
    docker: dict[str, str]
    process: subprocess.Popen[bytes] | None = field(default=None)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def curl(self) -> Cost:
        words = [word for path, digest in self.digests.items() for word in (self.address, str(path), digest)]
        script = f"printf '%s\\0' \"$@\" | xargs -0 -n 3 -P {AT_ONCE} sh -c {shlex.quote(_UPLOAD)} sh"
        return run(("sh", "-c", script, "sh", *words))

    def docker_push(self, base: str) -> Cost:
        return run(("docker", "push", "--quiet", self.image(base)), environ=self.docker)

    def crane(self, base: str) -> Cost:
        return run(("crane", "push", "--insecure", str(self.layout(base)), f"{self.address}/crane:{base}"))

    def skopeo(self, base: str) -> Cost:
        target = f"docker://{self.address}/skopeo:{base}"
        words = ("skopeo", "copy", "-q", "--dest-tls-verify=false", f"oci:{self.layout(base)}", target)
        return run(words, environ={"XDG_DATA_HOME": str(self.folder / "skopeo")})

    def bake(self, lock: str, *, store: str = "store") -> Cost:
        """The store `built` has the layers of a build, the other only what pushes have left. Locks stay as they are."""
        words = ("build", MODEL, "--frozen", "--to", f"{self.address}/bake:v1")
        return run(bake("--lock", self.folder / f"{lock}.lock", *words), cache=self.folder / store)

    def image(self, base: str) -> str:
        """What the image on a base is called in the daemon."""
        return f"{self.address}/docker:{base}"

    def layout(self, base: str) -> Path:
        return self.folder / f"image-{base}"

    def clear(self) -> None:
        """A registry that is empty, and clients that remember nothing of another."""
        self.empty_registry()
        for name in ("store", "skopeo"):
            emptied(self.folder / name)

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
    needed = ("docker-registry", "docker", "crane", "skopeo", "curl")
    if missing := [name for name in needed if shutil.which(name) is None]:
        raise SystemExit(
            f'error: not on the PATH: {", ".join(missing)}\nhint: eval "$(.ci/engine up)"; apt-get install skopeo curl'
        )
    with scratch_folder(chosen.folder) as folder:
        shop = make_workshop(folder, size=int(chosen.size * 2**30))
        try:
            tables = pushes(shop, rounds=chosen.rounds, size=chosen.size)
        finally:
            shop.stop_registry()
            words = ("docker", "image", "rm", *(shop.image(base) for base in BASES))
            subprocess.run(words, env={**os.environ, **shop.docker}, capture_output=True, check=False)
    report(tables, path=chosen.json)


def pushes(shop: Workshop, *, rounds: int, size: float) -> list[Table]:
    """Each contender pushes into an empty registry, the same again, and the weights on another base; curl only once."""
    one, two = BASES
    costs = measure(
        shop,
        {
            f"curl -T of the shards, {AT_ONCE} at once": [shop.curl],
            "docker push (gzips every layer)": [partial(shop.docker_push, base) for base in (one, one, two)],
            "crane push of a ready layout": [partial(shop.crane, base) for base in (one, one, two)],
            "skopeo copy of a ready layout (gzips)": [partial(shop.skopeo, base) for base in (one, one, two)],
            "bake build --to REF": [partial(shop.bake, base) for base in (one, one, two)],
            "bake build --to REF, built before": [partial(shop.bake, one, store="built")],
            "bake build --to REF, no diff_id in the lock": [partial(shop.bake, "unknown")],
        },
        rounds=rounds,
    )
    titles = (
        f"A push of {size:g} GiB in {SHARDS} shards into an empty registry",
        "The same again",
        "The same weights on another base",
    )
    return [
        table(title, {name: taken[number] for name, taken in costs.items() if number < len(taken)})
        for number, title in enumerate(titles)
    ]


def measure(
    shop: Workshop, contenders: dict[str, Sequence[Callable[[], Cost]]], *, rounds: int
) -> dict[str, list[list[Cost]]]:
    """What each step of each contender took, in every round; a round begins with the next contender."""
    names = list(contenders)
    costs: dict[str, list[list[Cost]]] = {name: [[] for _ in steps] for name, steps in contenders.items()}
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            tell(f"round {number + 1} of {rounds}: {name}")
            shop.clear()
            for taken, step in zip(costs[name], contenders[name], strict=True):
                taken.append(step())
    tell("")
    return costs


def table(title: str, costs: dict[str, list[Cost]]) -> Table:
    rows = [
        Row(name, tuple(cost.seconds for cost in taken), max(cost.peak for cost in taken))
        for name, taken in costs.items()
    ]
    return Table(title, against(rows[0], rows))


def make_workshop(folder: Path, *, size: int) -> Workshop:
    shards = write_model(folder / "model", shards=SHARDS, shard_size=size // SHARDS)
    host = os.environ.get("BAKE_TEST_DOCKER_CLASSIC")
    shop = Workshop(
        folder, {path: digest_of(path) for path in shards}, free_port(), {"DOCKER_HOST": host} if host else {}
    )
    cache = folder / "built"
    for base in BASES:
        lock = folder / f"{base}.lock"
        digest = make_base(folder / f"base-{base}", base.encode())
        lock.write_text(f'version = 1\n\n[base.{base}]\nimage = "oci:base-{base}"\ndigest = "{digest}"\n', "utf-8")
        run(bake("--lock", lock, "add", MODEL, "dir://model"), cache=cache)
        run(bake("--lock", lock, "build", MODEL, "--to", f"oci:{shop.layout(base)}"), cache=cache)
        run(
            bake("--lock", lock, "build", MODEL, "--to", f"docker:{shop.image(base)}"), cache=cache, environ=shop.docker
        )
    (folder / "unknown.lock").write_text(without_layers((folder / "one.lock").read_text("utf-8")), "utf-8")
    return shop


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
