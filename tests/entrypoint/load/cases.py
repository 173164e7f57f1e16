"""Cases: folders made or broken with real transformers, and what `load_faults` finds in each, as JSON on stdout.

    python tests/entrypoint/load/cases.py SITE WORK     # SITE holds torch and transformers; WORK is an empty folder

One process for all of them, since importing torch takes seconds. It runs outside pytest, with the packages of SITE.
"""

from __future__ import annotations

import json
import resource
import shutil
import sys
from contextlib import chdir, redirect_stderr
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bake.digest import Digest
from bake.entrypoint.load import load_faults
from bake.entrypoint.load.installed import model_types
from bake.entrypoint.tree import FolderTree
from bake.entrypoint.verify import verify
from bake.record import RecordedFile
from tests.entrypoint.load.changes import (
    POINTER,
    as_pickle,
    cut_off,
    drop,
    in_eight_bits,
    keys,
    larger_than_memory,
    missing_and_larger_than_memory,
    nameless_and_short,
    own_code,
    own_head,
    put,
    reads_numbers,
    renamed,
    short_head,
    small_vocabulary,
    tensors,
    tied_pickle,
)
from tests.entrypoint.load.folders import TINY_LLAMA, model_of
from tests.entrypoint.load.models import make_model

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A model of `base`, one of BASES, with one thing changed. `verl` is the folder of BAKE_VERL that is started in."""

    base: str
    change: Callable[[Path], object] = lambda _: None
    roles: tuple[str, ...] = ("actor",)
    trust: bool = False
    verl: str = "site"


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
        "tied, and in the weights twice": Case(base="qwen2 tied", change=tensors(own_head)),
        "tied, and twice, as critic": Case(base="qwen2 tied", change=tensors(own_head), roles=("critic",)),
        "tied, and in a pickle twice": Case(base="qwen2 tied", change=tied_pickle),
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
        "a class that reads numbers": Case(base="llama", change=reads_numbers, trust=True),
        "tied, with a head of another shape": Case(base="qwen2 tied", change=tensors(short_head)),
        "no architecture, verl 0.5": Case(base="llama", change=keys("config.json", architectures=None), verl="0.5.0"),
        "no architecture and a tensor less, verl 0.5": Case(base="llama", change=nameless_and_short, verl="0.5.0"),
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
        with chdir(site.parent / case.verl):
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
    with redirect_stderr(StringIO()) as said:
        found = load_faults(model, folder)
    return {
        "verify": [fault.document() for fault in verify(model, FolderTree(folder), level="quick")],
        "load": [fault.document() for fault in found],
        "said": said.getvalue(),
        "ran": (folder / "ran").exists(),
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
