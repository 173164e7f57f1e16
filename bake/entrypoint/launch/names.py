"""Names: verl's keys where releases 0.5 to 0.9 differ, and the keys that guides made up. The one place that knows them.

All else names a key as verl 0.9 has it, and `here` says what the verl at hand calls it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from bake.entrypoint.settings import Settings

RENAMED: tuple[tuple[str, str], ...] = (
    # before                                          since
    ("ray_init.timeline_json_file", "ray_kwargs.timeline_json_file"),  # 0.6
    ("ray_init", "ray_kwargs.ray_init"),  # 0.6
    ("actor_rollout_ref.actor.optim.warmup_style", "actor_rollout_ref.actor.optim.lr_scheduler_type"),  # 0.6
    ("critic.optim.warmup_style", "critic.optim.lr_scheduler_type"),  # 0.6
    ("reward_model.enable", "reward.reward_model.enable"),  # 0.7, with all of reward.*
    ("reward_model.enable_resource_pool", "reward.reward_model.enable_resource_pool"),
    ("reward_model.n_gpus_per_node", "reward.reward_model.n_gpus_per_node"),
    ("reward_model.nnodes", "reward.reward_model.nnodes"),
    ("reward_model.model.path", "reward.reward_model.model_path"),
    ("reward_model.rollout", "reward.reward_model.rollout"),
    ("reward_model.num_workers", "reward.num_workers"),
    ("reward_model.reward_manager", "reward.reward_manager.name"),
    ("reward_model.reward_loop_source", "reward.reward_manager.source"),
    ("reward_model.reward_loop_module_path", "reward.reward_manager.module.path"),
    ("reward_model.reward_loop_class_name", "reward.reward_manager.module.name"),
    ("reward_model.reward_kwargs", "reward.reward_kwargs"),
    ("reward_model.sandbox_fusion", "reward.sandbox_fusion"),
    ("sandbox_fusion", "reward.sandbox_fusion"),
    ("custom_reward_function", "reward.custom_reward_function"),
    ("critic.model.fsdp_config", "critic.fsdp"),  # 0.8
    ("actor_rollout_ref.rollout.skip", "skip.rollout"),  # 0.9
)
"""A key, or the beginning of one, and its newer name: facts of verl's own trainer/config, read release by release."""

LEGACY_REWARD = ("reward_model", "custom_reward_function", "sandbox_fusion")
"""verl 0.7 and 0.8 move what is given here to reward.*; 0.9.1 takes it and never reads it (trainer/main_ppo.py)."""

_OWN_DATASET = "give a dataset class of your own in data.custom_cls"

REMOVED: Mapping[str, tuple[tuple[int, int], str]] = {
    "reward_model": ((0, 7), "the rollout engine serves the reward model: see reward.reward_model.*"),
    "data.datagen": ((0, 8), _OWN_DATASET),
    "data.sampler": ((0, 8), _OWN_DATASET),
    "trainer.use_legacy_worker_impl": ((0, 8), "the workers that it chose are gone too"),
    "actor_rollout_ref.actor.router_replay": ((0, 9), "only 0.7 and 0.8 have it"),
    "actor_rollout_ref.ref.router_replay": ((0, 9), "only 0.7 and 0.8 have it"),
    "actor_rollout_ref.actor.megatron.grad_offload": ((0, 9), "nothing took its place"),
    "actor_rollout_ref.ref.megatron.grad_offload": ((0, 9), "nothing took its place"),
    "critic.megatron.grad_offload": ((0, 9), "nothing took its place"),
}
"""The beginning of a key, the first release without it, and what there is instead."""

_ACTOR = "actor_rollout_ref.actor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Guide:
    """What verl calls a thing that guides call otherwise. `why` says what a reader of that guide does not know.

    Of each inner tuple the first key counts that this verl has; none at all where verl has no such setting. `value` is
    for a setting whose values have other names too.
    """

    keys: tuple[tuple[str, ...], ...] = ()
    why: str = ""
    value: str | None = None


_MODEL = Guide(why="the image sets actor_rollout_ref.model.path and critic.model.path to the model that it carries")

GUIDES: Mapping[str, Guide] = {
    "model.model_name_or_path": _MODEL,
    "model.path": _MODEL,
    "ppo.clip_range": Guide(
        keys=((f"{_ACTOR}.clip_ratio",),),
        why="clip_ratio_low and clip_ratio_high, which verl's loss reads, follow it here; critic.cliprange_value is "
        "another setting",
    ),
    "ppo.kl_coef": Guide(
        keys=(("algorithm.kl_ctrl.kl_coef",),),
        why="it counts with algorithm.use_kl_in_reward=true alone; the loss has use_kl_loss and kl_loss_coef in "
        f"{_ACTOR}",
    ),
    "ppo.gamma": Guide(keys=(("algorithm.gamma",),)),
    "kl_scheduler_type": Guide(
        keys=(("algorithm.kl_ctrl.type",),), why="it is fixed or adaptive; kl_decay is neither", value="adaptive"
    ),
    "kl_target": Guide(keys=(("algorithm.kl_ctrl.target_kl",),), why="with algorithm.kl_ctrl.type=adaptive alone"),
    "trainer.max_grad_norm": Guide(
        keys=((f"{_ACTOR}.grad_clip", f"{_ACTOR}.optim.clip_grad"), ("critic.grad_clip", "critic.optim.clip_grad")),
    ),
    "trainer.per_device_train_batch_size": Guide(
        keys=((f"{_ACTOR}.ppo_micro_batch_size_per_gpu",), ("critic.ppo_micro_batch_size_per_gpu",)),
        why="a micro batch decides memory alone; data.train_batch_size (prompts a step, on all GPUs) and "
        f"{_ACTOR}.ppo_mini_batch_size (prompts an update) decide the training",
    ),
    "trainer.gradient_accumulation_steps": Guide(
        why=f"verl derives it: {_ACTOR}.ppo_mini_batch_size over micro batch and GPUs"
    ),
    "trainer.learning_rate": Guide(
        keys=((f"{_ACTOR}.optim.lr",), ("critic.optim.lr",)), why="actor and critic each have their own"
    ),
    "trainer.warmup_ratio": Guide(
        keys=((f"{_ACTOR}.optim.lr_warmup_steps_ratio",), ("critic.optim.lr_warmup_steps_ratio",)),
        why="verl warms up nothing unless told to",
    ),
    "trainer.num_train_epochs": Guide(keys=(("trainer.total_epochs",),)),
    "trainer.output_dir": Guide(
        keys=(("trainer.default_local_dir",),), why="default_local_dir holds checkpoints alone"
    ),
    "train_files": Guide(keys=(("data.train_files",),)),
    "val_files": Guide(keys=(("data.val_files",),)),
    "prompt_key": Guide(keys=(("data.prompt_key",),)),
    "reward_fn_key": Guide(keys=(("data.reward_fn_key",),), why="verl's reward loop (0.7 and newer) reads data_source"),
    "max_prompt_length": Guide(keys=(("data.max_prompt_length",),)),
    "filter_overlong_prompts": Guide(keys=(("data.filter_overlong_prompts",),)),
    "cache_dir": Guide(keys=(("+data.cache_dir",),), why="verl reads it but does not list it, so that it takes a +"),
    "custom_cls": Guide(keys=(("data.custom_cls.path",),), why="beside data.custom_cls.name, a torch Dataset"),
    "use_auth_token": Guide(why="this image needs no token, since it carries its model"),
    "use_flash_attention": Guide(
        keys=(("++actor_rollout_ref.model.override_config.attn_implementation",),),
        why="it is flash_attention_2 by default, else sdpa or eager; verl 0.5 takes flash_attention_2 alone",
        value="flash_attention_2",
    ),
}
"""Names that verl has in no release (0.5.0 to 0.9.1)."""


def guide(key: str) -> Guide | None:
    """Also for a name under another heading than the guide's, as training.learning_rate; `path` alone says nothing."""
    last = key.rpartition(".")[2]
    named = (guide for name, guide in GUIDES.items() if name.rpartition(".")[2] == last and last != "path")
    return GUIDES.get(key) or next(named, None)


def removed(key: str, since: Callable[[int, int], bool]) -> str | None:
    """Why a key is gone from the verl at hand, where it is known."""
    for name, (release, why) in REMOVED.items():
        if f"{key}.".startswith(f"{name}.") and since(*release):
            return f"{release[0]}.{release[1]} removed it: {why}"
    return None


def serves_reward(settings: Settings) -> bool:
    """Whether a reward model is switched on, under either name: 0.7 and 0.8 read both."""
    return settings.flag("reward.reward_model.enable") or settings.flag("reward_model.enable")


def here(key: str, has: Callable[[str], bool]) -> str:
    """What the verl at hand calls a key of another release; the key itself where it has it, or has neither."""
    return key if has(key) else next((other for other in others(key) if has(other)), key)


def others(key: str) -> Iterable[str]:
    """What a key is called in other releases."""
    for before, since in RENAMED:
        for one, other in ((before, since), (since, before)):
            if key == one or key.startswith(f"{one}."):
                yield other + key[len(one) :]
