"""Model folders for the static rules: tiny-llama's own files, and the small files of well-known models by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bake.entrypoint.load import static_faults
from tests.entrypoint.files import recorded, write

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bake.entrypoint.fault import Fault
    from bake.record import RecordedModel

TINY_LLAMA = Path(__file__).parents[2] / "models" / "tiny-llama"


def tiny_llama() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in TINY_LLAMA.iterdir()}


def with_keys(files: Mapping[str, bytes], name: str, **keys: Any) -> dict[str, bytes]:
    """The files, one JSON document of which has these keys too; None takes a key away."""
    document = json.loads(files[name]) | keys
    kept = {key: value for key, value in document.items() if key not in keys or value is not None}
    return {**files, name: json.dumps(kept).encode()}


def without(files: Mapping[str, bytes], *names: str) -> dict[str, bytes]:
    return {name: content for name, content in files.items() if name not in names}


def known_model(
    *,
    config: Mapping[str, Any],
    tokenizer: Mapping[str, Any] | None = None,
    generation: Mapping[str, Any] | None = None,
    added: Mapping[str, int] | None = None,
    weights: str = "model.safetensors",
) -> dict[str, bytes]:
    """The files of a model of which only these documents matter."""
    tokens = [{"id": number, "content": text} for text, number in (added or {}).items()]
    files = {
        "config.json": json.dumps(config).encode(),
        "tokenizer.json": json.dumps({"version": "1.0", "added_tokens": tokens}).encode(),
        "tokenizer_config.json": json.dumps(tokenizer or {}).encode(),
        weights: b"weights",
    }
    return files if generation is None else {**files, "generation_config.json": json.dumps(generation).encode()}


def model_of(files: Mapping[str, bytes], *, roles: tuple[str, ...] = ("actor",), trust: bool = False) -> RecordedModel:
    return replace(recorded(files), roles=roles, trust_remote_code=trust)


def faults_of(
    root: Path,
    files: Mapping[str, bytes],
    *,
    roles: tuple[str, ...] = ("actor",),
    trust: bool = False,
    transformers: str | None = "5.10.4",
    chat_template: bool = False,
) -> tuple[Fault, ...]:
    """What is found in a folder that holds these files, under a transformers that need not be installed."""
    model = model_of(files, roles=roles, trust=trust)
    return static_faults(model, write(root, files), transformers=transformers, chat_template=chat_template)
