"""Against the configuration of every real release: defaults compose, renames are told, guides' names are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from bake.entrypoint.launch import masked
from bake.entrypoint.launch.composed import plain
from bake.entrypoint.launch.given import leaves
from bake.entrypoint.launch.names import GUIDES
from bake.errors import LaunchError
from tests.entrypoint.launch.stage import VARIABLES

if TYPE_CHECKING:
    from tests.entrypoint.launch.conftest import Release
    from tests.entrypoint.launch.stage import Stage

ACTOR, ROLLOUT, MODEL = "actor_rollout_ref.actor", "actor_rollout_ref.rollout", "actor_rollout_ref.model"
LEAVE_OUT = "leave this out; to train another model, bake it"
MEGATRON = ("--config-name", "ppo_megatron_trainer")


def hydra_composes(release: Release, name: str, overrides: list[str]) -> dict[str, Any]:
    """What Hydra itself makes of a command line, interpolations as they are written."""
    from hydra import compose, initialize_config_dir

    with initialize_config_dir(str(release.folder / "verl/trainer/config"), version_base=None):
        return plain(compose(name, overrides=overrides))


def refused(stage: Stage, *words: str) -> dict[str, tuple[str, str]]:
    """Why and what to do, by the override that is refused."""
    with pytest.raises(LaunchError) as caught:
        stage.plan(*words)
    lines = caught.value.message.split("\n")[1:]
    return {
        text.partition(": ")[2]: (why.removeprefix("  why:   "), todo.removeprefix("  to do: "))
        for text, why, todo in zip(lines[::3], lines[1::3], lines[2::3], strict=True)
    }


@pytest.mark.parametrize("packages_there", [["vllm", "flash_attn"], ["sglang"]])
@pytest.mark.parametrize("name", ["ppo_trainer", "ppo_megatron_trainer"])
def test_every_set_of_defaults_composes_as_hydra_does_it(
    release: Release, packages_there: list[str], name: str
) -> None:
    stage = release.bake(roles=tuple(VARIABLES), trusted=True).having(*packages_there)
    words = [
        "data.train_files=[/data/a.parquet,/data/b.parquet]",
        "data.train_batch_size=64",
        f"{ACTOR}.clip_ratio=0.1",
        f"{ROLLOUT}={{n: 4, val_kwargs: {{n: 2}}}}",
        "+data.cache_dir='/outputs/it''s'".replace("''", r"\'"),
        "++trainer.my_own.key=[1,{a: b}]",
        "~trainer.project_name",
        "hydra.run.dir=/outputs/run",
    ]

    launch = stage.plan("--config-name", name, *words)

    assert plain(launch.composed.config) == hydra_composes(release, name, list(launch.command[5:]))


def test_a_training_s_defaults_by_release(release: Release) -> None:
    settings = release.bake().having("vllm").plan().settings

    assert {key: settings.get(key) for key in (f"{ROLLOUT}.name", "trainer.save_freq", "trainer.logger")} == {
        f"{ROLLOUT}.name": "vllm",
        "trainer.save_freq": 50,
        "trainer.logger": ["console"],
    }
    assert settings.get(f"{MODEL}.use_remove_padding") is False
    assert settings.get("critic.model.use_remove_padding") is False
    assert settings.get(f"{ACTOR}.ppo_micro_batch_size_per_gpu") == 8
    assert settings.get("actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu") == 8
    assert settings.get(f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu") == 8
    assert settings.get("critic.ppo_micro_batch_size_per_gpu") == 8
    assert settings.get("trainer.default_local_dir").startswith("/outputs/actor-v1/verl_examples/gsm8k")


def test_flash_attention_is_replaced_where_the_release_lets_one(release: Release) -> None:
    settings = release.bake().having("vllm").plan().settings

    wanted = {"attn_implementation": "sdpa"} if release.since(0, 6) else {}
    assert settings.get(f"{MODEL}.override_config") == settings.get("critic.model.override_config") == wanted


def test_trust_is_said_in_every_key_that_the_release_reads(release: Release) -> None:
    settings = release.bake(roles=tuple(VARIABLES), trusted=True).having("vllm").plan().settings

    assert settings.flag(f"{MODEL}.trust_remote_code")
    assert settings.flag("critic.model.trust_remote_code")
    assert settings.flag("data.trust_remote_code")
    assert settings.flag("reward_model.model.trust_remote_code") is not release.since(0, 7)


def test_a_reward_model_is_enabled_in_the_keys_of_the_release(release: Release) -> None:
    stage = release.bake(roles=tuple(VARIABLES)).having("vllm")
    old = {"reward_model.enable": True, "reward_model.model.path": stage.model("reward_model")}
    new = {
        "reward.reward_model.enable": True,
        "reward.reward_model.model_path": stage.model("reward_model"),
        "reward.reward_model.rollout.name": "vllm",
        "reward.reward_model.rollout.tensor_model_parallel_size": 2,
    }

    settings = stage.plan().settings

    wanted = new if release.since(0, 7) else old
    assert {key: settings.get(key) for key in wanted} == wanted


def test_each_guide_s_name_is_refused_with_keys_that_the_release_has(release: Release) -> None:
    stage = release.bake().having("vllm")

    told = refused(stage, *(f"{name}=3" for name in GUIDES))

    todos = [todo.partition("; a secret")[0] for _, todo in told.values()]
    written = [word for todo in todos if todo != "leave it out" for word in todo.removeprefix("write ").split(" ")]
    assert list(told) == [masked(f"{name}=3") for name in GUIDES]
    assert stage.plan(*written).command[-len(written) :] == tuple(written)


RENAMES = (
    # before, since, a value, the first release that has the newer, the first that takes the older no more
    ("ray_init.num_cpus", "ray_kwargs.ray_init.num_cpus", "8", (0, 6), (0, 6)),
    ("ray_init.timeline_json_file", "ray_kwargs.timeline_json_file", "/outputs/t", (0, 6), (0, 6)),
    (f"{ACTOR}.optim.warmup_style", f"{ACTOR}.optim.lr_scheduler_type", "cosine", (0, 6), (1, 0)),
    ("critic.optim.warmup_style", "critic.optim.lr_scheduler_type", "cosine", (0, 6), (1, 0)),
    ("reward_model.enable", "reward.reward_model.enable", "true", (0, 7), (0, 9)),
    ("reward_model.model.path", "reward.reward_model.model_path", "/mnt/rm", (0, 7), (0, 9)),
    ("reward_model.reward_manager", "reward.reward_manager.name", "dapo", (0, 7), (0, 9)),
    ("reward_model.sandbox_fusion.url", "reward.sandbox_fusion.url", "http", (0, 7), (0, 7)),
    ("custom_reward_function.path", "reward.custom_reward_function.path", "/mnt/r.py", (0, 7), (0, 9)),
    ("critic.model.fsdp_config.param_offload", "critic.fsdp.param_offload", "true", (0, 8), (0, 8)),
)


def test_each_key_that_was_renamed_is_told_by_the_name_that_the_release_has(release: Release) -> None:
    stage = release.bake().having("vllm")
    words = [f"{key}={value}" for before, since, value, _, _ in RENAMES for key in (before, since)]
    gone = {f"{old}={value}": f"write {new}={value}" for old, new, value, _, last in RENAMES if release.since(*last)}
    future = {
        f"{new}={value}": f"write {old}={value}" for old, new, value, first, _ in RENAMES if not release.since(*first)
    }

    told = refused(stage, *words)

    assert {text: todo for text, (_, todo) in told.items()} == {**gone, **future}


def test_each_key_that_was_removed_is_to_be_left_out(release: Release) -> None:
    stage = release.bake().having("vllm")
    removed = ["data.datagen.path=x", "data.sampler.class_path=x", "trainer.use_legacy_worker_impl=x"]

    told = refused(stage, *removed, "trainer.no_such=1")

    assert list(told) == [*(removed if release.since(0, 8) else []), "trainer.no_such=1"]
    assert {todo for why, todo in told.values() if "removed it" in why} == (
        {"leave it out"} if release.since(0, 8) else set()
    )


def test_a_key_that_is_another_s_in_part_is_told_by_verl_s_own(release: Release) -> None:
    told = refused(release.bake().having("vllm"), "trainer.epochs=2", "trainer.save_steps=2", "trainer.n_gpu=2")

    assert [todo.partition(" or ")[0].rstrip("?") for _, todo in told.values()] == [
        "did you mean trainer.total_epochs=2",
        "did you mean trainer.save_freq=2",
        "did you mean trainer.n_gpus_per_node=2",
    ]


def test_the_critic_is_not_taken_away_from_any_release(release: Release) -> None:
    told = refused(release.bake().having("vllm"), "~critic")

    assert told["~critic"][0] == "verl reads critic.* in every training, whether it has a critic or not"


def test_nothing_of_verl_s_own_leads_nowhere(release: Release) -> None:
    composed = release.bake().having("vllm").plan().composed

    assert [key for key, _ in leaves(plain(composed.config)) if composed.lost(key)] == []


def test_hydra_s_search_path_is_taken(release: Release) -> None:
    path = f"file://{release.folder}/verl"

    launch = release.bake().having("vllm").plan(f"hydra.searchpath=[{path}]", "hydra.run.dir=/outputs/run")

    hydra = launch.composed.config.hydra
    assert (hydra.searchpath, hydra.run.dir) == ([path], "/outputs/run")


def test_an_argument_of_the_rollout_engine_takes_a_plus(release: Release) -> None:
    override = f"{ROLLOUT}.engine_kwargs.vllm.attention_backend=x"

    told = refused(release.bake().having("vllm"), override)

    assert told[override][1].startswith(f"write +{override}: ")


def test_a_rollout_must_be_named_from_0_6_on(release: Release) -> None:
    told = refused(release.bake(), "trainer.no_such=1")

    assert list(told)[1:] == ([f"{ROLLOUT}.name"] if release.since(0, 6) else [])


def test_megatron_by_configuration_in_every_release(release: Release) -> None:
    launch = release.bake().having("vllm").plan(*MEGATRON)

    assert launch.settings.get(f"{ACTOR}.strategy") == "megatron"
    assert not [note for note in launch.notes if "flash-attn" in note]


def test_megatron_by_engine_from_0_8_on(release: Release) -> None:
    told = refused(release.bake().having("vllm"), "model_engine=megatron", "trainer.no_such=1")

    todo = [todo for text, (_, todo) in told.items() if text == "model_engine=megatron"]
    assert todo == ([] if release.since(0, 8) else ["write --config-name=ppo_megatron_trainer instead"])


def test_megatron_s_keys_name_the_way_to_choose_it(release: Release) -> None:
    override = f"{ACTOR}.megatron.use_mbridge=true"

    word = "model_engine=megatron" if release.since(0, 8) else "--config-name=ppo_megatron_trainer"
    assert refused(release.bake().having("vllm"), override)[override][1] == f"add {word}, or leave this out"


def test_another_model_is_refused_in_every_release(release: Release) -> None:
    stage = release.bake(roles=tuple(VARIABLES)).having("vllm")
    new = "write reward.reward_model.model_path=/other"

    told = refused(stage, "critic.model.path=/other", f"{MODEL}={{path: /other}}", "reward_model.model.path=/other")

    assert {text: todo for text, (_, todo) in told.items()} == {
        f"{MODEL}={{path: /other}}": LEAVE_OUT,
        "critic.model.path=/other": LEAVE_OUT,
        "reward_model.model.path=/other": new if release.since(0, 9) else LEAVE_OUT,
    }


REFUSED_BY_HYDRA = (
    "trainer.no_such_key=1",
    "actor_rollout_ref={model: {no_such_key: 1}}",
    "+trainer.save_freq=5",
    "~trainer.no_such_key",
    "data.train_files=a,b",
    "data.train_files=(a)",
    "trainer@here=x",
    "no_equals",
)


@pytest.mark.parametrize("override", REFUSED_BY_HYDRA)
def test_these_are_refused_by_hydra(release: Release, override: str) -> None:
    from hydra.errors import HydraException

    with pytest.raises(HydraException):
        hydra_composes(release, "ppo_trainer", [override])


def test_and_here_all_at_once(release: Release) -> None:
    assert set(refused(release.bake().having("vllm"), *REFUSED_BY_HYDRA)) == set(REFUSED_BY_HYDRA)
