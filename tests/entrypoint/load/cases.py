"""Cases: folders made or broken with real transformers, and what `load_faults` finds in each, as JSON on stdout.

    python tests/entrypoint/load/cases.py SITE WORK     # SITE holds torch and transformers; WORK is an empty folder

One process for all of them, since importing torch takes seconds. It runs outside pytest, with the packages of SITE.
"""

from __future__ import annotations

import json
import resource
import shutil
import sys
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bake.digest import Digest
from bake.entrypoint.load import load_faults
from bake.entrypoint.load.installed import model_types
from bake.entrypoint.tree import FolderTree
from bake.entrypoint.verify import verify
from bake.record import RecordedFile
from tests.entrypoint.files import frame, header, write_sparse
from tests.entrypoint.load.folders import TINY_LLAMA, model_of
from tests.entrypoint.load.models import make_model

if TYPE_CHECKING:
    from collections.abc import Callable

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 7\n"

OWN_CONFIG = """
from pathlib import Path
from transformers import PretrainedConfig

Path({folder!r}, "ran").touch()

class OwnConfig(PretrainedConfig):
    model_type = "own"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A model of `base`, one of BASES, with one thing changed."""

    base: str
    change: Callable[[Path], object] = lambda _: None
    roles: tuple[str, ...] = ("actor",)
    trust: bool = False


BASES: dict[str, tuple[str, dict[str, Any]]] = {
    "qwen2": ("qwen2", {}),
    "llama": ("llama", {}),
    "qwen2 tied": ("qwen2", {"tie_word_embeddings": True}),
    "llama fp32": ("llama", {"dtype": "float32"}),
    "llama sharded": ("llama", {"shard_size": "40KB"}),
    "llama 3 layers": ("llama", {"num_hidden_layers": 3}),
    "llama with biases": ("llama", {"attention_bias": True}),
    "mistral": ("mistral", {}),
    "gemma2": ("gemma2", {}),
    "phi3": ("phi3", {}),
    "qwen3_moe": ("qwen3_moe", {}),
    "critic": ("critic", {}),
    "scorer": ("scorer", {}),
    "critic of two": ("critic", {"num_labels": 2}),
}


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


def good() -> dict[str, Case]:
    """Models that verl trains: no fault may be told."""
    cases = {name: Case(base=name) for name in BASES if "critic" not in name and name != "scorer"}
    return cases | {
        "tiny-llama": Case(base="tiny-llama"),
        "critic": Case(base="critic", roles=("critic",)),
        "a reward model as critic": Case(base="scorer", roles=("critic",)),
        "an actor as its own critic": Case(base="qwen2", roles=("actor", "critic")),
        "a reward model with a score": Case(base="critic of two", roles=("reward_model",)),
        "a value head beside the model": Case(
            base="llama", change=tensors(lambda held: held.update({"v_head.weight": held["model.norm.weight"].clone()}))
        ),
        "larger than memory": Case(base="llama", change=larger_than_memory),
        "pickles": Case(base="llama", change=as_pickle),
        "weights of two dtypes": Case(
            base="llama", change=tensors(lambda held: held.update({"lm_head.weight": held["lm_head.weight"].float()}))
        ),
        "no pad token": Case(base="llama", change=keys("tokenizer_config.json", pad_token=None)),
        "LlamaTokenizerFast in qwen2": Case(
            base="qwen2", change=keys("tokenizer_config.json", tokenizer_class="LlamaTokenizerFast")
        ),
        "PreTrainedTokenizerFast in llama": Case(
            base="llama", change=keys("tokenizer_config.json", tokenizer_class="PreTrainedTokenizerFast")
        ),
        "Qwen2Tokenizer": Case(base="qwen2", change=keys("tokenizer_config.json", tokenizer_class="Qwen2Tokenizer")),
        "no generation config": Case(base="qwen2", change=drop("generation_config.json")),
        "a template that refuses a system prompt": Case(
            base="qwen2",
            change=put(
                "chat_template.jinja",
                "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}"
                "{% for message in messages %}{{ message['content'] + eos_token }}{% endfor %}",
            ),
        ),
        "a base model as critic": Case(base="llama", change=drop("chat_template.jinja"), roles=("critic",)),
    }


def bad(base: str) -> dict[str, Case]:
    """Each row of what verl tells late, badly or never, for a model of one family."""
    changes = {
        "no config.json": drop("config.json"),
        "config.json is no JSON": put("config.json", "{"),
        "unknown model_type": keys("config.json", model_type="unknown9"),
        "own code": own_code,
        "architectures null": keys("config.json", architectures=None),
        "no tokenizer.json": drop("tokenizer.json"),
        "no tokenizer files": drop("tokenizer.json", "tokenizer_config.json"),
        "no tokenizer_config.json": drop("tokenizer_config.json"),
        "no chat template": drop("chat_template.jinja"),
        "a template that fails": put("chat_template.jinja", "{{ raise_exception('never') }}"),
        "a template without the words": put("chat_template.jinja", "hello"),
        "no weights": drop("model.safetensors"),
        "weights cut off": cut_off,
        "weights are a pointer": put("model.safetensors", POINTER),
        "tokenizer.json is a pointer": put("tokenizer.json", POINTER),
        "another shape": keys("config.json", intermediate_size=48),
        "a tensor is missing": tensors(lambda held: held.pop("model.layers.1.mlp.up_proj.weight")),
        "all names differ": tensors(renamed),
        "a layer too many": keys("config.json", num_hidden_layers=1),
        "eight bits": tensors(in_eight_bits),
        "rows are too few": small_vocabulary,
    }
    return {f"{base}: {name}": Case(base=base, change=change) for name, change in changes.items()}


def special() -> dict[str, Case]:
    """Faults of one kind of model."""
    return {
        "missing and larger than memory": Case(base="llama", change=missing_and_larger_than_memory),
        "the decoder is lost": Case(base="llama", change=keys("tokenizer.json", decoder=None)),
        "LlamaTokenizerFast in llama": Case(
            base="llama", change=keys("tokenizer_config.json", tokenizer_class="LlamaTokenizerFast")
        ),
        "biases switched off": Case(base="llama with biases", change=keys("config.json", attention_bias=False)),
        "an expert is missing": Case(
            base="qwen3_moe",
            change=tensors(lambda held: held.pop("model.layers.0.mlp.experts.2.up_proj.weight")),
        ),
        "a critic with two outputs": Case(base="critic of two", roles=("critic",)),
        "a critic without its layers": Case(
            base="qwen2",
            change=tensors(lambda held: held.pop("model.layers.1.mlp.up_proj.weight")),
            roles=("critic",),
        ),
        "a shard is missing": Case(base="llama sharded", change=drop("model-00002-of-00003.safetensors")),
        "no index": Case(base="llama sharded", change=drop("model.safetensors.index.json")),
        "own code, trusted": Case(base="llama", change=own_code, trust=True),
    }


def main(site: Path, work: Path) -> None:
    sys.path.insert(1, str(site))  # before the packages that the tests themselves are installed with
    bases = work / "bases"
    for name, (architecture, settings) in BASES.items():
        make_model(bases / name, architecture, **settings)
    answers: dict[str, Any] = {"model types that are not known": _unknown_types()}
    shutil.copytree(TINY_LLAMA, bases / "tiny-llama")
    for name, case in (good() | bad("qwen2") | bad("llama") | special()).items():
        folder = work / name.replace("/", " ")
        shutil.copytree(bases / case.base, folder)
        case.change(folder)
        answers[name] = _answer(folder, case)
    answers["most memory, in kB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    json.dump(answers, sys.stdout)


def _listing(folder: Path) -> tuple[RecordedFile, ...]:
    """Sizes alone are right: nothing here is hashed."""
    nothing = Digest.of(b"")
    return tuple(RecordedFile(path=path.name, size=path.stat().st_size, digest=nothing) for path in folder.iterdir())


def _unknown_types() -> list[str]:
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    return sorted(set(CONFIG_MAPPING) - (model_types(transformers.__version__) or set()))


def _answer(folder: Path, case: Case) -> dict[str, Any]:
    model = replace(model_of({}, roles=case.roles, trust=case.trust), files=_listing(folder))
    return {
        "verify": [fault.document() for fault in verify(model, FolderTree(folder), level="quick")],
        "load": [fault.document() for fault in load_faults(model, folder)],
        "ran": (folder / "ran").exists(),
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
