"""A package `ray` that speaks Ray's part: `ray start --block`, `ray.init` and `ray.nodes()`, and no more.

It answers once it was started, as Ray does, and while a file `nodes.json` lies beside it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

_ASKED = """
import json
from pathlib import Path

_NODES = Path(__file__).parents[1] / "nodes.json"
_STARTED = _NODES.with_name("words.txt")


def init(address, **_):
    if not (_STARTED.exists() and _NODES.exists()):
        raise ConnectionError(f"no Ray at {address}")


def nodes():
    return json.loads(_NODES.read_text())
"""

_STARTED = """
import sys
import time
from pathlib import Path

words = Path(__file__).parents[2] / "words.new"
words.write_text(" ".join(sys.argv[1:]))
words.rename(words.with_name("words.txt"))
print("fake Ray starts", flush=True)
time.sleep(600)
"""


def fake_ray(folder: Path, *nodes: dict[str, Any]) -> Path:
    """A folder for PYTHONPATH. Without nodes that Ray never answers. `words.txt` is what it was started with."""
    (folder / "ray" / "scripts").mkdir(parents=True)
    (folder / "ray" / "__init__.py").write_text(_ASKED)
    (folder / "ray" / "scripts" / "__init__.py").write_text("")
    (folder / "ray" / "scripts" / "scripts.py").write_text(_STARTED)
    if nodes:
        (folder / "nodes.json").write_text(json.dumps(nodes))
    return folder


def fake_node(name: str, address: str, **resources: float) -> dict[str, Any]:
    """A node as `ray.nodes()` has it."""
    return {"Alive": True, "NodeManagerHostname": name, "NodeManagerAddress": address, "Resources": resources}
