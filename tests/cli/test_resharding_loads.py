"""Real transformers loads a re-sharded model as it loads the model itself: the same tensors, and none missing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.place import TINY, Bake, Place
from tests.cli.pushed import reference
from tests.entrypoint.files import frame
from tests.needs import verl_folder

if TYPE_CHECKING:
    from tests.registry.server import FakeRegistry

pytestmark = pytest.mark.verl


@pytest.fixture(scope="module")
def site() -> Path:
    """The packages of verl; asked for before a place to bake in forgets the environment."""
    return verl_folder() / "site"


def loaded(site: Path, *folders: Path) -> list[Any]:
    """The state dict of each folder, as transformers loads it."""
    command = [
        sys.executable,
        str(Path(__file__).with_name("loaded.py")),
        str(site),
        *map(str, folders),
    ]
    environ = {**os.environ, "HF_HUB_OFFLINE": "1"}
    run = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    states: list[Any] = json.loads(run.stdout)
    return states


def whole(folder: Path) -> None:
    """Make one file of a sharded model."""
    paths = sorted(folder.glob("*.safetensors"))
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    data = b""
    for content in [path.read_bytes() for path in paths]:
        size = 8 + int.from_bytes(content[:8], "little")
        for name, tensor in json.loads(content[8:size]).items():
            if name != "__metadata__":
                offsets = [at + len(data) for at in tensor["data_offsets"]]
                header[name] = tensor | {"data_offsets": offsets}
        data += content[size:]
    for path in (folder / "model.safetensors.index.json", *paths):
        path.unlink()
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(frame(text.ljust(-(-len(text) // 8) * 8), data))


def test_the_state_dict_is_the_same(site: Path, place: Place, bake: Bake, registry: FakeRegistry) -> None:
    shutil.copytree(TINY, place.root / "sharded")
    shutil.copytree(TINY, place.root / "whole")
    whole(place.root / "whole")
    assert bake("-q", "add", "a@v1", "dir://sharded", "--max-shard-size", "10kB").code == 0
    assert bake("-q", "add", "b@v1", "dir://whole", "--max-shard-size", "10kB").code == 0
    pushed = [bake("-q", "push", f"{name}@v1", reference(registry, tag=name)).code for name in "ab"]
    pulled = [bake("-q", "pull", reference(registry, tag=name), name).code for name in "ab"]

    before, *others = loaded(site, TINY, *(place.root / name for name in ("whole", "a", "b")))

    assert (pushed, pulled) == ([0, 0], [0, 0])
    assert others == [before, before, before]
    assert [len(list((place.root / name).glob("*.safetensors"))) for name in "ab"] == [8, 8]
