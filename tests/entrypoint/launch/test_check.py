"""Overrides that Hydra refuses, that verl ignores, or that it fails on an hour later: each with what to type."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from bake.errors import LaunchError
from tests.entrypoint.files import write
from tests.entrypoint.launch.stage import write_verl

if TYPE_CHECKING:
    from tests.entrypoint.launch.stage import Stage

_ACTOR = "actor_rollout_ref.actor"


def refused(stage: Stage, *words: str) -> list[str]:
    """Why and what to do, of the one override that is refused."""
    with pytest.raises(LaunchError) as caught:
        stage.plan(*words)
    first, _, why, todo = caught.value.message.split("\n")
    assert first == "verl was not started: 1 setting is refused"
    return [why.removeprefix("  why:   "), todo.removeprefix("  to do: ")]


@pytest.mark.parametrize(
    ("override", "key", "todo"),
    [
        ("trainer.n_gpu_per_node=4", "trainer.n_gpu_per_node", "did you mean trainer.n_gpus_per_node=4?"),
        ("n_gpus_per_node=4", "n_gpus_per_node", "did you mean trainer.n_gpus_per_node=4?"),
        (
            "optim.lr=1e-6",
            "optim.lr",
            "did you mean critic.optim.lr=1e-6 or actor_rollout_ref.actor.optim.lr=1e-6?",
        ),
        ("actor_rolout_ref.rollout.n=5", "actor_rolout_ref.rollout.n", "did you mean actor_rollout_ref.rollout.n=5?"),
        (
            "actor_rollout_ref={actor: {clip_ratoi: 0.3}}",
            "actor_rollout_ref.actor.clip_ratoi",
            "did you mean actor_rollout_ref.actor.clip_ratio=0.3?",
        ),
        (
            "actor_rollout_ref.rollout.engine_kwargs.vllm.swap_space=4",
            "actor_rollout_ref.rollout.engine_kwargs.vllm.swap_space",
            (
                "write +actor_rollout_ref.rollout.engine_kwargs.vllm.swap_space=4: "
                "actor_rollout_ref.rollout.engine_kwargs.vllm takes any key, and + adds one"
            ),
        ),
        (
            "my_code.depth=3",
            "my_code.depth",
            "see verl's keys with `train --cfg job`; a key that your own code reads takes a +: +my_code.depth=3",
        ),
        ("trainer.epochs=2", "trainer.epochs", "did you mean trainer.total_epochs=2?"),
        ("trainer.save_steps=2", "trainer.save_steps", "did you mean trainer.save_freq=2?"),
        ("trainer.n_gpu=2", "trainer.n_gpu", "did you mean trainer.n_gpus_per_node=2?"),
        (
            'trainer.project_nam="$(rm -rf x)"',
            "trainer.project_nam",
            "did you mean 'trainer.project_name=\"$(rm -rf x)\"'?",
        ),
        ("~trainer.no_such", "trainer.no_such", "leave it out: there is nothing to delete"),
    ],
)
def test_an_unknown_key_is_refused_with_what_may_be_meant(stage: Stage, override: str, key: str, todo: str) -> None:
    assert refused(stage, override) == [f"verl 0.9 has no key {key}", todo]


def test_a_plus_where_there_is_a_key_is_refused(stage: Stage) -> None:
    assert refused(stage, "+trainer.save_freq=5") == [
        "the key is there already, and + adds a new one",
        "write trainer.save_freq=5",
    ]


def test_a_key_below_a_plain_value_is_refused(stage: Stage) -> None:
    assert refused(stage, "+trainer.save_freq.every=5") == [
        "trainer.save_freq is one value, and holds no keys",
        "write trainer.save_freq=…",
    ]


def test_a_key_of_one_s_own_may_be_added(stage: Stage) -> None:
    assert stage.plan("+data.cache_dir=/outputs/cache").settings.get("data.cache_dir") == "/outputs/cache"


def test_a_key_that_verl_does_not_list_is_a_note(stage: Stage) -> None:
    notes = stage.plan("+trainer.total_epoch=3").notes

    assert notes[-1] == "the command line: trainer.total_epoch: verl does not list it, and may not read it"


@pytest.mark.parametrize(
    "override",
    [
        "+data.cache_dir=/outputs/cache",
        "+actor_rollout_ref.rollout.engine_kwargs.vllm.swap_space=4",
        "+actor_rollout_ref.model.override_config.rope.theta=4",
        "+ray_kwargs.ray_init.runtime_env.env_vars.A=b",
        "++trainer.total_epochs=3",
    ],
)
def test_what_verl_reads_or_passes_on_is_none(stage: Stage, override: str) -> None:
    assert [note for note in stage.plan(override).notes if "does not list" in note] == []


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (
            "${oc.env:NOPE}",
            "KeyError raised while resolving interpolation: \"Environment variable 'NOPE' not found\"",
        ),
        ("${foo}", "Interpolation key 'foo' not found"),
        ("[a,'${foo}']", "Interpolation key 'foo' not found"),
        ("${trainer.project_name}", "Recursive interpolation detected"),
    ],
)
def test_an_interpolation_that_leads_nowhere_is_refused(stage: Stage, value: str, said: str) -> None:
    assert refused(stage, f"trainer.project_name={value}") == [
        f"trainer.project_name: {said}",
        "name a key that is there, set the variable (docker run -e NAME=…), or write the value itself",
    ]


def test_so_is_a_circle_through_two_keys(stage: Stage) -> None:
    words = ("trainer.project_name=${trainer.experiment_name}", "trainer.experiment_name=${trainer.project_name}")

    with pytest.raises(LaunchError, match=r"2 settings are refused\n(?s:.)*Recursive(?s:.)*Recursive"):
        stage.plan(*words)


@pytest.mark.parametrize(
    "override",
    ["trainer.project_name=${hydra:job.name}", "hydra.sweep.dir=${hydra.runtime.output_dir}"],
)
def test_what_only_a_running_hydra_knows_passes(stage: Stage, override: str) -> None:
    assert stage.plan(override).command[-1] == override


def test_a_key_may_be_deleted(stage: Stage) -> None:
    assert not stage.plan("~algorithm.gamma").settings.has("algorithm.gamma")


def test_a_group_that_is_not_there_is_refused(stage: Stage) -> None:
    assert refused(stage, "trainer@here=big") == [
        "verl 0.9 has no group trainer, and @ chooses one of a group",
        "leave @ out",
    ]


@pytest.mark.parametrize(
    ("override", "wanted", "todo"),
    [
        ("trainer.save_freq=often", "a number, found 'often'", "write a number, as verl's own trainer.save_freq=-1"),
        ("trainer.save_freq=true", "a number, found True", "write a number, as verl's own trainer.save_freq=-1"),
        ("trainer.save_freq=[1]", "a number, found [1]", "write a number, as verl's own trainer.save_freq=-1"),
        (
            "trainer.val_before_train=yes",
            "true or false, found 'yes'",
            "write trainer.val_before_train=true or trainer.val_before_train=false",
        ),
        ("trainer=8", "several keys, found 8", "set one key in it, as trainer.project_name=…"),
    ],
)
def test_a_value_of_another_kind_is_refused(stage: Stage, override: str, wanted: str, todo: str) -> None:
    key = override.partition("=")[0]

    assert refused(stage, override) == [f"{key}: expected {wanted}", todo]


@pytest.mark.parametrize(
    "override",
    [
        "trainer.save_freq=null",
        "trainer.save_freq=${trainer.nnodes}",
        "trainer.total_epochs=0.5",
        "trainer.val_before_train=1",
        "trainer.project_name=5",
        "trainer.logger=console",
        f"{_ACTOR}.optim={{lr: 1}}",
    ],
)
def test_a_value_that_verl_can_use_passes(stage: Stage, override: str) -> None:
    assert stage.plan(override).command[-1] == override


@pytest.mark.parametrize(
    ("override", "todo"),
    [
        ("custom_reward_function.path=/r.py", "write reward.custom_reward_function.path=/r.py"),
        ("reward_model.enable=True", "write reward.reward_model.enable=True"),
        ("reward_model={model: {path: /rm}}", "write reward.reward_model.model_path=/rm"),
        ("reward_model.reward_manager=dapo", "write +reward.reward_manager.name=dapo"),
        ("+reward_model.reward_kwargs.max_resp_len=9", "write +reward.reward_kwargs.max_resp_len=9"),
        ("+reward_model.anything=9", "leave it out"),
    ],
)
def test_a_reward_key_that_verl_ignores_since_0_9_is_refused(stage: Stage, override: str, todo: str) -> None:
    why, told = refused(stage, override)

    assert told == todo
    assert why.startswith("verl 0.9 never reads ")


def test_a_reward_key_that_is_emptied_passes(stage: Stage) -> None:
    assert stage.plan("reward_model.enable=null").settings.get("reward_model.enable") is None


def test_megatron_s_keys_come_with_megatron(stage: Stage) -> None:
    assert refused(stage, f"{_ACTOR}.megatron.tensor_model_parallel_size=4") == [
        (
            f"verl 0.9 has no key {_ACTOR}.megatron.tensor_model_parallel_size in this configuration: it comes with "
            "megatron's"
        ),
        "add model_engine=megatron, or leave this out",
    ]


def test_fsdp_s_keys_do_not(stage: Stage) -> None:
    assert refused(stage, "model_engine=megatron", f"{_ACTOR}.fsdp_config.param_offload=true") == [
        (
            f"verl 0.9 has no key {_ACTOR}.fsdp_config.param_offload in this configuration: it comes with FSDP's, and "
            "megatron was chosen"
        ),
        "leave it out",
    ]


@pytest.mark.parametrize("words", [("model_engine=megatron",), ("--config-name=ppo_megatron_trainer",)])
def test_megatron_is_chosen_by_its_engine_or_its_configuration(stage: Stage, words: tuple[str, ...]) -> None:
    launch = stage.plan(*words, f"{_ACTOR}.megatron.tensor_model_parallel_size=4")

    assert launch.settings.get(f"{_ACTOR}.strategy") == "megatron"


def test_the_last_choice_of_a_group_wins(stage: Stage) -> None:
    assert stage.plan("model_engine=megatron", "model_engine=dp").settings.get(f"{_ACTOR}.strategy") == "fsdp"


def test_an_engine_that_verl_does_not_have_is_refused(stage: Stage) -> None:
    assert refused(stage, "model_engine=deepspeed") == [
        "verl 0.9 has no model_engine deepspeed; it has dp, megatron",
        "write model_engine=dp",
    ]


@pytest.mark.parametrize(
    ("engine", "todo"),
    [
        ("megatron", "write --config-name=ppo_megatron_trainer instead"),
        ("dp", "leave it out: FSDP is what the default configuration trains with"),
    ],
)
def test_an_older_verl_has_no_engines_to_choose(stage: Stage, engine: str, todo: str) -> None:
    shutil.rmtree(stage.packages / "verl/trainer/config")
    old = {"ppo_trainer.yaml": b"actor_rollout_ref: {model: {path: x}}\ncritic: {model: {path: x}}\n"}
    write_verl(stage.packages, release="0.6.1", configuration=old)

    assert refused(stage, f"model_engine={engine}") == ["verl 0.6 has no model_engine", todo]


def test_a_configuration_that_is_not_there_is_refused_and_all_else_is_checked(stage: Stage) -> None:
    with pytest.raises(LaunchError) as caught:
        stage.plan("--config-name", "mine", "trainer.n_gpu_per_node=4")

    assert caught.value.message == (
        "verl was not started: 2 settings are refused\n"
        "the command line: --config-name mine\n"
        "  why:   Cannot find primary config 'mine'. Check that it's in your config search path.\n"
        "  to do: verl has ppo_trainer and ppo_megatron_trainer; mount a folder of your own and name it, --config-dir\n"
        "the command line: trainer.n_gpu_per_node=4\n"
        "  why:   verl 0.9 has no key trainer.n_gpu_per_node\n"
        "  to do: did you mean trainer.n_gpus_per_node=4?"
    )


@pytest.mark.parametrize("flag", ["--config-dir", "--config-path"])
def test_a_folder_that_is_not_there_is_refused(stage: Stage, flag: str) -> None:
    assert refused(stage, flag, "/no/such") == [
        "there is no folder /no/such in this container",
        "mount the folder, and name it by its absolute path",
    ]


def test_a_configuration_file_in_a_folder_of_one_s_own(stage: Stage) -> None:
    conf = write(stage.packages / "conf", {"mine.yaml": b"defaults: [ppo_trainer, _self_]\ntrainer: {nnodes: 2}\n"})

    launch = stage.plan("trainer.save_freq=5", "-cd", str(conf), "-cn", "mine.yaml")

    assert launch.command[3:7] == ("--config-name", "mine.yaml", "--config-dir", str(conf))
    assert launch.settings.get("trainer.nnodes") == 2


def test_a_main_folder_of_one_s_own_finds_verl_s_by_its_search_path(stage: Stage) -> None:
    text = "hydra: {searchpath: ['file://%s']}\ndefaults: [ppo_trainer, _self_]\ntrainer: {nnodes: 2}\n"
    conf = write(stage.packages / "conf", {"mine.yaml": (text % (stage.packages / "verl/trainer/config")).encode()})

    assert stage.plan("-cp", str(conf), "-cn", "mine").settings.get("trainer.nnodes") == 2
