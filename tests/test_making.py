"""Making files of others: from any byte on, in pieces of any size, and what is said where it cannot be done."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bake.api import smaller_shards
from bake.api.making import Recipe, Recipes, sources_of
from bake.digest import Digest
from bake.errors import LockError
from bake.lock import Lock, LockedModel, ModelId, Resharded
from bake.plan import plan_image
from bake.record import RecordedFile
from tests.builders import TINY, locked, sized
from tests.lock.strategies import patient

if TYPE_CHECKING:
    from collections.abc import Iterator

CONTENT = bytes(range(256))
SOURCE = RecordedFile(path="model.safetensors", size=len(CONTENT), digest=Digest.of(CONTENT))
GB = 10**9


def read(file: RecordedFile, start: int, stop: int | None) -> Iterator[bytes]:
    """The source, 7 bytes at a time."""
    assert file == SOURCE
    wanted = CONTENT[start:stop]
    yield from (wanted[at : at + 7] for at in range(0, len(wanted), 7))


STRETCHES = st.tuples(st.integers(0, 256), st.integers(0, 256)).map(sorted)


@patient
@given(st.binary(max_size=20), STRETCHES, st.integers(0, 280))
def test_a_file_is_made_from_any_byte_on(head: bytes, stretch: list[int], offset: int) -> None:
    start, end = stretch
    recipe = Recipe(head=head, source=SOURCE, start=start, end=end)

    assert b"".join(recipe.stream(read, offset)) == (head + CONTENT[start:end])[offset:]


@patient
@given(st.binary(max_size=20), STRETCHES, st.integers(1, 300))
def test_an_open_file_is_read_in_pieces_of_any_size(head: bytes, stretch: list[int], count: int) -> None:
    start, end = stretch
    made = Recipe(head=head, source=SOURCE, start=start, end=end).open(lambda _: io.BytesIO(CONTENT))

    assert b"".join(iter(lambda: made.read(count), b"")) == head + CONTENT[start:end]


def test_closing_a_file_that_is_made_closes_what_it_is_made_of() -> None:
    opened: list[BinaryIO] = [io.BytesIO(CONTENT)]

    Recipe(head=b"", source=SOURCE, start=0, end=9).open(lambda _: opened[0]).close()

    assert opened[0].closed


ONE = RecordedFile(path="model-00001-of-00001.safetensors", size=5, digest=Digest.of(b"x"))
MADE = LockedModel(id=TINY, source="dir://m", max_shard_size="5GB").resolve(
    files=[ONE], excluded=(), commit=None, resharded=[Resharded(source=SOURCE, files=(ONE.path,))]
)


def test_files_that_another_rule_made_are_not_made_by_this_one() -> None:
    with pytest.raises(LockError) as caught:
        Recipes(replace(MADE, resharder=9), read).find(ONE.path)

    assert (caught.value.message, caught.value.hint) == (
        f"tiny@v1: {ONE.path} was made by resharder 9, and this bake has 1",
        "use a bake that has it, or resolve the model anew: bake lock --upgrade tiny@v1",
    )


def test_a_file_that_the_source_has_is_not_made() -> None:
    assert Recipes(MADE, read).find("config.json") is None
    assert sources_of(MADE, "config.json") == []


def test_a_file_that_only_has_another_name_is_made_without_reading_a_header() -> None:
    renamed = replace(ONE, size=SOURCE.size, digest=SOURCE.digest)

    assert Recipes(replace(MADE, files=(renamed,)), read).find(ONE.path) == Recipe(
        head=b"", source=SOURCE, start=0, end=SOURCE.size
    )


# --- what to type where a registry takes no such layer


def hint(model: LockedModel) -> str:
    return smaller_shards(plan_image(Lock(models=(model,)), model.id))


def test_a_model_in_one_large_file_is_to_be_divided() -> None:
    model = locked([sized("config.json", 9), sized("model.safetensors", 12 * GB)])

    assert hint(model) == (
        "bake add tiny@NEW_VERSION dir://model --base scratch --max-shard-size 5GB "
        "divides its weights, tensor by tensor"
    )


@pytest.mark.parametrize(("asked", "size"), [("50GB", "5GB"), ("5GB", "SIZE")])
def test_a_model_that_is_divided_already_is_to_be_divided_into_smaller_ones(asked: str, size: str) -> None:
    model = locked([sized("model.safetensors", 12 * GB)], max_shard_size=asked)

    assert hint(model) == (
        f"bake add tiny@NEW_VERSION dir://model --base scratch --max-shard-size {size} "
        "divides its weights, tensor by tensor"
    )


def test_the_command_asks_for_the_same_model() -> None:
    model = locked([sized("model.safetensors", 12 * GB)], revision="step 500", exclude=("*.bin",), overrides=("a=b",))

    assert hint(model).partition(" divides")[0] == (
        "bake add tiny@NEW_VERSION dir://model --base scratch --revision 'step 500' --exclude '*.bin' --override a=b "
        "--max-shard-size 5GB"
    )


def test_shards_that_share_a_layer_are_not_made_smaller_by_dividing_them() -> None:
    model = locked([sized(f"model-{number:05}-of-00120.safetensors", 6 * GB) for number in range(1, 121)])

    assert hint(model) == "an image has 60 layers of weights at most, so these shards share them"


def test_a_pickle_is_not_to_be_divided() -> None:
    assert hint(locked([sized("pytorch_model.bin", 12 * GB)])) == (
        "bake divides safetensors files, and pytorch_model.bin is none: convert the model"
    )


def test_the_model_of_the_largest_layer_is_named() -> None:
    critic = locked([sized("model.safetensors", 12 * GB)], model=ModelId("critic", "v2"))
    actor = locked([sized("model.safetensors", 2 * GB)], critic=critic.id)

    said = smaller_shards(plan_image(Lock(models=(critic, actor)), actor.id))
    assert said.startswith("bake add critic@NEW_VERSION ")
    assert said.endswith(f" (and a new version of {actor.id} that names it)")
