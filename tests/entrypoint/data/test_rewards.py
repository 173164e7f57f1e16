from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from bake.entrypoint.data.rewards import Function, scoring_of
from bake.entrypoint.finding import Finding
from bake.entrypoint.settings import Settings
from tests.entrypoint.data.samples import prepared, row, rows, whats, write_parquet

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FUNCTION = "def compute_score(data_source, solution_str, ground_truth, extra_info=None): return 1.0\n"


def own(path: object, name: object = "compute_score") -> dict[str, Any]:
    return {"custom_reward_function": {"path": path, "name": name}}


def manager(name: str, **other: Any) -> dict[str, Any]:
    return {"reward": {"reward_manager": {"name": name, "source": "register"}, **other}}


def scored(tree: dict[str, Any], release: tuple[int, int] | None) -> tuple[str | None, bool, bool]:
    """The setting that names a function, whether the columns are read, whether verl's own table decides."""
    scoring = scoring_of(Settings(tree), release)
    return scoring.function.key if scoring.function else None, scoring.reads, bool(scoring.sources)


OLD, NEW = own("/old.py"), {"reward": own("/new.py")}


@pytest.mark.parametrize(
    ("tree", "release", "expected"),
    [
        ({}, (0, 5), (None, True, True)),
        ({}, None, (None, True, True)),
        (OLD, (0, 6), ("custom_reward_function", True, False)),
        (NEW, (0, 6), (None, True, True)),
        ({**OLD, **NEW}, (0, 7), ("custom_reward_function", True, False)),
        (NEW, (0, 8), ("reward.custom_reward_function", True, False)),
        ({**OLD, **NEW}, (0, 9), ("reward.custom_reward_function", True, False)),
        (OLD, (0, 9), (None, True, True)),
        (NEW, None, ("reward.custom_reward_function", True, False)),
        (manager("dapo"), (0, 9), (None, True, True)),
        (manager("my_own"), (0, 9), (None, False, False)),
        ({"reward": {"reward_manager": {"name": "naive", "source": "importlib"}}}, (0, 9), (None, False, False)),
        ({"reward_model": {"reward_manager": "my_own"}}, (0, 6), (None, False, False)),
        ({"reward_model": {"reward_manager": "my_own"}}, (0, 9), (None, True, True)),
        ({"reward": {"reward_model": {"enable": True}}}, (0, 9), (None, False, False)),
        (
            {"reward": {**NEW["reward"], "reward_model": {"enable": True}}},
            (0, 9),
            ("reward.custom_reward_function", True, False),
        ),
        ({"reward_model": {"enable": True}}, (0, 6), (None, False, False)),
        ({"reward_model": {"enable": True}}, (0, 8), (None, False, False)),
        ({"reward_model": {"enable": True}}, (0, 9), (None, True, True)),
    ],
)
def test_who_computes_the_reward_goes_by_the_release(
    tree: dict[str, Any], release: tuple[int, int] | None, expected: tuple[str | None, bool, bool]
) -> None:
    assert scored(tree, release) == expected


def test_a_function_is_the_setting_the_file_and_the_name() -> None:
    scoring = scoring_of(Settings({"reward": own("/new.py", "f")}), (0, 9))

    assert scoring.function == Function(key="reward.custom_reward_function", path="/new.py", name="f")


def test_an_unknown_data_source_is_refused_with_the_one_that_was_meant(tmp_path: Path) -> None:
    file = write_parquet(tmp_path / "x.parquet", [row(), row(data_source="gsm8k")])

    assert prepared(file, scratch=tmp_path).findings == (
        Finding(
            check="data-rewards",
            severity="error",
            what="data.train_files: data_source is 'gsm8k', which this verl has no reward for, in 1 of the 2 "
            "rows looked "
            f"at: {file} row 1",
            why="verl raises NotImplementedError for it: every answer's reward would fail in a worker, after the "
            "models "
            "are loaded and the first answers written",
            todo="write openai/gsm8k if that is meant, or give a function of your own: "
            "reward.custom_reward_function.path=/data/reward.py (custom_reward_function.path before verl 0.7)",
        ),
    )


def test_an_unknown_data_source_outside_the_sample_is_found(tmp_path: Path) -> None:
    file = write_parquet(tmp_path / "x.parquet", [*rows(900), row(data_source="mine"), *rows(99)])

    assert whats(prepared(file, scratch=tmp_path)) == [
        (
            "data.train_files: data_source is 'mine', which this verl has no reward for, in some rows, the first "
            "of them: "
            f"{file} row 900"
        )
    ]


def test_a_null_ground_truth_outside_the_sample_is_found(tmp_path: Path) -> None:
    null = row(reward_model={"style": "rule", "ground_truth": None})
    file = write_parquet(tmp_path / "x.parquet", [*rows(900), null, *rows(99)])

    assert whats(prepared(file, scratch=tmp_path)) == [
        f"data.train_files: reward_model.ground_truth is null, in some rows, the first of them: {file} row 900"
    ]


def test_a_few_answers_that_are_never_right_are_a_warning(tmp_path: Path) -> None:
    file = write_parquet(tmp_path / "x.parquet", [row(1), row(2, reward_model={"ground_truth": "$4"})])

    assert [(finding.severity, finding.what) for finding in prepared(file, scratch=tmp_path).findings] == [
        (
            "warning",
            (
                "data.train_files: reward_model.ground_truth is more than a number without commas, so that no answer "
                "is ever "
                f"right, in 1 of the 2 rows looked at: {file} row 1 ('$4')"
            ),
        )
    ]


@pytest.mark.parametrize(
    ("reward", "what"),
    [
        (None, "reward_model has no ground_truth, in all 3 rows looked at: {file} row 0, {file} row 1, {file} row 2"),
        (
            {"style": "rule"},
            (
                "reward_model has no ground_truth, in all 3 rows looked at: {file} row 0 ({{'style': 'rule'}}), "
                "{file} row 1, "
                "{file} row 2"
            ),
        ),
        (
            "72",
            (
                "reward_model has no ground_truth, in all 3 rows looked at: {file} row 0 ('72'), {file} row 1, "
                "{file} row 2"
            ),
        ),
        (
            {"ground_truth": 72},
            (
                "reward_model.ground_truth is of type int, where text is compared, so that no answer is ever right, "
                "in all 3 "
                "rows looked at: {file} row 0 (72), {file} row 1, {file} row 2"
            ),
        ),
    ],
)
def test_a_ground_truth_that_cannot_be_right_is_refused(tmp_path: Path, reward: object, what: str) -> None:
    file = write_parquet(tmp_path / "x.parquet", rows(3, reward_model=reward))

    assert whats(prepared(file, scratch=tmp_path)) == [f"data.train_files: {what.format(file=file)}"]


def test_raw_gsm8k_answers_are_refused_with_the_way_out(tmp_path: Path) -> None:
    file = write_parquet(tmp_path / "x.parquet", rows(1, reward_model={"ground_truth": "6 * 2 = 12\n#### 12"}))

    assert prepared(file, scratch=tmp_path).findings == (
        Finding(
            check="data-rewards",
            severity="error",
            what="data.train_files: reward_model.ground_truth is more than a number without commas, so that no "
            "answer is "
            f"ever right, in the one row looked at: {file} row 0 ('6 * 2 = 12\\n#### 12')",
            why="verl's reward of openai/gsm8k compares it as it is: every answer gets the same reward, and nothing "
            "is learned from the row, without an error",
            todo="write the bare answer as a string; --map ground_truth=COLUMN does, and takes gsm8k's number "
            "after ####",
        ),
    )


def test_a_search_answer_without_a_target_gets_the_shape_that_verl_reads(tmp_path: Path) -> None:
    content = rows(1, data_source="searchR1_nq", reward_model={"ground_truth": "Paris"})
    file = write_parquet(tmp_path / "x.parquet", content)

    assert prepared(file, scratch=tmp_path).findings == (
        Finding(
            check="data-rewards",
            severity="error",
            what="data.train_files: reward_model.ground_truth has no `target`, in the one row looked at: "
            f"{file} row 0 ('Paris')",
            why="verl's reward of searchR1_nq reads it there: every answer's reward would fail in a worker, after the "
            "models are loaded and the first answers written",
            todo='write reward_model={"style": "rule", "ground_truth": {"target": ["…"]}}, with every answer that '
            "counts",
        ),
    )


def test_an_unknown_source_that_is_near_none_gets_advice_that_reads_from_its_start(tmp_path: Path) -> None:
    file = write_parquet(tmp_path / "x.parquet", rows(1, data_source="xyzzy"))

    assert [finding.todo for finding in prepared(file, scratch=tmp_path).findings] == [
        (
            "give a function of your own: reward.custom_reward_function.path=/data/reward.py "
            "(custom_reward_function.path before verl 0.7)"
        )
    ]


def custom(path: Path, source: str, **other: Any) -> dict[str, Any]:
    path.write_text(source)
    return {"reward": {**own(str(path)), **other}}


def test_with_a_function_of_the_user_s_any_source_and_any_truth_are_taken(tmp_path: Path) -> None:
    file = write_parquet(tmp_path / "x.parquet", rows(3, data_source="mine", reward_model={"ground_truth": None}))

    assert prepared(file, scratch=tmp_path, **custom(tmp_path / "r.py", FUNCTION)).findings == ()


def test_with_a_function_of_the_user_s_the_columns_must_still_be_there(tmp_path: Path) -> None:
    file = write_parquet(tmp_path / "x.parquet", [{"prompt": row()["prompt"]}])

    found = prepared(file, scratch=tmp_path, **custom(tmp_path / "r.py", FUNCTION))

    assert [finding.check for finding in found.findings] == ["data-columns", "data-columns"]


def test_a_reward_model_alone_needs_no_rule_s_columns(tmp_path: Path) -> None:
    file = write_parquet(tmp_path / "x.parquet", [{"prompt": row()["prompt"]}])

    assert prepared(file, scratch=tmp_path, reward={"reward_model": {"enable": True}}).findings == ()


@pytest.mark.parametrize(
    "source",
    [
        FUNCTION,
        "async " + FUNCTION,
        "def compute_score(**kwargs): ...",
        "def compute_score(data_source, solution_str, ground_truth, *, extra_info): ...",
        "from mine import compute_score",
        "from mine import score as compute_score",
        "from mine import *",
        "compute_score = lambda **kwargs: 1",
        "try:\n    from mine import compute_score\nexcept ImportError:\n    compute_score = None",
        "import functools\n@functools.cache\ndef compute_score(a): ...",
        "x = '\\d'\n" + FUNCTION,
    ],
)
def test_a_function_that_verl_can_call_is_taken(tmp_path: Path, source: str) -> None:
    file = write_parquet(tmp_path / "x.parquet", rows(1))

    assert prepared(file, scratch=tmp_path, **custom(tmp_path / "r.py", source)).findings == ()


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("def f(): ...\nX = 1", "does not define 'compute_score'; it defines f, X"),
        ("", "does not define 'compute_score'; it defines nothing"),
        ("def compute_score(:", "is no Python: invalid syntax (r.py, line 1)"),
        ("\0", "is no Python: source code string cannot contain null bytes"),
        ("if True:\n    def g():\n        def compute_score(): ...", "does not define 'compute_score'; it defines g"),
    ],
)
def test_a_file_without_the_function_is_refused(tmp_path: Path, source: str, what: str) -> None:
    file = write_parquet(tmp_path / "x.parquet", rows(1))
    script = tmp_path / "r.py"

    assert prepared(file, scratch=tmp_path, **custom(script, source)).findings == (
        Finding(
            check="data-rewards",
            severity="error",
            what=f"reward.custom_reward_function.path={script} {what}",
            why="every answer's reward would fail in a worker, after the models are loaded and the first answers "
            "written",
            todo="mount the file, and give reward.custom_reward_function.path=/data/reward.py and .name as it is "
            "spelled "
            "there",
        ),
    )


def test_a_function_that_verl_cannot_call_is_refused(tmp_path: Path) -> None:
    file = write_parquet(tmp_path / "x.parquet", rows(1))
    script = tmp_path / "r.py"

    [finding] = prepared(
        file, scratch=tmp_path, **custom(script, "def compute_score(answer, ground_truth): ...")
    ).findings

    assert (finding.what, finding.todo) == (
        f"compute_score in {script} takes no data_source and no solution_str and no extra_info",
        (
            "verl calls it by these keywords: def compute_score(data_source, solution_str, ground_truth, extra_info, "
            "**kwargs)"
        ),
    )


def test_a_batch_manager_s_function_has_other_keywords(tmp_path: Path) -> None:
    file = write_parquet(tmp_path / "x.parquet", rows(1))
    settings = custom(tmp_path / "r.py", "def compute_score(data_sources, solution_strs): ...")

    found = prepared(
        file,
        scratch=tmp_path,
        release=(0, 6),
        custom_reward_function=settings["reward"]["custom_reward_function"],
        reward_model={"reward_manager": "batch"},
    )

    assert found.findings == ()


@pytest.mark.parametrize(
    ("path", "name", "what"),
    [
        (
            "/no/such.py",
            "f",
            "reward.custom_reward_function.path=/no/such.py cannot be read: No such file or directory",
        ),
        (
            "~/r.py",
            "f",
            (
                "reward.custom_reward_function.path=~/r.py cannot be read: No such file or directory; verl does not "
                "expand ~"
            ),
        ),
        ("/", "f", "reward.custom_reward_function.path=/ cannot be read: Is a directory"),
        ("/r.py", None, "reward.custom_reward_function.name is not given"),
    ],
)
def test_a_function_that_is_not_there_is_refused(tmp_path: Path, path: str, name: object, what: str) -> None:
    file = write_parquet(tmp_path / "x.parquet", rows(1))

    assert whats(prepared(file, scratch=tmp_path, reward=own(path, name))) == [what]


def test_a_function_in_a_package_is_left_to_verl(tmp_path: Path) -> None:
    file = write_parquet(tmp_path / "x.parquet", rows(1))

    assert prepared(file, scratch=tmp_path, reward=own("pkg://mine.rewards")).findings == ()


@pytest.mark.verl
@pytest.mark.parametrize(
    ("source", "answer", "truth", "reward"),
    [
        ("openai/gsm8k", "#### 1,072", "1072", 1.0),
        ("openai/gsm8k", "#### 1,072", "1,072", 0.0),
        ("openai/gsm8k", "#### 72", 72, 0.0),
        ("openai/gsm8k", "#### 72", "6 * 12 = 72\n#### 72", 0.0),
        ("lighteval/MATH", "\\boxed{72}", "72", 1.0),
        ("lighteval/MATH", "\\boxed{72}", 72, 0.0),
        ("math_dapo", "Answer: 72", "72", 1.0),
        ("math_dapo", "Answer: 72", 72, "AttributeError"),
        ("aime2024", "Answer: 72", 72, "AttributeError"),
        ("searchR1_nq", "<answer>x</answer>", {"target": ["x"]}, 1),
        ("searchR1_nq", "<answer>x</answer>", "x", "TypeError"),
        ("gsm8k", "#### 72", "72", "NotImplementedError"),
    ],
)
def test_verl_s_own_reward_of_the_right_answer_is_what_the_table_says(
    verl: Callable[..., Any], source: str, answer: str, truth: object, reward: object
) -> None:
    assert verl("score", source=source, answer=answer, truth=truth) == reward
