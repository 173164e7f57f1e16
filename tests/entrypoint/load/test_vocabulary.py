from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from bake.entrypoint.fault import FETCH_AGAIN, Fault
from tests.entrypoint.load.folders import faults_of, tiny_llama, with_keys, without

if TYPE_CHECKING:
    from pathlib import Path


NO_VOCABULARY = Fault(
    path="tokenizer.json",
    kind="tokenizer",
    expected="a tokenizer's vocabulary, such as tokenizer.json",
    found="none, nor tokenizer.model, vocab.json or vocab.txt",
    hint="lock the model again with its tokenizer's files: without them some load, and encode nothing",
)
NO_TOKENIZER_CONFIG = Fault(
    path="tokenizer_config.json",
    kind="tokenizer",
    expected="the tokenizer's configuration, which names the token that ends an answer",
    found="no such file",
    hint="lock the model again with it; without it the class's default ends an answer, or nothing does",
)
NO_TEMPLATE = Fault(
    path="tokenizer_config.json",
    kind="chat-template",
    expected="a chat template, with which verl writes every prompt",
    found="none here, in chat_template.jinja or in chat_template.json",
    hint="put one into chat_template.jinja and lock the model again, or train with "
    "actor_rollout_ref.model.custom_chat_template",
)


@pytest.mark.parametrize("roles", [("actor",), ("critic",), ("reward_model",)])
def test_a_model_without_a_vocabulary_is_told(tmp_path: Path, roles: tuple[str, ...]) -> None:
    assert faults_of(tmp_path, without(tiny_llama(), "tokenizer.json"), roles=roles) == (NO_VOCABULARY,)


@pytest.mark.parametrize("name", ["tokenizer.model", "qwen.tiktoken", "tekken.json", "vocab.txt"])
def test_a_vocabulary_may_have_another_form(tmp_path: Path, name: str) -> None:
    assert faults_of(tmp_path, {**without(tiny_llama(), "tokenizer.json"), name: b"{}"}) == ()


def test_a_vocabulary_without_its_merges_is_told(tmp_path: Path) -> None:
    assert faults_of(tmp_path, {**without(tiny_llama(), "tokenizer.json"), "vocab.json": b"{}"}) == (
        Fault(
            path="merges.txt",
            kind="tokenizer",
            expected="the merges that belong to vocab.json",
            found="no such file, and no tokenizer.json",
            hint="lock the model again with all of its tokenizer's files",
        ),
    )


def test_a_tokenizer_of_the_models_own_code_may_have_any_files(tmp_path: Path) -> None:
    files = with_keys(tiny_llama(), "tokenizer_config.json", auto_map={"AutoTokenizer": ["own.Own", None]})

    assert faults_of(tmp_path, without(files, "tokenizer.json")) == ()


def test_an_actor_without_tokenizer_config_is_told(tmp_path: Path) -> None:
    assert faults_of(tmp_path, without(tiny_llama(), "tokenizer_config.json")) == (NO_TOKENIZER_CONFIG,)


def test_special_tokens_map_may_name_the_end_in_its_place(tmp_path: Path) -> None:
    tokens = json.dumps({"eos_token": {"content": "<|eot_id|>"}}).encode()
    files = {**without(tiny_llama(), "tokenizer_config.json"), "special_tokens_map.json": tokens}

    assert faults_of(tmp_path, files) == ()


def test_a_critic_needs_neither_tokenizer_config_nor_chat_template(tmp_path: Path) -> None:
    files = without(tiny_llama(), "tokenizer_config.json", "chat_template.jinja")

    assert faults_of(tmp_path, files, roles=("critic", "reward_model")) == ()


def test_an_actor_without_a_chat_template_is_told(tmp_path: Path) -> None:
    assert faults_of(tmp_path, without(tiny_llama(), "chat_template.jinja")) == (NO_TEMPLATE,)


def test_the_settings_may_bring_the_chat_template(tmp_path: Path) -> None:
    assert faults_of(tmp_path, without(tiny_llama(), "chat_template.jinja"), chat_template=True) == ()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("tokenizer_config.json", {"eos_token": "<|eot_id|>", "chat_template": "{{ eos_token }}"}),
        (
            "tokenizer_config.json",
            {"eos_token": "<|eot_id|>", "chat_template": [{"name": "default", "template": "{{ eos_token }}"}]},
        ),
        ("chat_template.json", {"chat_template": "{{ eos_token }}"}),
    ],
    ids=["tokenizer_config.json", "several", "chat_template.json"],
)
def test_a_chat_template_may_lie_elsewhere(tmp_path: Path, name: str, content: object) -> None:
    files = {**without(tiny_llama(), "chat_template.jinja"), name: json.dumps(content).encode()}

    assert faults_of(tmp_path, files) == ()


def test_what_transformers_4_cannot_read_of_a_tokenizer_is_told(tmp_path: Path) -> None:
    files = with_keys(
        tiny_llama(), "tokenizer_config.json", tokenizer_class="TokenizersBackend", extra_special_tokens=["<|a|>"]
    )

    assert faults_of(tmp_path, files, transformers="4.57.3") == (
        Fault(
            path="tokenizer_config.json",
            kind="tokenizer",
            expected="a tokenizer_class that transformers 4.57.3 has, such as PreTrainedTokenizerFast",
            found="TokenizersBackend, of transformers 5",
            hint="build on a base image with transformers 5, or write the tokenizer_class that transformers 4 reads",
        ),
        Fault(
            path="tokenizer_config.json",
            kind="tokenizer",
            expected="extra_special_tokens as an object, as transformers 4.57.3 reads it",
            found="a list, of transformers 5",
            hint="build on a base image with transformers 5, or write the additional_special_tokens that "
            "transformers 4 reads",
        ),
    )


@pytest.mark.parametrize("transformers", ["5.3.0", "5.10.4", "5.11.0"])
@pytest.mark.parametrize("name", ["LlamaTokenizer", "LlamaTokenizerFast"])
def test_a_tokenizer_class_that_loses_every_space_is_told(tmp_path: Path, name: str, transformers: str) -> None:
    files = with_keys(tiny_llama(), "tokenizer_config.json", tokenizer_class=name)

    assert faults_of(tmp_path, files, transformers=transformers) == (
        Fault(
            path="tokenizer_config.json",
            kind="tokenizer",
            expected="a tokenizer_class that leaves a byte-level tokenizer.json as it is",
            found=f"{name}, under which every text loses its spaces in transformers {transformers}",
            hint='write "tokenizer_class": "PreTrainedTokenizerFast" into the file, and lock the model again',
        ),
    )


@pytest.mark.parametrize("transformers", ["4.57.3", "5.2.0", "5.24.0", None])
def test_other_versions_keep_the_spaces(tmp_path: Path, transformers: str | None) -> None:
    files = with_keys(tiny_llama(), "tokenizer_config.json", tokenizer_class="LlamaTokenizerFast")

    assert faults_of(tmp_path, files, transformers=transformers) == ()


def test_a_sentencepiece_llama_keeps_its_spaces(tmp_path: Path) -> None:
    files = with_keys(tiny_llama(), "tokenizer_config.json", tokenizer_class="LlamaTokenizer")
    added = [{"id": 3, "content": "<|eot_id|>"}]
    pieces = json.dumps({"added_tokens": added, "normalizer": None, "pre_tokenizer": None}).encode()

    assert faults_of(tmp_path, {**files, "tokenizer.json": pieces}) == ()


def test_an_end_that_is_null_is_told(tmp_path: Path) -> None:
    content = {**json.loads(tiny_llama()["tokenizer_config.json"]), "eos_token": None}
    files = {**tiny_llama(), "tokenizer_config.json": json.dumps(content).encode()}

    assert faults_of(tmp_path, files) == (
        Fault(
            path="tokenizer_config.json",
            kind="tokenizer",
            expected="an eos_token, which ends an answer",
            found="null",
            hint="name the token that ends an answer in tokenizer_config.json, and lock the model again",
        ),
    )


def test_an_end_that_no_other_file_knows_is_told(tmp_path: Path) -> None:
    other = {"eos_token": "<|pad|>"}

    assert faults_of(tmp_path, with_keys(tiny_llama(), "tokenizer_config.json", **other)) == (
        Fault(
            path="tokenizer_config.json",
            kind="tokenizer",
            expected="an eos_token with id 3, as generation_config.json or config.json has it",
            found="'<|pad|>', id 4, with which the chat template ends no answer either",
            hint=f"take the tokenizer and the configuration from the same commit; {FETCH_AGAIN}",
        ),
    )
