"""Whatever the files and the settings hold, a check answers with findings and raises nothing."""

from __future__ import annotations

import json
import math
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bake.entrypoint.data import Prepared, prepare
from bake.entrypoint.machine import Machine
from bake.entrypoint.preflight.situation import Situation
from bake.entrypoint.settings import Settings
from tests.entrypoint.data.samples import prepared, recorded, row, rows, situation, write_model, write_parquet

if TYPE_CHECKING:
    from collections.abc import Iterator

PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
MESSAGES = st.lists(
    st.fixed_dictionaries({}, optional={"role": VALUES, "content": VALUES, "from": PLAIN, "tool_calls": VALUES}),
    max_size=3,
)
ROWS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "prompt": MESSAGES | VALUES,
            "data_source": st.just("openai/gsm8k") | VALUES,
            "reward_model": st.fixed_dictionaries({}, optional={"ground_truth": VALUES}) | VALUES,
            "images": VALUES,
        },
    ),
    max_size=4,
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture
def folder() -> Iterator[Path]:
    with TemporaryDirectory() as name:
        yield Path(name)


def answered(file: str, folder: Path, model: Path, **columns: str) -> Prepared:
    data = {"train_files": file, "val_files": file}
    return prepare(situation(data, model=model), columns=columns, scratch=folder / "scratch")


ODD = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@ODD
@given(content=ROWS)
def test_rows_of_json(content: list[dict[str, Any]], folder: Path, model: Path) -> None:
    (folder / "x.ndjson").write_text("".join(f"{json.dumps(item)}\n" for item in content))

    assert isinstance(answered(f"{folder}/x.ndjson", folder, model), Prepared)


@ODD
@given(content=ROWS)
def test_rows_of_json_that_are_mapped(content: list[dict[str, Any]], folder: Path, model: Path) -> None:
    (folder / "x.json").write_text(json.dumps(content))
    columns = {"prompt": "data_source", "ground_truth": "prompt", "data_source": "openai/gsm8k"}

    assert isinstance(answered(f"{folder}/x.json", folder, model, **columns), Prepared)


@ODD
@given(
    content=st.binary(max_size=60) | st.binary(max_size=60).map(lambda tail: b"PAR1" + tail),
    suffix=st.sampled_from(["parquet", "json", "jsonl", "csv", "arrow", ""]),
)
def test_bytes_of_any_kind(content: bytes, suffix: str, folder: Path, model: Path) -> None:
    (folder / f"x.{suffix}").write_bytes(content)

    assert isinstance(answered(f"{folder}/x.{suffix}", folder, model), Prepared)


@ODD
@given(place=st.integers(0, 2000), damage=st.binary(min_size=1, max_size=8))
def test_a_parquet_file_that_is_damaged_anywhere(place: int, damage: bytes, folder: Path, model: Path) -> None:
    path = Path(write_parquet(folder / "x.parquet", rows(20), row_group_size=5, compression="none"))
    content = bytearray(path.read_bytes())
    content[place : place + len(damage)] = damage
    path.write_bytes(content)

    assert isinstance(answered(str(path), folder, model), Prepared)


KINDS = st.recursive(
    st.sampled_from(
        [pa.string(), pa.int64(), pa.binary(), pa.null(), pa.timestamp("ns"), pa.large_string(), pa.bool_()]
    ),
    lambda inner: inner.map(pa.list_) | inner.map(lambda kind: pa.struct([("role", kind), ("content", kind)])),
    max_leaves=3,
)


@ODD
@given(prompt=KINDS, source=KINDS, reward=KINDS)
def test_columns_of_any_type(prompt: Any, source: Any, reward: Any, folder: Path, model: Path) -> None:
    columns = {"prompt": prompt, "data_source": source, "reward_model": reward}
    table = pa.table({name: pa.nulls(3, kind) for name, kind in columns.items()})
    pq.write_table(table, folder / "x.parquet")

    assert isinstance(answered(f"{folder}/x.parquet", folder, model), Prepared)


NAMES = st.sampled_from(
    [
        "train_files",
        "val_files",
        "prompt_key",
        "reward_fn_key",
        "image_key",
        "max_prompt_length",
        "max_response_length",
        "train_batch_size",
        "gen_batch_size",
        "train_max_samples",
        "filter_overlong_prompts",
        "truncation",
        "custom_cls",
        "apply_chat_template_kwargs",
    ]
)
TREES = st.fixed_dictionaries(
    {},
    optional={
        "data": st.dictionaries(NAMES, VALUES, max_size=6) | VALUES,
        "reward": st.dictionaries(st.sampled_from(["custom_reward_function", "reward_manager"]), VALUES) | VALUES,
        "custom_reward_function": st.fixed_dictionaries({"path": VALUES, "name": VALUES}),
        "reward_model": VALUES,
        "actor_rollout_ref": st.fixed_dictionaries({"model": VALUES, "rollout": VALUES}) | VALUES,
        "trainer": VALUES,
    },
)


@ODD
@given(tree=TREES, release=st.none() | st.tuples(st.just(0), st.integers(5, 10)))
def test_settings_of_any_kind(tree: Any, release: Any, folder: Path, model: Path) -> None:
    file = write_parquet(folder / "x.parquet", rows(2))
    data = tree["data"] if isinstance(tree.get("data"), dict) else {}
    whole = {**tree, "data": {"train_files": file, "val_files": file, **data}}
    odd = Situation(settings=Settings(whole), models=(recorded(model),), machine=Machine(), environ={}, release=release)

    assert isinstance(prepare(odd, columns={}, scratch=folder / "scratch"), Prepared)


def nested(depth: int) -> Any:
    return [nested(depth - 1)] if depth else "x"


@pytest.mark.parametrize(
    "prompt",
    [
        pytest.param([{"role": "user", "content": nested(200)}], id="a content nested deep"),
        pytest.param([{"role": "user", "content": "x"}] * 20_000, id="many messages"),
        pytest.param([{"role": "user", "content": "\ud800"}], id="half a character"),
        pytest.param([{"role": "user", "content": math.inf}], id="infinity"),
        pytest.param([{"role": "user", "content": "ten"}], id="a number without end"),
    ],
)
def test_a_prompt_of_an_odd_kind(tmp_path: Path, model: Path, prompt: Any) -> None:
    (tmp_path / "x.json").write_text(json.dumps([row(prompt=prompt)]).replace('"ten"', "1" * 5000))

    assert isinstance(answered(f"{tmp_path}/x.json", tmp_path, model), Prepared)


def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    (tmp_path / "loop.parquet").symlink_to("loop.parquet")

    assert isinstance(prepared(f"{tmp_path}/loop.parquet", scratch=tmp_path), Prepared)
