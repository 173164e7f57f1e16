"""Rows as verl's own preparation of gsm8k writes them, for a training of seconds: sums of two numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def rows(count: int) -> list[dict[str, Any]]:
    """The schema of https://verl.readthedocs.io/en/latest/preparation/prepare_data.html."""
    return [
        {
            "data_source": "openai/gsm8k",
            "prompt": [{"role": "user", "content": f"What is {number} + {number + 1}?"}],
            "ability": "math",
            "reward_model": {"style": "rule", "ground_truth": str(2 * number + 1)},
            "extra_info": {"split": "train", "index": number},
        }
        for number in range(count)
    ]


def write_rows(path: Path, found: Sequence[dict[str, Any]]) -> Path:
    """A parquet file that anyone may read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(found)), path)
    path.chmod(0o644)
    return path
