"""A stage for launches: a small verl that must not be imported, or one of the real releases, and baked models."""

from __future__ import annotations

import importlib
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bake.entrypoint.launch import Launch, plan_launch
from bake.record import Record, RecordedModel
from tests.entrypoint.files import recorded, write

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

VARIABLES = {"actor": "VERL_MODEL_PATH", "critic": "VERL_CRITIC_MODEL_PATH", "reward_model": "VERL_REWARD_MODEL_PATH"}
CONFIG = json.dumps({"num_attention_heads": 32, "num_key_value_heads": 8}).encode()

TRAINER = b"""\
defaults:
  - model_engine: dp
  - engine@actor_rollout_ref.actor: ${model_engine}
  - _self_
data:
  train_files: ~/data/train.parquet
  val_files: ~/data/test.parquet
  train_batch_size: 1024
  max_prompt_length: 512
  max_response_length: 512
  trust_remote_code: false
actor_rollout_ref:
  model:
    path: ~/models/deepseek
    override_config: {}
    use_remove_padding: true
    trust_remote_code: false
  actor:
    ppo_mini_batch_size: 256
    ppo_micro_batch_size: null
    ppo_micro_batch_size_per_gpu: null
    use_dynamic_bsz: false
    use_kl_loss: false
    ulysses_sequence_parallel_size: 1
    clip_ratio: 0.2
    clip_ratio_low: 0.2
    clip_ratio_high: 0.2
    optim: {lr: 1e-6, betas: [0.9, 0.999]}
  rollout:
    name: ???
    n: 1
    tensor_model_parallel_size: 2
    log_prob_micro_batch_size: null
    log_prob_micro_batch_size_per_gpu: null
    log_prob_use_dynamic_bsz: ${oc.select:actor_rollout_ref.actor.use_dynamic_bsz,false}
    prompt_length: ${data.max_prompt_length}
    lost: ${nowhere.at.all}
    engine_kwargs: {vllm: {}}
critic:
  model:
    path: ~/models/deepseek
    tokenizer_path: null
    override_config: {}
    use_remove_padding: true
    trust_remote_code: false
  optim: {lr: 1e-5}
  ppo_mini_batch_size: ${actor_rollout_ref.actor.ppo_mini_batch_size}
  ppo_micro_batch_size: null
  ppo_micro_batch_size_per_gpu: null
  use_dynamic_bsz: ${actor_rollout_ref.actor.use_dynamic_bsz}
reward:
  reward_model: {enable: false, model_path: null, rollout: {name: '???', tensor_model_parallel_size: 2}}
  custom_reward_function: {path: null, name: compute_score}
reward_model: {enable: null, model: {path: null}, reward_manager: null}
algorithm: {gamma: 1.0}
trainer:
  project_name: verl_examples
  experiment_name: gsm8k
  logger: [console, wandb]
  nnodes: 1
  n_gpus_per_node: 8
  save_freq: -1
  total_epochs: 30
  val_before_train: true
  max_actor_ckpt_to_keep: null
  max_critic_ckpt_to_keep: null
  default_local_dir: checkpoints/${trainer.project_name}/${trainer.experiment_name}
ray_kwargs: {ray_init: {num_cpus: null}}
"""

CONFIGURATION: Mapping[str, bytes] = {
    "ppo_trainer.yaml": TRAINER,
    "ppo_megatron_trainer.yaml": b"defaults:\n  - ppo_trainer\n  - override model_engine: megatron\n  - _self_\n",
    "model_engine/dp.yaml": b"# @package _global_\nmodel_engine: dp\n",
    "model_engine/megatron.yaml": b"# @package _global_\nmodel_engine: megatron\n",
    "engine/dp.yaml": b"strategy: fsdp\nfsdp_config: {param_offload: false}\n",
    "engine/megatron.yaml": b"strategy: megatron\nmegatron: {tensor_model_parallel_size: 2}\n",
}


@dataclass(frozen=True, kw_only=True)
class Stage:
    """`packages` is a folder on the path of Python; `record` and `environ` are the image's."""

    packages: Path
    record: Record
    environ: Mapping[str, str]
    gpus: int = 8
    cluster: bool = False
    profile: Path

    def plan(self, *words: str) -> Launch:
        return plan_launch(
            words,
            record=self.record,
            environ=self.environ,
            gpus=self.gpus,
            cluster=self.cluster,
            profile=self.profile,
        )

    def overrides(self, *words: str) -> dict[str, str]:
        """What verl would be told, the last value of each key, as it is written."""
        command = self.plan(*words).command
        return dict(word.split("=", 1) for word in command[3:] if "=" in word)

    def having(self, *names: str) -> Stage:
        """With these packages installed; they cannot be imported, only found."""
        write(self.packages, {f"{name}/__init__.py": b"raise ImportError('found, not imported')\n" for name in names})
        importlib.invalidate_caches()
        return self

    def model(self, role: str) -> str:
        return next(model.path for model in self.record.models if role in model.roles)


def write_verl(packages: Path, *, release: str = "0.9.1", configuration: Mapping[str, bytes] = CONFIGURATION) -> None:
    """A small verl that says so when it is imported."""
    files = {f"verl/trainer/config/{name}": content for name, content in configuration.items()}
    write(packages, {**files, "verl/__init__.py": b"raise AssertionError('verl was imported')\n"})
    write(packages, {"verl/version/version": release.encode()})


def bake(
    root: Path,
    packages: Path,
    *,
    roles: Sequence[str] = ("actor",),
    trusted: bool = False,
    overrides: Sequence[str] = (),
    config: bytes = CONFIG,
) -> Stage:
    """An image with one model for each role, in folders that are named after them."""
    models = tuple(_model(root, role, trusted=trusted, config=config) for role in roles)
    return Stage(
        packages=packages,
        record=Record(models=models, overrides=tuple(overrides)),
        environ={VARIABLES[role]: model.path for role, model in zip(roles, models, strict=True)},
        profile=root / "train.yaml",
    )


def _model(root: Path, role: str, *, trusted: bool, config: bytes) -> RecordedModel:
    files = {"config.json": config}
    model = recorded(files, path=str(write(root / "models" / role, files)))
    return replace(model, name=role, roles=(role,), trust_remote_code=trusted)
