from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from bake.entrypoint.finding import Finding
from tests.entrypoint.data.samples import CHATML, prepared, row, rows, whats, write_model, write_parquet

if TYPE_CHECKING:
    from pathlib import Path

    from bake.entrypoint.data import Prepared

SHORT, LONG = ([{"role": "user", "content": "x" * count}] for count in (1, 500))


def found(tmp_path: Path, prompts: list[Any], *, model: Path | None = None, **options: Any) -> Prepared:
    file = write_parquet(tmp_path / "x.parquet", [row(prompt=prompt) for prompt in prompts])
    return prepared(file, scratch=tmp_path, model=model or write_model(tmp_path / "model"), **options)


def limited(**data: Any) -> dict[str, Any]:
    return {"max_prompt_length": 100, **data}


def test_prompts_that_fit_are_counted_and_noted(tmp_path: Path) -> None:
    answer = found(tmp_path, [SHORT, SHORT], data=limited())

    assert (answer.findings, answer.notes) == (
        (),
        ("data: data.train_files: 1 file, 2 rows; 2 looked at, the longest prompt of these 20 tokens",),
    )


def test_a_prompt_that_is_too_long_is_told_with_its_place_and_what_this_verl_does(tmp_path: Path) -> None:
    assert found(tmp_path, [SHORT, LONG], data=limited()).findings == (
        Finding(
            check="data-lengths",
            severity="warning",
            what="data.train_files: 1 of the 2 prompts counted have more than data.max_prompt_length=100 tokens; "
            f"the longest has 519 ({tmp_path}/x.parquet row 1)",
            why="this verl does not read data.truncation: it cuts off the beginning, system prompt first, and "
            "trains on "
            "the rest without an error",
            todo="data.max_prompt_length=519 takes the longest of these; data.filter_overlong_prompts=True drops "
            "what is "
            "longer before the training",
        ),
    )


CUTS = (
    "this verl does not read data.truncation: it cuts off the beginning, system prompt first, and trains on the rest "
)
DROPS = "data.filter_overlong_prompts is on: verl drops them; "


@pytest.mark.parametrize(
    ("release", "data", "prompts", "severity", "why"),
    [
        ((0, 9), {}, [LONG], "error", CUTS + "without an error"),
        ((0, 8), {}, [SHORT, LONG], "warning", CUTS + "without an error"),
        (None, {"truncation": "left"}, [SHORT, LONG], "warning", CUTS + "without an error"),
        (
            (0, 7),
            {"truncation": "left"},
            [SHORT, LONG],
            "error",
            "this verl pads prompts to that length and cuts none: it fails when it stacks rows of unequal length",
        ),
        (
            (0, 6),
            {},
            [SHORT, LONG],
            "error",
            "with data.truncation=error verl stops at the first of them, in the middle of the training",
        ),
        (
            (0, 5),
            {"truncation": "left"},
            [SHORT, LONG],
            "warning",
            "with data.truncation=left verl cuts them and trains on what is left of the question",
        ),
        (
            (0, 9),
            {"filter_overlong_prompts": True},
            [SHORT, LONG],
            "warning",
            DROPS + "the others are trained on",
        ),
        (
            (0, 6),
            {"filter_overlong_prompts": True},
            [LONG, LONG],
            "error",
            DROPS + "none is left, and verl ends with num_samples=0",
        ),
    ],
)
def test_what_becomes_of_long_prompts_goes_by_the_release(
    tmp_path: Path, *, release: Any, data: dict[str, Any], prompts: list[Any], severity: str, why: str
) -> None:
    [finding, *_] = found(tmp_path, prompts, release=release, data=limited(**data)).findings

    assert (finding.check, finding.severity, finding.why) == ("data-lengths", severity, why)


def test_a_filter_that_is_on_is_not_advised(tmp_path: Path) -> None:
    [finding, *_] = found(tmp_path, [SHORT, LONG], data=limited(filter_overlong_prompts=True)).findings

    assert re.sub(r"=\d+", "=N", finding.todo) == "data.max_prompt_length=N takes the longest of these"


def test_a_model_without_a_chat_template_is_refused(tmp_path: Path) -> None:
    model = write_model(tmp_path / "model", template=None)

    assert found(tmp_path, [SHORT], model=model).findings == (
        Finding(
            check="data-template",
            severity="error",
            what=f"the prompts are messages, and the model in {model} has no chat template",
            why="verl renders every prompt with it; without one each row fails once the models are loaded, or is "
            "dropped "
            "where data.filter_overlong_prompts is on",
            todo="bake the model's instruct version, or give actor_rollout_ref.model.custom_chat_template",
        ),
    )


@pytest.mark.parametrize(
    "settings",
    [
        {"actor_rollout_ref": {"model": {"custom_chat_template": CHATML}}},
        {"data": {"apply_chat_template_kwargs": {"chat_template": CHATML, "tokenize": False}}},
    ],
)
def test_a_template_in_the_settings_is_enough(tmp_path: Path, settings: dict[str, Any]) -> None:
    assert found(tmp_path, [SHORT], model=write_model(tmp_path / "model", template=None), **settings).findings == ()


def test_a_tokenizer_elsewhere_is_the_one_that_counts(tmp_path: Path) -> None:
    write_model(tmp_path / "other")
    settings = {"actor_rollout_ref": {"model": {"tokenizer_path": str(tmp_path / "other")}}}

    assert found(tmp_path, [SHORT], model=write_model(tmp_path / "m", template=None), **settings).findings == ()


def test_a_broken_template_is_refused(tmp_path: Path) -> None:
    assert found(tmp_path, [SHORT], model=write_model(tmp_path / "m", template="{% if %}")).findings == (
        Finding(
            check="data-template",
            severity="error",
            what="the chat template is broken: Expected an expression, got 'end of statement block'",
            why="verl renders every prompt with it",
            todo="mend chat_template.jinja or tokenizer_config.json where the model comes from, and bake it again",
        ),
    )


def test_rows_that_the_template_refuses_are_told_with_its_own_words(tmp_path: Path) -> None:
    strict = "{% if messages[0].role != 'user' %}{{ raise_exception('the user begins') }}{% endif %}"
    system = [{"role": "system", "content": "x"}]

    assert found(tmp_path, [SHORT, system], model=write_model(tmp_path / "m", template=strict)).findings == (
        Finding(
            check="data-template",
            severity="error",
            what="data.train_files: prompt is refused by the model's chat template, in 1 of the 2 rows looked at: "
            f"{tmp_path}/x.parquet row 1 (the user begins)",
            why="verl fails over such a row in a worker once the models are loaded, or drops it where "
            "data.filter_overlong_prompts is on",
            todo="bring the messages into the order and the roles that the template asks for",
        ),
    )


def not_checked(reason: str) -> tuple[Finding, ...]:
    return (
        Finding(
            check="data-lengths",
            severity="warning",
            what=f"the prompts' lengths were not checked: {reason}",
            why="prompts longer than data.max_prompt_length are cut, dropped or refused, as this verl has it",
            todo="see that data.max_prompt_length holds your longest prompt with its chat template",
        ),
    )


def test_without_tokenizer_json_lengths_are_not_checked_and_that_is_said(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m")
    (model / "tokenizer.json").unlink()

    assert found(tmp_path, [LONG], model=model, data=limited()).findings == not_checked(
        f"{model} has no tokenizer.json"
    )


def test_a_broken_tokenizer_json_is_no_exception(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m")
    (model / "tokenizer.json").write_text("{}")

    [finding] = found(tmp_path, [SHORT], model=model).findings

    assert finding.what.startswith(f"the prompts' lengths were not checked: {model}/tokenizer.json cannot be read: ")


@pytest.mark.parametrize("name", ["tekken.json", "tokenizer_config.json"])
def test_a_tokenizer_with_code_of_its_own_may_need_no_template(tmp_path: Path, name: str) -> None:
    model = write_model(tmp_path / "m", template=None)
    (model / name).write_text(json.dumps({"auto_map": {"AutoTokenizer": ["x.Y", None]}}))

    assert found(tmp_path, [SHORT], model=model).findings == not_checked(
        f"the tokenizer in {model} renders prompts with code of its own"
    )


def test_prompts_with_images_are_left_to_the_model_s_processor(tmp_path: Path) -> None:
    content = rows(2, prompt=[{"role": "user", "content": "<image>" * 600}], images=["a.png"])
    file = write_parquet(tmp_path / "x.parquet", content)
    model = write_model(tmp_path / "m", template=None)

    assert prepared(file, scratch=tmp_path, model=model, data=limited()).findings == ()


def test_what_a_tokenizer_would_cut_or_fill_is_counted_as_it_is(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m")
    document = json.loads((model / "tokenizer.json").read_text())
    document["truncation"] = {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}
    (model / "tokenizer.json").write_text(json.dumps(document))

    assert found(tmp_path, [LONG], model=model).notes == (
        "data: data.train_files: 1 file, 1 row; 1 looked at, the longest prompt of these 519 tokens",
    )


def test_a_prompt_as_long_as_a_library_is_counted_in_time(tmp_path: Path) -> None:
    huge = [{"role": "user", "content": "x" * 9_000_000}]

    assert "more than data.max_prompt_length=512 tokens" in whats(found(tmp_path, [huge, SHORT]))[0]
