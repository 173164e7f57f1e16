"""The overrides that a training on a CPU needs, and no others: what the entrypoint sets by itself is left to it."""

from __future__ import annotations

BATCH = 8
"""data.train_batch_size: prompts a step."""

ENVIRON = {"VERL_USE_EXTERNAL_MODULES": "verl_cpu.hooks"}

CPU = (
    "actor_rollout_ref.rollout.name=cpu",  # verl_cpu.rollout
    "actor_rollout_ref.actor.strategy=fsdp2",  # FSDP1 refuses a CPU: sync_module_states
    "critic.strategy=fsdp2",
    "+actor_rollout_ref.model.override_config.attn_implementation=sdpa",
    "+critic.model.override_config.attn_implementation=sdpa",
    "actor_rollout_ref.model.use_remove_padding=False",  # needs flash-attn
    "critic.model.use_remove_padding=False",
    "actor_rollout_ref.actor.use_torch_compile=False",  # there is no C compiler
    "actor_rollout_ref.actor.fsdp_config.use_torch_compile=False",
    "actor_rollout_ref.model.enable_gradient_checkpointing=False",  # reentrant checkpoints want an accelerator
    "critic.model.enable_gradient_checkpointing=False",
)
"""What there is of verl on a CPU, on one node and on several."""

SMALL = (
    "actor_rollout_ref.rollout.agent.num_workers=1",
    "reward.num_workers=1",
    "transfer_queue.backend.SimpleStorage.num_data_storage_units=1",
    "data.dataloader_num_workers=0",
)
"""One process in the place of eight, which two cores would take minutes to start."""

ONE_NODE = ("ray_kwargs.ray_init.num_cpus=16", "+ray_kwargs.ray_init.num_gpus=1", "trainer.n_gpus_per_node=1")
"""Ray's count of CPUs and GPUs, which need not be there. In a cluster `ray start` is told instead."""

TWO_STEPS = (
    "data.train_files=/data/train.parquet",
    "data.val_files=/data/test.parquet",
    f"data.train_batch_size={BATCH}",
    f"actor_rollout_ref.actor.ppo_mini_batch_size={BATCH}",
    "data.max_prompt_length=64",
    "data.max_response_length=32",
    "trainer.total_epochs=1",
    "trainer.total_training_steps=2",
    "trainer.val_before_train=False",
    "trainer.test_freq=-1",
)
"""A training of two steps of GAE, with a critic."""
