from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bake.errors import LockError
from bake.lock import Lock
from bake.lock.dump import dumps
from bake.lock.parse import parse
from tests.lock.samples import LOCK
from tests.lock.strategies import LOCKS, LOCKS_WITH_FILES, TEXTS, patient

_FILE = re.compile(r'\[\[model\.file\]\]\n  path = "(.*)"\n  size = (\d+)\n  sha256 = "(.*)"')


def read(content: bytes) -> Lock | None:
    """The lock in some bytes; None where they are refused, as they must be if they are no lock."""
    try:
        return parse(content.decode())
    except (LockError, UnicodeDecodeError):
        return None


def strays(lock: Lock, content: bytes) -> set[object]:
    """Models and bases that are read from the bytes and are not, whole, those of the lock."""
    found = read(content) or Lock()
    return {*found.models, *found.bases} - {*lock.models, *lock.bases}


@patient
@given(LOCKS)
def test_a_lock_that_is_written_is_read_back(lock: Lock) -> None:
    assert parse(dumps(lock)) == lock


@patient
@given(LOCKS)
def test_writing_what_was_read_changes_nothing(lock: Lock) -> None:
    text = dumps(lock)

    assert dumps(parse(text)) == text


@patient
@given(LOCKS)
def test_the_order_of_records_in_a_lock_does_not_reach_the_text(lock: Lock) -> None:
    assert dumps(replace(lock, bases=lock.bases[::-1], models=lock.models[::-1])) == dumps(lock)


@patient
@given(LOCKS)
def test_line_endings_of_windows_change_nothing(lock: Lock) -> None:
    assert parse("\ufeff" + dumps(lock).replace("\n", "\r\n")) == lock


def test_a_lock_that_was_cut_anywhere_is_refused_or_holds_whole_records_only() -> None:
    content = dumps(LOCK).encode()

    assert {cut: found for cut in range(len(content)) if (found := strays(LOCK, content[:cut]))} == {}


@patient
@given(LOCKS, st.data())
def test_any_lock_that_was_cut_anywhere_is_refused_or_holds_whole_records_only(lock: Lock, data: st.DataObject) -> None:
    content = dumps(lock).encode()

    assert strays(lock, content[: data.draw(st.integers(0, len(content)), label="cut")]) == set()


@patient
@given(LOCKS_WITH_FILES, st.data())
def test_one_changed_character_of_a_file_s_record_is_refused(lock: Lock, data: st.DataObject) -> None:
    text = dumps(lock)
    start, end = data.draw(
        st.sampled_from([found.span(number) for found in _FILE.finditer(text) for number in (1, 2, 3)]), label="value"
    )
    at = data.draw(st.integers(start, end - 1), label="place")
    character = data.draw(st.characters(exclude_categories=["Cs"]) | st.sampled_from('0123456789abcdef"\\#_ '))
    assume(character != text[at])

    with pytest.raises(LockError):
        parse(text[:at] + character + text[at + 1 :])


@patient
@given(LOCKS, st.data())
def test_whatever_the_text_there_is_a_lock_or_a_clear_refusal(lock: Lock, data: st.DataObject) -> None:
    text = dumps(lock)
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(text))] * 2), label="part"))

    read((text[:start] + data.draw(TEXTS, label="instead") + text[end:]).encode())


@patient
@given(LOCKS, st.data())
def test_any_line_that_is_lost_is_refused_or_alters_no_file(lock: Lock, data: st.DataObject) -> None:
    lines = dumps(lock).splitlines(keepends=True)
    at = data.draw(st.integers(0, len(lines) - 1), label="line")

    found = read("".join(lines[:at] + lines[at + 1 :]).encode()) or Lock()

    assert {model.files for model in found.models} <= {model.files for model in lock.models} | {()}
