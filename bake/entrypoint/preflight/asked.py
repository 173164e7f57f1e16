"""Asked: what the settings ask of verl, read without trust: None where a value is absent, odd or beyond all sense."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

from bake.entrypoint.preflight.torch_build import is_for_amd

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bake.entrypoint.preflight.situation import Situation
    from bake.entrypoint.settings import Settings

Role = Literal["actor", "critic"]

MOST = 1 << 40
"""No count in a configuration is higher."""

SECTIONS: dict[Role, str] = {"actor": "actor_rollout_ref.actor", "critic": "critic"}
MODELS: dict[Role, str] = {"actor": "actor_rollout_ref.model", "critic": "critic.model"}


def whole(settings: Settings, *keys: str) -> int | None:
    """The first of these keys that has a value, where it is a whole number from 0."""
    value = settings.first(*keys)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if not math.isfinite(value) or not 0 <= value <= MOST or value != int(value):
        return None
    return int(value)


def positive(settings: Settings, *keys: str) -> int | None:
    return whole(settings, *keys) or None


def fraction(settings: Settings, key: str) -> float | None:
    """A number above 0 and up to 1."""
    value = settings.number(key)
    return float(value) if value is not None and 0 < value <= 1 else None


def text(settings: Settings, key: str) -> str | None:
    value = settings.get(key)
    return value if isinstance(value, str) else None


def mapping(settings: Settings, key: str) -> Mapping[str, Any]:
    value = settings.get(key)
    return value if isinstance(value, dict) else {}


def strategy(settings: Settings, role: Role = "actor") -> str | None:
    """fsdp, fsdp2, megatron and some that bake knows little of."""
    return text(settings, f"{SECTIONS[role]}.strategy")


def shards_freely(settings: Settings, role: Role = "actor") -> bool:
    return strategy(settings, role) in {"fsdp", "fsdp2"}


def gpus_per_node(settings: Settings) -> int | None:
    return positive(settings, "trainer.n_gpus_per_node")


def nodes(settings: Settings) -> int | None:
    return positive(settings, "trainer.nnodes")


def world(settings: Settings) -> int | None:
    """All GPUs that train."""
    return product(gpus_per_node(settings), nodes(settings))


def product(*factors: int | None) -> int | None:
    found = [factor for factor in factors if factor is not None]
    return math.prod(found) if len(found) == len(factors) else None


def sequence_parallel(situation: Situation, role: Role = "actor") -> int | None:
    """FSDP's Ulysses size, which takes GPUs from data parallelism; None where the release would have to be known.

    Until 0.7 the role's own key counts (workers/fsdp_workers.py). Since 0.8 the engine's does, and the actor's own is
    copied there where it is above 1 (workers/config/actor.py).
    """
    engine = "fsdp_config" if role == "actor" else "fsdp"
    own, inner = (
        positive(situation.settings, f"{SECTIONS[role]}.{key}ulysses_sequence_parallel_size") or 1
        for key in ("", f"{engine}.")
    )
    if own == inner or (role == "actor" and own > 1):
        return own
    return None if situation.release is None else inner if situation.release >= (0, 8) else own


def megatron_parallel(settings: Settings, role: Role = "actor") -> int | None:
    """GPUs that share one copy of the model and its sequences: tensor x pipeline x context."""
    section = f"{SECTIONS[role]}.megatron"
    sizes = ("tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size")
    return product(*(positive(settings, f"{section}.{size}") for size in sizes))


def data_parallel(situation: Situation, role: Role = "actor") -> int | None:
    """How many parts a batch is cut into."""
    settings = situation.settings
    everything = world(settings)
    cut = megatron_parallel(settings, role) if strategy(settings, role) == "megatron" else None
    if shards_freely(settings, role):
        cut = sequence_parallel(situation, role)
    return everything // cut if everything and cut and everything % cut == 0 else None


def engine_parallel(settings: Settings) -> int | None:
    """GPUs that one rollout engine takes (engine_workers.py, 0.9.1)."""
    section = "actor_rollout_ref.rollout"
    return product(
        positive(settings, f"{section}.tensor_model_parallel_size"),
        positive(settings, f"{section}.data_parallel_size") or 1,
        positive(settings, f"{section}.pipeline_model_parallel_size") or 1,
    )


def uses_critic(settings: Settings) -> bool:
    """trainer/ppo/utils.py need_critic, 0.6.1 to 0.9.1; 0.5.0 asks the estimator alone."""
    enabled = settings.get("critic.enable")
    return bool(enabled) if enabled is not None else settings.get("algorithm.adv_estimator") == "gae"


def uses_reference(settings: Settings) -> bool:
    """trainer/ppo/utils.py need_reference_policy."""
    return settings.flag("algorithm.use_kl_in_reward") or settings.flag("actor_rollout_ref.actor.use_kl_loss")


def lora_rank(settings: Settings, role: Role = "actor") -> int:
    """utils/config.py validate_config, 0.7.1: `lora.rank` comes before the older `lora_rank`."""
    return positive(settings, f"{MODELS[role]}.lora.rank") or positive(settings, f"{MODELS[role]}.lora_rank") or 0


def uses_queue(situation: Situation) -> bool:
    """verl 0.9's own trainer keeps its samples in TransferQueue; `trainer.use_v1=False` is the one before."""
    settings = situation.settings
    return settings.has("trainer.use_v1") and settings.get("trainer.use_v1") is not False


def trains_apart(settings: Settings) -> bool:
    """The rollout has GPUs of its own (trainer/ppo/v1/trainer_separate_async.py, 0.9.1)."""
    return settings.get("trainer.v1.trainer_mode") == "separate_async" or (
        settings.get("actor_rollout_ref.hybrid_engine") is False
    )


def on_cuda(situation: Situation) -> bool:
    """Plain verl on NVIDIA GPUs: no other device is asked for, and PyTorch is not built for AMD's.

    A module of one's own (VERL_USE_EXTERNAL_MODULES) may bring a platform, or rewards alone: where GPUs are, it is
    taken to leave them to verl.
    """
    environ = situation.environ
    platform, engine = (environ.get(name, "").strip().lower() for name in ("VERL_PLATFORM", "VERL_ENGINE_DEVICE"))
    if situation.settings.get("trainer.device") not in (None, "cuda"):
        return False
    if platform not in ("", "nvidia", "cuda") or engine not in ("", "cuda"):
        return False
    if environ.get("VERL_USE_EXTERNAL_MODULES") and not situation.machine.gpus:
        return False
    return not is_for_amd()


def joins_cluster(situation: Situation) -> bool:
    """Ray runs already, here or elsewhere, so that this machine alone says nothing about what Ray has."""
    return situation.environ.get("RAY_ADDRESS", "") not in ("", "local")


def joins_other_cluster(situation: Situation) -> bool:
    """The cluster is none that ray-head starts: somebody else's, whose GPUs may all be on other nodes than this one."""
    return joins_cluster(situation) and not situation.is_head


def ray_option(settings: Settings, name: str) -> Any:
    """What ray.init is told: `ray_init` in 0.5, `ray_kwargs.ray_init` since 0.6."""
    return settings.first(f"ray_kwargs.ray_init.{name}", f"ray_init.{name}")
