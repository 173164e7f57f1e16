"""Defaults: what a training needs that verl leaves open, or sets for another machine than this one.

A default is put only where verl has the key, and where nobody gave a value: not the user, the profile or the lock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bake.entrypoint.launch.given import overlap
from bake.entrypoint.launch.installed import importable
from bake.entrypoint.launch.names import here, serves_reward
from bake.entrypoint.launch.sizes import micro_batch, read_shape, tensor_parallel
from bake.entrypoint.override import Override

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bake.entrypoint.launch.baked import Baked
    from bake.entrypoint.launch.installed import Installed
    from bake.entrypoint.override import Value
    from bake.entrypoint.settings import Settings
    from bake.record import RecordedModel

ACTOR, ROLLOUT, REF = "actor_rollout_ref.actor", "actor_rollout_ref.rollout", "actor_rollout_ref.ref"
REWARD = "reward.reward_model"
GPUS = "trainer.n_gpus_per_node"

OUTPUTS = "/outputs"
SAVE_EVERY = 50
KEEP = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """The defaults decided so far, each with why: later ones build on earlier ones."""

    settings: Settings
    installed: Installed
    baked: Baked
    environ: Mapping[str, str]
    gpus: int
    decided: dict[str, tuple[Override, str]] = field(default_factory=dict)

    def put(self, key: str, value: Value, why: str) -> None:
        """A key as verl 0.9 names it; `++` in front of one that verl reads in a mapping and does not list there."""
        plain = here(key.lstrip("+"), self.settings.has)
        known = self.settings.has(plain.rpartition(".")[0] if key.startswith("+") else plain)
        if known and not self.given(plain):
            self.decided[plain] = (Override("++" + plain if key.startswith("+") else plain, value), why)

    def given(self, key: str) -> bool:
        return any(overlap(name, key) for name in self.settings.given)

    def get(self, key: str) -> Any:
        plain = here(key, self.settings.has)
        return self.decided[plain][0].value if plain in self.decided else self.settings.get(plain)

    def count(self, key: str, *, otherwise: int = 1) -> int:
        value = self.get(key)
        return value if isinstance(value, int) and value > 0 else otherwise

    @property
    def megatron(self) -> bool:
        return bool(self.get(f"{ACTOR}.strategy") == "megatron")


def decide(draft: Draft) -> tuple[tuple[Override, str], ...]:
    """Every default, in an order in which none needs a later one."""
    for rule in (_machine, _rollout, _attention, _data, _batches, _clipping, _logging, _checkpoints, _models):
        rule(draft)
    return tuple(draft.decided.values())


def _machine(draft: Draft) -> None:
    if draft.gpus:
        draft.put(GPUS, draft.gpus, "as many GPUs as this container sees")


def _rollout(draft: Draft) -> None:
    """0.5 defaults to vllm, whatever the image has; from 0.6 on the name is mandatory."""
    engine = next((name for name in ("vllm", "sglang") if importable(name)), None)
    if engine is not None:
        draft.put(f"{ROLLOUT}.name", engine, "the engine that this image has")
    _cut(draft, f"{ROLLOUT}.tensor_model_parallel_size", draft.baked.actor)


def _cut(draft: Draft, key: str, model: RecordedModel | None) -> None:
    """Of a model whose heads are not known verl's own size stands, wherever it divides the GPUs."""
    gpus, shape, usual = draft.count(GPUS), read_shape(model), draft.count(key)
    size = tensor_parallel(shape, gpus=gpus, usual=usual)
    node = f"{gpus} GPU{'' if gpus == 1 else 's'} a node"
    if shape.heads is not None:
        draft.put(key, size, f"it divides {node} and {shape.heads} attention heads")
    elif size != usual:
        draft.put(key, size, f"it divides {node}, and verl's own {usual} does not")


def _attention(draft: Draft) -> None:
    """Removing padding needs flash-attn's variable lengths. With it verl's own default stands: on from 0.7.

    Megatron's attention is Transformer Engine's. The critic's is flash_attention_2 in every release, whatever one
    gives (utils/model.py load_valuehead_model), as is the actor's in 0.5 (workers/fsdp_workers.py).
    """
    if draft.megatron or importable("flash_attn"):
        return
    for model in ("actor_rollout_ref.model", "critic.model"):
        draft.put(f"{model}.use_remove_padding", value=False, why="this image has no flash-attn")
        if draft.installed.since(0, 6):
            key = f"++{model}.override_config.attn_implementation"
            draft.put(key, "sdpa", "this image has no flash-attn")


def _data(draft: Draft) -> None:
    """verl opens a validation file even where it never validates; its default is ~/data/rlhf/gsm8k/test.parquet."""
    if draft.given("data.train_files") and not draft.given("data.val_files"):
        draft.put("data.val_files", "${data.train_files}", "no validation file was given, and verl opens one")
        why = "no validation file was given; with data.val_files=… verl validates before the first step"
        draft.put("trainer.val_before_train", value=False, why=why)


def _batches(draft: Draft) -> None:
    prompts, mini = draft.count("data.train_batch_size"), f"{ACTOR}.ppo_mini_batch_size"
    if draft.count(mini) > prompts:
        draft.put(mini, prompts, "at most data.train_batch_size")
    tokens = draft.count("data.max_prompt_length") + draft.count("data.max_response_length")
    size = micro_batch(tokens=tokens, batches=_batches_a_gpu(draft))
    why = f"no micro batch was given; {size} x {tokens} tokens at a time on each GPU"
    for micro, dynamic in (
        (f"{ACTOR}.ppo_micro_batch_size", f"{ACTOR}.use_dynamic_bsz"),
        (f"{ROLLOUT}.log_prob_micro_batch_size", f"{ROLLOUT}.log_prob_use_dynamic_bsz"),
        (f"{REF}.log_prob_micro_batch_size", f"{REF}.log_prob_use_dynamic_bsz"),
        ("critic.ppo_micro_batch_size", "critic.use_dynamic_bsz"),
        *_reward_batches(draft),
    ):
        open_ = draft.get(micro) is None and draft.get(f"{micro}_per_gpu") is None
        if open_ and draft.get(dynamic) is not True:
            draft.put(f"{micro}_per_gpu", size, why)


def _reward_batches(draft: Draft) -> tuple[tuple[str, str], ...]:
    """A reward model runs in the trainer up to 0.6, and in the rollout engine since."""
    used = draft.baked.reward_model is not None or draft.settings.flag("reward_model.enable")
    return (("reward_model.micro_batch_size", "reward_model.use_dynamic_bsz"),) if used else ()


def _batches_a_gpu(draft: Draft) -> tuple[int, ...]:
    """Sequences that one data-parallel rank updates with, of actor and critic; with Megatron also those of a step,
    which verl wants to be a multiple (utils/config.py validate_config).
    """
    gpus = draft.count(GPUS) * draft.count("trainer.nnodes")
    answers = draft.count(f"{ROLLOUT}.n")
    cuts = ("tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size")
    ranks = gpus // draft.count(f"{ACTOR}.ulysses_sequence_parallel_size")
    if draft.megatron:
        for cut in cuts:
            ranks //= draft.count(f"{ACTOR}.megatron.{cut}")
    mini = draft.count(f"{ACTOR}.ppo_mini_batch_size")
    critic = draft.count("critic.ppo_mini_batch_size") if draft.given("critic.ppo_mini_batch_size") else mini
    batches = (mini, critic, draft.count("data.train_batch_size"))
    return tuple(max(1, prompts * answers // max(1, ranks)) for prompts in batches)


def _clipping(draft: Draft) -> None:
    """The loss reads low and high, 0.2 by default, so that clip_ratio alone does nothing (core_algos.py, all)."""
    if draft.given(f"{ACTOR}.clip_ratio"):
        for side in ("low", "high"):
            value = draft.get(f"{ACTOR}.clip_ratio")
            draft.put(f"{ACTOR}.clip_ratio_{side}", value, "as clip_ratio, which verl's loss does not read")


def _logging(draft: Draft) -> None:
    environ = draft.environ
    offline = environ.get("WANDB_MODE") in ("offline", "disabled")
    if not (importable("wandb") and (environ.get("WANDB_API_KEY") or offline)):
        why = "wandb would stop the training without a key; set WANDB_API_KEY, or WANDB_MODE=offline, to have it"
        draft.put("trainer.logger", ["console"], why)


def _checkpoints(draft: Draft) -> None:
    """verl saves the last step too wherever save_freq is positive (ray_trainer.py fit, v1/trainer_base.py fit)."""
    actor = draft.baked.actor
    folder = f"{OUTPUTS}/{actor.name}-{actor.version}/${{trainer.project_name}}/${{trainer.experiment_name}}"
    why = "where a volume can be mounted; the model's own, since verl goes on from any checkpoint that it finds"
    draft.put("trainer.default_local_dir", folder, why)
    if draft.given("trainer.save_freq"):
        return
    draft.put("trainer.save_freq", SAVE_EVERY, f"verl saves nothing by itself; every {SAVE_EVERY} steps and the last")
    for model in ("actor", "critic"):
        why = f"the newest {KEEP}, so that the disk does not fill; give trainer.save_freq to keep all"
        draft.put(f"trainer.max_{model}_ckpt_to_keep", KEEP, why)


def _models(draft: Draft) -> None:
    """Tokens are the actor's, whatever the critic was trained with; from 0.8 on verl would take the critic's own."""
    baked = draft.baked
    if baked.critic.path != baked.actor.path:
        draft.put("critic.model.tokenizer_path", baked.actor.path, "the critic reads the actor's tokens")
    for key in baked.trusted(draft.settings):
        draft.put(key, value=True, why="models.lock says that this model's own code may run")
    if baked.reward_model is not None:
        draft.put(f"{REWARD}.enable", value=True, why="this image carries a reward model")
    if draft.get(f"{REWARD}.enable") is True or serves_reward(draft.settings):
        _reward_rollout(draft)


def _reward_rollout(draft: Draft) -> None:
    """Since 0.7 the rollout engine serves the reward model, a folder of the user's own too."""
    if (engine := draft.get(f"{ROLLOUT}.name")) is not None:
        draft.put(f"{REWARD}.rollout.name", engine, "as the actor's rollout")
    _cut(draft, f"{REWARD}.rollout.tensor_model_parallel_size", draft.baked.reward_model)
