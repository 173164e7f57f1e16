from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bake.entrypoint.finding import Finding
from tests.entrypoint.data.samples import prepared, row, rows, whats, write_jsonl, write_parquet

if TYPE_CHECKING:
    from pathlib import Path


def without(*names: str) -> list[dict[str, Any]]:
    return [{name: value for name, value in row().items() if name not in names}]


def test_a_missing_prompt_column_is_told_with_the_columns_there_are(tmp_path: Path) -> None:
    file = write_parquet(tmp_path / "x.parquet", [{"question": "?", **without("prompt")[0]}])

    assert prepared(file, scratch=tmp_path).findings == (
        Finding(
            check="data-columns",
            severity="error",
            what=f"data.train_files: {file} has no column 'prompt'; it has question, data_source, ability, "
            f"reward_model, "
            "extra_info",
            why="verl reads it in every row and fails with KeyError: 'prompt'",
            todo="let it be made: --map prompt=question, or where it holds messages: data.prompt_key=question",
        ),
    )


def test_missing_reward_columns_are_told_all_at_once(tmp_path: Path) -> None:
    file = write_parquet(tmp_path / "x.parquet", without("data_source", "reward_model"))

    assert prepared(file, scratch=tmp_path).findings == (
        Finding(
            check="data-columns",
            severity="error",
            what=f"data.train_files: {file} has no column 'data_source'; it has prompt, ability, extra_info",
            why="verl reads it in every row and fails with KeyError: 'data_source' in a worker, after the models "
            "are loaded",
            todo="let it be made: --map data_source=openai/gsm8k, which all rows then have",
        ),
        Finding(
            check="data-columns",
            severity="error",
            what=f"data.train_files: {file} has no column 'reward_model'; it has prompt, ability, extra_info",
            why="verl reads it in every row and fails with KeyError: 'reward_model' in a worker, after the models are "
            "loaded",
            todo="let it be made: --map ground_truth=COLUMN",
        ),
    )


def test_a_column_that_many_files_lack_is_told_once(tmp_path: Path) -> None:
    files = [write_parquet(tmp_path / f"{number}.parquet", without("prompt")) for number in range(5)]

    assert whats(prepared(files, scratch=tmp_path)) == [
        (
            f"data.train_files: {files[0]}, {files[1]}, {files[2]} and 2 more have no column 'prompt'; it has "
            f"data_source, "
            "ability, reward_model, extra_info"
        )
    ]


def test_the_prompt_s_column_may_have_another_name(tmp_path: Path) -> None:
    file = write_parquet(tmp_path / "x.parquet", [{"chat": row()["prompt"], **without("prompt")[0]}])

    assert prepared(file, scratch=tmp_path, data={"prompt_key": "chat"}).findings == ()


def test_before_0_7_the_data_source_s_column_may_have_another_name(tmp_path: Path) -> None:
    file = write_parquet(tmp_path / "x.parquet", [{"origin": "openai/gsm8k", **without("data_source")[0]}])

    found = [prepared(file, scratch=tmp_path, data={"reward_fn_key": "origin"}, release=(0, minor)) for minor in (6, 7)]

    assert [whats(answer) for answer in found] == [
        [],
        [
            (
                f"data.train_files: {file} has no column 'data_source'; it has origin, prompt, ability, reward_model, "
                f"extra_info"
            )
        ],
    ]


def test_ability_and_extra_info_may_be_absent(tmp_path: Path) -> None:
    file = write_parquet(tmp_path / "x.parquet", without("ability", "extra_info"))

    assert prepared(file, scratch=tmp_path).findings == ()


def test_lines_of_json_may_leave_a_key_out_only_where_verl_reads_none(tmp_path: Path) -> None:
    file = write_jsonl(tmp_path / "x.jsonl", [row(), without("prompt")[0], without("ability")[0]])

    assert whats(prepared(file, scratch=tmp_path)) == [
        f"data.train_files: prompt is null, in 1 of the 3 rows looked at: {file} line 2"
    ]


def of_type(path: Path, name: str, kind: pa.DataType) -> str:
    table = pa.Table.from_pylist(rows(2))
    column = table[name].cast(kind)
    pq.write_table(table.set_column(table.column_names.index(name), name, column), path)
    return str(path)


def test_files_that_are_joined_must_agree_on_types(tmp_path: Path) -> None:
    first = write_parquet(tmp_path / "a.parquet", rows(2))
    second = of_type(tmp_path / "b.parquet", "data_source", pa.large_string())

    assert prepared([first, second], scratch=tmp_path).findings == (
        Finding(
            check="data-columns",
            severity="error",
            what=f"data.train_files: data_source is string in {first} and large_string in {second}",
            why="verl joins the files, which `datasets` refuses where a column has two types",
            todo="write both files with the same type",
        ),
    )


def test_types_are_compared_within_structs_too(tmp_path: Path) -> None:
    first = write_parquet(tmp_path / "a.parquet", rows(2))
    second = write_parquet(tmp_path / "b.parquet", rows(2, extra_info={"index": "1"}))

    assert whats(prepared([first, second], scratch=tmp_path)) == [
        f"data.train_files: extra_info.index is int64 in {first} and string in {second}"
    ]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"extra_info": {"more": 1}}, id="a struct of other fields"),
        pytest.param({"extra_info": None}, id="a column of nulls"),
        pytest.param({"extra": "x"}, id="one column more"),
    ],
)
def test_files_that_datasets_can_join_are_taken(tmp_path: Path, other: dict[str, Any]) -> None:
    files = [write_parquet(tmp_path / "a.parquet", rows(2)), write_parquet(tmp_path / "b.parquet", rows(2, **other))]

    assert prepared(files, scratch=tmp_path).findings == ()


def test_a_dictionary_of_text_is_text(tmp_path: Path) -> None:
    first = write_parquet(tmp_path / "a.parquet", rows(2))
    second = of_type(tmp_path / "b.parquet", "data_source", pa.dictionary(pa.int32(), pa.string()))

    assert prepared([first, second], scratch=tmp_path).findings == ()


def test_files_of_one_glob_may_differ_as_they_are_cast(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", rows(2))
    of_type(tmp_path / "b.parquet", "data_source", pa.large_string())

    assert prepared(f"{tmp_path}/*.parquet", scratch=tmp_path).findings == ()


def test_a_mapped_column_that_a_file_lacks_is_told_with_its_like(tmp_path: Path) -> None:
    file = write_parquet(tmp_path / "x.parquet", [{"question": "?", "answer": "1"}])
    columns = {"prompt": "qestion", "ground_truth": "answer", "data_source": "openai/gsm8k"}

    assert prepared(file, scratch=tmp_path, columns=columns).findings == (
        Finding(
            check="data-columns",
            severity="error",
            what=f"data.train_files: {file} has no column 'qestion', which --map names; did you mean question?",
            why="--map takes the column from every file of the training and the validation data",
            todo="name the column as the file spells it: --map FIELD=COLUMN",
        ),
    )


@pytest.mark.parametrize(
    ("columns", "what", "todo"),
    [
        (
            {"question": "prompt"},
            "--map question=prompt: expected one of prompt, ground_truth, data_source on the left",
            "turn it round: --map prompt=question",
        ),
        (
            {"groundtruth": "answer"},
            "--map groundtruth=answer: expected one of prompt, ground_truth, data_source on the left",
            "write --map ground_truth=answer",
        ),
        (
            {"zzz": "a", "b": "c"},
            "--map zzz=a and b=c: expected one of prompt, ground_truth, data_source on the left",
            "leave it out",
        ),
    ],
)
def test_a_field_that_verl_does_not_have_is_refused(
    tmp_path: Path, columns: dict[str, str], what: str, todo: str
) -> None:
    file = write_parquet(tmp_path / "x.parquet", rows(1))

    [finding] = prepared(file, scratch=tmp_path, columns=columns).findings

    assert (finding.check, finding.what, finding.todo) == (
        "data-columns",
        what,
        f"{todo}, for example --map prompt=question --map ground_truth=answer",
    )
