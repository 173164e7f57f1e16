"""Changes: two locks -> whose images are others, why, and in which jobs. Values in, values out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bake.changes import Change, Job, at_most, compare, is_nothing, take_all
from bake.digest import Digest
from bake.errors import LockError
from bake.lock import Base, Lock, LockedLayer, LockedModel, ModelId, Wheel
from bake.lock.dump import dumps
from bake.lock.parse import parse
from bake.plan import LARGE, PACKER
from bake.select import Excluded
from tests.builders import locked, recorded, sized

if TYPE_CHECKING:
    from random import Random

    from bake.reasons import Reason
    from bake.record import RecordedFile

ACTOR, CRITIC, NEXT = ModelId("actor", "v1"), ModelId("critic", "v1"), ModelId("critic", "v2")
WHEEL = Wheel(name="verl", version="0.9.1", digest=Digest.of(b"wheel"))
VLLM = Base(name="vllm", image="verlai/verl:latest", digest=Digest.of(b"base"), wheels=(WHEEL,))
OTHER = Base(name="other", image="verlai/verl:other", digest=Digest.of(b"base"), wheels=(WHEEL,))
ONE = (recorded("config.json", b"{}"), sized("model.safetensors", LARGE))
TWO = (recorded("config.json", b"{}"), sized("model.safetensors", LARGE + 1))
LAYER = LockedLayer(diff_id=Digest.of(b"layer"), size=2048, files=("config.json",))


def lock_of(*models: LockedModel, bases: tuple[Base, ...] = (VLLM, OTHER)) -> Lock:
    return Lock(bases=bases, models=tuple(sorted(models, key=lambda model: model.id)))


def actor(files: tuple[RecordedFile, ...] = ONE, **asked: Any) -> LockedModel:
    return locked(files, model=ACTOR, **({"base": "vllm"} | asked))


def critic(files: tuple[RecordedFile, ...] = ONE, *, model: ModelId = CRITIC) -> LockedModel:
    return locked(files, model=model)


def why(now: Lock, then: Lock) -> dict[ModelId, tuple[Reason, ...]]:
    return {model.id: model.reasons for model in compare(now, then).models}


# --- what counts


@pytest.mark.parametrize(
    ("now", "reasons"),
    [
        (actor(TWO), ("files",)),
        (actor(ONE[:1]), ("files",)),
        (actor(base="other"), ("base",)),
        (actor(base="scratch"), ("base", "wheels")),
        (actor(critic=CRITIC), ("roles",)),
        (actor(reward_model=ACTOR), ("roles",)),
        (actor(overrides=("data.seed=1",)), ("overrides",)),
        (actor(trust_remote_code=True), ("code",)),
        (replace(actor(), commit="c" * 40), ("source",)),
        (replace(actor(), license="mit"), ("labels",)),
        (replace(actor(TWO), license="mit"), ("files", "labels")),
        (replace(actor(TWO, overrides=("data.seed=1",)), commit="c" * 40), ("files", "source", "overrides")),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_an_image_depends_on_is_the_reason(now: LockedModel, reasons: tuple[Reason, ...]) -> None:
    assert why(lock_of(now, critic()), lock_of(actor(), critic())) == {ACTOR: reasons}


@pytest.mark.parametrize(
    ("base", "reasons"),
    [
        (replace(VLLM, digest=Digest.of(b"moved")), ("base",)),
        (replace(VLLM, image="verlai/verl:moved"), ("base",)),
        (replace(VLLM, wheels=()), ("wheels",)),
        (replace(VLLM, wheels=(replace(WHEEL, version="0.9.2"),)), ("wheels",)),
        (replace(VLLM, digest=Digest.of(b"moved"), wheels=()), ("base", "wheels")),
    ],
)
def test_a_base_that_changes_changes_the_images_on_it_alone(base: Base, reasons: tuple[Reason, ...]) -> None:
    models = (actor(), critic())

    assert why(lock_of(*models, bases=(base,)), lock_of(*models, bases=(VLLM,))) == {ACTOR: reasons}


@pytest.mark.parametrize(
    ("now", "reasons"),
    [
        (critic(TWO), ("files",)),
        (replace(critic(), commit="c" * 40), ("source",)),
        (replace(critic(), trust_remote_code=True), ("code",)),
    ],
)
@pytest.mark.parametrize("role", ["critic", "reward_model"])
def test_what_a_critic_or_reward_model_is_counts_for_the_images_that_bake_it_in(
    role: str, now: LockedModel, reasons: tuple[Reason, ...]
) -> None:
    asked: dict[str, Any] = {role: CRITIC}
    model = actor(**asked)

    assert why(lock_of(model, now), lock_of(model, critic())) == {ACTOR: reasons, CRITIC: reasons}


def test_another_version_of_the_critic_is_another_role() -> None:
    both = (critic(), critic(TWO, model=NEXT))

    assert why(lock_of(actor(critic=NEXT), *both), lock_of(actor(critic=CRITIC), *both)) == {ACTOR: ("roles",)}


# --- what counts nothing


@pytest.mark.parametrize(
    "now",
    [
        actor(),
        actor(comment=("# ours",)),
        replace(actor(), gated=True),
        replace(actor(), excluded=(Excluded(path="onnx/", size=None, reason="a format"),)),
        replace(actor(), packer=PACKER, layers=(LAYER,)),
    ],
    ids=["nothing", "comment", "gated", "excluded", "layers learned"],
)
def test_what_no_image_depends_on_chooses_nothing(now: LockedModel) -> None:
    changes = compare(lock_of(now), lock_of(actor()))

    assert (changes.chosen, changes.kept, changes.removed) == ((), 1, ())


def test_layers_that_were_forgotten_choose_nothing() -> None:
    assert why(lock_of(actor()), lock_of(replace(actor(), packer=PACKER, layers=(LAYER,)))) == {}


def test_the_license_of_a_critic_is_nowhere_in_the_image() -> None:
    model = actor(critic=CRITIC)

    now = lock_of(model, replace(critic(), license="mit"))
    assert why(now, lock_of(model, critic())) == {CRITIC: ("labels",)}


def test_a_base_of_another_name_is_the_same_base() -> None:
    renamed = replace(VLLM, name="renamed", verl="0.9.1", comment=("# ours",))

    assert why(lock_of(actor(base="renamed"), bases=(renamed,)), lock_of(actor())) == {}


# --- bake itself


@pytest.mark.parametrize("then", [PACKER - 1, PACKER + 1])
def test_layers_of_another_packer_are_packed_anew(then: int) -> None:
    old = replace(actor(), packer=then, layers=(LAYER,))

    assert why(lock_of(actor()), lock_of(old)) == {ACTOR: ("packer",)}
    assert why(lock_of(old), lock_of(old)) == {ACTOR: ("packer",)}


def test_a_packer_that_differs_between_the_locks_is_a_reason() -> None:
    now = replace(actor(), packer=PACKER + 1, layers=(LAYER,))

    assert why(lock_of(now), lock_of(replace(actor(), packer=PACKER, layers=(LAYER,)))) == {ACTOR: ("packer",)}


def test_a_critic_of_another_packer_changes_the_images_that_bake_it_in() -> None:
    old = replace(critic(), packer=PACKER + 1, layers=(LAYER,))
    model = actor(critic=CRITIC)

    assert why(lock_of(model, critic()), lock_of(model, old)) == {ACTOR: ("packer",), CRITIC: ("packer",)}


def test_a_program_in_images_on_a_base_changes_no_image_of_weights_alone() -> None:
    lock = lock_of(actor(), critic())

    changes = compare(lock, lock, program="in images on a base")
    assert {model.id: model.reasons for model in changes.models} == {ACTOR: ("program",)}


def test_another_bake_may_change_every_image() -> None:
    lock = lock_of(actor(), critic())

    changes = compare(lock, lock, program="any")
    assert {model.id: model.reasons for model in changes.models} == {ACTOR: ("program",), CRITIC: ("program",)}


def test_a_new_model_is_new_and_nothing_else() -> None:
    changes = compare(lock_of(actor()), lock_of(critic()), program="any")

    assert {model.id: model.reasons for model in changes.models} == {ACTOR: ("new",)}
    assert changes.removed == (CRITIC,)


# --- what cannot be planned


@pytest.mark.parametrize(
    "then",
    [
        lock_of(LockedModel(id=ACTOR, source="dir://model", base="vllm")),
        lock_of(replace(actor(), source="dir://edited")),
        lock_of(actor(critic=CRITIC), LockedModel(id=CRITIC, source="dir://model")),
        lock_of(actor(critic=CRITIC)),
    ],
    ids=["not resolved", "stale", "with a critic that is not resolved", "with a critic that is not there"],
)
def test_an_entry_of_which_no_image_could_be_made_then_is_new(then: Lock) -> None:
    assert why(lock_of(actor()), then) == {ACTOR: ("new",)}


def test_a_model_that_is_not_resolved_now_is_refused() -> None:
    with pytest.raises(LockError) as caught:
        compare(lock_of(actor(), LockedModel(id=CRITIC, source="dir://model")), lock_of(actor()))

    assert (caught.value.message, caught.value.hint) == ("critic@v1 is not resolved yet", "bake lock critic@v1")


def test_all_that_cannot_be_planned_now_is_told_once_each() -> None:
    stale = replace(critic(model=NEXT), source="dir://edited")
    asked = LockedModel(id=CRITIC, source="dir://model")

    with pytest.raises(LockError) as caught:
        take_all(lock_of(actor(critic=CRITIC), asked, stale))

    assert caught.value.message == (
        "critic@v1 is not resolved yet\n"
        "critic@v2: what is asked (source, revision, include, exclude or max_shard_size) was edited after it was "
        "resolved"
    )
    assert caught.value.hint == "bake lock resolves what is new; bake lock --check tells the rest"


@pytest.mark.parametrize(
    ("revision", "expected"),
    [("0" * 40, True), ("0" * 64, True), ("", True), ("0", False), ("0" * 39, False), ("0" * 39 + "1", False)],
)
def test_zeros_and_an_empty_revision_are_none(revision: str, *, expected: bool) -> None:
    assert is_nothing(revision) is expected


# --- jobs


def shard(number: int, *, size: int = LARGE) -> RecordedFile:
    return sized(f"model-{number}.safetensors", size)


def version(number: int, *shards: int) -> LockedModel:
    return locked([shard(each) for each in shards], model=ModelId("m", f"v{number}"))


def test_without_a_lock_to_compare_with_every_model_is_taken_without_a_reason() -> None:
    changes = take_all(lock_of(actor(), critic()))

    assert [(model.id, model.reasons) for model in changes.models] == [(ACTOR, ()), (CRITIC, ())]


def test_models_that_share_a_layer_are_one_job_the_biggest_first() -> None:
    lock = lock_of(version(1, 1, 2), version(2, 2, 3, 4), version(3, 5), version(4, 4))

    named = [tuple(str(model) for model in job) for job in take_all(lock).jobs]
    assert named == [("m@v2", "m@v1", "m@v4"), ("m@v3",)]


def test_a_model_that_shares_with_two_others_joins_them() -> None:
    lock = lock_of(version(1, 1), version(2, 2), version(3, 1, 2))

    assert [tuple(str(model) for model in job) for job in take_all(lock).jobs] == [("m@v3", "m@v1", "m@v2")]


def test_the_biggest_job_comes_first_by_the_bytes_that_are_distinct() -> None:
    twice = [version(1, 1), version(2, 1)]
    once = locked([shard(9, size=LARGE + 4096)], model=ModelId("z", "v1"))

    changes = take_all(lock_of(*twice, once))
    assert [tuple(str(model) for model in job) for job in changes.jobs] == [("z@v1",), ("m@v1", "m@v2")]
    assert changes.size == changes.work[0].size + changes.models[1].size


def test_a_layer_that_two_images_hold_counts_once() -> None:
    (job,) = take_all(lock_of(actor(critic=CRITIC), critic())).work

    assert [model.id for model in job.models] == [ACTOR, CRITIC]
    assert job.size == job.models[0].size


def weighing(name: str, size: int) -> Job:
    change = Change(id=ModelId(name, "v1"), reasons=(), layers={Digest.of(name.encode()): size})
    return Job(models=(change,))


def test_the_smallest_jobs_are_put_together_where_there_are_too_many() -> None:
    work = [weighing("a", 50), weighing("b", 30), weighing("c", 2), weighing("d", 1)]

    joined = at_most(work, 2)
    assert [([model.id.name for model in job.models], job.size) for job in joined] == [
        (["a"], 50),
        (["b", "c", "d"], 33),
    ]


def test_few_jobs_stay_as_they_are() -> None:
    work = (weighing("a", 2), weighing("b", 1))

    assert at_most(work, 2) == work


# --- any lock

CONTENTS = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 3), min_size=1)


@st.composite
def locks(draw: st.DrawFn) -> Lock:
    """Resolved models on a base or none, some of which bake in others."""
    names = [ModelId(name, "v1") for name in draw(st.sets(st.sampled_from(["m", "n", "o", "p"]), min_size=1))]
    models = [
        locked(
            [sized(path, LARGE * (size % 2) + size) for path, size in draw(CONTENTS).items()],
            model=name,
            base=draw(st.sampled_from(["scratch", "vllm"])),
            critic=draw(st.none() | st.sampled_from(names)),
            reward_model=draw(st.none() | st.sampled_from(names)),
        )
        for name in names
    ]
    return lock_of(*models)


def scrambled(text: str, random: Random) -> str:
    """The same records in another order and form, with comments everywhere."""
    head, *records = text.split("\n[[model]]")
    random.shuffle(records)
    joined = "".join(f"\n# a comment {random.random()}\n\n[[ model ]]{record.rstrip()}  # here\n" for record in records)
    return head + joined.replace(" = ", "   =\t")


@given(lock=locks(), random=st.randoms(use_true_random=False))
def test_order_comments_and_form_choose_nothing(lock: Lock, random: Random) -> None:
    changes = compare(parse(scrambled(dumps(lock), random)), lock)

    assert (changes.chosen, changes.kept, changes.removed) == ((), len(lock.models), ())


@given(lock=locks(), data=st.data())
def test_a_file_that_changes_chooses_exactly_the_models_whose_images_hold_it(lock: Lock, data: st.DataObject) -> None:
    model = data.draw(st.sampled_from(lock.models))
    file = data.draw(st.sampled_from(model.files))
    others = [other for other in model.files if other != file]
    files = [*others, replace(file, digest=Digest.of(b"another"))]
    altered = model.resolve(files=files, excluded=(), commit=None)

    holders = {each.id for each in lock.models if model.id in {each.id, each.critic, each.reward_model}}
    assert why(lock.with_model(altered), lock) == dict.fromkeys(holders, ("files",))


@given(lock=locks(), random=st.randoms(use_true_random=False))
def test_every_model_is_in_one_job_and_no_two_jobs_share_a_layer(lock: Lock, random: Random) -> None:
    models = list(lock.models)
    random.shuffle(models)
    changes = take_all(replace(lock, models=tuple(models)))

    assert changes == take_all(lock)
    assert sorted(changes.chosen) == [model.id for model in lock.models]
    assert sum(len(job.layers) for job in changes.work) == len({key for job in changes.work for key in job.layers})
