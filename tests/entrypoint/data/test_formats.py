from __future__ import annotations

import gzip
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from bake.entrypoint.data.formats import is_taken, open_table
from bake.entrypoint.data.lines import open_json
from bake.entrypoint.data.table import Row, UnreadableError
from tests.entrypoint.data.samples import row, rows, write_jsonl, write_parquet

TABLE = pa.Table.from_pylist(rows(10))


def arrow_file(path: Path) -> str:
    pyarrow.feather.write_feather(TABLE, str(path), chunksize=4)
    return str(path)


def arrow_stream(path: Path) -> str:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, TABLE.schema) as writer:
        writer.write_table(TABLE, max_chunksize=4)
    return str(path)


def parquet(path: Path) -> str:
    return write_parquet(path, rows(10), row_group_size=4)


def jsonl(path: Path) -> str:
    return write_jsonl(path, rows(10))


def json_array(path: Path) -> str:
    path.write_text(json.dumps(rows(10), indent=1))
    return str(path)


WRITERS = [
    pytest.param(parquet, "x.parquet", "row 0", id="parquet"),
    pytest.param(parquet, "no-suffix", "row 0", id="parquet under another name"),
    pytest.param(arrow_file, "x.feather", "row 0", id="an Arrow file"),
    pytest.param(arrow_stream, "x.arrow", "row 0", id="an Arrow stream"),
    pytest.param(jsonl, "x.jsonl", "line 1", id="JSON lines"),
    pytest.param(jsonl, "x.json", "line 1", id="JSON lines in .json"),
    pytest.param(json_array, "x.json", "item 0", id="a JSON array"),
]


@pytest.mark.parametrize(("write", "name", "place"), WRITERS)
def test_each_format_gives_its_rows_and_columns(tmp_path: Path, write: Any, name: str, place: str) -> None:
    table = open_table(write(tmp_path / name))

    assert (table.rows, table.names) == (10, tuple(row()))
    assert table.sample(["prompt", "data_source", "absent"], 100)[0] == Row(
        place, {"data_source": "openai/gsm8k", "prompt": [{"role": "user", "content": "What is 0 + 0?"}]}
    )


@pytest.mark.parametrize(("write", "name", "place"), WRITERS)
def test_each_format_streams_all_it_holds(tmp_path: Path, write: Any, name: str, place: str) -> None:
    table = open_table(write(tmp_path / name))

    assert pa.Table.from_batches(table.batches()).to_pylist() == rows(10), place


def test_a_csv_file_is_text_whatever_it_looks_like(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text('question,answer\n"What, then?",007\n"a\nb",1.50\n')

    table = open_table(str(tmp_path / "x.csv"))

    assert (table.rows, table.sample(["question", "answer"], 9)) == (
        2,
        [
            Row("row 0", {"question": "What, then?", "answer": "007"}),
            Row("row 1", {"question": "a\nb", "answer": "1.50"}),
        ],
    )


def test_a_tsv_file_is_parted_by_tabs(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("q\ta\nWhat, then?\t1\n")

    assert open_table(str(tmp_path / "x.tsv")).sample(["q", "a"], 9) == [Row("row 0", {"q": "What, then?", "a": "1"})]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "is an empty file of 0 bytes"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
            "is a git-lfs pointer, not the data: run `git lfs pull` where it comes from",
        ),
        (b"<!DOCTYPE html>", "is a page of HTML or XML, as a server sends when it refuses a download"),
        (gzip.compress(b"x", mtime=0), "is compressed with gzip: decompress it first"),
        (b"PK\x03\x04rest", "is a zip archive: unpack it first"),
        (b"hello world", "is no parquet, Arrow, JSON or CSV file: it begins with b'hello wo'"),
    ],
)
def test_a_parquet_file_that_is_something_else_says_what(tmp_path: Path, content: bytes, what: str) -> None:
    (tmp_path / "x.parquet").write_bytes(content)

    with pytest.raises(UnreadableError) as caught:
        open_table(str(tmp_path / "x.parquet"))

    assert str(caught.value) == what


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b'{"a": 1}\n{oops\n', "is not JSON in line 2: Expecting property name enclosed in double quotes at column 2"),
        (b'{"a": 1}\n\n[1]\n', "holds no object in line 3"),
        (b'{"a": "\xe9"}\n', "is not UTF-8 in line 1"),
        (b"[1]", "holds no object as item 0 of its array"),
        (b"[1", "is not JSON: Expecting ',' delimiter: line 1 column 3 (char 2)"),
        (
            b"[" * 100_000,
            "is not JSON: nested without end",
        ),
    ],
)
def test_broken_json_says_where(tmp_path: Path, content: bytes, what: str) -> None:
    (tmp_path / "x.jsonl").write_bytes(content)

    with pytest.raises(UnreadableError) as caught:
        open_table(str(tmp_path / "x.jsonl"))

    assert str(caught.value) == what


def test_json_lines_may_be_blank_and_begin_with_a_mark(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_bytes(b'\xef\xbb\xbf{"a": 1}\r\n\r\n{"a": 2}')

    assert open_table(str(tmp_path / "x.jsonl")).sample(["a"], 9) == [Row("line 1", {"a": 1}), Row("line 3", {"a": 2})]


def test_json_rows_may_differ_in_their_keys(tmp_path: Path) -> None:
    table = open_table(write_jsonl(tmp_path / "x.jsonl", [{"a": 1}, {"b": {"c": None}}, {"b": {"c": 2.5}}]))

    assert table.sample(["a", "b"], 1) == [Row("line 1", {"a": 1, "b": None})]
    assert pa.Table.from_batches(table.batches()).to_pylist() == [
        {"a": 1, "b": None},
        {"a": None, "b": {"c": None}},
        {"a": None, "b": {"c": 2.5}},
    ]


@pytest.mark.parametrize("between", [0, 3000])
def test_json_rows_of_two_types_are_told_by_column_and_line(tmp_path: Path, between: int) -> None:
    content = [{"a": None}, *[{"a": 1}] * (between + 1), {"a": "x"}]
    table = open_table(write_jsonl(tmp_path / "x.jsonl", content))

    with pytest.raises(
        UnreadableError, match=rf"^cannot be made a table: 'a' is a number in line 2 and a text in line {between + 3}$"
    ):
        list(table.batches())


def test_an_answer_that_cannot_become_text_is_told_by_column_and_line(tmp_path: Path) -> None:
    table = open_json(write_jsonl(tmp_path / "x.jsonl", [{"a": 1}, {"a": "x"}, {"a": [3]}])).spoken("a")

    with pytest.raises(
        UnreadableError, match=r"^cannot be made a table: 'a' is a number or text in line 1 and a list in line 3$"
    ):
        list(table.batches())


def test_json_rows_of_two_types_within_a_value_are_told_by_column_and_lines(tmp_path: Path) -> None:
    table = open_table(write_jsonl(tmp_path / "x.jsonl", [{"a": [1]}, {"a": ["x"]}]))

    with pytest.raises(UnreadableError, match=r"^cannot be made a table: 'a' between line 1 and line 2: Could not"):
        list(table.batches())


def test_a_truncated_parquet_file_is_unreadable(tmp_path: Path) -> None:
    path = parquet(tmp_path / "x.parquet")
    os.truncate(path, Path(path).stat().st_size - 20)

    with pytest.raises(UnreadableError, match=r"^cannot be read: Parquet magic bytes not found in footer"):
        open_table(path)


def test_a_parquet_file_whose_pages_are_damaged_is_unreadable_once_they_are_read(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    parquet(path)
    content = bytearray(path.read_bytes())
    content[4:400] = bytes(396)
    path.write_bytes(content)
    table = open_table(str(path))

    with pytest.raises(UnreadableError, match=r"^cannot be read: "):
        table.sample(["data_source", "prompt"], 256)


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]), path)

    with pytest.raises(UnreadableError, match=r"^has two columns named 'a'$"):
        open_table(str(path))


def test_a_folder_is_unreadable(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match=r"^cannot be read: Is a directory$"):
        open_table(str(tmp_path))


def test_a_name_that_is_no_text_is_read(tmp_path: Path) -> None:
    name = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.parquet")
    shutil.copy(parquet(tmp_path / "x.parquet"), name)

    assert open_table(name).rows == 10


def test_a_sample_is_spread_over_the_row_groups(tmp_path: Path) -> None:
    table = open_table(write_parquet(tmp_path / "x.parquet", rows(100), row_group_size=10))

    assert [found.place for found in table.sample(["ability"], 20)] == [
        f"row {group * 10 + index}" for group in range(10) for index in (0, 1)
    ]


def test_a_sample_of_huge_cells_ends_early(tmp_path: Path) -> None:
    table = open_table(write_parquet(tmp_path / "x.parquet", [{"a": "x" * 2**21}] * 64, row_group_size=64))

    assert len(table.sample(["a"], 64)) == 32


@pytest.mark.parametrize(
    ("write", "name", "old", "new"),
    [
        (parquet, "x.parquet", True, True),
        (parquet, "x.PARQUET", True, False),
        (parquet, "x.json", True, False),
        (jsonl, "x.jsonl", False, True),
        (json_array, "x.json", False, True),
        (jsonl, "x.ndjson", False, False),
        (arrow_stream, "x.arrow", False, False),
        (arrow_file, "x.parquet", False, False),
    ],
)
def test_what_a_release_takes_goes_by_the_format_and_from_0_7_by_the_name(
    tmp_path: Path, write: Any, name: str, *, old: bool, new: bool
) -> None:
    path = write(tmp_path / name)
    table = open_table(path)

    assert [is_taken(path, table, release=release) for release in ((0, 6), (0, 7), None)] == [old, new, new]
