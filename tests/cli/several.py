"""Several models in one lock, as the tests of `build` and `plan` of several need them."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from bake.digest import Digest
from tests.entrypoint.files import model_files, write

if TYPE_CHECKING:
    from tests.cli.place import Bake, Place, Ran

LOCKED = (
    "the file is not the one that was locked, or it changed while it was read; a changed model is a new version: "
    "bake add NAME@NEW_VERSION SOURCE"
)


def add_models(place: Place, bake: Bake, *names: str) -> None:
    """Models that share nothing, each in the lock as NAME@v1 and in a folder of its name."""
    for name in names:
        config = b'{"model_type": "llama", "name": "%s"}' % name.encode()
        write(place.root / name, model_files() | {"config.json": config})
        assert bake("-q", "add", f"{name}@v1", f"dir://{name}").code == 0


def alter(place: Place, name: str) -> str:
    """Change bytes of a model since it was locked; returns what is said of that."""
    path = place.root / name / "config.json"
    before = path.read_bytes()
    after = before.replace(b"llama", b"LLAMA")
    path.write_bytes(after)
    return f"config.json: expected {Digest.of(before)}, found {Digest.of(after)}"


def commit(place: Place) -> None:
    for words in (["init", "-q"], ["add", "models.lock"], ["commit", "-qm", "one"]):
        subprocess.run(
            ["git", "-c", "user.name=x", "-c", "user.email=x@example.com", *words], cwd=place.root, check=True
        )


def states(ran: Ran) -> list[tuple[str, str]]:
    return [(item["model"], item["outcome"]) for item in ran.document]
