from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bake.digest import Digest
from bake.errors import ImageError
from bake.record import Record, RecordedFile, RecordedModel, set_digest
from tests.lock.strategies import COMMITS, FILE_SETS, IDS, TEXTS, patient

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = RecordedFile(path="config.json", size=2, digest=Digest.of(b"{}"))
WEIGHTS = RecordedFile(path="sub/modèle.safetensors", size=5, digest=Digest.of(b"bytes"))
MODEL = RecordedModel(
    name="tiny",
    version="v1",
    roles=("actor", "critic"),
    path="/opt/models/tiny",
    source="hf://org/tiny",
    commit="0" * 40,
    set_digest=set_digest((CONFIG, WEIGHTS)),
    files=(CONFIG, WEIGHTS),
    trust_remote_code=True,
)
RECORD = Record(models=(MODEL,), overrides=("algorithm.adv_estimator=grpo",))

TEXT = """\
{
  "models": [
    {
      "commit": "0000000000000000000000000000000000000000",
      "files": [
        {
          "path": "config.json",
          "sha256": "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
          "size": 2
        },
        {
          "path": "sub/modèle.safetensors",
          "sha256": "@WEIGHTS@",
          "size": 5
        }
      ],
      "name": "tiny",
      "path": "/opt/models/tiny",
      "roles": [
        "actor",
        "critic"
      ],
      "set_digest": "@SET@",
      "source": "hf://org/tiny",
      "trust_remote_code": true,
      "version": "v1"
    }
  ],
  "overrides": [
    "algorithm.adv_estimator=grpo"
  ],
  "version": 1
}
"""

MODELS = st.builds(
    lambda model, roles, texts, commit, files, trust: RecordedModel(
        name=model.name,
        version=model.version,
        roles=tuple(roles),
        path=texts[0],
        source=texts[1],
        commit=commit,
        set_digest=set_digest(files),
        files=files,
        trust_remote_code=trust,
    ),
    IDS,
    st.lists(st.sampled_from(["actor", "critic", "reward_model"]), max_size=3, unique=True),
    st.tuples(TEXTS, TEXTS),
    st.none() | COMMITS,
    FILE_SETS,
    st.booleans(),
)
RECORDS = st.builds(
    lambda models, overrides: Record(models=tuple(models), overrides=tuple(overrides)),
    st.lists(MODELS, max_size=3),
    st.lists(TEXTS, max_size=2),
)


def altered(*place: str | int, to: Any = None) -> bytes:
    """The record with the value at one place changed, or the key there gone."""
    document = json.loads(RECORD.dumps())
    holder = document
    *above, last = place
    for key in above:
        holder = holder[key]
    if to is None:
        del holder[last]
    else:
        holder[last] = to
    return json.dumps(document).encode()


def refusal(content: bytes) -> tuple[str, str | None]:
    with pytest.raises(ImageError) as caught:
        Record.parse(content)
    return caught.value.message, caught.value.hint


def test_a_record_is_canonical_json() -> None:
    expected = TEXT.replace("@WEIGHTS@", WEIGHTS.digest.hex).replace("@SET@", str(MODEL.set_digest))

    assert RECORD.dumps().decode() == expected


def test_a_record_of_nothing() -> None:
    assert Record(models=()).dumps() == b'{\n  "models": [],\n  "overrides": [],\n  "version": 1\n}\n'


@patient
@given(RECORDS)
def test_a_record_that_is_written_is_read_back(record: Record) -> None:
    assert Record.parse(record.dumps()) == record


@patient
@given(RECORDS, st.data())
def test_a_record_that_was_cut_anywhere_is_refused(record: Record, data: st.DataObject) -> None:
    content = record.dumps().rstrip()

    refusal(content[: data.draw(st.integers(0, len(content) - 1), label="cut")])


def test_a_model_from_a_folder_has_no_commit() -> None:
    record = Record(models=(replace(MODEL, commit=None),))

    assert Record.parse(record.dumps()) == record


def test_keys_that_are_not_known_are_passed_over() -> None:
    assert Record.parse(altered("models", 0, "packed_by", to="bake 9")) == RECORD


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "Expecting value: line 1 column 1 (char 0)"),
        (RECORD.dumps()[:40], "Unterminated string starting at: line 4 column 17 (char 38)"),
        (b"\xff\xfe\xff", "'utf-16-le' codec can't decode byte 0xff in position 2: truncated data"),
        (b"\x80", "'utf-8' codec can't decode byte 0x80 in position 0: invalid start byte"),
        (b"[]", "document: expected an object, found an array"),
        (b"null", "document: expected an object, found null"),
        (b"{}", "version: missing"),
        (altered("version", to="1"), "version: expected a whole number, found a string"),
        (altered("version", to=True), "version: expected a whole number, found true or false"),
        (altered("models"), "models: missing"),
        (altered("models", to={}), "models: expected an array, found an object"),
        (altered("models", 0, to=7), "models[0]: expected an object, found a whole number"),
        (altered("models", 0, "name"), "models[0].name: missing"),
        (altered("models", 0, "commit", to=1.5), "models[0].commit: expected a string, found a fraction"),
        (altered("models", 0, "roles", to="actor"), "models[0].roles: expected an array, found a string"),
        (altered("models", 0, "roles", 1, to=1), "models[0].roles[1]: expected a string, found a whole number"),
        (altered("overrides", 0, to=1), "overrides[0]: expected a string, found a whole number"),
        (
            altered("models", 0, "trust_remote_code", to=1),
            "models[0].trust_remote_code: expected true or false, found a whole number",
        ),
        (altered("models", 0, "files", 1, "path"), "models[0].files[1].path: missing"),
        (altered("models", 0, "files", 1, to=[]), "models[0].files[1]: expected an object, found an array"),
        (
            altered("models", 0, "files", 0, "size", to="2"),
            "models[0].files[0].size: expected a whole number, found a string",
        ),
        (
            altered("models", 0, "files", 0, "size", to=-2),
            "models[0].files[0].size: expected a number of bytes, found -2",
        ),
        (
            altered("models", 0, "files", 0, "sha256", to="aa"),
            "models[0].files[0].sha256: expected 64 lower-case hex digits, found 'aa'",
        ),
        (
            altered("models", 0, "set_digest", to="aa"),
            "models[0].set_digest: expected sha256:<64 lower-case hex digits>, found 'aa'",
        ),
        (
            altered("models", 0, "files", 1),
            f"models[0].set_digest: expected {MODEL.set_digest}, found {set_digest((CONFIG,))} over the files listed",
        ),
    ],
)
def test_what_is_no_record_is_refused_with_the_place(content: bytes, message: str) -> None:
    assert refusal(content) == (f"record.json: not a record of baked models: {message}", None)


def test_a_record_that_no_json_reader_bears_is_refused() -> None:
    message, _ = refusal(b"[" * 100_000)

    assert message.startswith("record.json: not a record of baked models: ")


def test_a_record_of_another_version_is_refused() -> None:
    assert refusal(altered("version", to=2)) == (
        "record.json: expected record version 1, found 2",
        "read this image with the version of bake that made it, or a newer one",
    )


def test_an_error_names_the_record_that_was_read() -> None:
    with pytest.raises(ImageError, match=r"^/opt/bake/record\.json: not a record of baked models: version: missing$"):
        Record.parse(b"{}", where="/opt/bake/record.json")


# --- set_digest


def test_the_set_digest_is_what_coreutils_say(tmp_path: Path) -> None:
    contents = {
        "b.json": b"{}",
        "a b.txt": b"{}",
        "sub/é.bin": b"\x00\xff",
        "sub-1": b"",
        "B": b"x" * 99,
        "-dash": b"-",
    }
    files = tuple(
        RecordedFile(path=path, size=len(content), digest=Digest.of(content)) for path, content in contents.items()
    )
    (tmp_path / "sub").mkdir()
    written = [(tmp_path / path).write_bytes(content) for path, content in contents.items()]

    printed = subprocess.run(
        ["bash", "-c", 'sha256sum -- "$@" | LC_ALL=C sort | sha256sum', "bash", *contents],
        cwd=tmp_path,
        capture_output=True,
        check=True,
        text=True,
    ).stdout

    assert (f"{set_digest(files).hex}  -\n", written) == (printed, [file.size for file in files])


def test_the_set_digest_does_not_depend_on_the_order_of_files() -> None:
    assert set_digest((CONFIG, WEIGHTS)) == set_digest((WEIGHTS, CONFIG))


def test_the_set_digest_of_no_files_is_that_of_no_bytes() -> None:
    assert set_digest(()) == Digest.of(b"")


@pytest.mark.parametrize(
    "other",
    [
        (CONFIG,),
        (CONFIG, WEIGHTS, replace(CONFIG, path="x")),
        (CONFIG, replace(WEIGHTS, path="modèle.safetensors")),
        (CONFIG, replace(WEIGHTS, digest=CONFIG.digest)),
        (replace(CONFIG, path=WEIGHTS.path), replace(WEIGHTS, path=CONFIG.path)),
    ],
)
def test_another_set_of_paths_and_bytes_has_another_set_digest(other: tuple[RecordedFile, ...]) -> None:
    assert set_digest(other) != MODEL.set_digest
