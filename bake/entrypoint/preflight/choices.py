"""Choices: settings for which verl knows a few values only, by release. It meets a wrong one after minutes.

ONE table, read from the sources of verl 0.5.0, 0.6.1, 0.7.1, 0.8.0 and 0.9.1. Of another release nothing is said, and
where code of one's own may know better, nothing stops a training.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bake.entrypoint.finding import Finding
from bake.entrypoint.preflight.asked import SECTIONS, shards_freely, uses_critic
from bake.entrypoint.preflight.extensions import has_word, loads, registers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bake.entrypoint.preflight.situation import Situation

_AFTER = (0, 10)
_ROLLOUT = "actor_rollout_ref.rollout"


def _always(_: Situation) -> bool:
    return True


def _with_critic(situation: Situation) -> bool:
    return uses_critic(situation.settings)


def _actor_on_fsdp(situation: Situation) -> bool:
    return shards_freely(situation.settings)


def _critic_on_fsdp(situation: Situation) -> bool:
    return uses_critic(situation.settings) and shards_freely(situation.settings, "critic")


def _with_kl_in_reward(situation: Situation) -> bool:
    return situation.settings.flag("algorithm.use_kl_in_reward")


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The values of `keys` in releases from `since` up to and without `until`. `open`: code of one's own may add some.

    `gone` are those that verl's code still names, and no longer takes. `when` says whether verl looks at the key.
    """

    keys: tuple[str, ...]
    values: tuple[str, ...]
    since: tuple[int, int] = (0, 5)
    until: tuple[int, int] = _AFTER
    open: bool = False
    gone: tuple[str, ...] = ()
    why: str = "verl stops when it comes to it, minutes from now"
    when: Callable[[Situation], bool] = _always


_REINFORCE = ("reinforce_plus_plus", "reinforce_plus_plus_baseline")
_ESTIMATORS = ("gae", "grpo", *_REINFORCE, "remax", "rloo", "opo", "grpo_passk", "gpg")
_VECTORIZED = (*_ESTIMATORS, "rloo_vectorized", "grpo_vectorized")
_BASELINES = (*_VECTORIZED, "optimal_token_baseline", "tir_optimal_token_baseline", "gdpo")
_ENGINES = ("fsdp", "fsdp2", "megatron")
_NEWER_ENGINES = (*_ENGINES, "veomni", "torchtitan")
_AGGREGATIONS = ("token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm")


def _estimators() -> Iterator[Choice]:
    """trainer/ppo/core_algos.py AdvantageEstimator."""
    keys = ("algorithm.adv_estimator",)
    yield Choice(keys=keys, values=_ESTIMATORS, until=(0, 6), open=True)
    yield Choice(keys=keys, values=_VECTORIZED, since=(0, 6), until=(0, 7), open=True)
    yield Choice(keys=keys, values=_BASELINES, since=(0, 7), open=True)


def _rollouts() -> Iterator[Choice]:
    """workers/fsdp_workers.py in 0.5, workers/rollout/base.py since. workers/config/rollout.py of 0.7 refuses `sync`.

    workers/fsdp_workers.py of 0.6 still has a branch for `hf`, which is in no table of rollouts.
    """
    names, modes = (f"{_ROLLOUT}.name",), (f"{_ROLLOUT}.mode",)
    yield Choice(keys=names, values=("vllm", "sglang", "hf"), until=(0, 6), open=True)
    yield Choice(keys=names, values=("vllm", "sglang"), since=(0, 6), until=(0, 7), open=True, gone=("hf",))
    yield Choice(keys=names, values=("vllm", "sglang", "trtllm"), since=(0, 7), open=True)
    yield Choice(keys=modes, values=("sync", "async"), until=(0, 7))
    yield Choice(keys=modes, values=("async",), since=(0, 7), gone=("sync",))


def _strategies() -> Iterator[Choice]:
    """trainer/main_ppo.py until 0.7; the backends of EngineRegistry (workers/engine/) since.

    `mindspeed` names an actor whose engine has a strategy of its own (config/actor/mindspeed_actor.yaml, 0.8).
    """
    in_0_8 = (*_NEWER_ENGINES, "automodel", "mindspeed", "mindspeed_megatron")
    for section, when in (("actor_rollout_ref.actor", _always), ("critic", _with_critic)):
        keys = (f"{section}.strategy",)
        yield Choice(keys=keys, values=_ENGINES, until=(0, 7), open=True, when=when)
        yield Choice(keys=keys, values=_NEWER_ENGINES, since=(0, 7), until=(0, 8), open=True, when=when)
        yield Choice(keys=keys, values=in_0_8, since=(0, 8), until=(0, 9), open=True, when=when)
        yield Choice(keys=keys, values=(*_NEWER_ENGINES, "automodel", "fsdp_turbo"), since=(0, 9), open=True, when=when)


def _losses() -> Iterator[Choice]:
    """trainer/ppo/core_algos.py agg_loss and workers/config/actor.py."""
    for section, when in (("actor_rollout_ref.actor", _always), ("critic", _with_critic)):
        keys = (f"{section}.loss_agg_mode",)
        yield Choice(keys=keys, values=_AGGREGATIONS, until=(0, 9), when=when)
        yield Choice(keys=keys, values=(*_AGGREGATIONS, "token-sum"), since=(0, 9), when=when)


def _schedules() -> Iterator[Choice]:
    """FSDP's alone: workers/fsdp_workers.py in 0.5, FSDPOptimizerConfig in workers/config/optimizer.py since."""
    for section, when in ((SECTIONS["actor"], _actor_on_fsdp), (SECTIONS["critic"], _critic_on_fsdp)):
        older, newer = f"{section}.optim.warmup_style", f"{section}.optim.lr_scheduler_type"
        yield Choice(keys=(older,), values=("constant", "cosine"), when=when)
        yield Choice(keys=(newer,), values=("constant", "cosine"), since=(0, 6), when=when)


TABLE: tuple[Choice, ...] = (
    *_estimators(),
    *_rollouts(),
    *_strategies(),
    *_losses(),
    *_schedules(),
    # trainer/ppo/core_algos.py get_kl_controller
    Choice(keys=("algorithm.kl_ctrl.type",), values=("fixed", "adaptive"), when=_with_kl_in_reward),
    # utils/torch_functional.py, asked by RLHFDataset until 0.6; since 0.7 it only stores the value
    Choice(keys=("data.truncation",), values=("left", "right", "middle", "error"), until=(0, 7), open=True),
    # single_controller/ray/base.py get_placement_groups; 0.9 puts the device that it detects there (utils/device.py)
    Choice(
        keys=("trainer.device",),
        values=("cuda", "npu", "cpu"),
        until=(0, 9),
        why="verl asks Ray for a resource of this name, and waits for it for ever",
    ),
    # trainer/ppo/ray_trainer.py and v1/trainer_base.py _load_checkpoint; until 0.8 one that is not known goes on from
    # the newest checkpoint, and stops only where there is none, as on the first start
    Choice(keys=("trainer.resume_mode",), values=("auto", "disable", "resume_path")),
)


def check_choices(situation: Situation) -> Iterator[Finding]:
    for choice in TABLE:
        if situation.release is None or not choice.since <= situation.release < choice.until:
            continue
        for key in choice.keys if choice.when(situation) else ():
            value = situation.settings.get(key)
            if isinstance(value, str) and value not in choice.values and not _is_left_alone(situation, choice):
                yield _unknown(situation, choice, key=key, value=value)


def _is_left_alone(situation: Situation, choice: Choice) -> bool:
    """A module of one's own that verl imports first is there to register values."""
    return choice.open and registers(situation.environ)


def _unknown(situation: Situation, choice: Choice, *, key: str, value: str) -> Finding:
    release = ".".join(str(part) for part in situation.release or ())
    near = difflib.get_close_matches(value.lower(), choice.values, n=1, cutoff=0.5)
    others = f" (it may be {', '.join(choice.values)})" if len(choice.values) > 1 else ""
    unless = _unless(situation, choice, value)
    return Finding(
        check="choices",
        severity="warning" if unless else "error",
        what=f"{key}={value}, which verl {release} does not know",
        why=choice.why + unless,
        todo=f"{key}={near[0] if near else choice.values[0]}{others}",
    )


def _unless(situation: Situation, choice: Choice, value: str) -> str:
    """Why verl may know the value all the same; empty where it does not."""
    if value in choice.gone:
        return ""
    if choice.open and loads(situation.settings):
        return ", unless the code that these settings bring adds it"
    return ", unless this image's verl was changed: its code has the word" if has_word(value) else ""
