"""Makes tiny-llama: a real Llama of 53 thousand parameters, so that a whole chain can run on real files in seconds.

    python make_tiny_llama.py [OUT]        # OUT: this script's neighbour `tiny-llama` when left out

requires: torch, transformers (neither is a dependency of bake; install them in an environment of their own).
The committed files were made with torch 2.13.0, transformers 5.10.4 and tokenizers 0.22.2. A second run with the same
versions gives the same bytes; other versions may write other keys, and then another digest belongs in models.lock.

The folder holds what a repository on the Hub holds: config.json, generation_config.json, a byte-level BPE tokenizer
with a chat template, and bfloat16 weights in three safetensors shards with an index. Its weights are random: it loads,
tokenizes, generates and trains, and what it says means nothing.

It reads the same in transformers 4 and 5: the tokenizer's class exists in both, and RoPE keeps the values that
transformers 4 assumes when it does not know the key `rope_parameters`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

try:
    import tokenizers
    import torch
    import transformers
except ImportError as error:
    raise SystemExit(
        f"error: {error.name} is not installed\nhint: pip install torch transformers, in an environment of its own"
    ) from error

BEGIN, START, END, STOP, PAD = (
    "<|begin_of_text|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eot_id|>",
    "<|pad|>",
)

CHAT_TEMPLATE = (
    "{{- bos_token }}"
    "{%- for message in messages %}"
    "{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' }}"
    "{{- message['content'] | trim + '<|eot_id|>' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}"
    "{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}"
    "{%- endif %}"
)
"""The form of Llama 3: each message in turn, whoever speaks, then the header of the answer to come."""

CORPUS = (
    "What is 12 + 34? Let us think step by step. 12 plus 34 is 46. #### 46",
    "The answer is 7, because 3 + 4 = 7. So the final answer is #### 7",
    "You are a helpful assistant. The user asks a question and the assistant answers it.",
    "system user assistant",
    "A baker puts 24 loaves into every oven. There are 3 ovens, so how many loaves are baked at once?",
    "Each morning the bakery sells half of its bread before nine, and another quarter of it before noon.",
    "If a bag of flour costs twelve dollars and lasts five days, how much money does the flour for a year cost?",
    "Two friends share the remaining rolls. Anna gets twice as many as Tom, and together they have 18 of them.",
    "Yesterday it took fifty minutes to knead the dough by hand; today the machine needed only eleven.",
    "How many pages does the recipe book have when every chapter is 16 pages long and there are 9 chapters?",
)
VOCABULARY = 512
SHARD_SIZE = "40KB"  # three shards


def main() -> None:
    parser = argparse.ArgumentParser(description="Make tiny-llama, a real Llama of 53 thousand parameters.")
    parser.add_argument(
        "out",
        metavar="OUT",
        type=Path,
        nargs="?",
        default=Path(__file__).parent / "tiny-llama",
        help="the folder to write (default: %(default)s)",
    )
    out: Path = parser.parse_args().out
    transformers.utils.logging.disable_progress_bar()

    tokenizer = make_tokenizer()
    model = make_model(tokenizer)
    tokenizer.save_pretrained(out)
    model.save_pretrained(out, max_shard_size=SHARD_SIZE)
    name_portable_tokenizer_class(out / "tokenizer_config.json")
    for path in sorted(out.iterdir()):
        path.chmod(0o644)  # safetensors writes 0600, which another user in a container cannot read
        print(f"{path.stat().st_size:>8}  {path.name}")
    print(f"{sum(parameter.numel() for parameter in model.parameters()):>8}  parameters")


def make_tokenizer() -> Any:
    """A byte-level BPE tokenizer: any text round-trips, and no text is unknown."""
    bpe = tokenizers.Tokenizer(tokenizers.models.BPE())
    bpe.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        min_frequency=1,
        special_tokens=[BEGIN, START, END, STOP, PAD],
        initial_alphabet=sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    bpe.train_from_iterator(CORPUS, trainer)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        bos_token=BEGIN,
        eos_token=STOP,
        pad_token=PAD,
        model_max_length=512,
        model_input_names=["input_ids", "attention_mask"],  # transformers 4 would add token_type_ids
        clean_up_tokenization_spaces=False,
        chat_template=CHAT_TEMPLATE,
    )


def make_model(tokenizer: Any) -> Any:
    """A Llama of two layers with seeded random weights, in bfloat16."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=512,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        tie_word_embeddings=False,
    )
    model = transformers.LlamaForCausalLM(config).to(torch.bfloat16)
    model.generation_config = transformers.GenerationConfig(
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        do_sample=True,
        temperature=0.6,
        top_p=0.9,
    )
    return model


def name_portable_tokenizer_class(path: Path) -> None:
    """Put the class that transformers 4 and 5 both know in place of the name that only 5 knows."""
    config = json.loads(path.read_text("utf-8"))
    config["tokenizer_class"] = "PreTrainedTokenizerFast"
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", "utf-8")


if __name__ == "__main__":
    main()
