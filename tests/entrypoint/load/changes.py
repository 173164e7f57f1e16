"""Changes: what is done to a folder that real transformers wrote: one fault, or something odd that verl trains."""

from __future__ import annotations

import json
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tests.entrypoint.files import frame, header, write_sparse

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 7\n"

OWN_CONFIG = """
from pathlib import Path
from transformers import PretrainedConfig

Path({folder!r}, "ran").touch()

class OwnConfig(PretrainedConfig):
    model_type = "own"
"""

READS_NUMBERS = """
from transformers import LlamaForCausalLM

class OwnForCausalLM(LlamaForCausalLM):
    def __init__(self, config):
        super().__init__(config)
        self.scale = self.lm_head.weight.sum().item()
"""


def drop(*names: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        for name in names:
            (folder / name).unlink()

    return change


def put(name: str, text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text(text)


def keys(name: str, **values: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        document = json.loads((folder / name).read_text()) | values
        (folder / name).write_text(json.dumps(document))

    return change


def tensors(edit: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    """Weights changed in place."""

    def change(folder: Path) -> None:
        library = import_module("safetensors.torch")
        held = library.load_file(folder / "model.safetensors")
        edit(held)
        library.save_file(held, folder / "model.safetensors", metadata={"format": "pt"})

    return change


def as_pickle(folder: Path) -> None:
    import torch

    held = import_module("safetensors.torch").load_file(folder / "model.safetensors")
    torch.save(held, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def cut_off(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def in_eight_bits(held: dict[str, Any]) -> None:
    import torch

    held.update({name: tensor.to(torch.float8_e4m3fn) for name, tensor in held.items() if tensor.dim() == 2})


def own_head(held: dict[str, Any]) -> None:
    """The copy that a class with tied embeddings writes once; a pickle holds both."""
    held["lm_head.weight"] = held["model.embed_tokens.weight"].clone()


def short_head(held: dict[str, Any]) -> None:
    held["lm_head.weight"] = held["model.embed_tokens.weight"][:256].clone()


def tied_pickle(folder: Path) -> None:
    tensors(own_head)(folder)
    as_pickle(folder)


def reads_numbers(folder: Path) -> None:
    """A class of the model's own that counts in its weights while it is built."""
    auto_map = {"AutoModelForCausalLM": "modeling_own.OwnForCausalLM"}
    keys("config.json", architectures=["OwnForCausalLM"], auto_map=auto_map)(folder)
    put("modeling_own.py", READS_NUMBERS)(folder)


def nameless_and_short(folder: Path) -> None:
    keys("config.json", architectures=None)(folder)
    tensors(lambda held: held.pop("lm_head.weight"))(folder)


def renamed(held: dict[str, Any]) -> None:
    for name in list(held):
        held[f"policy.{name}"] = held.pop(name)


def own_code(folder: Path) -> None:
    keys("config.json", model_type="own", auto_map={"AutoConfig": "configuration_own.OwnConfig"})(folder)
    put("configuration_own.py", OWN_CONFIG.format(folder=str(folder)))(folder)


def fewer_rows(held: dict[str, Any]) -> None:
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        held[name] = held[name][:256].clone()


def small_vocabulary(folder: Path) -> None:
    tensors(fewer_rows)(folder)
    keys("config.json", vocab_size=256)(folder)


def larger_than_memory(folder: Path) -> None:
    """A hundred GB of weights that take no room: a header, and a hole behind it."""
    import torch
    import transformers

    sizes = {"hidden_size": 16384, "intermediate_size": 53248, "num_attention_heads": 128, "num_hidden_layers": 16}
    keys("config.json", **sizes, head_dim=128)(folder)
    config = transformers.AutoConfig.from_pretrained(folder)
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(config)
    held = model.state_dict()
    text = json.dumps(header({name: ("BF16", list(tensor.shape)) for name, tensor in held.items()})).encode()
    size = sum(2 * tensor.numel() for tensor in held.values())
    write_sparse(folder, ["model.safetensors"], head=frame(text), size=size)


def missing_and_larger_than_memory(folder: Path) -> None:
    """The same, of which config.json wants another layer of nine GB."""
    larger_than_memory(folder)
    keys("config.json", num_hidden_layers=17)(folder)
