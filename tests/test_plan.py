"""Plans: which files share a layer, what an image is told, and what cannot be planned. Values in, values out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bake import tar
from bake.digest import Digest
from bake.errors import LockError
from bake.layer import offsets
from bake.lock import Base, Lock, LockedLayer, LockedModel, ModelId, Wheel
from bake.plan import LARGE, MAX_LAYERS, PACKER, LayerPlan, is_weights, plan_image, plan_layers, remember_layers
from bake.record import RecordedFile
from tests.builders import CONTENTS, TINY, layer_of, locked, packed, recorded, sized

FOLDER = "opt/models/tiny"
OTHER = ModelId("other", "v1")
OTHER_DIGEST = Digest.of(b"other")

_ENDINGS = st.sampled_from([".json", ".safetensors", ".bin", ".model", ".safetensors.index.json"])
_NAMES = st.builds(
    lambda stem, ending: f"{stem}{ending}", st.from_regex(r"[a-z]{1,4}(/[a-z]{1,4})?", fullmatch=True), _ENDINGS
)
_SIZES = st.one_of(st.integers(0, 4096), st.integers(LARGE - 2, LARGE + 2), st.just(5 << 30))
FILES = st.lists(st.builds(sized, _NAMES, _SIZES), max_size=40, unique_by=lambda file: file.path)


def plans(files: list[RecordedFile]) -> tuple[LayerPlan, ...]:
    return plan_layers(locked(files), folder=FOLDER)


def paths(layers: tuple[LayerPlan, ...]) -> list[list[str]]:
    return [[file.path for file in layer.files] for layer in layers]


def shards(count: int, *, size: int = LARGE) -> list[RecordedFile]:
    return [sized(f"model-{number:05}-of-{count:05}.safetensors", size) for number in range(1, count + 1)]


def refused(lock: Lock, model: ModelId = TINY) -> tuple[str, str | None]:
    with pytest.raises(LockError) as caught:
        plan_image(lock, model)
    return caught.value.message, caught.value.hint


# --- which files share a layer


def test_small_files_share_a_layer_and_each_shard_has_its_own() -> None:
    files = [sized("config.json", 10), sized("tokenizer.json", 10), *shards(2), sized("head.safetensors", 10)]

    assert paths(plans(files)) == [
        ["config.json", "tokenizer.json"],
        ["head.safetensors"],
        ["model-00001-of-00002.safetensors"],
        ["model-00002-of-00002.safetensors"],
    ]


@pytest.mark.parametrize(("size", "layers"), [(LARGE - 1, 1), (LARGE, 2)])
def test_a_file_of_64_mib_has_a_layer_of_its_own(size: int, layers: int) -> None:
    assert len(plans([sized("a.safetensors", size), sized("b.safetensors", size)])) == layers


@given(files=FILES)
def test_every_file_is_in_exactly_one_layer(files: list[RecordedFile]) -> None:
    found = [file for layer in plans(files) for file in layer.files]

    assert sorted(found, key=lambda file: file.path) == sorted(files, key=lambda file: file.path)


@given(files=FILES)
def test_configuration_comes_first_then_small_weights_then_large_files(files: list[RecordedFile]) -> None:
    ranks = [
        {2 if file.size >= LARGE else int(is_weights(file.path)) for file in layer.files} for layer in plans(files)
    ]

    assert all(len(rank) == 1 for rank in ranks)
    assert ranks == sorted(ranks, key=min)


@given(files=FILES)
def test_files_are_in_tar_order_in_their_layer(files: list[RecordedFile]) -> None:
    found = paths(plans(files))

    assert found == [sorted(layer, key=tar.tree_order) for layer in found]


@given(files=FILES, random=st.randoms(use_true_random=False))
def test_the_order_of_the_listing_decides_nothing(files: list[RecordedFile], random: object) -> None:
    shuffled = sorted(files, key=lambda _: random.random())  # type: ignore[attr-defined]

    assert plans(shuffled) == plans(files)


@given(
    configuration=st.integers(0, 3000),
    small=st.integers(0, 3000),
    large=st.integers(0, 400),
    budget=st.sampled_from([60, 30, 20]),
)
def test_a_model_never_has_more_layers_than_its_budget(configuration: int, small: int, large: int, budget: int) -> None:
    files = [
        *(sized(f"{number}.json", 1) for number in range(configuration)),
        *(sized(f"{number}.bin", 1) for number in range(small)),
        *shards(large),
    ]
    model = LockedModel(id=TINY, source="dir://model", files=tuple(files))

    assert len(plan_layers(model, folder=FOLDER, budget=budget)) <= budget


def test_two_hundred_shards_share_layers_in_equal_numbers() -> None:
    assert [len(layer.files) for layer in plans(shards(200))] == [4] * 50


def test_sixty_shards_beside_configuration_keep_to_sixty_layers() -> None:
    assert len(plans([sized("config.json", 10), *shards(60)])) == 31


# --- what decides a layer


@given(files=FILES.filter(bool), data=st.data())
def test_a_file_that_changes_changes_its_own_layer_alone(files: list[RecordedFile], data: st.DataObject) -> None:
    old = data.draw(st.sampled_from(files))
    size = data.draw(st.integers(0, LARGE - 1) if old.size < LARGE else st.integers(LARGE, LARGE * 90))
    new = RecordedFile(path=old.path, size=size, digest=OTHER_DIGEST)
    before, after = plans(files), plans([new if file is old else file for file in files])

    changed = [layer for layer, other in zip(before, after, strict=True) if layer.key != other.key]

    assert [old in layer.files for layer in changed] == [True]


@pytest.mark.parametrize(
    "other",
    [
        layer_of({"a.json": b"1"}, folder="opt/models/other"),
        layer_of({"b.json": b"1"}),
        layer_of({"a.json": b"2"}),
        layer_of({"a.json": b"1", "b.json": b""}),
        replace(layer_of({"a.json": b"1"}), files=(replace(recorded("a.json", b"1"), size=2),)),
    ],
    ids=["folder", "path", "bytes", "files", "size"],
)
def test_whatever_decides_a_layer_s_bytes_decides_its_key(other: LayerPlan) -> None:
    assert other.key != layer_of({"a.json": b"1"}).key


def test_a_diff_id_does_not_decide_the_key() -> None:
    layer = layer_of({"a.json": b"1"})

    assert replace(layer, diff_id=OTHER_DIGEST).key == layer.key


@given(files=CONTENTS)
def test_a_layer_s_size_is_that_of_the_bytes_that_are_packed(files: dict[str, bytes]) -> None:
    layer = layer_of(files)

    assert layer.size == len(packed(layer, files))


def test_a_layer_s_size_counts_the_blocks_of_a_pax_header() -> None:
    layer = LayerPlan(model=TINY, folder=FOLDER, files=(sized("model.safetensors", 8 << 30),))

    assert layer.size == 3 * 512 + 3 * 512 + (8 << 30) + 1024


# --- diff_ids of the lock


def with_layer(model: LockedModel, layer: LayerPlan, **changes: object) -> LockedModel:
    known = LockedLayer(diff_id=OTHER_DIGEST, size=layer.size, files=tuple(file.path for file in layer.files))
    return remember_layers(model, [replace(known, **changes)])  # type: ignore[arg-type]


@pytest.fixture
def model() -> LockedModel:
    return locked([recorded("a.json", b"1"), recorded("b.json", b"2")])


@pytest.fixture
def layer(model: LockedModel) -> LayerPlan:
    (found,) = plan_layers(model, folder=FOLDER)
    return found


def test_the_diff_id_that_the_lock_knows_is_in_the_plan(model: LockedModel, layer: LayerPlan) -> None:
    known = with_layer(model, layer)

    assert plan_layers(known, folder=FOLDER) == (replace(layer, diff_id=OTHER_DIGEST),)


@pytest.mark.parametrize(
    "changes",
    [{"files": ("a.json",)}, {"files": ("b.json", "a.json")}, {"files": ("a.json", "c.json")}, {"size": 2048}],
    ids=["fewer", "order", "other", "size"],
)
def test_the_diff_id_of_another_layer_is_not_used(
    model: LockedModel, layer: LayerPlan, changes: dict[str, object]
) -> None:
    assert plan_layers(with_layer(model, layer, **changes), folder=FOLDER) == (layer,)


@pytest.mark.parametrize("packer", [None, PACKER - 1, PACKER + 1])
def test_the_diff_id_of_another_packer_is_not_used(model: LockedModel, layer: LayerPlan, packer: int | None) -> None:
    stamped = replace(with_layer(model, layer), packer=packer)

    assert plan_layers(stamped, folder=FOLDER) == (layer,)


def test_remembered_layers_are_stamped_with_the_packer(model: LockedModel, layer: LayerPlan) -> None:
    known = with_layer(model, layer)

    assert (known.packer, len(known.layers)) == (PACKER, 1)


def test_nothing_to_remember_leaves_no_stamp(model: LockedModel) -> None:
    assert remember_layers(model, []) == model


# --- roles


def two(**roles: ModelId) -> Lock:
    return Lock(
        models=(
            locked([recorded("b.json", b"2")], model=OTHER),
            locked([recorded("a.json", b"1")], **roles),
        )
    )


def test_a_model_alone_is_the_actor() -> None:
    image = plan_image(two(), TINY)

    assert [(planned.model.id, planned.roles, planned.path) for planned in image.models] == [
        (TINY, ("actor",), "/opt/models/tiny")
    ]


def test_a_critic_is_baked_after_the_actor() -> None:
    image = plan_image(two(critic=OTHER), TINY)

    assert [(planned.model.id, planned.roles) for planned in image.models] == [(TINY, ("actor",)), (OTHER, ("critic",))]
    assert [layer.folder for layer in image.layers] == ["opt/models/tiny", "opt/models/other"]


def test_a_model_in_two_roles_is_baked_once() -> None:
    image = plan_image(two(critic=OTHER, reward_model=OTHER), TINY)

    assert [(planned.model.id, planned.roles) for planned in image.models] == [
        (TINY, ("actor",)),
        (OTHER, ("critic", "reward_model")),
    ]
    assert [layer.model for layer in image.layers] == [TINY, OTHER]


def test_an_actor_that_is_its_own_critic_is_baked_once() -> None:
    image = plan_image(two(critic=TINY), TINY)

    assert [planned.roles for planned in image.models] == [("actor", "critic")]


def test_two_versions_of_one_name_cannot_share_an_image() -> None:
    newer = ModelId("tiny", "v2")
    files = [recorded("a.json", b"1")]
    lock = Lock(models=(locked(files, critic=newer), locked(files, model=newer)))

    assert refused(lock) == (
        "tiny@v1: tiny@v1 and tiny@v2 would both be baked into /opt/models/tiny",
        "give one of them another name",
    )


def test_three_models_share_the_budget_of_one_image() -> None:
    third = ModelId("third", "v1")
    lock = Lock(
        models=(
            locked(shards(300), model=OTHER),
            locked(shards(300), model=third),
            locked(shards(300), critic=OTHER, reward_model=third),
        )
    )

    assert len(plan_image(lock, TINY).layers) <= MAX_LAYERS


def test_the_record_names_every_model_with_its_roles() -> None:
    image = plan_image(two(critic=OTHER), TINY)

    assert [(model.name, model.version, model.roles, model.path, model.files) for model in image.record.models] == [
        ("tiny", "v1", ("actor",), "/opt/models/tiny", (recorded("a.json", b"1"),)),
        ("other", "v1", ("critic",), "/opt/models/other", (recorded("b.json", b"2"),)),
    ]


# --- what the image is told

VLLM = Base(name="vllm", image="verlai/verl:latest", digest=OTHER_DIGEST)


def test_an_image_of_weights_alone_says_where_each_model_is() -> None:
    assert plan_image(two(critic=OTHER, reward_model=TINY), TINY).environment == {
        "VERL_MODEL_PATH": "/opt/models/tiny",
        "VERL_REWARD_MODEL_PATH": "/opt/models/tiny",
        "VERL_CRITIC_MODEL_PATH": "/opt/models/other",
    }


def test_an_image_that_trains_is_also_kept_off_the_network() -> None:
    lock = Lock(bases=(VLLM,), models=(locked([recorded("a.json", b"1")], base="vllm"),))

    assert plan_image(lock, TINY).environment == {
        "VERL_MODEL_PATH": "/opt/models/tiny",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HOME": "/tmp/huggingface",  # noqa: S108
        "RAY_AUTH_MODE": "disabled",
    }


def test_labels_of_a_resolved_model_on_a_base() -> None:
    model = locked([recorded("a.json", b"12"), recorded("b.json", b"345")], base="vllm")
    model = replace(model, commit="c" * 40, license="apache-2.0")

    assert plan_image(Lock(bases=(VLLM,), models=(model,)), TINY).labels == {
        "org.opencontainers.image.title": "tiny",
        "org.opencontainers.image.version": "v1",
        "org.opencontainers.image.revision": "c" * 40,
        "org.opencontainers.image.licenses": "apache-2.0",
        "org.opencontainers.image.base.name": "verlai/verl:latest",
        "org.opencontainers.image.base.digest": str(OTHER_DIGEST),
        "dev.bake.model": "tiny@v1",
        "dev.bake.source": "dir://model",
        "dev.bake.set-digest": str(model.set_digest),
        "dev.bake.size": "5",
        "dev.bake.packer": str(PACKER),
    }


def test_a_label_without_a_value_is_left_out() -> None:
    labels = plan_image(two(), TINY).labels

    assert sorted(labels) == [
        "dev.bake.model",
        "dev.bake.packer",
        "dev.bake.set-digest",
        "dev.bake.size",
        "dev.bake.source",
        "org.opencontainers.image.title",
        "org.opencontainers.image.version",
    ]


# --- what decides an image

VERL = Wheel(name="verl", version="0.9.1", digest=Digest.of(b"verl"))
RAY = Wheel(name="ray", version="2.5", digest=Digest.of(b"ray"))


def decided(*wheels: Wheel) -> Digest:
    base = replace(VLLM, wheels=wheels)
    return plan_image(Lock(bases=(base,), models=(locked([recorded("a.json", b"1")], base="vllm"),)), TINY).digest


@pytest.mark.parametrize(
    "wheels",
    [
        (),
        (VERL, RAY),
        (replace(VERL, name="verl2"),),
        (replace(VERL, version="0.9.2"),),
        (replace(VERL, digest=Digest.of(b"another")),),
    ],
    ids=["none", "one more", "name", "version", "digest"],
)
def test_the_wheels_of_the_base_decide_the_image(wheels: tuple[Wheel, ...]) -> None:
    assert decided(*wheels) != decided(VERL)


def test_the_order_of_the_wheels_decides_nothing() -> None:
    assert decided(VERL, RAY) == decided(RAY, VERL)


# --- what cannot be planned


def test_a_model_that_is_not_resolved_is_refused() -> None:
    lock = Lock(models=(LockedModel(id=TINY, source="dir://model"),))

    assert refused(lock) == ("tiny@v1 is not resolved yet", "bake lock tiny@v1")


def test_a_critic_that_is_not_resolved_is_refused() -> None:
    lock = two(critic=OTHER).with_model(LockedModel(id=OTHER, source="dir://other"))

    assert refused(lock) == ("other@v1 is not resolved yet", "bake lock other@v1")


def test_a_model_that_was_edited_after_it_was_resolved_is_refused() -> None:
    model = replace(locked([recorded("a.json", b"1")]), revision="v2")
    asked = "source, revision, include, exclude or max_shard_size"

    assert refused(Lock(models=(model,))) == (
        f"tiny@v1: what is asked ({asked}) was edited after it was resolved",
        "a version is immutable: add a new one, or resolve this one anew: bake lock --upgrade tiny@v1",
    )


def test_a_model_that_is_not_in_the_lock_is_refused() -> None:
    assert refused(two(), ModelId("tiny", "v3")) == ("no model tiny@v3 in the lock", "did you mean tiny@v1?")


@given(CONTENTS)
def test_where_a_file_begins_in_its_layer_is_known_beforehand(files: dict[str, bytes]) -> None:
    layer = layer_of(files)
    tar = packed(layer, files)

    found = {path: tar[start : start + len(files[path])] for path, start in offsets(layer).items()}

    assert found == files
