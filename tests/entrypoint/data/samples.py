"""Data files, a tiny model's tokenizer and a situation, made right, so that each test can break exactly one thing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from bake.entrypoint.data import Prepared, prepare
from bake.entrypoint.machine import Machine
from bake.entrypoint.preflight.situation import Situation
from bake.entrypoint.settings import Settings
from bake.record import RecordedModel, set_digest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
_SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def row(number: int = 0, **other: Any) -> dict[str, Any]:
    """One row as verl's own preparation of gsm8k writes it."""
    return {
        "data_source": "openai/gsm8k",
        "prompt": [{"role": "user", "content": f"What is {number} + {number}?"}],
        "ability": "math",
        "reward_model": {"style": "rule", "ground_truth": str(2 * number)},
        "extra_info": {"split": "train", "index": number},
        **other,
    }


def rows(count: int, **other: Any) -> list[dict[str, Any]]:
    return [row(number, **other) for number in range(count)]


def write_parquet(path: Path, content: Sequence[Mapping[str, Any]], **options: Any) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(content)), path, **options)
    return str(path)


def write_jsonl(path: Path, content: Sequence[object]) -> str:
    path.write_text("".join(f"{json.dumps(item)}\n" for item in content))
    return str(path)


def write_model(folder: Path, *, template: str | None = CHATML, positions: int = 4096, **config: Any) -> Path:
    """A tokenizer of one token a byte, and a config.json; no weights, which nothing here reads."""
    folder.mkdir(parents=True)
    names = [*_SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokenizer = Tokenizer(models.BPE(vocab={name: number for number, name in enumerate(names)}, merges=[]))
    tokenizer.add_special_tokens(_SPECIAL)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(folder / "tokenizer.json"))
    named = {"eos_token": "<|im_end|>", "bos_token": None, "tokenizer_class": "PreTrainedTokenizerFast"}
    (folder / "tokenizer_config.json").write_text(json.dumps({**named, "chat_template": template}))
    (folder / "config.json").write_text(json.dumps({"max_position_embeddings": positions, **config}))
    return folder


def situation(
    data: Mapping[str, Any],
    *,
    release: tuple[int, int] | None = (0, 9),
    model: Path | None = None,
    **other: Any,
) -> Situation:
    """verl's defaults, but for a batch of one row and what `data` says. `other` are more top-level settings."""
    defaults = {
        "prompt_key": "prompt",
        "reward_fn_key": "data_source",
        "max_prompt_length": 512,
        "max_response_length": 512,
        "train_batch_size": 1,
        "filter_overlong_prompts": False,
        "truncation": "error",
        "custom_cls": {"path": None, "name": None},
    }
    given = frozenset(f"data.{name}" for name in data)
    return Situation(
        settings=Settings({"data": {**defaults, **data}, **other}, given),
        models=(recorded(model),) if model is not None else (),
        machine=Machine(),
        environ={},
        release=release,
    )


def recorded(folder: Path) -> RecordedModel:
    return RecordedModel(
        name="tiny",
        version="v1",
        roles=("actor",),
        path=str(folder),
        source="dir://tiny",
        commit=None,
        set_digest=set_digest(()),
        files=(),
    )


def prepared(
    train: object,
    *,
    scratch: Path | None,
    columns: Mapping[str, str] | None = None,
    data: Mapping[str, Any] | None = None,
    skip: Sequence[str] = (),
    model: Path | None = None,
    write: bool = True,
    **other: Any,
) -> Prepared:
    """`prepare` on files that serve for training and validation. Without a model, no prompt is rendered."""
    files = {"train_files": train, "val_files": train, **(data or {})}
    left_out = {*skip, *(() if model else ("data-template", "data-lengths"))}
    found = situation(files, model=model, **other)
    return prepare(found, columns=columns or {}, scratch=scratch, skip=left_out, write=write)


def whats(found: Prepared) -> list[str]:
    """What was found, without why and what to do."""
    return [finding.what for finding in found.findings]
