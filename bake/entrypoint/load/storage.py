"""Storage: the files that hold the weights, as verl's engines look for them, and whether this user may read them."""

from __future__ import annotations

import os
import stat
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from bake.entrypoint.fault import Fault

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bake.entrypoint.load.documents import Documents
    from bake.record import RecordedModel

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
BIN, BIN_INDEX = "pytorch_model.bin", "pytorch_model.bin.index.json"

_NUMBERED = "model-*-of-*.safetensors"
"""Shards whose index is missing, which verify tells."""


def storage_faults(model: RecordedModel, documents: Documents) -> Iterator[Fault]:
    """Weights that transformers does not look for, a second copy in Mistral's format, and files that are closed."""
    names = documents.names
    if names & {"config.json"} and not _loadable(names):
        yield Fault(
            path=".",
            kind="weights",
            expected=f"{SINGLE}, {BIN} or one of their indexes: no other name is looked for",
            found=", ".join(sorted(name for name in names if name.endswith((".safetensors", ".bin")))) or "none",
            hint="merge an adapter into its base model; rename a single weights file to model.safetensors",
        )
    copies = sorted(name for name in names if fnmatchcase(name, "consolidated*.safetensors"))
    if copies and set(model.roles) != {"critic"}:  # which vLLM never serves
        yield Fault(
            path=copies[0],
            kind="weights",
            expected="the weights once, as transformers names them",
            found=f"{len(copies)} file{'s' if len(copies) > 1 else ''} in Mistral's format, "
            "by which vLLM takes the model for one of that format",
            hint='drop them: add "consolidated*" to exclude for this model in models.lock, and lock it again',
        )
    yield from _closed(model, documents.folder)


def _loadable(names: frozenset[str]) -> bool:
    """Also where verify tells the cause: no weights at all, or shards without an index."""
    weights = [name for name in names if name.endswith((".safetensors", ".bin"))]
    usual = names & {SINGLE, INDEX, BIN, BIN_INDEX} or any(fnmatchcase(name, _NUMBERED) for name in names)
    return bool(usual) or not weights


def _closed(model: RecordedModel, folder: Path) -> Iterator[Fault]:
    """Files that lie there and may not be read by who runs this: safetensors writes them with mode 0600."""
    for file in model.files:
        path = folder / file.path
        try:
            status = path.stat()
        except OSError:  # absent, which verify tells
            continue
        if not os.access(path, os.R_OK, effective_ids=True):
            yield Fault(
                path=file.path,
                kind="unreadable",
                expected=f"a file that uid {os.geteuid()} may read",
                found=f"mode {stat.S_IMODE(status.st_mode):04o}, owned by uid {status.st_uid}",
                hint="run `chmod -R a+rX` on the model's folder, or run the container as its owner",
            )
