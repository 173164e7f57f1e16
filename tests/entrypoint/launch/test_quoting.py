"""Hydra's own parser reads an override back as the very value."""

from __future__ import annotations

import math
import shlex
from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given
from hypothesis import strategies as st

from bake.entrypoint.launch import shell
from bake.entrypoint.launch.given import Given, parse
from bake.entrypoint.launch.refusal import Refusal
from bake.entrypoint.override import Override

PARSER = OverridesParser.create()
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()


def read(override: Override) -> Any:
    return PARSER.parse_override(str(override)).value()


@given(st.text())
def test_any_text_comes_back_unchanged(text: str) -> None:
    assert read(Override("key", text)) == text


@given(st.text(alphabet="\\'\"$,=(){}[]~!#@ 1e"))
def test_what_hydra_reads_into_bare_values_comes_back_unchanged(text: str) -> None:
    assert read(Override("key", text)) == text


@given(st.dictionaries(st.from_regex(r"[a-z]+", fullmatch=True).map("k_{}".format), SCALARS))
def test_mappings_come_back_too(value: Any) -> None:
    assert read(Override("key", value)) == value


@given(SCALARS | st.text(alphabet="\\'\"$`!,=(){}[]~#@ 1e*"))
def test_a_shell_and_hydra_together_read_back_what_one_is_told_to_type(value: Any) -> None:
    (word,) = shlex.split(shell.override("key", value))

    assert PARSER.parse_override(word).value() == value


@given(SCALARS)
def test_a_value_keeps_its_kind(value: Any) -> None:
    found = read(Override("key", value))

    assert (type(found), found) == (type(value), value)


@given(st.recursive(SCALARS, st.lists, max_leaves=8))
def test_lists_come_back_too(value: Any) -> None:
    assert read(Override("key", value)) == value


def test_not_a_number_stays_one() -> None:
    assert math.isnan(read(Override("key", math.nan)))


@pytest.mark.parametrize(
    ("text", "key", "value", "how"),
    [
        ("a.b=1", "a.b", 1, "change"),
        ("+a.b='x'", "a.b", "x", "add"),
        ("++a.b=[1,2]", "a.b", [1, 2], "force"),
        ("~a.b", "a.b", None, "delete"),
        ("a={b: {c: 1}, d: x}", "a", {"b": {"c": 1}, "d": "x"}, "change"),
    ],
)
def test_what_was_given_is_read_as_hydra_reads_it(text: str, key: str, value: object, how: Any) -> None:
    assert list(parse([text], source="here")) == [Given(text=text, source="here", key=key, value=value, how=how)]


def test_a_mapping_names_each_key_in_it() -> None:
    (mapping,) = (one for one in parse(["a={b: {c: 1}, d: x, e: {}}"], source="here") if isinstance(one, Given))

    assert list(mapping.leaves()) == [("a.b.c", 1), ("a.d", "x"), ("a.e", {})]


@pytest.mark.parametrize(
    ("text", "why", "todo"),
    [
        ("epochs", "no `=` in it", "write key=value, as in trainer.total_epochs=1"),
        (
            "data.train_files=a,b",
            "Hydra takes a bare comma for several trainings, one for each value",
            "write 'data.train_files=[a,b]' for a list, \"data.train_files='a,b'\" for one text",
        ),
        (
            "trainer.total_epochs=range(1,3)",
            "Hydra takes range(…) for several trainings, one for each value",
            "start one container for each value; if it is one text, write \"trainer.total_epochs='range(1,3)'\"",
        ),
        (
            "a=choice(x,y)",
            "Hydra takes choice(…) for several trainings, one for each value",
            "start one container for each value; if it is one text, write \"a='choice(x,y)'\"",
        ),
        ("=3", "no key before the `=`", "write key=value, as in trainer.total_epochs=1"),
        ("+=3", "no key before the `=`", "write key=value, as in trainer.total_epochs=1"),
        (
            "foo bar=3",
            "a key has no spaces in it or around it",
            "write key=value, as in trainer.total_epochs=1",
        ),
        ("trainer.nnodes = 2", "a key has no spaces in it or around it", "write trainer.nnodes=2"),
        (
            "data.train_files=/data/数.parquet",
            "Hydra cannot read it: token recognition error at: '数'",
            "if the value is one text, write \"data.train_files='/data/数.parquet'\"",
        ),
        (
            "a=b=c",
            "Hydra cannot read it: mismatched input '=' expecting <EOF>",
            "if the value is one text, write \"a='b=c'\"",
        ),
    ],
)
def test_what_hydra_cannot_read_is_told_with_what_to_type(text: str, why: str, todo: str) -> None:
    assert list(parse([text], source="here")) == [Refusal(text=text, source="here", why=why, todo=todo)]
