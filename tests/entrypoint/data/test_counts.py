from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bake.entrypoint.finding import Finding
from tests.entrypoint.data.samples import prepared, rows, whats, write_model, write_parquet

if TYPE_CHECKING:
    from pathlib import Path


def test_fewer_rows_than_a_batch_end_in_a_division_by_zero(tmp_path: Path) -> None:
    file = write_parquet(tmp_path / "x.parquet", rows(3))

    assert prepared(file, scratch=tmp_path, data={"train_batch_size": 1024}).findings == (
        Finding(
            check="data-rows",
            severity="error",
            what="data.train_files holds 3 rows, and data.train_batch_size=1024",
            why="verl drops a batch that is not full: without a full one it ends with ZeroDivisionError after "
            "all workers "
            "are built",
            todo="lower data.train_batch_size (and actor_rollout_ref.actor.ppo_mini_batch_size with it), or give "
            "more data",
        ),
    )


@pytest.mark.parametrize(
    ("release", "why"),
    [
        ((0, 8), "AssertionError: Train dataloader is empty!"),
        (None, "ZeroDivisionError after all workers are built"),
    ],
)
def test_each_release_ends_in_its_own_way(tmp_path: Path, release: Any, why: str) -> None:
    file = write_parquet(tmp_path / "x.parquet", rows(3))

    [finding] = prepared(file, scratch=tmp_path, release=release, data={"train_batch_size": 4}).findings

    assert finding.why == f"verl drops a batch that is not full: without a full one it ends with {why}"


def test_rows_of_all_files_count(tmp_path: Path) -> None:
    files = [write_parquet(tmp_path / name, rows(2)) for name in ("a.parquet", "b.parquet")]

    assert prepared(files, scratch=tmp_path, data={"train_batch_size": 4}).findings == ()


def test_data_train_max_samples_lowers_the_rows(tmp_path: Path) -> None:
    file = write_parquet(tmp_path / "x.parquet", rows(9))

    found = [
        prepared(file, scratch=tmp_path, data={"train_batch_size": 4, "train_max_samples": most}) for most in (3, -1)
    ]

    assert [whats(answer) for answer in found] == [
        ["data.train_files holds 9 rows, of which data.train_max_samples=3 takes 3, and data.train_batch_size=4"],
        [],
    ]


LOWER = "lower data.train_batch_size (and actor_rollout_ref.actor.ppo_mini_batch_size with it), or "


@pytest.mark.parametrize(
    ("count", "todo"),
    [
        (64, LOWER + "raise data.train_max_samples"),
        (6, LOWER + "give more data and raise data.train_max_samples"),
        (4, LOWER + "give more data"),
    ],
)
def test_the_advice_goes_by_what_makes_the_rows_few(tmp_path: Path, count: int, todo: str) -> None:
    file = write_parquet(tmp_path / "x.parquet", rows(count))

    [finding] = prepared(file, scratch=tmp_path, data={"train_batch_size": 8, "train_max_samples": 4}).findings

    assert finding.todo == todo


@pytest.mark.parametrize(
    ("release", "trainer", "expected"),
    [
        ((0, 9), {}, ["data.train_files holds 3 rows, and data.train_batch_size=4"]),
        ((0, 9), {"use_v1": False}, []),
        ((0, 8), {}, []),
    ],
)
def test_a_smaller_gen_batch_size_helps_only_the_older_trainers(
    tmp_path: Path, release: Any, trainer: dict[str, Any], expected: list[str]
) -> None:
    file = write_parquet(tmp_path / "x.parquet", rows(3))
    data = {"train_batch_size": 4, "gen_batch_size": 2}

    assert whats(prepared(file, scratch=tmp_path, release=release, data=data, trainer=trainer)) == expected


def test_rows_that_the_filter_leaves_are_estimated(tmp_path: Path) -> None:
    long = rows(3, prompt=[{"role": "user", "content": "x" * 500}])
    file = write_parquet(tmp_path / "x.parquet", [*rows(5), *long])
    data = {"train_batch_size": 8, "filter_overlong_prompts": True, "max_prompt_length": 100}

    found = prepared(file, scratch=tmp_path, data=data, model=write_model(tmp_path / "model"))

    assert [finding.what for finding in found.findings if finding.check == "data-rows"] == [
        (
            "data.train_files holds 8 rows, of which data.filter_overlong_prompts leaves about 5, and "
            "data.train_batch_size=8"
        )
    ]


def empty(path: Path) -> str:
    pq.write_table(pa.Table.from_pylist(rows(1)).slice(0, 0), path)
    return str(path)


@pytest.mark.parametrize("split", ["train", "val"])
def test_a_file_without_rows_is_refused(tmp_path: Path, split: str) -> None:
    full, none = write_parquet(tmp_path / "a.parquet", rows(2)), empty(tmp_path / "b.parquet")

    assert prepared(full, scratch=tmp_path, data={f"{split}_files": none}).findings == (
        Finding(
            check="data-rows",
            severity="error",
            what=f"data.{split}_files holds no row",
            why="verl cannot load an empty file, and needs at least one row to train on and one to validate on",
            todo="give a file with rows",
        ),
    )


def test_nothing_is_said_of_rows_where_a_file_is_elsewhere_or_missing(tmp_path: Path) -> None:
    file = write_parquet(tmp_path / "x.parquet", rows(1))

    found = prepared([file, "hdfs://x/y.parquet"], scratch=tmp_path, data={"train_batch_size": 9})

    assert [finding.check for finding in found.findings] == ["data-files"]
