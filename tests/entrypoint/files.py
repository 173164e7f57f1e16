"""Model folders written by hand, so that each test can break exactly one thing."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

from bake.digest import Digest
from bake.entrypoint.shards import DTYPE_BITS
from bake.record import RecordedFile, RecordedModel, set_digest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


def header(tensors: Mapping[str, tuple[str, Sequence[int]]]) -> dict[str, object]:
    """A header in which the tensors lie one behind another; each takes a whole number of bytes."""
    document: dict[str, object] = {}
    position = 0
    for name, (dtype, shape) in tensors.items():
        end = position + DTYPE_BITS[dtype] * math.prod(shape) // 8
        document[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [position, end]}
        position = end
    return document


def frame(text: bytes, data: bytes = b"") -> bytes:
    """A file of any header text and any data, right or wrong."""
    return len(text).to_bytes(8, "little") + text + data


def safetensors(tensors: Mapping[str, tuple[str, Sequence[int]]]) -> bytes:
    """A right file, its tensors filled with 7s."""
    size = sum(DTYPE_BITS[dtype] * math.prod(shape) // 8 for dtype, shape in tensors.values())
    return frame(json.dumps(header(tensors)).encode(), b"\x07" * size)


def shard(*names: str) -> bytes:
    """A right file with a tensor of 8 bytes for each name."""
    return safetensors({name: ("F32", [2]) for name in names})


def index(weight_map: Mapping[str, str]) -> bytes:
    return json.dumps({"metadata": {"total_size": 0}, "weight_map": weight_map}).encode()


FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
INDEX = "model.safetensors.index.json"


def model_files() -> dict[str, bytes]:
    """A right model in two shards."""
    return {
        "config.json": b'{"model_type": "llama"}',
        FIRST: shard("a", "b"),
        SECOND: shard("c"),
        INDEX: index({"a": FIRST, "b": FIRST, "c": SECOND}),
    }


def write(root: Path, files: Mapping[str, bytes]) -> Path:
    for path, content in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        target.chmod(0o644)
    return root


def write_sparse(root: Path, names: Sequence[str], *, head: bytes, size: int) -> None:
    """Files that start with `head` and go on with `size` bytes which take no room on the disk."""
    for name in names:
        with (root / name).open("wb") as stream:
            stream.write(head)
            stream.truncate(len(head) + size)


def recorded(files: Mapping[str, bytes], *, path: str = "/opt/models/tiny") -> RecordedModel:
    listing = tuple(
        RecordedFile(path=name, size=len(content), digest=Digest.of(content)) for name, content in sorted(files.items())
    )
    return RecordedModel(
        name="tiny",
        version="v1",
        roles=("actor",),
        path=path,
        source="dir://tiny",
        commit=None,
        set_digest=set_digest(listing),
        files=listing,
    )
