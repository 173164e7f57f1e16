"""The profile: a file of overrides, told where it is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bake.entrypoint.launch.profile import load_profile
from tests.entrypoint.files import write

if TYPE_CHECKING:
    from pathlib import Path


def load(folder: Path, content: bytes) -> tuple[str, ...]:
    return load_profile(write(folder, {"train.yaml": content}) / "train.yaml")


def test_no_file_is_no_override(tmp_path: Path) -> None:
    assert load_profile(tmp_path / "train.yaml") == ()


@pytest.mark.parametrize("content", [b"", b"# nothing yet\n"])
def test_an_empty_file_is_no_override(tmp_path: Path, content: bytes) -> None:
    assert load(tmp_path, content) == ()


def test_a_mapping_may_be_nested_or_dotted(tmp_path: Path) -> None:
    content = b"trainer: {total_epochs: 1, logger: [console]}\nactor_rollout_ref.actor.optim.lr: 1e-6\n"

    assert load(tmp_path, content) == (
        "trainer.total_epochs=1",
        "trainer.logger=['console']",
        "actor_rollout_ref.actor.optim.lr=1e-06",
    )


def test_values_keep_their_kinds(tmp_path: Path) -> None:
    content = b"a: yes please\nb: true\nc: null\nd: '1'\ne: 2024-01-02\nf: [{g: 'x y'}, 1.5]\nh: {}\n"

    assert load(tmp_path, content) == (
        "a='yes please'",
        "b=true",
        "c=null",
        "d='1'",
        "e='2024-01-02'",
        "f=[{g:'x y'},1.5]",
        "h={}",
    )


def test_keys_take_hydra_s_prefixes(tmp_path: Path) -> None:
    assert load(tmp_path, b'"+data.cache_dir": /tmp/cache\n') == ("+data.cache_dir='/tmp/cache'",)


def test_an_interpolation_stays_as_it_is(tmp_path: Path) -> None:
    assert load(tmp_path, b"a: ${b.c}\n") == ("a='${b.c}'",)


def test_a_list_is_overrides_as_one_types_them(tmp_path: Path) -> None:
    assert load(tmp_path, b"- trainer.total_epochs=1\n- ~data.x\n") == ("trainer.total_epochs=1", "~data.x")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a: 1\nb: [1\nc: 2\n", "line 3, column 2: expected ',' or ']', but got ':'"),
        (b"a: 1\na: 2\n", "line 2, column 1: found duplicate key a"),
        (b"a: \x00\n", "unacceptable character #x0000: special characters are not allowed"),
        (b"- a=1\n- b: 2\n", "entry 2: expected an override, found {'b': 2}"),
        (b"3\n", "expected a mapping or a list, found one word"),
    ],
)
def test_a_broken_file_is_told_with_its_line(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        load(tmp_path, content)

    assert str(caught.value).partition("\n")[0] == message


def test_bytes_that_are_no_text_are_told(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="can't decode byte 0xff"):
        load(tmp_path, b"a: \xff\n")


def test_a_folder_in_its_place_is_told(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Is a directory"):
        load_profile(tmp_path)
