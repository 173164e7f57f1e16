"""Documents: the small files of a model's folder that say what it is, read once. Weights are not opened.

A document that is absent, cannot be read or is no JSON object is an empty one here.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bake.entrypoint.document import parse, read_object

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_READ = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "chat_template.json",
    "model.safetensors.index.json",
    "pytorch_model.bin.index.json",
)
"""What the rules here, or transformers' configuration, weights and tokenizer, are read from. Any other file may be
whatever its owner likes."""

_LARGE = 1 << 20
"""Bytes from which on a document is judged by its ends: to parse a vocabulary takes tenths of a second."""

_BYTE_LEVEL = re.compile(rb'"type"\s*:\s*"ByteLevel"')
_ADDED = re.compile(rb'"added_tokens"\s*:\s*\[')


@dataclass(frozen=True, slots=True, kw_only=True)
class Documents:
    """`names` are the files at the folder's top; `special` is special_tokens_map.json, which older tokenizers have.

    `added` are the ids of the tokens that were added to the vocabulary, by their text. `template` is the source of the
    chat template, all of them together where there are several; None where there is none. `byte_level` says that
    tokenizer.json cuts texts as GPT-2 and Llama 3 do.
    """

    folder: Path
    names: frozenset[str]
    config: Mapping[str, Any]
    generation: Mapping[str, Any]
    tokenizer: Mapping[str, Any]
    special: Mapping[str, Any]
    added: Mapping[str, int]
    template: str | None
    byte_level: bool

    def token(self, name: str) -> str | None:
        """The text of a special token, as `eos_token`; None where no file names it."""
        for document in (self.tokenizer, self.special):
            value = document.get(name)
            text = value.get("content") if isinstance(value, dict) else value
            if isinstance(text, str):
                return text
        return None

    @property
    def broken(self) -> bool:
        """True where one of _READ is no JSON, a git-lfs pointer say: verify tells it, and nothing is built upon it."""
        return any(name in self.names and not _is_json(self.folder / name) for name in _READ)

    @property
    def stops(self) -> frozenset[int]:
        """The ids that generation_config.json and config.json say an answer ends with."""
        text = self.config.get("text_config")
        holders = (self.generation, self.config, text if isinstance(text, dict) else {})
        return frozenset(number for holder in holders for number in _ids(holder.get("eos_token_id")))


def read_documents(folder: Path) -> Documents:
    """Read a model's folder; never raises for what is in it."""
    tokenizer, content = read_object(folder / "tokenizer_config.json"), _bytes(folder / "tokenizer.json")
    return Documents(
        folder=folder,
        names=frozenset(entry.name for entry in _scan(folder) if entry.is_file()),
        config=read_object(folder / "config.json"),
        generation=read_object(folder / "generation_config.json"),
        tokenizer=tokenizer,
        special=read_object(folder / "special_tokens_map.json"),
        added=_added_tokens(tokenizer, content),
        template=_template(tokenizer, folder),
        byte_level=_BYTE_LEVEL.search(content) is not None,
    )


def _scan(folder: Path) -> list[os.DirEntry[str]]:
    try:
        return list(os.scandir(folder))
    except OSError:
        return []


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _is_json(path: Path) -> bool:
    content = _bytes(path)
    if len(content) > _LARGE:
        text = content.strip()
        return text[:1] + text[-1:] in {b"{}", b"[]"}
    try:
        parse(content)
    except ValueError:
        return False
    return True


def _ids(value: object) -> tuple[int, ...]:
    values = value if isinstance(value, list) else [value]
    return tuple(item for item in values if isinstance(item, int) and not isinstance(item, bool))


def _added_tokens(tokenizer: Mapping[str, Any], content: bytes) -> Mapping[str, int]:
    """From tokenizer.json, or from tokenizer_config.json where a slow tokenizer has no such file.

    tokenizer.json may have 20 MB and its `added_tokens` lie at its start: nothing but these is parsed.
    """
    if match := _ADDED.search(content):
        end = content.find(b'"normalizer"', match.end())  # the next key, as the tokenizers library writes them
        try:
            text = content[match.end() - 1 : end if end > 0 else None].decode(errors="replace")
            tokens, _ = json.JSONDecoder().raw_decode(text)
        except (ValueError, RecursionError):
            tokens = []
        return {
            token["content"]: token["id"]
            for token in tokens
            if isinstance(token, dict) and isinstance(token.get("content"), str) and isinstance(token.get("id"), int)
        }
    decoder = tokenizer.get("added_tokens_decoder")
    entries = decoder.items() if isinstance(decoder, dict) else ()
    return {
        token["content"]: int(number)
        for number, token in entries
        if number.isdecimal() and isinstance(token, dict) and isinstance(token.get("content"), str)
    }


def _template(tokenizer: Mapping[str, Any], folder: Path) -> str | None:
    """As transformers' `save_chat_templates` and `ProcessorMixin` write it: four places, by age."""
    held = tokenizer.get("chat_template")
    several = held if isinstance(held, list) else []
    texts = [held, read_object(folder / "chat_template.json").get("chat_template")]
    texts += [entry.get("template") for entry in several if isinstance(entry, dict)]
    files = [folder / "chat_template.jinja", *sorted((folder / "additional_chat_templates").glob("*.jinja"))]
    texts += [_bytes(path).decode(errors="replace") for path in files]
    found = [text for text in texts if isinstance(text, str) and text.strip()]
    return "\n".join(found) if found else None
