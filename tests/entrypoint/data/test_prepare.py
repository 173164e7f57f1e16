from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from bake.entrypoint.data import DATA_CHECKS, Prepared, prepare
from bake.entrypoint.finding import Finding
from tests.entrypoint.data.samples import prepared, row, rows, situation, whats, write_model, write_parquet

if TYPE_CHECKING:
    from pathlib import Path


def test_good_data_need_nothing(tmp_path: Path) -> None:
    train = write_parquet(tmp_path / "train.parquet", rows(300))
    test = write_parquet(tmp_path / "test.parquet", rows(20))
    model = write_model(tmp_path / "model")

    assert prepared(train, scratch=tmp_path, data={"val_files": test}, model=model) == Prepared(
        findings=(),
        overrides=(),
        notes=(
            "data: data.train_files: 1 file, 300 rows; 256 looked at, the longest prompt of these 37 tokens",
            "data: data.val_files: 1 file, 20 rows; 20 looked at, the longest prompt of these 35 tokens",
        ),
    )


def test_everything_that_is_wrong_is_told_at_once_in_the_order_of_the_checks(tmp_path: Path) -> None:
    bad = [row(prompt="x"), row(data_source="mine"), row(prompt=[{"role": "user", "content": "x" * 999}])]
    file = write_parquet(tmp_path / "x.parquet", bad[1:])
    other = write_parquet(tmp_path / "y.parquet", bad[:1])
    model = write_model(tmp_path / "model", positions=8)

    found = prepared(
        [file, "/no/such.parquet"], scratch=tmp_path, data={"val_files": other}, columns={"no": "no"}, model=model
    )

    assert [(finding.check, finding.severity) for finding in found.findings] == [
        ("data-files", "error"),
        ("data-columns", "error"),
        ("data-prompts", "error"),
        ("data-rewards", "error"),
        ("data-lengths", "warning"),
        ("data-lengths", "warning"),
    ]


@pytest.mark.parametrize("check", DATA_CHECKS)
def test_each_check_can_be_left_out(tmp_path: Path, check: str) -> None:
    others = tuple(name for name in DATA_CHECKS if name != check)
    data = {"train_files": ["/no.parquet"], "val_files": write_parquet(tmp_path / "x.parquet", rows(1, prompt="x"))}
    model = write_model(tmp_path / "model", template=None, positions=8)

    found = prepare(situation(data, model=model), columns={"no": "no"}, scratch=tmp_path, skip=others)

    assert {finding.check for finding in found.findings} <= {check}


@pytest.mark.parametrize("columns", [{}, {"prompt": "no"}, {"ground_truth": "prompt"}])
def test_with_every_check_left_out_no_file_is_a_stumbling_block(tmp_path: Path, columns: dict[str, str]) -> None:
    damaged = tmp_path / "damaged.parquet"
    damaged.write_bytes(b"PAR1")
    odd = write_parquet(tmp_path / "odd.parquet", [{"prompt": 3}])

    found = prepared([str(damaged), odd, "/no.parquet"], scratch=tmp_path, columns=columns, skip=DATA_CHECKS)

    assert found.findings == ()


def test_files_that_serve_for_both_splits_are_told_of_once(tmp_path: Path) -> None:
    file = write_parquet(tmp_path / "x.parquet", rows(2, prompt="x"))

    assert len(prepared(file, scratch=tmp_path).findings) == 1


def test_a_file_that_is_damaged_does_not_hide_the_others(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"")
    good = write_parquet(tmp_path / "b.parquet", rows(2, prompt="x"))

    assert whats(prepared([f"{tmp_path}/a.parquet", good], scratch=tmp_path)) == [
        f"data.train_files: {tmp_path}/a.parquet is an empty file of 0 bytes",
        (
            f"data.train_files: prompt is a string, not a list of messages, in all 2 rows looked at: {good} row 0 "
            f"('x'), "
            f"{good} row 1"
        ),
    ]


def dataset(path: object, name: object = "MyDataset") -> dict[str, Any]:
    return {"custom_cls": {"path": path, "name": name}}


def test_what_a_dataset_class_of_the_user_s_reads_is_not_checked(tmp_path: Path) -> None:
    script = tmp_path / "dataset.py"
    script.write_text("class MyDataset: ...")

    assert prepared("/no/such.bin", scratch=tmp_path, data=dataset(str(script))) == Prepared(
        findings=(), overrides=(), notes=(f"data: {script} reads the data files; what they hold was not checked",)
    )


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("Other", "data.custom_cls.path={script} does not define 'Other'; it defines MyDataset"),
        (None, "data.custom_cls.name is not given"),
    ],
)
def test_a_dataset_class_must_be_there(tmp_path: Path, name: object, what: str) -> None:
    script = tmp_path / "dataset.py"
    script.write_text("class MyDataset: ...")

    assert prepared("x", scratch=tmp_path, data=dataset(str(script), name)).findings == (
        Finding(
            check="data-files",
            severity="error",
            what=what.format(script=script),
            why="verl loads this class to read the data, once Ray is up",
            todo="mount the file, and give data.custom_cls.path and data.custom_cls.name as it is spelled there",
        ),
    )


def test_map_and_a_dataset_class_exclude_each_other(tmp_path: Path) -> None:
    script = tmp_path / "dataset.py"
    script.write_text("class MyDataset: ...")

    assert prepared("x", scratch=tmp_path, data=dataset(str(script)), columns={"prompt": "q"}) == Prepared(
        findings=(
            Finding(
                check="data-columns",
                severity="error",
                what=f"--map prompt=q is given, and data.custom_cls.path={script} reads the files",
                why="which columns your own class reads, it alone knows: --map would do nothing",
                todo="leave --map out and read these columns in the class, or leave data.custom_cls out",
            ),
        ),
        overrides=(),
        notes=(f"data: {script} reads the data files; what they hold was not checked; --map is left undone",),
    )


@pytest.mark.slow
def test_a_million_rows_take_under_a_second(tmp_path: Path) -> None:
    """Half a second on a machine with nothing else to do; the rest is room for one that is busy."""
    file = write_parquet(tmp_path / "x.parquet", rows(1000) * 1000)
    model = write_model(tmp_path / "model")
    begin = time.process_time()

    found = prepared(file, scratch=tmp_path, model=model)

    assert (found.findings, time.process_time() - begin < 1) == ((), True)
