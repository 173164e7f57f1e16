"""Tiny models made by transformers, of which verl trains each: 41 thousand parameters, two layers, seeded.

    python tests/entrypoint/load/models.py OUT qwen2|llama|…      # an architecture of ARCHITECTURES

requires: torch and transformers (.ci/verl up has both). A folder holds what a repository on the Hub holds: config.json,
generation_config.json, a byte-level BPE tokenizer with a chat template in the form of ChatML, and weights.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

ARCHITECTURES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "qwen2": ("Qwen2Config", "Qwen2ForCausalLM", {}),
    "llama": ("LlamaConfig", "LlamaForCausalLM", {}),
    "mistral": ("MistralConfig", "MistralForCausalLM", {"sliding_window": None}),
    "gemma2": ("Gemma2Config", "Gemma2ForCausalLM", {"head_dim": 16, "tie_word_embeddings": True}),
    "phi3": ("Phi3Config", "Phi3ForCausalLM", {}),
    "qwen3_moe": (
        "Qwen3MoeConfig",
        "Qwen3MoeForCausalLM",
        {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "head_dim": 16},
    ),
    "scorer": ("LlamaConfig", "LlamaForSequenceClassification", {"num_labels": 1}),
    "critic": ("Qwen2Config", "Qwen2ForTokenClassification", {"num_labels": 1}),
}
"""The configuration's class, the model's class, and the settings that are not everybody's."""

PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

CORPUS = ("What is 1 + 2? Let us think step by step. #### 3", "user assistant system\n")


def make_model(
    folder: Path, architecture: str, *, dtype: str = "bfloat16", shard_size: str = "5GB", **settings: Any
) -> Path:
    """Write a model of an architecture of ARCHITECTURES. `settings` go to its configuration."""
    import torch
    import transformers

    torch.manual_seed(0)
    transformers.utils.logging.disable_progress_bar()
    tokenizer = make_tokenizer()
    tokenizer.save_pretrained(folder)
    config_name, class_name, own = ARCHITECTURES[architecture]
    config = getattr(transformers, config_name)(**_sizes(tokenizer) | own | settings)
    model = getattr(transformers, class_name)(config).to(getattr(torch, dtype))
    model.save_pretrained(folder, max_shard_size=shard_size)
    if model.can_generate():
        ids = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
        transformers.GenerationConfig(**ids).save_pretrained(folder)
    for path in folder.iterdir():
        path.chmod(0o644)  # safetensors writes 0600, which another user in a container cannot read
    return folder


def make_tokenizer() -> Any:
    """A byte-level BPE tokenizer: any text comes back from it."""
    import tokenizers
    import transformers

    bpe = tokenizers.Tokenizer(tokenizers.models.BPE())
    bpe.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=[PAD, START, END],
        initial_alphabet=sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    bpe.train_from_iterator(CORPUS * 50, trainer)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        eos_token=END,
        pad_token=PAD,
        model_input_names=["input_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
        chat_template=CHAT_TEMPLATE,
    )


def _sizes(tokenizer: Any) -> dict[str, Any]:
    rows = len(tokenizer) + -len(tokenizer) % 64
    return {
        "vocab_size": rows,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "max_position_embeddings": 512,
        "bos_token_id": None,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
        "tie_word_embeddings": False,
    }


if __name__ == "__main__":
    make_model(Path(sys.argv[1]), sys.argv[2])
