from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from bake.entrypoint.data.prompts import check_prompt
from bake.entrypoint.finding import Finding
from tests.entrypoint.data.samples import prepared, row, rows, whats, write_jsonl, write_parquet

if TYPE_CHECKING:
    from pathlib import Path

USER = {"role": "user", "content": "x"}


def flaws(prompt: object) -> list[tuple[str, str]]:
    return [(flaw.kind.text, flaw.found) for flaw in check_prompt(prompt, column="prompt", place="row 0")]


@pytest.mark.parametrize(
    "prompt",
    [
        [USER],
        [{"role": "system", "content": ""}, USER],
        [USER, {"role": "assistant", "content": "y"}, USER],
        [{"role": "user", "content": [{"type": "text", "text": "x"}]}],
        [{"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}, {"role": "tool", "content": "x"}],
        [{"role": "user", "content": "x", "name": None}],
    ],
)
def test_messages_that_chat_templates_take_are_right(prompt: object) -> None:
    assert flaws(prompt) == []


@pytest.mark.parametrize(
    ("prompt", "text", "found"),
    [
        (None, "is null", ""),
        ("What?", "is a string, not a list of messages", "'What?'"),
        ("[1, 2]", "is a string, not a list of messages", "'[1, 2]'"),
        ("[{oops", "is a string, not a list of messages", "'[{oops'"),
        (
            '[{"role": "user", "content": "x"}]',
            "is the JSON text of a list of messages, not the list",
            """'[{"role": "user", "content": "x"}]'""",
        ),
        (7, "is no list of messages", "7"),
        ([], "is an empty list", ""),
        (["x"], "is no list of messages", "'x'"),
        ([None], "is no list of messages", "None"),
        (
            [{"from": "human", "value": "x"}],
            "has messages of {from, value}, not {role, content}",
            "{'from': 'human', 'value': 'x'}",
        ),
        ([{"role": "user"}], "has a message without role or content", "{'role': 'user'}"),
        ([USER, {"role": None, "content": "x"}], "has a message whose role is null or no text", "None"),
        ([{"role": "user", "content": None}], "has a message whose content is null or no text", "None"),
        ([{"role": "user", "content": {"a": 1}}], "has a message whose content is null or no text", "{'a': 1}"),
        ([{"role": "human", "content": "x"}], "has a role that chat templates do not know", "'human'"),
        ([USER, {"role": "assistant", "content": "4"}], "ends with a message of the assistant's", ""),
    ],
)
def test_what_is_no_prompt_says_why(prompt: object, text: str, found: str) -> None:
    assert flaws(prompt) == [(text, found)]


def test_a_huge_value_is_shown_in_a_few_words() -> None:
    assert flaws("x" * 10_000_000) == [("is a string, not a list of messages", f"'{'x' * 58}…")]


def test_rows_of_one_fault_are_counted_and_told_once(tmp_path: Path) -> None:
    file = write_parquet(tmp_path / "x.parquet", rows(300, prompt="What?"))

    assert prepared(file, scratch=tmp_path).findings == (
        Finding(
            check="data-prompts",
            severity="error",
            what="data.train_files: prompt is a string, not a list of messages, in all 256 rows looked at: "
            f"{file} row 0 ('What?'), {file} row 1, {file} row 2 and so on",
            why="verl either fails in a worker once the models are loaded, or, with "
            "data.filter_overlong_prompts, drops "
            "such rows without a word of error and may be left with none",
            todo="--map prompt=prompt makes it one message of the user's",
        ),
    )


def test_a_row_outside_the_sample_is_found_by_the_metadata_of_parquet(tmp_path: Path) -> None:
    content = [*rows(900), row(900, prompt=[]), *rows(99), row(1000, prompt=None)]
    file = write_parquet(tmp_path / "x.parquet", content)

    assert whats(prepared(file, scratch=tmp_path)) == [
        f"data.train_files: prompt is an empty list, in some rows, the first of them: {file} row 900"
    ]


def test_messages_without_content_that_only_call_a_tool_are_taken_in_a_file_too(tmp_path: Path) -> None:
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}
    file = write_parquet(tmp_path / "x.parquet", rows(3, prompt=[call, {"role": "tool", "content": "x"}]))

    assert prepared(file, scratch=tmp_path).findings == ()


@pytest.mark.parametrize(
    ("release", "filtering", "content", "severity"),
    [
        ((0, 9), True, [row(), row(prompt="x")], "warning"),
        ((0, 9), True, [row(prompt="x"), row(prompt="x")], "error"),
        ((0, 9), False, [row(), row(prompt="x")], "error"),
        ((0, 5), True, [row(), row(prompt="x")], "error"),
    ],
)
def test_a_few_rows_that_verl_drops_are_a_warning(
    tmp_path: Path, release: Any, filtering: Any, content: Any, severity: str
) -> None:
    """JSON, since in parquet a column has one type."""
    file = write_jsonl(tmp_path / "x.jsonl", content)

    found = prepared(file, scratch=tmp_path, release=release, data={"filter_overlong_prompts": filtering})

    assert [(finding.check, finding.severity) for finding in found.findings] == [("data-prompts", severity)]


@pytest.mark.parametrize(("release", "expected"), [((0, 5), 1), ((0, 6), 0)])
def test_an_extra_info_of_null_is_told_of_for_a_verl_that_fails_over_it(
    tmp_path: Path, release: Any, expected: int
) -> None:
    file = write_parquet(tmp_path / "x.parquet", rows(3, extra_info=None))

    assert len(prepared(file, scratch=tmp_path, release=release).findings) == expected


def test_an_extra_info_that_is_not_there_is_no_null(tmp_path: Path) -> None:
    content = [{name: value for name, value in row().items() if name != "extra_info"}]

    assert prepared(write_parquet(tmp_path / "x.parquet", content), scratch=tmp_path, release=(0, 5)).findings == ()


def test_a_check_that_is_skipped_says_nothing(tmp_path: Path) -> None:
    file = write_parquet(tmp_path / "x.parquet", rows(3, prompt="x"))

    assert prepared(file, scratch=tmp_path, skip=["data-prompts"]).findings == ()


def test_json_text_of_messages_gets_the_map_that_reads_it(tmp_path: Path) -> None:
    file = write_parquet(tmp_path / "x.parquet", rows(1, prompt=json.dumps([USER])))

    assert [finding.todo for finding in prepared(file, scratch=tmp_path).findings] == [
        "--map prompt=prompt reads the messages from it"
    ]
