"""What `load_faults` finds under real transformers and torch, on models that these made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.entrypoint.load.cases import bad, good

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = pytest.mark.verl

FAMILIES = {"qwen2": "Qwen2ForCausalLM", "llama": "LlamaForCausalLM"}
WHO = "of transformers 5.10.4"
VERIFY_TELLS = {
    "no config.json": ("config.json", "missing"),
    "config.json is no JSON": ("config.json", "json"),
    "no weights": (".", "missing"),
    "weights cut off": ("model.safetensors", "safetensors"),
    "weights are a pointer": ("model.safetensors", "lfs-pointer"),
    "tokenizer.json is a pointer": ("tokenizer.json", "lfs-pointer"),
}
LOAD_TELLS = {
    "unknown model_type": "'unknown9', which it does not know",
    "own code": "code of the model's own (auto_map), which may not run",
    "architectures null": "none",
    "no tokenizer.json": "none, nor tokenizer.model, vocab.json or vocab.txt",
    "no tokenizer_config.json": "no such file",
    "no chat template": "none here, in chat_template.jinja or in chat_template.json",
    "a template that fails": "TemplateError: never",
    "a template without the words": "'hello'",
    "another shape": "[32, 64], and 5 more",
    "a tensor is missing": "none for model.layers.1.mlp.up_proj.weight",
    "eight bits": "none, for lm_head.weight, model.embed_tokens.weight, model.layers.0.mlp.down_proj.weight "
    "and 13 more in float8_e4m3fn",
}


def found(answers: Mapping[str, Any], case: str) -> list[str]:
    return [fault["found"] for fault in answers[case]["load"]]


@pytest.mark.parametrize("case", good())
def test_a_good_model_has_no_fault(answers: Mapping[str, Any], case: str) -> None:
    assert answers[case] == {"verify": [], "load": [], "said": "", "ran": False}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("case", VERIFY_TELLS)
def test_what_verify_tells_is_not_told_twice(answers: Mapping[str, Any], family: str, case: str) -> None:
    answer = answers[f"{family}: {case}"]

    assert [(fault["path"], fault["kind"]) for fault in answer["verify"]] == [VERIFY_TELLS[case]]
    assert answer["load"] == []


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("case", LOAD_TELLS)
def test_each_fault_that_verl_tells_late_or_never_is_told_once(
    answers: Mapping[str, Any], family: str, case: str
) -> None:
    answer = answers[f"{family}: {case}"]

    assert answer["verify"] == []
    assert found(answers, f"{family}: {case}") == [LOAD_TELLS[case]]


@pytest.mark.parametrize("family", FAMILIES)
def test_both_files_of_a_tokenizer_are_told(answers: Mapping[str, Any], family: str) -> None:
    assert found(answers, f"{family}: no tokenizer files") == [
        "none, nor tokenizer.model, vocab.json or vocab.txt",
        "no such file",
    ]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_missing_tensor_is_told_with_its_class(answers: Mapping[str, Any], family: str) -> None:
    assert answers[f"{family}: a tensor is missing"]["load"] == [
        {
            "path": "config.json",
            "kind": "weights",
            "expected": f"all tensors of {FAMILIES[family]} {WHO}",
            "found": "none for model.layers.1.mlp.up_proj.weight",
            "hint": "take config.json and all weights from the same commit; the missing ones would be random numbers",
        }
    ]


@pytest.mark.parametrize("family", FAMILIES)
def test_other_names_are_told_beside_those_that_are_missing(answers: Mapping[str, Any], family: str) -> None:
    (text,) = found(answers, f"{family}: all names differ")

    assert text.startswith("none for lm_head.weight, model.embed_tokens.weight, model.layers.0.input_layernorm.weight")
    assert "; without a place are policy.lm_head.weight, policy.model.embed_tokens.weight" in text


@pytest.mark.parametrize("family", FAMILIES)
def test_ids_beyond_the_embedding_are_told(answers: Mapping[str, Any], family: str) -> None:
    (fault,) = answers[f"{family}: rows are too few"]["load"]

    assert fault["expected"] == "ids below 256, the embedding's rows"
    assert fault["found"].endswith("for 'The quick brown fox jumps over 13 lazy dogs.'")


def test_a_model_larger_than_memory_is_compared_without_its_bytes(answers: Mapping[str, Any]) -> None:
    (text,) = found(answers, "missing and larger than memory")

    assert text.startswith("none for model.layers.16.input_layernorm.weight, model.layers.16.mlp.down_proj.weight")
    assert answers["most memory, in kB"] < 3_000_000


def test_a_layer_that_config_json_does_not_count_is_told(answers: Mapping[str, Any]) -> None:
    (text,) = found(answers, "llama: a layer too many")

    assert text == (
        "model.layers.1.input_layernorm.weight, model.layers.1.mlp.down_proj.weight, "
        "model.layers.1.mlp.gate_proj.weight and 6 more"
    )


def test_a_configuration_that_transformers_refuses_is_told_in_its_own_words(answers: Mapping[str, Any]) -> None:
    (text,) = found(answers, "qwen2: a layer too many")

    assert text.endswith("`num_hidden_layers` (1) must be equal to the number of `layer_types` (2)")


def test_biases_that_config_json_switches_off_are_told(answers: Mapping[str, Any]) -> None:
    (text,) = found(answers, "biases switched off")

    assert text == (
        "model.layers.0.self_attn.k_proj.bias, model.layers.0.self_attn.o_proj.bias, "
        "model.layers.0.self_attn.q_proj.bias and 5 more"
    )


def test_a_tied_head_of_another_shape_is_told(answers: Mapping[str, Any]) -> None:
    (fault,) = answers["tied, with a head of another shape"]["load"]

    assert fault["expected"] == f"lm_head.weight of shape [320, 32], as Qwen2ForCausalLM {WHO} builds it"
    assert fault["found"] == "[256, 32]"


def test_a_class_that_reads_numbers_is_said_not_to_be_compared_and_is_no_fault(answers: Mapping[str, Any]) -> None:
    assert answers["a class that reads numbers"] == {
        "verify": [],
        "load": [],
        "said": "note: config.json and the weights were not compared: OwnForCausalLM cannot be loaded without "
        "the weights' bytes\n",
        "ran": False,
    }


def test_verl_0_5_builds_a_language_model_where_no_architecture_is_named(answers: Mapping[str, Any]) -> None:
    (fault,) = answers["no architecture and a tensor less, verl 0.5"]["load"]

    assert answers["no architecture, verl 0.5"]["load"] == []
    assert fault["expected"] == f"all tensors of LlamaForCausalLM {WHO}"
    assert fault["found"] == "none for lm_head.weight"


def test_experts_that_do_not_come_together_are_told_by_name(answers: Mapping[str, Any]) -> None:
    (text,) = found(answers, "an expert is missing")

    assert text == (
        "weights that model.layers.0.mlp.experts.gate_up_proj cannot be put together from: one is missing, or of "
        "another shape"
    )


def test_a_critic_has_one_output(answers: Mapping[str, Any]) -> None:
    (fault,) = answers["a critic with two outputs"]["load"]

    assert fault["expected"] == f"score.bias of shape [1], as Qwen2ForTokenClassification {WHO} builds it"
    assert fault["found"] == "[2], and 1 more"


def test_a_critic_may_lack_its_head_but_no_layer(answers: Mapping[str, Any]) -> None:
    assert found(answers, "a critic without its layers") == [
        "none for model.layers.1.mlp.up_proj.weight; without a place are lm_head.weight"
    ]


def test_a_tokenizer_that_does_not_give_texts_back_is_told(answers: Mapping[str, Any]) -> None:
    (text,) = found(answers, "the decoder is lost")

    assert text.startswith("'T h e Ġ q u i c k")


def test_a_byte_level_llama_that_would_lose_its_spaces_is_told(answers: Mapping[str, Any]) -> None:
    assert found(answers, "LlamaTokenizerFast in llama") == [
        "LlamaTokenizerFast, under which every text loses its spaces in transformers 5.10.4"
    ]


@pytest.mark.parametrize("case", ["a shard is missing", "no index"])
def test_what_the_index_shows_is_left_to_verify(answers: Mapping[str, Any], case: str) -> None:
    assert [fault["kind"] for fault in answers[case]["verify"]] == ["index"]
    assert answers[case]["load"] == []


def test_own_code_runs_only_when_it_is_trusted(answers: Mapping[str, Any]) -> None:
    assert answers["llama: own code"]["ran"] is False
    assert answers["own code, trusted"]["ran"] is True


def test_each_model_type_of_transformers_is_known_without_importing_it(answers: Mapping[str, Any]) -> None:
    assert answers["model types that are not known"] == []


def test_the_tables_here_name_every_case() -> None:
    elsewhere = {"no tokenizer files", "all names differ", "rows are too few", "a layer too many"}

    assert {
        name.removeprefix("llama: ") for name in bad("llama")
    } == VERIFY_TELLS.keys() | LOAD_TELLS.keys() | elsewhere
