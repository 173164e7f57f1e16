"""Wheels: the Python packages that a base lacks, unpacked into one layer at /opt/bake/site, in front of the base's own.

pip fetches them, from whatever index it is set up for; the lock's sha256 says whether they are the right ones.
"""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from bake.api.workspace import offline_error
from bake.errors import ImageError, NetworkError
from bake.image import LAYER, AddedLayer
from bake.layer import File, stream_entries
from bake.plan import SITE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bake.api.workspace import Workspace
    from bake.image import Descriptor
    from bake.layout import Layout
    from bake.lock import Wheel
    from bake.plan import ImagePlan


def wheels_layer(workspace: Workspace, image_plan: ImagePlan, layout: Layout) -> AddedLayer | None:
    """The layer of a base's wheels, written into the layout; None where the base lacks nothing."""
    with open_wheels_layer(workspace, image_plan) as chunks:
        if chunks is None:
            return None
        return wheels_step(image_plan, layout.add_all(chunks(), media_type=LAYER))


@contextlib.contextmanager
def open_wheels_layer(workspace: Workspace, image_plan: ImagePlan) -> Iterator[Callable[[], Iterator[bytes]] | None]:
    """How to make the bytes of the layer of a base's wheels, as often as they are needed; None where there is none."""
    wheels = image_plan.base.wheels if image_plan.base else ()
    if not wheels:
        yield None
        return
    with open_wheels(workspace, wheels) as files:
        entries = [File(f"{SITE}/{path}", read) for path, read in files.items()]
        yield lambda: stream_entries(entries)


def wheels_step(image_plan: ImagePlan, descriptor: Descriptor) -> AddedLayer:
    """The layer of a base's wheels as a step of the image."""
    wheels = image_plan.base.wheels if image_plan.base else ()
    names = ", ".join(f"{wheel.name} {wheel.version}" for wheel in wheels)
    return AddedLayer(descriptor=descriptor, created_by=f"bake wheels: {names}")


@contextlib.contextmanager
def open_wheels(workspace: Workspace, wheels: tuple[Wheel, ...]) -> Iterator[dict[str, Callable[[], bytes]]]:
    """How to read every file of some wheels, by its path below the site folder (PEP 427)."""
    owners: dict[str, Wheel] = {}
    files: dict[str, Callable[[], bytes]] = {}
    with contextlib.ExitStack() as stack:
        for wheel in sorted(wheels, key=lambda wheel: wheel.name):
            archive = stack.enter_context(zipfile.ZipFile(fetch_wheel(workspace, wheel)))
            for name in (name for name in archive.namelist() if not name.endswith("/")):
                path = _site_path(wheel, name)
                if (other := owners.setdefault(path, wheel)) != wheel:
                    raise ImageError(f"wheels {other.name} and {wheel.name} both hold {path}")
                files[path] = functools.partial(archive.read, name)
        yield files


def fetch_wheel(workspace: Workspace, wheel: Wheel) -> Path:
    """A wheel in the store. Raises NetworkError where pip cannot fetch it, ImageError where it is another."""
    if found := workspace.store.sound_file(wheel.digest):
        return found
    if workspace.offline:
        raise offline_error(f"wheel {wheel.name} {wheel.version}")
    with tempfile.TemporaryDirectory() as folder:
        workspace.progress.note(f"fetching wheel {wheel.name} {wheel.version}")
        _download(wheel, Path(folder))
        (path,) = Path(folder).glob("*.whl")
        with path.open("rb") as stream:
            workspace.store.keep(iter(lambda: stream.read(1 << 20), b""))
    if found := workspace.store.file(wheel.digest):
        return found
    raise ImageError(f"wheel {wheel.name} {wheel.version}: pip fetched another file than {wheel.digest}")


def requirements(wheels: tuple[Wheel, ...]) -> str:
    """The same wheels as a requirements file, by hash (pip's hash-checking mode)."""
    ordered = sorted(wheels, key=lambda wheel: wheel.name)
    return "".join(f"{wheel.name}=={wheel.version} --hash=sha256:{wheel.digest.hex}\n" for wheel in ordered)


def _download(wheel: Wheel, folder: Path) -> None:
    listed = folder / "requirements.txt"
    listed.write_text(requirements((wheel,)))
    words = ["--no-deps", "--only-binary=:all:", "--require-hashes", "--disable-pip-version-check", "--quiet"]
    command = [sys.executable, "-m", "pip", "download", *words, "--dest", str(folder), "-r", str(listed)]
    # pip is not asked about its own warnings: it dies of them where PYTHONWARNINGS says "error".
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONWARNINGS"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environ)
    if done.returncode:
        raise NetworkError(
            f"pip could not fetch wheel {wheel.name} {wheel.version}: {_reason(done)}",
            hint="see that pip works here (python -m pip download), and that its index has this version and sha256",
        )


def _reason(done: subprocess.CompletedProcess[str]) -> str:
    """What pip says went wrong: its last errors, or the last line of its traceback."""
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR: ") and line != "ERROR: Exception:"]
    return " ".join(errors[-2:] or lines[-1:]) or f"exit code {done.returncode}"


def _site_path(wheel: Wheel, name: str) -> str:
    """Where a wheel's file goes (PEP 427, "Installing a wheel", spread)."""
    first, _, rest = name.partition("/")
    if first.endswith(".data"):
        kind, _, below = rest.partition("/")
        if kind not in {"purelib", "platlib"} or not below:
            raise ImageError(
                f"wheel {wheel.name} {wheel.version}: {name} goes outside the site folder",
                hint="use a base image that holds this package, and leave it out of wheels",
            )
        name = below
    if ".." in name.split("/") or name.startswith("/"):
        raise ImageError(f"wheel {wheel.name} {wheel.version}: unsafe path {name!r}")
    return name
