from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from bake.entrypoint.fault import FETCH_AGAIN, Fault
from bake.entrypoint.launch.installed import Installed
from bake.entrypoint.load.configuration import configuration_faults
from bake.entrypoint.load.documents import read_documents
from tests.entrypoint.files import write
from tests.entrypoint.load.folders import faults_of, model_of, tiny_llama, with_keys

if TYPE_CHECKING:
    from pathlib import Path

TRUST = "read the model's *.py files; if you trust them, set trust_remote_code = true for it in models.lock"


def config_fault(expected: str, found: str, hint: str) -> Fault:
    return Fault(path="config.json", kind="config", expected=expected, found=found, hint=hint)


def told_of_type(root: Path, *, trust: bool = False, **keys: Any) -> list[Fault]:
    """What is told where transformers knows llama and nothing else."""
    files = with_keys(tiny_llama(), "config.json", **keys)
    documents = read_documents(write(root, files))
    model = model_of(files, trust=trust)
    return list(configuration_faults(model, documents, transformers="5.10.4", known={"llama"}, verl=None))


def told_of_architectures(root: Path, *, release: tuple[int, int] | None, value: object) -> list[str]:
    """What is found where this release of verl is installed."""
    files = with_keys(tiny_llama(), "config.json", architectures=value)
    verl = Installed(folder=root / "verl", release=release)
    documents = read_documents(write(root, files))
    faults = configuration_faults(model_of(files), documents, transformers="4.52.4", known=None, verl=verl)
    return [fault.found for fault in faults]


@pytest.mark.parametrize("content", [b"{}", b"[]", b'"x"'])
def test_a_config_that_says_nothing_is_told(tmp_path: Path, content: bytes) -> None:
    faults = faults_of(tmp_path, {**tiny_llama(), "config.json": content})

    assert faults == (
        config_fault("a JSON object with the model's configuration", "an empty one, or no object", FETCH_AGAIN),
    )


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json"])
def test_broken_json_is_left_to_verify(tmp_path: Path, name: str) -> None:
    assert faults_of(tmp_path, {**tiny_llama(), name: b"version https://git-lfs.github.com/spec/v1"}) == ()


def test_a_missing_model_type_is_told(tmp_path: Path) -> None:
    assert faults_of(tmp_path, with_keys(tiny_llama(), "config.json", model_type=None)) == (
        config_fault(
            "a model_type, by which transformers finds the architecture",
            "none",
            "fetch config.json again; that of an adapter or of another format does not serve",
        ),
    )


def test_a_model_type_that_transformers_does_not_know_is_told(tmp_path: Path) -> None:
    assert told_of_type(tmp_path, model_type="llama9") == [
        config_fault(
            "a model_type that the image's transformers knows",
            "'llama9', which it does not know",
            "build on a base image with a transformers that has this model, which its model card names",
        )
    ]


def test_a_models_own_code_without_trust_is_told(tmp_path: Path) -> None:
    auto_map = {"AutoConfig": "configuration_own.OwnConfig"}

    assert told_of_type(tmp_path, model_type="own", auto_map=auto_map) == [
        config_fault(
            "a model_type that transformers knows, or trust_remote_code = true in the lock for the code of 'own'",
            "code of the model's own (auto_map), which may not run",
            TRUST,
        )
    ]


def test_own_code_beside_a_known_model_type_needs_no_trust(tmp_path: Path) -> None:
    assert told_of_type(tmp_path, auto_map={"AutoConfig": "configuration_own.OwnConfig"}) == []


def test_trusted_code_that_is_not_there_is_told(tmp_path: Path) -> None:
    auto_map = {"AutoConfig": "configuration_own.OwnConfig", "AutoModelForCausalLM": "them/theirs--modeling.Own"}

    assert told_of_type(tmp_path, trust=True, model_type="own", auto_map=auto_map) == [
        config_fault(
            "the code that auto_map names, 'configuration_own.OwnConfig', in the model's folder",
            "no configuration_own.py",
            "lock the model again with its *.py files",
        ),
        config_fault(
            "the code that auto_map names, 'them/theirs--modeling.Own', in the model's folder",
            "'them/theirs--modeling.Own', in another repository",
            "put that code beside config.json, and name it there",
        ),
    ]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (None, "none"),
        ([], "none"),
        (["LlamaForCausalLM", "LlamaModel"], "['LlamaForCausalLM', 'LlamaModel']"),
        ("LlamaForCausalLM", "'LlamaForCausalLM'"),
    ],
)
def test_architectures_of_none_or_two_are_told(tmp_path: Path, value: object, found: str) -> None:
    assert faults_of(tmp_path, with_keys(tiny_llama(), "config.json", architectures=value)) == (
        config_fault(
            "exactly one name in architectures, as verl asserts",
            found,
            'keep the one to train in config.json, such as "architectures": ["Qwen2ForCausalLM"]',
        ),
    )


@pytest.mark.parametrize("value", [None, ["LlamaForCausalLM", "LlamaModel"]])
def test_verl_0_5_asks_for_no_architecture(tmp_path: Path, value: object) -> None:
    assert told_of_architectures(tmp_path, release=(0, 5), value=value) == []


@pytest.mark.parametrize("release", [(0, 6), (0, 9), None])
def test_later_releases_and_an_unknown_one_ask_for_one(tmp_path: Path, release: tuple[int, int] | None) -> None:
    assert told_of_architectures(tmp_path, release=release, value=None) == ["none"]


def test_a_reward_model_may_name_no_architecture(tmp_path: Path) -> None:
    files = with_keys(tiny_llama(), "config.json", architectures=None)

    assert faults_of(tmp_path, files, roles=("reward_model",)) == ()


LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


def test_rotary_embeddings_that_transformers_4_would_lose_are_told(tmp_path: Path) -> None:
    files = with_keys(tiny_llama(), "config.json", rope_parameters=LLAMA3)

    assert faults_of(tmp_path, files, transformers="4.55.4") == (
        config_fault(
            "rope_theta and rope_scaling, which transformers 4.55.4 reads",
            "rope_parameters of transformers 5, so that rope_theta 500000.0 and the llama3 scaling would be lost "
            "without a word",
            'write "rope_theta" (and "rope_scaling") into the top of config.json beside it, '
            "or build on a base image with transformers 5",
        ),
    )


def test_transformers_5_reads_them(tmp_path: Path) -> None:
    assert faults_of(tmp_path, with_keys(tiny_llama(), "config.json", rope_parameters=LLAMA3)) == ()


@pytest.mark.parametrize(
    "keys",
    [
        {"rope_parameters": LLAMA3, "rope_theta": 500000.0, "rope_scaling": LLAMA3},
        {"model_type": "mixtral", "rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"}},
        {"model_type": "gpt_oss", "rope_parameters": {"rope_theta": 150000.0, "rope_type": "yarn", "factor": 32.0}},
        {
            "model_type": "gemma3_text",
            "rope_parameters": {
                "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
                "full_attention": {"rope_type": "default", "rope_theta": 1000000.0},
            },
        },
        {"model_type": "phi", "partial_rotary_factor": 0.5, "rope_parameters": {"partial_rotary_factor": 0.5}},
    ],
    ids=["both dialects", "mixtral", "gpt-oss", "gemma3", "phi"],
)
def test_what_transformers_4_takes_by_default_is_not_lost(tmp_path: Path, keys: dict[str, object]) -> None:
    assert faults_of(tmp_path, with_keys(tiny_llama(), "config.json", **keys), transformers="4.57.3") == ()


def test_a_language_model_inside_another_is_looked_at_too(tmp_path: Path) -> None:
    text = {"model_type": "qwen2", "rope_parameters": {"rope_theta": 5000000.0, "partial_rotary_factor": 0.25}}
    (fault,) = faults_of(tmp_path, with_keys(tiny_llama(), "config.json", text_config=text), transformers="4.55.4")

    assert fault.found == (
        "text_config.rope_parameters of transformers 5, so that rope_theta 5000000.0 and partial_rotary_factor 0.25 "
        "would be lost without a word"
    )
