from __future__ import annotations

from dataclasses import replace

import pytest

from bake.digest import Digest
from bake.errors import LockError
from bake.lock import Base, Lock, LockedModel, ModelId, Wheel
from bake.lock.dump import dumps
from bake.lock.parse import parse
from bake.select import Excluded
from tests.lock.samples import FILES, HEX_A, LOCK, TEXT, TINY, VALUE, VLLM

EMPTY = """\
# Written by bake: edit what is asked (source, revision, include, exclude, base), then run `bake lock`.
# Format: docs/models-lock.md in bake's repository.
version = 1
"""
MODEL = LockedModel(id=ModelId("tiny", "v1"), source="hf://org/tiny")


def test_a_lock_of_everything() -> None:
    assert dumps(LOCK) == TEXT


def test_a_lock_of_nothing() -> None:
    assert dumps(Lock()) == EMPTY


def test_a_model_that_is_not_resolved_is_what_is_asked_and_ends_with_its_source() -> None:
    assert dumps(Lock(models=(MODEL,))) == EMPTY + (
        '\n[[model]]\nname = "tiny"\nversion = "v1"\nbase = "scratch"\nsource = "hf://org/tiny"\n'
    )


def test_a_base_that_is_not_resolved_is_its_image() -> None:
    assert dumps(Lock(bases=(Base(name="vllm-0.24", image="oci:bases/vllm"),))) == EMPTY + (
        '\n[base."vllm-0.24"]\nimage = "oci:bases/vllm"\n'
    )


def test_a_newer_minor_version_is_written_as_text() -> None:
    assert dumps(Lock(format=(1, 3), comment=("# x",))) == '# x\nversion = "1.3"\n'


def test_a_comment_of_one_s_own_takes_the_place_of_bake_s() -> None:
    assert dumps(Lock(comment=("# ours",), ending=("# the end",))) == "# ours\nversion = 1\n\n# the end\n"


def test_bake_s_own_comment_is_no_part_of_the_lock() -> None:
    assert parse(EMPTY) == Lock()


def test_what_a_person_wrote_below_bake_s_comment_stays() -> None:
    lock = parse(EMPTY.replace("version", "# ours\nversion"))

    assert dumps(lock) == EMPTY.replace("version", "# ours\nversion")


@pytest.mark.parametrize(
    ("glob", "written"),
    [
        ('say "hi"', r'"say \"hi\""'),
        (r"a\b", r'"a\\b"'),
        ("a\nb\r\tc", r'"a\nb\r\tc"'),
        ("\x00\x1b\x1f", r'"\u0000\u001b\u001f"'),
        ("\x7f", r'"\u007F"'),
        ("\x80\u2028", '"\x80\u2028"'),
        ("modèle/模型/🦙", '"modèle/模型/🦙"'),
        ("# no comment", '"# no comment"'),
        ("'''", "\"'''\""),
    ],
)
def test_text_is_a_toml_basic_string(glob: str, written: str) -> None:
    lock = Lock(models=(replace(MODEL, include=(glob,)),))

    assert f"\ninclude = [{written}]\n" in dumps(lock)
    assert parse(dumps(lock)) == lock


def test_text_that_utf_8_cannot_carry_is_refused() -> None:
    with pytest.raises(LockError) as caught:
        dumps(Lock(models=(replace(MODEL, include=("caf\udce9",)),)))

    assert caught.value.message == r"expected text that UTF-8 can carry, found 'caf\udce9'"


def test_a_file_that_is_left_out_may_have_any_name() -> None:
    model = MODEL.resolve(
        files=FILES, excluded=(Excluded(path=".caf\udce9", size=1, reason="a hidden file"),), commit="0" * 40
    )

    assert model.excluded == (Excluded(path=r".caf\udce9", size=1, reason="a hidden file"),)
    assert parse(dumps(Lock(models=(model,)))) == Lock(models=(model,))


def test_records_are_sorted_whatever_order_they_came_in() -> None:
    vllm = replace(VLLM, wheels=VLLM.wheels[::-1])
    tiny = replace(TINY, files=TINY.files[::-1], excluded=TINY.excluded[::-1])
    zero = Base(name="a", image="a")

    assert dumps(replace(LOCK, bases=(vllm, zero), models=(VALUE, tiny))) == dumps(replace(LOCK, bases=(zero, VLLM)))


def test_a_resolved_model_is_sorted_by_path_in_code_points() -> None:
    paths = ("b", "B", "a/b", "a-b", "é", "\U0001f999", "\uffee")
    files = tuple(replace(FILES[0], path=path) for path in paths)

    model = MODEL.resolve(files=files, excluded=(), commit="0" * 40)

    assert [file.path for file in model.files] == ["B", "a-b", "a/b", "b", "é", "\uffee", "\U0001f999"]


def test_resolving_anew_forgets_layers_and_keeps_what_is_asked() -> None:
    anew = TINY.resolve(files=FILES[:1], excluded=(), commit="0" * 40)

    assert (anew.packer, anew.layers, anew.files, anew.commit) == (None, (), FILES[:1], "0" * 40)
    assert (anew.asked(), anew.comment, anew.license) == (TINY.asked(), TINY.comment, TINY.license)


def test_adding_a_model_adds_one_block() -> None:
    before = dumps(LOCK)
    after = dumps(LOCK.with_model(replace(MODEL, id=ModelId("tiny", "v2"))))
    block = '[[model]]\nname = "tiny"\nversion = "v2"\nbase = "scratch"\nsource = "hf://org/tiny"\n\n'

    assert after == before.replace('[[model]]\nname = "value"', block + '[[model]]\nname = "value"')


def test_a_model_or_base_takes_the_place_of_the_one_of_its_name() -> None:
    lock = LOCK.with_model(replace(VALUE, license="mit")).with_base(replace(VLLM, verl=None))

    assert lock == replace(LOCK, bases=(replace(VLLM, verl=None),), models=(TINY, replace(VALUE, license="mit")))


@pytest.mark.parametrize(
    ("lock", "wanted", "hint"),
    [
        (LOCK, ModelId("tiny", "v2"), "did you mean tiny@v1?"),
        (LOCK, ModelId("qwen3-8b", "v1.0.0"), "bake list shows every model; bake add NAME@VERSION SOURCE adds one"),
        (Lock(), ModelId("tiny", "v1"), "the lock is empty: bake add NAME@VERSION SOURCE"),
    ],
)
def test_a_model_that_is_not_there_is_told_with_near_ones(lock: Lock, wanted: ModelId, hint: str) -> None:
    with pytest.raises(LockError) as caught:
        lock.find(wanted)

    assert (caught.value.message, caught.value.hint) == (f"no model {wanted} in the lock", hint)


def test_what_is_there_is_found() -> None:
    assert (LOCK.find(ModelId("value", "v1")), LOCK.find_base("vllm"), LOCK.find_base("scratch")) == (VALUE, VLLM, None)


def test_the_size_of_a_model_is_the_sum_of_its_files() -> None:
    assert (TINY.size, VALUE.size) == (7, 0)


def test_a_wheel_is_one_line() -> None:
    wheel = Wheel(name="verl", version="0.9.1+cu126", digest=Digest(HEX_A))

    text = dumps(Lock(bases=(Base(name="b", image="i", wheels=(wheel,)),)))

    assert f'  {{ name = "verl", version = "0.9.1+cu126", sha256 = "{HEX_A}" }},\n' in text
