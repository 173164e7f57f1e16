from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from bake.entrypoint.finding import Finding
from bake.entrypoint.preflight.choices import TABLE, check_choices
from tests.entrypoint.files import write
from tests.entrypoint.preflight.image import distribution, install, verl
from tests.entrypoint.preflight.situations import ACTOR, FSDP, ROLLOUT, situation
from tests.needs import verl_folder

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

RELEASES = ["0.5.0", "0.6.1", "0.7.1", "0.8.0", "0.9.1"]


def found(settings: Mapping[str, Any], release: tuple[int, int] | None = (0, 9), **environ: str) -> list[Finding]:
    return list(check_choices(situation({**FSDP, **settings}, release=release, environ=environ)))


def test_a_value_that_verl_does_not_know_is_an_error_with_the_nearest() -> None:
    assert found({f"{ROLLOUT}.name": "vvlm"}) == [
        Finding(
            check="choices",
            severity="error",
            what=f"{ROLLOUT}.name=vvlm, which verl 0.9 does not know",
            why="verl stops when it comes to it, minutes from now",
            todo=f"{ROLLOUT}.name=vllm (it may be vllm, sglang, trtllm)",
        )
    ]


def test_verl_s_own_values_are_right() -> None:
    assert found({"trainer.resume_mode": "auto", f"{ROLLOUT}.mode": "async", "trainer.device": "cuda"}) == []


@pytest.mark.parametrize(
    ("settings", "release"),
    [
        ({f"{ROLLOUT}.name": "hf"}, (0, 6)),
        ({f"{ROLLOUT}.mode": "sync"}, (0, 7)),
        ({"algorithm.adv_estimator": "GRPO"}, (0, 9)),
        ({"algorithm.adv_estimator": "gdpo"}, (0, 6)),
        ({f"{ACTOR}.strategy": "veomni"}, (0, 6)),
        ({f"{ACTOR}.loss_agg_mode": "token-sum"}, (0, 8)),
        ({f"{ACTOR}.optim.lr_scheduler_type": "linear"}, (0, 9)),
        ({f"{ACTOR}.optim.warmup_style": "linear"}, (0, 5)),
        ({"algorithm.use_kl_in_reward": True, "algorithm.kl_ctrl.type": "decay"}, (0, 9)),
        ({"data.truncation": "center"}, (0, 6)),
        ({"trainer.device": "gpu"}, (0, 8)),
        ({"algorithm.adv_estimator": "gae", "critic.strategy": "ddp"}, (0, 9)),
    ],
)
def test_each_release_has_its_own_values(settings: dict[str, Any], release: tuple[int, int]) -> None:
    assert [finding.severity for finding in found(settings, release)] == ["error"]


@pytest.mark.parametrize(
    ("settings", "release"),
    [
        ({f"{ROLLOUT}.name": "hf"}, (0, 5)),
        ({f"{ROLLOUT}.mode": "sync"}, (0, 6)),
        ({"algorithm.kl_ctrl.type": "decay"}, (0, 9)),
        ({f"{ACTOR}.optim.lr_scheduler_type": "linear"}, (0, 5)),
        ({"critic.strategy": "ddp"}, (0, 9)),
        ({"data.truncation": "center"}, (0, 7)),
        ({"trainer.device": "gpu"}, (0, 9)),
        ({f"{ACTOR}.strategy": "megatron", f"{ACTOR}.optim.lr_scheduler_type": "linear"}, (0, 9)),
        ({f"{ROLLOUT}.name": None}, (0, 9)),
        ({f"{ROLLOUT}.name": "???"}, (0, 9)),
        ({f"{ROLLOUT}.name": "new"}, (0, 10)),
        ({f"{ROLLOUT}.name": "new"}, None),
    ],
)
def test_what_verl_does_not_look_at_is_left_alone(settings: dict[str, Any], release: tuple[int, int] | None) -> None:
    assert found(settings, release) == []


@pytest.mark.parametrize(
    "settings",
    [
        {"reward.custom_reward_function.path": "/own.py"},
        {"data.sampler.class_path": "/own.py"},
        {"actor_rollout_ref.model.external_lib": "own"},
    ],
)
def test_a_value_that_code_of_one_s_own_may_add_is_a_warning(settings: dict[str, Any]) -> None:
    findings = found({**settings, "algorithm.adv_estimator": "own"})

    assert [(finding.severity, finding.why) for finding in findings] == [
        (
            "warning",
            "verl stops when it comes to it, minutes from now, unless the code that these settings bring adds it",
        )
    ]


def test_a_module_that_verl_imports_first_brings_its_own_rollout() -> None:
    assert found({f"{ROLLOUT}.name": "cpu"}, VERL_USE_EXTERNAL_MODULES="verl_cpu") == []


@pytest.mark.parametrize(("policy", "count"), [("auto", 0), ("own", 0), ("none", 1)])
def test_a_plugin_of_verl_s_brings_its_own_rollout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str, count: int
) -> None:
    install(monkeypatch, distribution(tmp_path, "own", "1.0", plugin="verl.plugins"))

    assert len(found({f"{ROLLOUT}.name": "cpu"}, VERL_USE_EXTERNAL_PLUGINS=policy)) == count


def test_a_changed_verl_may_know_more_than_its_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = write(verl(tmp_path), {"verl/trainer/ppo/core_algos.py": b'    MINE = "my_grpo"\n'})
    install(monkeypatch, changed)

    assert found({"algorithm.adv_estimator": "my_grpo"}) == [
        Finding(
            check="choices",
            severity="warning",
            what="algorithm.adv_estimator=my_grpo, which verl 0.9 does not know",
            why="verl stops when it comes to it, minutes from now, unless this image's verl was changed: its code has "
            "the word",
            todo="algorithm.adv_estimator=grpo (it may be gae, grpo, reinforce_plus_plus, "
            "reinforce_plus_plus_baseline, remax, rloo, opo, grpo_passk, gpg, rloo_vectorized, grpo_vectorized, "
            "optimal_token_baseline, tir_optimal_token_baseline, gdpo)",
        )
    ]


@pytest.mark.verl
@pytest.mark.parametrize(
    ("release", "key", "value"),
    [
        ("0.9.1", "algorithm.adv_estimator", "gpro"),
        ("0.9.1", "algorithm.adv_estimator", "ppo"),
        ("0.9.1", f"{ROLLOUT}.name", "hf"),
        ("0.9.1", f"{ROLLOUT}.mode", "sync"),
        ("0.6.1", f"{ROLLOUT}.name", "hf"),
        ("0.5.0", "trainer.device", "gpu"),
    ],
)
def test_no_word_in_a_released_verl_excuses_a_wrong_value(
    monkeypatch: pytest.MonkeyPatch, release: str, key: str, value: str
) -> None:
    install(monkeypatch, verl_folder() / release)
    major, minor = (int(part) for part in release.split(".")[:2])

    assert [finding.severity for finding in found({key: value}, (major, minor))] == ["error"]


def test_a_device_that_ray_has_none_of_is_waited_for() -> None:
    assert [finding.why for finding in found({"trainer.device": "gpu"}, (0, 8))] == [
        "verl asks Ray for a resource of this name, and waits for it for ever"
    ]


def test_a_value_that_nobody_can_add_stays_an_error() -> None:
    findings = found({f"{ROLLOUT}.mode": "sync"}, VERL_USE_EXTERNAL_MODULES="own")

    assert [finding.severity for finding in findings] == ["error"]


def ours(key: str, release: str) -> set[str]:
    major, minor = (int(part) for part in release.split(".")[:2])
    return {
        value
        for choice in TABLE
        if key in choice.keys and choice.since <= (major, minor) < choice.until
        for value in choice.values
    }


def source(release: str, path: str) -> str:
    return (verl_folder() / release / "verl" / path).read_text()


@pytest.mark.verl
@pytest.mark.parametrize("release", RELEASES)
def test_estimators_are_those_of_verl_s_enumeration(release: str) -> None:
    body = re.search(r"class AdvantageEstimator.*?\n\n\n", source(release, "trainer/ppo/core_algos.py"), re.DOTALL)
    assert body is not None

    assert ours("algorithm.adv_estimator", release) == set(re.findall(r'[A-Z_]+ = "(\w+)"', body[0]))


@pytest.mark.verl
@pytest.mark.parametrize("release", RELEASES[1:])
def test_rollouts_are_those_of_verl_s_table(release: str) -> None:
    table = re.search(r"_ROLLOUT_REGISTRY = \{.*?\n\}", source(release, "workers/rollout/base.py"), re.DOTALL)
    assert table is not None
    pairs = re.findall(r'\("(\w+)", "(\w+)"\)', table[0])

    assert ours(f"{ROLLOUT}.name", release) == {name for name, _ in pairs}
    assert ours(f"{ROLLOUT}.mode", release) == {mode for _, mode in pairs}


@pytest.mark.verl
@pytest.mark.parametrize("release", RELEASES[2:])
def test_strategies_are_the_engines_that_verl_registers(release: str) -> None:
    files = (verl_folder() / release / "verl/workers/engine").rglob("*.py")
    calls = re.findall(
        r"EngineRegistry\.register\((.*?)\)", "".join(file.read_text() for file in sorted(files)), re.DOTALL
    )
    backends = "".join(re.findall(r"backend=(\[.*?\]|\"\w+\")", "".join(calls)))

    assert ours(f"{ACTOR}.strategy", release) - {"mindspeed"} == set(re.findall(r'"(\w+)"', backends))


@pytest.mark.verl
@pytest.mark.parametrize(
    ("release", "config", "overrides"),
    [
        *((release, "ppo_trainer", ()) for release in RELEASES),
        *((release, "ppo_megatron_trainer", ()) for release in RELEASES),
        *((release, "ppo_trainer", ("model_engine=veomni",)) for release in RELEASES[2:]),
        *((release, "ppo_trainer", ("model_engine=torchtitan",)) for release in RELEASES[2:]),
        ("0.8.0", "ppo_trainer", ("model_engine=mindspeed",)),
    ],
)
def test_verl_s_own_configurations_are_right(release: str, config: str, overrides: tuple[str, ...]) -> None:
    with initialize_config_dir(str(verl_folder() / release / "verl/trainer/config"), version_base=None):
        composed = compose(
            config,
            [*overrides, f"{ROLLOUT}.name=vllm", "algorithm.adv_estimator=gae", "algorithm.use_kl_in_reward=True"],
        )
    tree: Any = OmegaConf.to_container(composed, resolve=True, throw_on_missing=False)
    major, minor = (int(part) for part in release.split(".")[:2])

    assert list(check_choices(situation(tree, release=(major, minor)))) == []


@pytest.mark.verl
@pytest.mark.parametrize("release", RELEASES[1:])
def test_aggregations_are_those_that_verl_lists(release: str) -> None:
    listed = re.search(r"valid_loss_agg_modes = \[(.*?)\]", source(release, "workers/config/actor.py"), re.DOTALL)
    assert listed is not None

    assert ours(f"{ACTOR}.loss_agg_mode", release) == set(re.findall(r'"([\w-]+)"', listed[1]))


@pytest.mark.verl
@pytest.mark.parametrize("release", RELEASES[1:])
def test_schedules_are_those_that_verl_s_optimizer_allows(release: str) -> None:
    allowed = re.search(r"self\.warmup_style in \[(.*?)\]", source(release, "workers/config/optimizer.py"))
    assert allowed is not None

    assert ours(f"{ACTOR}.optim.lr_scheduler_type", release) == set(re.findall(r'"(\w+)"', allowed[1]))
