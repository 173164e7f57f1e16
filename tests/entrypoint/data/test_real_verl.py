"""What `prepare` calls good, verl's own dataset loads, in full; what it refuses, verl fails over or drops.

And the prompts are rendered and counted as transformers does it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bake.entrypoint.data.tokens import load_tokenizer
from tests.entrypoint.data.samples import (
    CHATML,
    prepared,
    row,
    rows,
    situation,
    write_jsonl,
    write_model,
    write_parquet,
)
from tests.entrypoint.data.test_formats import arrow_file, arrow_stream, json_array, jsonl, parquet

if TYPE_CHECKING:
    from collections.abc import Callable

    from bake.entrypoint.data import Prepared

    Ask = Callable[..., Any]

pytestmark = pytest.mark.verl

DATA = {"prompt_key": "prompt", "max_prompt_length": 512, "truncation": "error"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model") / "tiny", model_type="qwen2")


def told(found: Prepared, given: list[str]) -> list[str]:
    """The training files that verl is told."""
    values = [override.value for override in found.overrides if override.key == "data.train_files"]
    return list(values[0]) if values else given  # type: ignore[arg-type]


def loaded(verl: Ask, files: list[str], model: Path, *, filtered: bool) -> Any:
    return verl("load", files=files, model=str(model), data={**DATA, "filter_overlong_prompts": filtered})


def reordered(path: Path) -> str:
    """Rows whose structs lie in another order, with a message's key that others lack."""
    message = {"content": "x", "role": "user", "name": None}
    return write_parquet(path, rows(10, prompt=[message], reward_model={"ground_truth": "1", "style": "rule"}))


def large(path: Path) -> str:
    table = pa.Table.from_pylist(rows(10))
    pq.write_table(table.set_column(0, "data_source", table["data_source"].cast(pa.large_string())), path)
    return str(path)


def joined(path: Path) -> list[str]:
    return [
        write_parquet(path.with_name("a.parquet"), rows(5)),
        write_parquet(path.with_name("b.parquet"), rows(5, extra_info={"other": "x"}, more=1)),
    ]


def globbed(path: Path) -> str:
    joined(path)
    (path.parent / "b.parquet").unlink()
    write_parquet(path.with_name("c.parquet"), rows(5))
    return f"{path.parent}/[ac].parquet"


GOOD = [
    pytest.param(parquet, "x.parquet", id="parquet"),
    pytest.param(parquet, "x.PARQUET", id="parquet by another name"),
    pytest.param(reordered, "x.parquet", id="structs in another order"),
    pytest.param(large, "x.parquet", id="large strings"),
    pytest.param(joined, "x.parquet", id="two files with different columns"),
    pytest.param(globbed, "x.parquet", id="a glob"),
    pytest.param(arrow_file, "x.feather", id="an Arrow file"),
    pytest.param(arrow_stream, "x.arrow", id="an Arrow stream"),
    pytest.param(jsonl, "x.jsonl", id="JSON lines"),
    pytest.param(jsonl, "x.ndjson", id="JSON lines by another name"),
    pytest.param(json_array, "x.json", id="a JSON array"),
    pytest.param(lambda path: write_parquet(path, rows(10, extra_info=None)), "x.parquet", id="no extra_info"),
    pytest.param(parquet, "it's a = b,c #1 ä.parquet", id="an odd name"),
]


@pytest.mark.parametrize(("write", "name"), GOOD)
def test_data_that_are_called_good_load_in_full(tmp_path: Path, model: Path, verl: Ask, write: Any, name: str) -> None:
    given = write(tmp_path / name)

    found = prepared(given, scratch=tmp_path / "scratch", model=model)

    files = told(found, [given] if isinstance(given, str) else given)
    assert (found.findings, loaded(verl, files, model, filtered=True)["rows"]) == ((), 10)


RAW = [{"question": f"What is {number}?", "answer": f"It is\n#### {number}"} for number in range(10)]
MAP = {"prompt": "question", "ground_truth": "answer", "data_source": "openai/gsm8k"}


def csv(path: Path) -> str:
    lines = [f'{item["question"]},"{item["answer"]}"' for item in RAW]
    path.write_text("\n".join(["question,answer", *lines, ""]))
    return str(path)


@pytest.mark.parametrize(
    ("write", "name"),
    [
        pytest.param(lambda path: write_parquet(path, RAW), "x.parquet", id="parquet"),
        pytest.param(lambda path: write_jsonl(path, RAW), "x.jsonl", id="JSON lines"),
        pytest.param(csv, "x.csv", id="CSV"),
    ],
)
def test_mapped_files_load_as_verl_s_own_rows(tmp_path: Path, model: Path, verl: Ask, write: Any, name: str) -> None:
    found = prepared(write(tmp_path / name), scratch=tmp_path / "scratch", model=model, columns=MAP)

    assert loaded(verl, told(found, []), model, filtered=True) == {
        "rows": 10,
        "first": {
            "raw_prompt": [{"role": "user", "content": "What is 0?"}],
            "data_source": "openai/gsm8k",
            "reward_model": {"style": "rule", "ground_truth": "0"},
        },
    }


def test_a_folder_that_datasets_wrote_for_both_splits_loads(tmp_path: Path, model: Path, verl: Ask) -> None:
    (tmp_path / "train").mkdir()
    arrow_stream(tmp_path / "train" / "data-00000-of-00001.arrow")

    found = prepared(str(tmp_path), scratch=tmp_path / "scratch", model=model, data={"val_files": "hdfs://x/y"})

    assert loaded(verl, told(found, []), model, filtered=True)["rows"] == 10


def mapping_typed(path: Path) -> str:
    table = pa.Table.from_pylist(rows(10))
    kind = pa.list_(pa.map_(pa.string(), pa.string()))
    pq.write_table(table.set_column(1, "prompt", pa.array([[[("role", "user"), ("content", "x")]]] * 10, kind)), path)
    return str(path)


def two_types(path: Path) -> list[str]:
    return [write_parquet(path.with_name("a.parquet"), rows(5)), large(path)]


def no_row(path: Path) -> str:
    pq.write_table(pa.Table.from_pylist(rows(1)).slice(0, 0), path)
    return str(path)


def cut(path: Path) -> str:
    content = Path(parquet(path)).read_bytes()
    path.write_bytes(content[:-50])
    return str(path)


def written_as(content: bytes) -> Any:
    def write(path: Path) -> str:
        path.write_bytes(content)
        return str(path)

    return write


def prompts(prompt: object) -> Any:
    return lambda path: write_parquet(path, rows(10, prompt=prompt))


USER = {"role": "user", "content": "x"}

FAILING = [
    pytest.param(cut, "x.parquet", "data-files", "ArrowInvalid", id="a cut file"),
    pytest.param(written_as(b""), "x.parquet", "data-files", "ArrowInvalid", id="an empty file"),
    pytest.param(no_row, "x.parquet", "data-rows", "DatasetGenerationError", id="no row"),
    pytest.param(written_as(b""), "x.jsonl", "data-files", "StopIteration", id="an empty file of JSON"),
    pytest.param(written_as(b'{"a": 1}\n{oops'), "x.jsonl", "data-files", "DatasetGenerationError", id="bad JSON"),
    pytest.param(written_as(b'{"a": "\xe9"}'), "x.jsonl", "data-files", "UnicodeDecodeError", id="no UTF-8"),
    pytest.param(lambda path: f"{path}", "no.parquet", "data-files", "FileNotFoundError", id="no file"),
    pytest.param(parquet, "a[1].parquet", "data-files", "ValueError", id="a name with brackets"),
    pytest.param(parquet, "a::b.parquet", "data-files", "FileNotFoundError", id="a name with colons"),
    pytest.param(two_types, "b.parquet", "data-columns", "ValueError", id="two types"),
    pytest.param(mapping_typed, "x.parquet", "data-prompts", "ValueError", id="maps"),
]


@pytest.mark.parametrize(("write", "name", "check", "error"), FAILING)
def test_what_is_refused_verl_cannot_load(
    tmp_path: Path, *, model: Path, verl: Ask, write: Any, name: str, check: str, error: str
) -> None:
    given = write(tmp_path / name)

    found = prepared(given, scratch=tmp_path, model=model)

    files = [given] if isinstance(given, str) else given
    assert (found.findings[0].check, loaded(verl, files, model, filtered=False)) == (check, error)


DROPPED = [
    pytest.param("What?", "data-prompts", id="a string"),
    pytest.param([], "data-prompts", id="an empty list"),
    pytest.param([{"from": "human", "value": "x"}], "data-prompts", id="ShareGPT's keys"),
    pytest.param([{"role": "user", "content": None}], "data-prompts", id="no content"),
    pytest.param([{"role": None, "content": "x"}], "data-prompts", id="no role"),
    pytest.param(["x"], "data-prompts", id="a list of strings"),
    pytest.param([{"role": "user", "content": [{"type": "text"}]}], "data-template", id="what the template refuses"),
    pytest.param([{"role": "user", "content": "x" * 600}], "data-lengths", id="too long"),
]


@pytest.mark.parametrize(("prompt", "check"), DROPPED)
def test_prompts_that_are_refused_verl_s_filter_drops_all(
    tmp_path: Path, model: Path, verl: Ask, prompt: object, check: str
) -> None:
    file = write_parquet(tmp_path / "x.parquet", rows(10, prompt=prompt))

    found = prepared(file, scratch=tmp_path, model=model)

    assert ({finding.check for finding in found.findings}, loaded(verl, [file], model, filtered=True)["rows"]) == (
        {check},
        0,
    )


def test_rows_that_the_filter_leaves_are_as_many_as_were_estimated(tmp_path: Path, model: Path, verl: Ask) -> None:
    edge = [{"role": "user", "content": "x" * length} for length in range(490, 500)]
    file = write_parquet(tmp_path / "x.parquet", [row(prompt=[message]) for message in edge])
    data = {"train_batch_size": 10, "filter_overlong_prompts": True}

    found = prepared(file, scratch=tmp_path, model=model, data=data)

    assert [finding.what for finding in found.findings if finding.check == "data-rows"] == [
        (
            "data.train_files holds 10 rows, of which data.filter_overlong_prompts leaves about 4, and "
            "data.train_batch_size=10"
        )
    ]
    assert loaded(verl, [file], model, filtered=True)["rows"] == 4


LLAMA = (
    "{{- bos_token }}\n{%- set date = strftime_now('%Y') if strftime_now is defined else '' %}\n"
    "{%- if messages[0]['role'] == 'system' %}\n    {%- set system = messages[0]['content'] | trim %}\n"
    "    {%- set messages = messages[1:] %}\n{%- else %}\n    {%- set system = '' %}\n{%- endif %}\n"
    "{{- '<|im_start|>system\\n\\n' + date + system + '<|im_end|>' }}\n"
    "{%- for message in messages %}\n    {%- if 'tool_calls' in message and message.tool_calls %}\n"
    "        {{- message.tool_calls | tojson(indent=2) }}\n    {%- else %}\n"
    "        {{- '<|im_start|>' + message['role'] + '\\n\\n' + message['content'] | trim + '<|im_end|>' }}\n"
    "    {%- endif %}\n{%- endfor %}\n{%- if add_generation_prompt %}\n    "
    "{{- '<|im_start|>assistant\\n\\n' }}\n{%- endif %}\n"
)
THINKING = (
    "{% for message in messages %}\n    {% if message.role == 'assistant' %}{% generation %}{{ message.content }}"
    "{% endgeneration %}{% else %}{{ message.content + eos_token }}{% endif %}"
    "\n{% if loop.index > 2 %}{% break %}{% endif %}"
    "\n{% endfor %}\n{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}"
)

PROMPTS: list[list[Any]] = [
    [USER],
    [{"role": "system", "content": " Be brief.  "}, {"role": "user", "content": "Wie heißt 東京 <b>&'\"? 🙂"}],
    [USER, {"role": "assistant", "content": "", "tool_calls": [{"name": "f<b>", "arguments": {"ä": 1}}]}, USER],
    [USER, {"role": "assistant", "content": "y"}, USER, USER],
    [{"role": "user", "content": "a <|im_end|> in the text\n\n\t  and spaces   "}],
]


@pytest.mark.parametrize(
    ("template", "variables"),
    [
        pytest.param(CHATML, {}, id="ChatML"),
        pytest.param(LLAMA, {}, id="Llama's way"),
        pytest.param(THINKING, {"enable_thinking": False}, id="with thinking turned off"),
    ],
)
def test_prompts_are_rendered_and_counted_as_transformers_does(
    tmp_path: Path, verl: Ask, template: str, variables: dict[str, Any]
) -> None:
    folder = write_model(tmp_path / "model", template=template, model_type="qwen2")
    config = folder / "tokenizer_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "bos_token": "<|endoftext|>"}))
    tokenizer = load_tokenizer(situation({"apply_chat_template_kwargs": variables}, model=folder))
    assert tokenizer.template is not None

    texts = [tokenizer.template.render(prompt) for prompt in PROMPTS]

    assert [[text, tokenizer.count(text)] for text in texts] == verl(
        "count", model=str(folder), prompts=PROMPTS, variables=variables
    )
