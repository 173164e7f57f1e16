"""Real verl in containers: the base image that holds it, the data it trains on, and the words that start a training.

verl and torch are those of `.ci/verl`; the GPU is a stand-in, a CPU that verl takes for one (tests/verl_cpu).
"""

from __future__ import annotations

import json
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docker.errors import NotFound
from filelock import FileLock

from tests.cli.place import TINY, Ran
from tests.integration.engine import start_container
from tests.verl_cpu import settings
from tests.verl_cpu.data import rows, write_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from testcontainers.core.container import DockerContainer

    from tests.integration.engine import Engine, Shop

VERL_BASE = "bake-test/verl:0.9.1"
SECOND_SHARD = "model-00002-of-00003.safetensors"
FIRST_STEP = r"step:1 - "
"""What verl prints when it has trained one step."""

_PACKAGES = "/usr/local/lib/python3.11/dist-packages"
_PLUGIN = Path(__file__).parents[1] / "verl_cpu"
_LOCKS = Path(tempfile.gettempdir())
_SECONDS = 300


def put_verl_base(engine: Engine, site: Path) -> str:
    """The engine's base with verl in Python's own folder, as `pip install` leaves it.

    It takes half a minute and 2 GB of disk, and as much again in BuildKit's cache, which is why a second call with the
    same files takes two seconds.
    """
    dockerfile = f"""\
FROM {engine.base}
COPY --from=site . {_PACKAGES}
RUN ln -s {_PACKAGES}/bin/ray /usr/local/bin/ray
COPY --from=plugin . {_PACKAGES}/verl_cpu
ENV {" ".join(f"{name}={value}" for name, value in settings.ENVIRON.items())}
"""
    contexts = ("--build-context", f"site={site}", "--build-context", f"plugin={_PLUGIN}")
    with FileLock(_LOCKS / "bake-test-verl-base.lock"):
        words = ("build", "-q", "--network", "none", *contexts, "-t", VERL_BASE, "-")
        engine.docker(*words, stdin=dockerfile.encode())
    return VERL_BASE


def bake_tiny(shop: Shop, base: str) -> None:
    """The repository's small Llama, baked onto a base with verl."""
    shop.add({path.name: path.read_bytes() for path in TINY.iterdir()}, base=f"docker:{base}")
    shop.build("-q")


def derive(shop: Shop, name: str, script: str) -> str:
    """An image that differs from the baked one in what a script of Python did to `{}`, the model's second shard."""
    image = f"{shop.name}-{name}:v1"
    words = json.dumps(["python3", "-c", script.format(f"/opt/models/{shop.name}/{SECOND_SHARD}")])
    dockerfile = f"FROM {shop.image}\nRUN {words}\n"
    shop.engine.docker("build", "-q", "--network", "none", "-t", image, "-", stdin=dockerfile.encode())
    return image


def without_shard(shop: Shop) -> str:
    return derive(shop, "halved", "import os; os.remove('{}')")


def write_data(folder: Path, found: list[dict[str, Any]] | None = None) -> Path:
    """train.parquet and test.parquet, of these rows or of two batches of good ones."""
    write_rows(folder / "train.parquet", rows(2 * settings.BATCH) if found is None else found)
    write_rows(folder / "test.parquet", rows(settings.BATCH))
    return folder


def outputs_of(root: Path) -> Path:
    """A folder that any user of a container may write to."""
    folder = root / "outputs"
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o777)
    return folder


def train_words(*more: str) -> tuple[str, ...]:
    """A training of two steps on one node, all words but `train`."""
    return (*settings.CPU, *settings.SMALL, *settings.ONE_NODE, *settings.TWO_STEPS, *more)


def places(shop: Shop) -> dict[str, Any]:
    """What every training is given. Without a volume at /outputs it writes into the container."""
    return {"mounts": {"/data": shop.root / "data"}, "shm_size": "2g"}


@contextmanager
def training(
    shop: Shop, *words: str, image: str | None = None, until: str | None = None, **options: Any
) -> Iterator[DockerContainer]:
    """A container that trains, once it has printed `until`. One at a time, since each takes all of two cores."""
    given = {"until": until, "seconds": _SECONDS, **places(shop), **options}
    container = start_container(shop.engine, image or shop.image, *words, **given)
    with FileLock(_LOCKS / "bake-test-training.lock"), container:
        yield container


def refused(shop: Shop, *words: str, image: str | None = None, **options: Any) -> tuple[Ran, bool]:
    """A training that ends before it starts; and whether Ray was started all the same."""
    with start_container(shop.engine, image or shop.image, *words, **{**places(shop), **options}) as container:
        code = container.wait()
        out, err = container.get_logs()
        return Ran(code, out.decode(), err.decode()), has_started_ray(container)


def has_started_ray(container: DockerContainer) -> bool:
    """Ray makes /tmp/ray before it starts any process, and leaves it behind."""
    try:
        container.get_wrapped_container().get_archive("/tmp/ray")  # noqa: S108 - in the container
    except NotFound:
        return False
    return True


def orphans(container: DockerContainer) -> tuple[str, ...]:
    """The states of the processes whose parent is process 1, as /proc/PID/stat has them: Z is a zombie."""
    script = "cat /proc/[0-9]*/stat 2>/dev/null; true"
    output: Any = container.get_wrapped_container().exec_run(["sh", "-c", script]).output
    fields = [line.rpartition(")")[2].split() for line in str(output, "utf-8").splitlines()]
    return tuple(state for state, parent, *_ in fields if parent == "1")


def log(container: DockerContainer) -> str:
    """stdout and stderr together, in the order in which they were written, each line after its time."""
    lines: Any = container.get_wrapped_container().logs(timestamps=True)
    return str(lines, "utf-8")
