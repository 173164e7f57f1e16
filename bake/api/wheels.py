"""Wheels: the Python packages that a base lacks, unpacked into one layer at /opt/bake/site, in front of the base's own.

pip fetches them, from whatever index it is set up for; the lock's sha256 says whether they are the right ones.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from bake.api.workspace import offline_error
from bake.errors import ImageError, NetworkError
from bake.image import LAYER, AddedLayer
from bake.layer import File, pack_entries
from bake.plan import SITE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bake.api.workspace import Workspace
    from bake.layout import Layout
    from bake.lock import Wheel
    from bake.plan import ImagePlan


def wheels_layer(workspace: Workspace, image_plan: ImagePlan, layout: Layout) -> AddedLayer | None:
    """The layer of a base's wheels, written into the layout; None where the base lacks nothing."""
    wheels = image_plan.base.wheels if image_plan.base else ()
    if not wheels:
        return None
    files = list(wheel_files(workspace, wheels))
    names = ", ".join(f"{wheel.name} {wheel.version}" for wheel in wheels)
    content = pack_entries([File(f"{SITE}/{path}", body) for path, body in files])
    return AddedLayer(descriptor=layout.add(content, media_type=LAYER), created_by=f"bake wheels: {names}")


def wheel_files(workspace: Workspace, wheels: tuple[Wheel, ...]) -> Iterator[tuple[str, bytes]]:
    """Every file of some wheels, by its path below the site folder (binary distribution format, PEP 427)."""
    seen: dict[str, Wheel] = {}
    for wheel in sorted(wheels, key=lambda wheel: wheel.name):
        with zipfile.ZipFile(fetch_wheel(workspace, wheel)) as archive:
            for name in sorted(archive.namelist()):
                if name.endswith("/"):
                    continue
                path = _site_path(wheel, name)
                if (other := seen.setdefault(path, wheel)) != wheel:
                    raise ImageError(f"wheels {other.name} and {wheel.name} both hold {path}")
                yield path, archive.read(name)


def fetch_wheel(workspace: Workspace, wheel: Wheel) -> Path:
    """A wheel in the store. Raises NetworkError where pip cannot fetch it, DigestError where it is another."""
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
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
        raise NetworkError(
            f"pip could not fetch wheel {wheel.name} {wheel.version}: {' '.join(lines[-2:])}",
            hint="see that pip works here (python -m pip download), and that its index has this version and sha256",
        )


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
