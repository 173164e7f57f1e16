"""Config: what a model's config.json says of its shape. Read once a check; verify has told what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bake.entrypoint.document import read_object
from bake.entrypoint.preflight.asked import MOST

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """None where the file does not say."""

    heads: int | None = None
    hidden: int | None = None
    layers: int | None = None
    vocabulary: int | None = None
    tied: bool | None = None


def read_shape(folder: Path) -> Shape:
    """Of a model that also sees, the part that reads and writes text."""
    outer = read_object(folder / "config.json")
    inner = outer.get("text_config")
    config = {**outer, **inner} if isinstance(inner, dict) else outer
    tied = config.get("tie_word_embeddings")
    return Shape(
        heads=_count(config, "num_attention_heads", "n_head"),
        hidden=_count(config, "hidden_size", "n_embd"),
        layers=_count(config, "num_hidden_layers", "n_layer"),
        vocabulary=_count(config, "vocab_size"),
        tied=tied if isinstance(tied, bool) else None,
    )


def _count(config: dict[str, Any], *keys: str) -> int | None:
    value = next((config[key] for key in keys if key in config), None)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MOST else None
