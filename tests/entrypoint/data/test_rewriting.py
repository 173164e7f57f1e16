from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bake.entrypoint.data import DATA_CHECKS
from bake.entrypoint.override import Override
from tests.entrypoint.data.samples import prepared, row, rows, whats, write_jsonl, write_parquet
from tests.entrypoint.data.test_formats import arrow_file, arrow_stream, jsonl

RAW = [
    {"question": "What is 6 * 12?", "answer": "6 * 12 = 72\n#### 72", "level": 1},
    {"question": "And 1,000 + 2?", "answer": "#### 1,002", "level": 2},
]
MAP = {"prompt": "question", "ground_truth": "answer", "data_source": "openai/gsm8k"}


def written(overrides: tuple[Override, ...]) -> list[Any]:
    """The rows of the one file that data.train_files was overridden with."""
    [path] = next(override.value for override in overrides if override.key == "data.train_files")  # type: ignore[misc]
    return pq.read_table(path).to_pylist()  # type: ignore[no-any-return]


def test_mapped_columns_become_verl_s_and_the_others_stay(tmp_path: Path) -> None:
    file = write_parquet(tmp_path / "gsm8k.parquet", RAW)

    found = prepared(file, scratch=tmp_path / "scratch", columns=MAP)

    [target] = (tmp_path / "scratch").iterdir()

    assert (found.findings, found.overrides, found.notes) == (
        (),
        (Override("data.train_files", (str(target),)), Override("data.val_files", (str(target),))),
        (
            "data: data.train_files: 1 file, 2 rows; 2 looked at",
            (
                f"data: {file} was written as {target} (2 rows, prompt from question, ground_truth from answer; "
                f"data_source "
                "openai/gsm8k)"
            ),
        ),
    )
    assert written(found.overrides) == [
        {
            "question": "What is 6 * 12?",
            "answer": "6 * 12 = 72\n#### 72",
            "level": 1,
            "prompt": [{"role": "user", "content": "What is 6 * 12?"}],
            "data_source": "openai/gsm8k",
            "reward_model": {"style": "rule", "ground_truth": "72"},
        },
        {
            "question": "And 1,000 + 2?",
            "answer": "#### 1,002",
            "level": 2,
            "prompt": [{"role": "user", "content": "And 1,000 + 2?"}],
            "data_source": "openai/gsm8k",
            "reward_model": {"style": "rule", "ground_truth": "1002"},
        },
    ]


def test_a_column_may_be_mapped_onto_itself(tmp_path: Path) -> None:
    file = write_parquet(tmp_path / "x.parquet", rows(2, prompt="What?"))

    found = prepared(file, scratch=tmp_path / "scratch", columns={"prompt": "prompt"})

    assert written(found.overrides) == rows(2, prompt=[{"role": "user", "content": "What?"}])


def test_a_mapped_prompt_that_is_messages_stays_as_it_is(tmp_path: Path) -> None:
    file = write_parquet(tmp_path / "x.parquet", [{**row(), "chat": row()["prompt"], "prompt": "old"}])

    found = prepared(file, scratch=tmp_path / "scratch", columns={"prompt": "chat"})

    assert written(found.overrides) == [{**row(), "chat": row()["prompt"]}]


def test_a_data_source_is_a_column_where_there_is_one(tmp_path: Path) -> None:
    content = [{**row(), "origin": "lighteval/MATH"}, {**row(), "origin": "openai/gsm8k"}]
    file = write_parquet(tmp_path / "x.parquet", content)

    found = prepared(file, scratch=tmp_path / "scratch", columns={"data_source": "origin"})

    assert [item["data_source"] for item in written(found.overrides)] == ["lighteval/MATH", "openai/gsm8k"]


def test_a_constant_that_verl_does_not_know_is_refused_as_it_may_be_a_misspelt_column(tmp_path: Path) -> None:
    file = write_parquet(tmp_path / "x.parquet", rows(1))

    assert whats(prepared(file, scratch=tmp_path, columns={"data_source": "orgin"})) == [
        (
            f"data.train_files: data_source is 'orgin', which this verl has no reward for, in the one row looked at: "
            f"{file} "
            "row 0"
        )
    ]


def test_the_prompt_goes_where_the_settings_look_for_it(tmp_path: Path) -> None:
    file = write_parquet(tmp_path / "x.parquet", RAW)

    found = prepared(file, scratch=tmp_path / "scratch", columns=MAP, data={"prompt_key": "chat"})

    assert written(found.overrides)[0]["chat"] == [{"role": "user", "content": "What is 6 * 12?"}]


@pytest.mark.parametrize(("truths", "text"), [([72, 73], ["72", "73"]), ([72.0, 2.5], ["72", "2.5"])])
def test_numbers_become_text_where_verl_s_own_reward_compares_it(
    tmp_path: Path, truths: list[float], text: list[str]
) -> None:
    content = [{**row(), "answer": truth} for truth in truths]
    file = write_parquet(tmp_path / "x.parquet", content)

    found = prepared(file, scratch=tmp_path / "scratch", columns={"ground_truth": "answer"})

    assert [item["reward_model"]["ground_truth"] for item in written(found.overrides)] == text


def test_with_a_function_of_the_user_s_a_ground_truth_keeps_its_type(tmp_path: Path) -> None:
    (tmp_path / "r.py").write_text("def compute_score(**kwargs): ...")
    own = {"custom_reward_function": {"path": str(tmp_path / "r.py"), "name": "compute_score"}}
    file = write_parquet(tmp_path / "x.parquet", [{**row(), "answer": [1, 2]}])

    found = prepared(file, scratch=tmp_path / "scratch", columns={"ground_truth": "answer"}, reward=own)

    assert written(found.overrides)[0]["reward_model"] == {"style": "rule", "ground_truth": [1, 2]}


@pytest.mark.parametrize(("write", "name"), [(arrow_file, "x.feather"), (arrow_stream, "x.arrow"), (jsonl, "x.ndjson")])
def test_a_format_that_verl_refuses_is_written_as_parquet(tmp_path: Path, write: Any, name: str) -> None:
    found = prepared(write(tmp_path / name), scratch=tmp_path / "scratch")

    assert (found.findings, written(found.overrides)) == ((), rows(10))


def test_lines_of_json_are_written_anew_only_for_a_verl_that_does_not_read_them(tmp_path: Path) -> None:
    file = jsonl(tmp_path / "x.jsonl")

    found = [prepared(file, scratch=tmp_path / "scratch", release=release) for release in ((0, 6), (0, 7))]

    assert [len(answer.overrides) for answer in found] == [2, 0]


def test_a_csv_file_is_written_as_parquet(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("question,answer\nWhat?,007\n")

    found = prepared(str(tmp_path / "x.csv"), scratch=tmp_path / "scratch", columns=MAP)

    assert written(found.overrides) == [
        {
            "question": "What?",
            "answer": "007",
            "prompt": [{"role": "user", "content": "What?"}],
            "data_source": "openai/gsm8k",
            "reward_model": {"style": "rule", "ground_truth": "007"},
        }
    ]


def test_of_several_files_only_those_that_need_it_are_written_and_the_order_stays(tmp_path: Path) -> None:
    first, second = write_parquet(tmp_path / "a.parquet", rows(10)), jsonl(tmp_path / "b.ndjson")

    found = prepared([second, first], scratch=tmp_path / "scratch", data={"val_files": first})

    [target] = (tmp_path / "scratch").iterdir()
    assert found.overrides == (Override("data.train_files", (str(target), first)),)


def test_what_verl_would_not_find_is_spelled_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    file = write_parquet(tmp_path / "data" / "train.parquet", rows(1))
    other = write_parquet(tmp_path / "data" / "test.parquet", rows(1))

    found = prepared("~/data/train.parquet", scratch=tmp_path, data={"val_files": f"{tmp_path}/data"})

    assert found.overrides == (Override("data.train_files", (file,)), Override("data.val_files", (other,)))


@pytest.mark.parametrize(
    ("pattern", "release", "overridden"), [("*.parquet", (0, 9), 0), ("*", (0, 9), 2), ("*", (0, 6), 0)]
)
def test_a_glob_is_spelled_out_where_its_end_is_not_what_verl_wants(
    tmp_path: Path, pattern: str, release: Any, overridden: int
) -> None:
    write_parquet(tmp_path / "data" / "x.parquet", rows(1))

    found = prepared(f"{tmp_path}/data/{pattern}", scratch=tmp_path, release=release)

    assert len(found.overrides) == overridden


def test_nothing_is_written_where_a_check_found_an_error(tmp_path: Path) -> None:
    file = write_jsonl(tmp_path / "x.ndjson", [row(), row(prompt="x")])

    found = prepared(file, scratch=tmp_path / "scratch")

    assert (len(found.findings), found.overrides, (tmp_path / "scratch").exists()) == (1, (), False)


def test_with_every_check_left_out_files_are_still_spelled_out_mapped_and_converted(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    write_jsonl(tmp_path / "data" / "train.ndjson", RAW)
    val = write_parquet(tmp_path / "val.parquet", RAW)

    found = prepared(
        f"{tmp_path}/data", scratch=tmp_path / "scratch", columns=MAP, skip=DATA_CHECKS, data={"val_files": val}
    )

    assert (found.findings, [item["prompt"] for item in written(found.overrides)], len(found.overrides)) == (
        (),
        [[{"role": "user", "content": "What is 6 * 12?"}], [{"role": "user", "content": "And 1,000 + 2?"}]],
        2,
    )


def test_a_prompt_that_is_the_json_text_of_messages_becomes_these(tmp_path: Path) -> None:
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "[1]?"}]
    file = write_parquet(tmp_path / "x.parquet", [row(prompt=json.dumps(chat)), row(prompt="[1]?")])

    found = prepared(file, scratch=tmp_path / "scratch", columns={"prompt": "prompt"})

    assert [item["prompt"] for item in written(found.overrides)] == [chat, [{"role": "user", "content": "[1]?"}]]


def test_json_text_of_messages_that_hold_more_is_refused_before_any_of_it_is_lost(tmp_path: Path) -> None:
    chat = [{"role": "user", "content": "x", "tool_calls": []}]
    file = write_parquet(tmp_path / "x.parquet", [row(prompt=json.dumps(chat))])

    assert whats(prepared(file, scratch=tmp_path / "scratch", columns={"prompt": "prompt"})) == [
        f"{file} has JSON text of messages that hold tool_calls: write that column as a list of objects"
    ]


@pytest.mark.parametrize("name", ["x.jsonl", "x.json"])
def test_answers_that_are_numbers_in_some_lines_and_texts_in_others_are_all_texts(tmp_path: Path, name: str) -> None:
    content = [{"q": "a", "answer": 72}, {"q": "b", "answer": "73"}, {"q": "c", "answer": 2.5}]
    (tmp_path / "x.jsonl").write_text("".join(f"{json.dumps(item)}\n" for item in content))
    (tmp_path / "x.json").write_text(json.dumps(content))

    found = prepared(
        f"{tmp_path}/{name}", scratch=tmp_path / "scratch", columns={**MAP, "prompt": "q", "ground_truth": "answer"}
    )

    assert [item["reward_model"]["ground_truth"] for item in written(found.overrides)] == ["72", "73", "2.5"]


def test_metadata_of_datasets_that_no_longer_hold_are_left_out(tmp_path: Path) -> None:
    table = pa.Table.from_pylist(RAW).replace_schema_metadata({"huggingface": json.dumps({"info": {"features": {}}})})
    pq.write_table(table, tmp_path / "x.parquet")

    prepared(str(tmp_path / "x.parquet"), scratch=tmp_path / "scratch", columns=MAP)

    [target] = (tmp_path / "scratch").iterdir()
    assert pq.read_schema(target).metadata is None


def test_a_name_that_is_no_text_gets_a_plain_one(tmp_path: Path) -> None:
    name = os.fsdecode(os.fsencode(tmp_path) + b"/\xff d.parquet")
    Path(write_parquet(tmp_path / "x.parquet", RAW)).rename(name)

    found = prepared(name, scratch=tmp_path / "scratch", columns=MAP)

    [target] = (tmp_path / "scratch").iterdir()
    assert (found.overrides[0], target.name[:4]) == (Override("data.train_files", (str(target),)), "__d-")


def test_a_line_that_no_check_had_seen_fails_the_conversion_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "x.ndjson").write_text("".join(f"{json.dumps(row(number))}\n" for number in range(1000)) + "{oops")

    found = prepared(f"{tmp_path}/x.ndjson", scratch=tmp_path / "scratch")

    assert (whats(found), os.listdir(tmp_path / "scratch")) == (
        [
            (
                f"{tmp_path}/x.ndjson is not JSON in line 1001: Expecting property name enclosed in double quotes at "
                f"column 2"
            ),
        ],
        [],
    )


def test_a_file_without_rows_cannot_be_mapped_whatever_check_is_left_out(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_pylist(RAW).slice(0, 0), tmp_path / "x.parquet")

    assert whats(prepared(f"{tmp_path}/x.parquet", scratch=tmp_path, columns=MAP, skip=DATA_CHECKS)) == [
        f"{tmp_path}/x.parquet holds no row"
    ]
