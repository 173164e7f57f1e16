"""Models that people train with verl, by what their small files say: none of them may be refused.

Each names what makes it look wrong to a hasty rule. The documents are written by hand, as those models are known, and
hold the keys that a rule reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.entrypoint.load.folders import faults_of, known_model, with_keys, without

if TYPE_CHECKING:
    from pathlib import Path

CHATML = "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' }}"

LLAMA_3_1 = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "eos_token_id": [128001, 128008, 128009],
    "rope_theta": 500000.0,
    "rope_scaling": {"rope_type": "llama3", "factor": 8.0},
    "torch_dtype": "bfloat16",
    "vocab_size": 128256,
}

LLAMA_3_1_BASE = known_model(
    config=LLAMA_3_1 | {"eos_token_id": 128001},
    tokenizer={"eos_token": "<|end_of_text|>", "tokenizer_class": "PreTrainedTokenizerFast"},
    generation={"eos_token_id": 128001},
    added={"<|end_of_text|>": 128001},
)

QWEN_2_5 = {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "rope_theta": 1000000.0}

MODELS = {
    "Llama-3.1-Instruct: three eos ids, and the tokenizer's is the last": known_model(
        config=LLAMA_3_1,
        tokenizer={"eos_token": "<|eot_id|>", "chat_template": "{{ '<|eot_id|>' }}"},
        generation={"eos_token_id": [128001, 128008, 128009]},
        added={"<|end_of_text|>": 128001, "<|eot_id|>": 128009},
    ),
    "Qwen2.5-Instruct: two eos ids, and pad is one of them": known_model(
        config=QWEN_2_5 | {"eos_token_id": 151645},
        tokenizer={
            "eos_token": "<|im_end|>",
            "pad_token": "<|endoftext|>",
            "bos_token": None,
            "chat_template": CHATML,
            "tokenizer_class": "Qwen2Tokenizer",
        },
        generation={"eos_token_id": [151645, 151643]},
        added={"<|endoftext|>": 151643, "<|im_start|>": 151644, "<|im_end|>": 151645},
    ),
    "Qwen2.5 base: its chat template ends with no eos; R1-Zero recipes train it": known_model(
        config=QWEN_2_5 | {"eos_token_id": 151643, "tie_word_embeddings": True},
        tokenizer={"eos_token": "<|endoftext|>", "chat_template": CHATML, "tokenizer_class": "Qwen2Tokenizer"},
        generation={"eos_token_id": 151643},
        added={"<|endoftext|>": 151643, "<|im_start|>": 151644, "<|im_end|>": 151645},
    ),
    "DeepSeek-R1-Distill-Qwen: a tokenizer class of another family": known_model(
        config=QWEN_2_5 | {"eos_token_id": 151643},
        tokenizer={
            "eos_token": {"__type": "AddedToken", "content": "<｜end▁of▁sentence｜>"},  # noqa: RUF001 - its own bar
            "chat_template": "{{ eos_token }}",
            "tokenizer_class": "LlamaTokenizerFast",
        },
        generation={"eos_token_id": 151643},
        added={"<｜end▁of▁sentence｜>": 151643},  # noqa: RUF001
    ),
    "Mistral-Instruct: no pad, no generation eos list": known_model(
        config={"architectures": ["MistralForCausalLM"], "model_type": "mistral", "eos_token_id": 2},
        tokenizer={"eos_token": "</s>", "pad_token": None, "chat_template": "{{ eos_token }}"},
        generation={"eos_token_id": 2},
        added={"<unk>": 0, "<s>": 1, "</s>": 2},
    ),
    "Gemma-2-it: tied weights, and answers end with another token than eos": known_model(
        config={"architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2", "eos_token_id": [1, 107]},
        tokenizer={"eos_token": "<eos>", "chat_template": "{{ '<end_of_turn>' }}"},
        added={"<eos>": 1, "<end_of_turn>": 107},
    ),
    "Gemma-3-1b-it: a token beyond its embedding, which no text becomes": known_model(
        config={"architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "vocab_size": 262144},
        tokenizer={"eos_token": "<eos>", "chat_template": "{{ '<end_of_turn>' }}"},
        generation={"eos_token_id": [1, 106]},
        added={"<eos>": 1, "<end_of_turn>": 106, "<image_soft_token>": 262144},
    ),
    "Phi-3-mini: code of its own that transformers has too, and three eos ids": known_model(
        config={
            "architectures": ["Phi3ForCausalLM"],
            "model_type": "phi3",
            "eos_token_id": 32000,
            "auto_map": {"AutoConfig": "configuration_phi3.Phi3Config"},
        },
        tokenizer={"eos_token": "<|endoftext|>", "chat_template": "{{ '<|end|>' }}"},
        generation={"eos_token_id": [32000, 32001, 32007]},
        added={"<|endoftext|>": 32000, "<|end|>": 32007},
    ),
    "Qwen3-MoE: nothing special but its experts": known_model(
        config={"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "eos_token_id": 151645},
        tokenizer={"eos_token": "<|im_end|>", "chat_template": CHATML},
        generation={"eos_token_id": [151645, 151643]},
        added={"<|im_end|>": 151645},
        weights="model.safetensors.index.json",
    ),
    "a fine-tune to ChatML: configurations still name the base model's eos": known_model(
        config=LLAMA_3_1 | {"eos_token_id": 128001},
        tokenizer={"eos_token": "<|im_end|>", "chat_template": CHATML},
        generation={"eos_token_id": 128001},
        added={"<|end_of_text|>": 128001, "<|im_end|>": 128256},
    ),
    "GPT-2: eos_token is the class's own, weights are pickles": known_model(
        config={"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "eos_token_id": 50256},
        tokenizer={"model_max_length": 1024, "chat_template": "{{ eos_token }}"},
        weights="pytorch_model.bin",
    ),
    "a sharded pickle": known_model(
        config={"architectures": ["LlamaForCausalLM"], "model_type": "llama"},
        tokenizer={"eos_token": "</s>", "chat_template": "{{ eos_token }}"},
        weights="pytorch_model.bin.index.json",
    ),
}


@pytest.mark.parametrize("transformers", ["4.55.4", "5.10.4"])
@pytest.mark.parametrize("name", MODELS)
def test_a_model_that_people_train_is_not_refused(tmp_path: Path, name: str, transformers: str) -> None:
    assert faults_of(tmp_path, MODELS[name], transformers=transformers) == ()


def test_a_base_model_without_a_chat_template_is_a_good_critic(tmp_path: Path) -> None:
    assert faults_of(tmp_path, LLAMA_3_1_BASE, roles=("critic",)) == ()


def test_a_base_model_without_a_chat_template_is_a_good_actor_where_the_settings_bring_one(tmp_path: Path) -> None:
    assert faults_of(tmp_path, LLAMA_3_1_BASE, chat_template=True) == ()


def test_an_instruct_model_that_lost_its_tokenizer_config_is_refused_though_its_eos_looks_right(tmp_path: Path) -> None:
    files = without(MODELS["Qwen2.5-Instruct: two eos ids, and pad is one of them"], "tokenizer_config.json")

    assert [fault.found for fault in faults_of(tmp_path, files, chat_template=True)] == ["no such file"]


def test_a_tokenizer_of_another_model_is_refused(tmp_path: Path) -> None:
    other = {"eos_token": "<|im_start|>", "chat_template": "{{ message['content'] }}"}
    files = MODELS["Qwen2.5-Instruct: two eos ids, and pad is one of them"]

    assert [fault.expected for fault in faults_of(tmp_path, with_keys(files, "tokenizer_config.json", **other))] == [
        "an eos_token with id 151643, 151645, as generation_config.json or config.json has it"
    ]
