"""Models of a shard size in a lock: what is asked, what it became, and what a reader refuses of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bake.digest import Digest
from bake.errors import LockError
from bake.lock import Lock, LockedModel, ModelId, Resharded
from bake.lock.dump import dumps
from bake.lock.parse import parse
from bake.record import RecordedFile

ONE, TWO, INDEX = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json"


def file(path: str) -> RecordedFile:
    return RecordedFile(path=path, size=2, digest=Digest.of(path.encode()))


SOURCE = RecordedFile(path="model.safetensors", size=5, digest=Digest.of(b"bytes"))
ASKED = LockedModel(id=ModelId("big", "v1"), source="dir://big", max_shard_size="5GB")
BIG = ASKED.resolve(
    files=[file(path) for path in ("config.json", ONE, TWO, INDEX)],
    excluded=(),
    commit=None,
    resharded=[Resharded(source=SOURCE, files=(ONE, TWO, INDEX))],
)
LOCK = Lock(models=(BIG,), format=(1, 1))
TEXT = dumps(LOCK)
ANEW = (
    "take the record back from version control; to resolve it anew, delete all of it but what is asked and run: "
    "bake lock big@v1"
)


def test_it_is_read_as_it_was_written() -> None:
    assert parse(TEXT) == LOCK


def test_it_is_written_as_format_1_1_with_the_size_asked_and_the_files_before_the_shards() -> None:
    head, record = TEXT.split("\n\n")[1:3]

    assert TEXT.splitlines()[2] == 'version = "1.1"'
    assert 'max_shard_size = "5GB"\nsource = "dir://big"\n' in head
    assert head.endswith("\nsize = 8\nresharder = 1")
    assert record == (
        "  [[model.resharded]]\n"
        '  path = "model.safetensors"\n'
        "  size = 5\n"
        f'  sha256 = "{SOURCE.digest.hex}"\n'
        f'  files = ["{ONE}", "{TWO}", "{INDEX}"]'
    )


def test_a_lock_in_which_nobody_asks_for_it_stays_of_format_1() -> None:
    assert dumps(Lock(models=(replace(ASKED, max_shard_size=None),))).splitlines()[2] == "version = 1"


def test_a_person_may_ask_for_it_in_a_lock_of_format_1() -> None:
    text = dumps(Lock(models=(ASKED,))).replace('"1.1"', "1")

    assert parse(text).models == (ASKED,)


def test_the_size_is_part_of_what_is_asked_only_where_it_is_given() -> None:
    asked = '["dir://big",null,[],[]'

    assert ASKED.asked() == Digest.of(f'{asked},"5GB"]'.encode())
    assert replace(ASKED, max_shard_size=None).asked() == Digest.of(f"{asked}]".encode())


def test_the_source_s_files_are_those_that_were_made_into_others_and_the_rest() -> None:
    assert BIG.source_files == (file("config.json"), SOURCE)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("resharder = 1\n", "", "resharder: missing: resharder and [[model.resharded]] records stand together"),
        (
            f'files = ["{ONE}", "{TWO}", "{INDEX}"]',
            "files = []",
            "resharded[0].files: expected a file or more, found none",
        ),
        (f'["{ONE}", ', '["vocab.json", ', "resharded[0].files: 'vocab.json' is no file of big@v1"),
        (f'["{ONE}", ', f'["{TWO}", ', f"resharded[0].files: '{TWO}' is made of another file already"),
        (
            'path = "model.safetensors"',
            'path = "config.json"',
            "resharded[0].path: 'config.json' is a file of big@v1, listed twice, or excluded",
        ),
    ],
)
def test_records_that_do_not_fit_are_refused(old: str, new: str, message: str) -> None:
    assert TEXT.count(old) == 1

    with pytest.raises(LockError) as caught:
        parse(TEXT.replace(old, new))

    assert (caught.value.message, caught.value.hint) == (f"models.lock: model[0].{message}", ANEW)


def test_a_stamp_without_records_is_refused() -> None:
    start, end = TEXT.index("  [[model.resharded]]"), TEXT.index("  [[model.file]]")

    with pytest.raises(LockError) as caught:
        parse(TEXT[:start] + TEXT[end:])

    assert caught.value.message == (
        "models.lock: model[0].resharded: missing: resharder and [[model.resharded]] records stand together"
    )


@pytest.mark.parametrize("size", ["", "5", "5Gb", "0GB"])
def test_a_size_of_another_form_is_refused(size: str) -> None:
    with pytest.raises(LockError) as caught:
        parse(TEXT.replace('"5GB"', f'"{size}"'))

    assert caught.value.message == (
        f"models.lock: model[0].max_shard_size: expected a size such as 5GB, 500MB or 4GiB, found '{size}'"
    )
