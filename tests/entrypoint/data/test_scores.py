from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import pytest

from bake.entrypoint.data.scores import as_compared, find, known, near, never_right

if TYPE_CHECKING:
    from pathlib import Path

RELEASES = ["0.5.0", "0.6.1", "0.7.1", "0.8.0", "0.9.1"]
SOURCES = known(None)


def names_in(source: str) -> set[tuple[str, bool]]:
    """The data sources that a release's default_compute_score compares with, and whether as the beginning of one."""
    [function] = [
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef) and node.name == "default_compute_score"
    ]
    compared = [
        node for node in ast.walk(function) if isinstance(node, ast.Compare) and "data_source" in ast.dump(node)
    ]
    begun = [node for node in ast.walk(function) if isinstance(node, ast.Call) and "startswith" in ast.dump(node.func)]
    return {(text, False) for node in compared for text in texts(node)} | {
        (text, True) for node in begun for text in texts(node)
    }


def texts(node: ast.AST) -> list[str]:
    return [leaf.value for leaf in ast.walk(node) if isinstance(leaf, ast.Constant) and isinstance(leaf.value, str)]


@pytest.mark.verl
@pytest.mark.parametrize("version", RELEASES)
def test_the_table_is_what_each_release_of_verl_knows(verl_home: Path, version: str) -> None:
    source = (verl_home / version / "verl" / "utils" / "reward_score" / "__init__.py").read_text()
    release = (0, int(version.split(".")[1]))

    assert {(entry.name, entry.prefix) for entry in known(release)} == names_in(source)


@pytest.mark.verl
@pytest.mark.parametrize("version", RELEASES)
def test_a_source_that_compares_numbers_is_verl_s_gsm8k(verl_home: Path, version: str) -> None:
    text = (verl_home / version / "verl" / "utils" / "reward_score" / "gsm8k.py").read_text()

    assert re.findall(r'findall\("(#### .*?)", solution_str\)', text) == [r"#### (\\-?[0-9\\.\\,]+)"]
    assert "answer == ground_truth" in text


def test_a_source_is_found_by_its_name_or_its_beginning() -> None:
    found = [find(name, SOURCES) for name in ("openai/gsm8k", "aime2024", "gsm8k", None, 3)]

    assert [entry and entry.name for entry in found] == ["openai/gsm8k", "aime", None, None, None]


def test_math_is_known_from_0_6() -> None:
    assert [find("math", known(release)) is not None for release in ((0, 5), (0, 6), None)] == [False, True, True]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("gsm8k", "openai/gsm8k"),
        ("OpenAI/GSM8K", "openai/gsm8k"),
        ("lighteval/MATH-lighteval", "DigitalLearningGmbH/MATH-lighteval"),
        ("searchR1_nqq", "searchR1_nq"),
        ("my own", None),
    ],
)
def test_a_misspelt_source_gets_the_one_that_was_meant(written: str, meant: str | None) -> None:
    assert near(written, SOURCES) == meant


@pytest.mark.parametrize(
    ("source", "truth", "reason"),
    [
        ("openai/gsm8k", "72", None),
        ("openai/gsm8k", "-7.5", None),
        ("openai/gsm8k", 72, "is of type int, where text is compared"),
        ("openai/gsm8k", "1,234", "is more than a number without commas"),
        ("openai/gsm8k", "6 * 12 = 72\n#### 72", "is more than a number without commas"),
        ("lighteval/MATH", "\\frac{1}{2}", None),
        ("lighteval/MATH", 2.5, "is of type float, where text is compared"),
        ("aime2024", 204, "is of type int, where text is compared"),
        ("searchR1_nq", {"target": ["x"]}, None),
        ("searchR1_nq", "x", "has no `target`"),
        ("numina_cn_k12", 5, None),
        ("codecontests", '{"inputs": []}', None),
    ],
)
def test_a_ground_truth_that_no_answer_can_equal_says_why(source: str, truth: object, reason: str | None) -> None:
    entry = find(source, SOURCES)

    assert entry is not None
    assert never_right(truth, entry) == reason


@pytest.mark.parametrize(
    ("source", "truth", "compared"),
    [
        ("openai/gsm8k", "Six times 12 is 1,072.\n#### 1,072", "1072"),
        ("openai/gsm8k", " 72 ", "72"),
        ("openai/gsm8k", 72, "72"),
        ("openai/gsm8k", 72.0, "72"),
        ("lighteval/MATH", "#### 1,072", "#### 1,072"),
        ("lighteval/MATH", 2.5, "2.5"),
        ("lighteval/MATH", float("inf"), "inf"),
        ("searchR1_nq", {"target": "x"}, {"target": "x"}),
        ("openai/gsm8k", None, None),
        ("openai/gsm8k", True, True),
    ],
)
def test_a_mapped_ground_truth_becomes_what_is_compared(source: str, truth: object, compared: object) -> None:
    assert as_compared(truth, find(source, SOURCES)) == compared
