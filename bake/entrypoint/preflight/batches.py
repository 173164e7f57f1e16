"""Batches: verl's own rules for batch sizes, each as its release has it, told before anything is loaded.

The sources: trainer/ppo/ray_trainer.py _validate_config (0.5.0); utils/config.py validate_config with actor.py and
critic.py of workers/config (0.6.1 to 0.9.1); workers/fsdp_workers.py (0.5.0 to 0.7.1), workers/engine_workers.py (0.8.0
and 0.9.1).
A rule speaks only where all its values are known, and in no release that bake does not know.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from bake.entrypoint.amounts import divisors, largest_divisor, listed, rounded_up
from bake.entrypoint.finding import Finding
from bake.entrypoint.preflight.asked import (
    SECTIONS,
    Role,
    data_parallel,
    megatron_parallel,
    positive,
    product,
    sequence_parallel,
    shards_freely,
    strategy,
    uses_critic,
    uses_queue,
    uses_reference,
    world,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bake.entrypoint.preflight.situation import Situation
    from bake.entrypoint.settings import Settings

_TRAIN = "data.train_batch_size"
_REPEAT = "actor_rollout_ref.rollout.n"
_KNOWN = ((0, 5), (0, 9))


def check_batches(situation: Situation) -> Iterator[Finding]:
    release = situation.release
    if release is None or not _KNOWN[0] <= release <= _KNOWN[1]:
        return
    yield from _model_parallel(situation.settings)
    yield from _real_batch(situation, release)
    yield from _micro_batches_given(situation.settings, release)
    for role in _roles(situation.settings):
        yield from _mini_batch(situation.settings, role)
        yield from _global_micro_batch(situation, role, release)
        yield from _each_gpus_part(situation, role, release)
        yield from _packing(situation, role)
    yield from _agent_workers(situation, release)
    yield from _synchronised(situation.settings)


def _roles(settings: Settings) -> tuple[Role, ...]:
    return ("actor", "critic") if uses_critic(settings) else ("actor",)


def _finding(*, what: str, why: str, todo: str) -> Finding:
    return Finding(check="batches", severity="error", what=what, why=why, todo=todo)


def _samples(settings: Settings) -> int | None:
    """Sequences of one step: prompts times answers to each."""
    return product(positive(settings, _TRAIN), positive(settings, _REPEAT))


def _model_parallel(settings: Settings) -> Iterator[Finding]:
    """utils/config.py, where strategy is megatron."""
    everything, cut = world(settings), megatron_parallel(settings)
    if strategy(settings) == "megatron" and everything and cut and everything % cut:
        yield _finding(
            what=f"{everything} GPUs, and one copy of the actor takes {cut} (tensor x pipeline x context parallel)",
            why=f"verl stops: n_gpus ({everything}) must be divisible by model_parallel_size …",
            todo=f"actor_rollout_ref.actor.megatron.…_parallel_size whose product is {listed(divisors(everything))}",
        )


def _real_batch(situation: Situation, release: tuple[int, int]) -> Iterator[Finding]:
    """0.5.0 asks it always, the others unless the actor's batches are dynamic."""
    settings, samples = situation.settings, _samples(situation.settings)
    if release >= (0, 6) and _is_dynamic(settings, "actor"):
        return
    least = world(settings)
    if strategy(settings) == "megatron":
        micro = positive(settings, "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu")
        least = product(data_parallel(situation), micro)
    if samples and least and samples % least:
        yield _finding(
            what=f"{_TRAIN} x {_REPEAT} = {samples} sequences, which {least} does not divide"
            + (" (data parallel size x micro batch)" if strategy(settings) == "megatron" else " (the GPUs)"),
            why=f"verl stops: real_train_batch_size ({samples}) must be divisible by minimal possible batch size "
            f"({least})",
            todo=f"{_TRAIN}={_rounded(settings, least)}",
        )


def _rounded(settings: Settings, divisor: int) -> int:
    """The next batch size up whose sequences the divisor divides."""
    size, repeat = positive(settings, _TRAIN) or 1, positive(settings, _REPEAT) or 1
    return rounded_up(size, step=divisor // math.gcd(divisor, repeat))


def _micro_batches_given(settings: Settings, release: tuple[int, int]) -> Iterator[Finding]:
    """Exactly one of the two sizes each. Reference and rollout follow the actor's use_dynamic_bsz."""
    fixed = not _is_dynamic(settings, "actor")
    reward = release < (0, 7) and settings.flag("reward_model.enable")
    for wanted, section, name, dynamic in (
        (fixed, "actor_rollout_ref.actor", "ppo_micro_batch_size", "actor_rollout_ref.actor"),
        (fixed, "actor_rollout_ref.rollout", "log_prob_micro_batch_size", "actor_rollout_ref.actor"),
        (
            fixed and uses_reference(settings),
            "actor_rollout_ref.ref",
            "log_prob_micro_batch_size",
            "actor_rollout_ref.actor",
        ),
        (uses_critic(settings) and not _is_dynamic(settings, "critic"), "critic", "ppo_micro_batch_size", "critic"),
        (
            reward and not settings.flag("reward_model.use_dynamic_bsz"),
            "reward_model",
            "micro_batch_size",
            "reward_model",
        ),
    ):
        if wanted:
            yield from _one_of_two(settings, f"{section}.{name}", dynamic=f"{dynamic}.use_dynamic_bsz")


def _one_of_two(settings: Settings, key: str, *, dynamic: str) -> Iterator[Finding]:
    whole, each = settings.get(key), settings.get(f"{key}_per_gpu")
    if not settings.has(f"{key}_per_gpu") or (whole is None) != (each is None):
        return
    if whole is None:
        yield _finding(
            what=f"neither {key} nor {key}_per_gpu is set",
            why="verl stops: Please set at least one of them",
            todo=f"{key}_per_gpu=8, or {dynamic}=True",
        )
    else:
        yield _finding(
            what=f"both {key}={whole} and {key}_per_gpu={each} are set",
            why=f"verl stops: Please remove {key.rpartition('.')[2]}, which is deprecated",
            todo=f"{key}=null",
        )


def _mini_batch(settings: Settings, role: Role) -> Iterator[Finding]:
    key = f"{SECTIONS[role]}.ppo_mini_batch_size"
    train, mini = positive(settings, _TRAIN), positive(settings, key)
    if not _is_dynamic(settings, role) and train and mini and train < mini:
        yield _finding(
            what=f"{_TRAIN}={train} is less than {key}={mini}",
            why=f"verl stops: train_batch_size ({train}) must be >= ppo_mini_batch_size ({mini})",
            todo=f"{key}={train}, or a higher {_TRAIN}",
        )


def _global_micro_batch(situation: Situation, role: Role, release: tuple[int, int]) -> Iterator[Finding]:
    """The old size over all GPUs: it must divide the mini batch, and reach every GPU."""
    settings, section = situation.settings, SECTIONS[role]
    mini, micro = (positive(settings, f"{section}.{name}") for name in ("ppo_mini_batch_size", "ppo_micro_batch_size"))
    if _is_dynamic(settings, role) or not mini or not micro:
        return
    if mini % micro:
        yield _finding(
            what=f"{section}.ppo_mini_batch_size={mini}, which ppo_micro_batch_size={micro} does not divide",
            why=f"verl stops: ppo_mini_batch_size ({mini}) must be divisible by ppo_micro_batch_size ({micro})",
            todo=f"{section}.ppo_micro_batch_size=null {section}.ppo_micro_batch_size_per_gpu=1, or any that divides",
        )
    everything, apart = world(settings), positive(settings, f"{section}.ulysses_sequence_parallel_size") or 1
    asked = role == "actor" or shards_freely(settings, role) or release < (0, 6)
    if asked and everything and micro * apart < everything:
        yield _finding(
            what=f"{section}.ppo_micro_batch_size={micro} is the sum over all GPUs, and there are {everything}",
            why=f"verl stops: ppo_micro_batch_size ({micro}) * ulysses_sequence_parallel_size ({apart}) must be >= "
            f"n_gpus ({everything})",
            todo=f"{section}.ppo_micro_batch_size=null {section}.ppo_micro_batch_size_per_gpu={max(1, micro)}",
        )


def _each_gpus_part(situation: Situation, role: Role, release: tuple[int, int]) -> Iterator[Finding]:
    """The mini batch, once it is cut among the GPUs. Workers ask it, so that verl has loaded the model by then."""
    settings, key = situation.settings, f"{SECTIONS[role]}.ppo_mini_batch_size"
    parts = data_parallel(situation, role)
    sequences = product(positive(settings, key), positive(settings, _REPEAT))
    new = release >= (0, 8)
    if sequences is None or parts is None or not (new or shards_freely(settings, role)):
        return
    if (sequences % parts) if new else sequences < parts:
        yield _finding(
            what=f"{key} x {_REPEAT} = {sequences} sequences, and {parts} data parallel parts"
            + (", which do not divide them" if new else ", of which some would have none"),
            why="the workers stop, once they have loaded the model",
            todo=f"{key} that makes it a multiple of {parts}, and no higher than {_TRAIN}",
        )
        return
    micro, each = positive(settings, f"{SECTIONS[role]}.ppo_micro_batch_size_per_gpu"), sequences // parts
    legacy = release < (0, 7) or settings.get("trainer.use_legacy_worker_impl") != "disable"
    asked = not _is_dynamic(settings, role) or (not new and legacy)
    if micro and asked and each % micro:
        yield _finding(
            what=f"each GPU gets {each} sequences of a mini batch ({key} x {_REPEAT} / {parts}), and "
            f"{SECTIONS[role]}.ppo_micro_batch_size_per_gpu={micro} does not divide them",
            why="the workers stop, once they have loaded the model",
            todo=f"{SECTIONS[role]}.ppo_micro_batch_size_per_gpu={largest_divisor(each, most=micro)}",
        )


def _packing(situation: Situation, role: Role) -> Iterator[Finding]:
    settings = situation.settings
    key = "actor_rollout_ref.model.use_remove_padding" if role == "actor" else "critic.model.use_remove_padding"
    apart = sequence_parallel(situation, role)
    if shards_freely(settings, role) and apart and apart > 1 and settings.get(key) is False:
        yield _finding(
            what=f"{SECTIONS[role]} has ulysses_sequence_parallel_size={apart}, and {key}=False",
            why="verl stops: When using sequence parallelism, you must enable `use_remove_padding`",
            todo=f"{key}=True, or {SECTIONS[role]}.ulysses_sequence_parallel_size=1",
        )


def _agent_workers(situation: Situation, release: tuple[int, int]) -> Iterator[Finding]:
    """DataProto.chunk wants equal parts (protocol.py), unless VERL_AUTO_PADDING; 0.9's own trainer does not use it."""
    settings = situation.settings
    served = release >= (0, 7) or settings.get("actor_rollout_ref.rollout.mode") == "async"
    padded = situation.environ.get("VERL_AUTO_PADDING", "").upper() in {"TRUE", "1"}
    samples, workers = _samples(settings), positive(settings, "actor_rollout_ref.rollout.agent.num_workers")
    if uses_queue(situation) or padded or not served or not samples or not workers or samples % workers == 0:
        return
    yield _finding(
        what=f"{_TRAIN} x {_REPEAT} = {samples} sequences, and actor_rollout_ref.rollout.agent.num_workers={workers} "
        "does not divide them",
        why="verl stops in its first step: only support equal chunk. Got size of DataProto "
        f"{samples} and chunk {workers}",
        todo=f"actor_rollout_ref.rollout.agent.num_workers={largest_divisor(samples, most=workers)}, or "
        f"{_TRAIN}={_rounded(settings, workers)}",
    )


def _synchronised(settings: Settings) -> Iterator[Finding]:
    """trainer/ppo/v1/trainer_separate_async.py, 0.9.1."""
    if settings.get("trainer.v1.trainer_mode") != "separate_async":
        return
    steps = positive(settings, "trainer.v1.separate_async.parameter_sync_step")
    mini = positive(settings, "actor_rollout_ref.actor.ppo_mini_batch_size")
    train, wanted = positive(settings, _TRAIN), product(steps, mini)
    if train and wanted and train != wanted:
        yield _finding(
            what=f"{_TRAIN}={train}, and parameter_sync_step x actor.ppo_mini_batch_size = {steps} x {mini} = {wanted}",
            why="verl stops: train_batch_size must equal parameter_sync_step * ppo_mini_batch_size",
            todo=f"{_TRAIN}={wanted}",
        )


def _is_dynamic(settings: Settings, role: Role) -> bool:
    return settings.flag(f"{SECTIONS[role]}.use_dynamic_bsz")
