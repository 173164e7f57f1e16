"""Vocabulary: the tokenizer's files, as far as they can be judged without loading it.

A Qwen2 tokenizer without its files loads, is two tokens long and encodes every text to nothing; without
tokenizer_config.json its end of text is another token. Neither is an error to transformers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bake.entrypoint.fault import FETCH_AGAIN, Fault
from bake.entrypoint.load.configuration import release

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bake.entrypoint.load.documents import Documents
    from bake.record import RecordedModel

_WHOLE = ("tokenizer.json", "vocab.txt", "vocab.json", "tekken.json")
_WHOLE_SUFFIXES = (".model", ".tiktoken")
"""Files that hold a vocabulary: of the tokenizers library, WordPiece, BPE, Mistral, SentencePiece and tiktoken."""

_LOSES_SPACES = ((5, 3), (5, 11))
"""Found by running 5.3.0, 5.5.3, 5.8.0, 5.10.4 and 5.11.0. Not so in 5.0.0 to 5.2.0, nor in 5.24.0."""


def vocabulary_faults(
    model: RecordedModel, documents: Documents, *, transformers: str | None, chat_template: bool
) -> Iterator[Fault]:
    """`chat_template` says that the settings bring one, so that an actor needs none of its own."""
    own_code = "auto_map" in documents.tokenizer
    yield from _file_faults(model, documents, own_code=own_code)
    if release(transformers)[0] == 4:
        yield from _dialect_faults(documents, transformers=str(transformers))
    if _LOSES_SPACES[0] <= release(transformers) <= _LOSES_SPACES[1]:
        yield from _space_faults(documents, transformers=str(transformers))
    if "actor" in model.roles:
        if not own_code:
            yield from _end_faults(documents)
        if documents.template is None and not chat_template:
            yield no_template()


def no_template() -> Fault:
    """verl renders every prompt with the chat template: without one, each sample fails, or is skipped as too long."""
    return Fault(
        path="tokenizer_config.json",
        kind="chat-template",
        expected="a chat template, with which verl writes every prompt",
        found="none here, in chat_template.jinja or in chat_template.json",
        hint="put one into chat_template.jinja and lock the model again, or train with "
        "actor_rollout_ref.model.custom_chat_template",
    )


def _file_faults(model: RecordedModel, documents: Documents, *, own_code: bool) -> Iterator[Fault]:
    names = documents.names
    whole = any(name in _WHOLE or name.endswith(_WHOLE_SUFFIXES) for name in names)
    if not (whole or own_code):
        yield Fault(
            path="tokenizer.json",
            kind="tokenizer",
            expected="a tokenizer's vocabulary, such as tokenizer.json",
            found="none, nor tokenizer.model, vocab.json or vocab.txt",
            hint="lock the model again with its tokenizer's files: without them some load, and encode nothing",
        )
    elif "vocab.json" in names and "merges.txt" not in names and "tokenizer.json" not in names and not own_code:
        yield Fault(
            path="merges.txt",
            kind="tokenizer",
            expected="the merges that belong to vocab.json",
            found="no such file, and no tokenizer.json",
            hint="lock the model again with all of its tokenizer's files",
        )
    if "tokenizer_config.json" not in names and "actor" in model.roles and documents.token("eos_token") is None:
        yield Fault(
            path="tokenizer_config.json",
            kind="tokenizer",
            expected="the tokenizer's configuration, which names the token that ends an answer",
            found="no such file",
            hint="lock the model again with it; without it the class's default ends an answer, or nothing does",
        )


def _dialect_faults(documents: Documents, *, transformers: str) -> Iterator[Fault]:
    """What transformers 5 writes into tokenizer_config.json and 4 cannot read: found by running 4.55.4 and 4.57.3."""
    hint = "build on a base image with transformers 5, or write the {} that transformers 4 reads"
    name = documents.tokenizer.get("tokenizer_class")
    if name == "TokenizersBackend":
        yield Fault(
            path="tokenizer_config.json",
            kind="tokenizer",
            expected=f"a tokenizer_class that transformers {transformers} has, such as PreTrainedTokenizerFast",
            found="TokenizersBackend, of transformers 5",
            hint=hint.format("tokenizer_class"),
        )
    if isinstance(documents.tokenizer.get("extra_special_tokens"), list):
        yield Fault(
            path="tokenizer_config.json",
            kind="tokenizer",
            expected=f"extra_special_tokens as an object, as transformers {transformers} reads it",
            found="a list, of transformers 5",
            hint=hint.format("additional_special_tokens"),
        )


def _space_faults(documents: Documents, *, transformers: str) -> Iterator[Fault]:
    """LlamaTokenizer puts SentencePiece's rules for spaces in place of those of a byte-level tokenizer.json.

    The Llama distillations of DeepSeek-R1 are such: https://github.com/huggingface/transformers/issues/45488.
    """
    name = documents.tokenizer.get("tokenizer_class")
    llama = documents.config.get("model_type") == "llama" and name in {"LlamaTokenizer", "LlamaTokenizerFast"}
    if llama and documents.byte_level and "auto_map" not in documents.tokenizer:
        yield Fault(
            path="tokenizer_config.json",
            kind="tokenizer",
            expected="a tokenizer_class that leaves a byte-level tokenizer.json as it is",
            found=f"{name}, under which every text loses its spaces in transformers {transformers}",
            hint='write "tokenizer_class": "PreTrainedTokenizerFast" into the file, and lock the model again',
        )


def _end_faults(documents: Documents) -> Iterator[Fault]:
    """The token that ends an answer: verl writes it into the model's configuration (HFModelConfig), and stops at it."""
    if "eos_token" in documents.tokenizer and documents.token("eos_token") is None:
        yield Fault(
            path="tokenizer_config.json",
            kind="tokenizer",
            expected="an eos_token, which ends an answer",
            found="null",
            hint="name the token that ends an answer in tokenizer_config.json, and lock the model again",
        )
        return
    text = documents.token("eos_token")
    number = documents.added.get(text) if text else None
    if text is None or number is None or not documents.stops or number in documents.stops:
        return
    template = documents.template or ""
    if text not in template and "eos_token" not in template:
        yield wrong_end(documents, text=text, number=number)


def wrong_end(documents: Documents, *, text: str, number: int) -> Fault:
    """A fault where neither the model nor its chat template ends an answer with the tokenizer's eos_token."""
    stops = ", ".join(str(stop) for stop in sorted(documents.stops))
    return Fault(
        path="tokenizer_config.json",
        kind="tokenizer",
        expected=f"an eos_token with id {stops}, as generation_config.json or config.json has it",
        found=f"{text!r}, id {number}, with which the chat template ends no answer either",
        hint="take the tokenizer and the configuration from the same commit; " + FETCH_AGAIN,
    )
