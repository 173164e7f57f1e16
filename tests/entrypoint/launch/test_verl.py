"""verl 0.9.1 itself takes what is planned: its own Hydra, and its own check of a whole configuration."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from bake.entrypoint.launch.composed import plain
from tests.needs import verl_folder

if TYPE_CHECKING:
    from collections.abc import Callable

    from bake.entrypoint.launch import Launch
    from tests.entrypoint.launch.stage import Stage

pytestmark = pytest.mark.verl

TINY = Path(__file__).parents[2] / "models/tiny-llama"

CHECK = """
import sys
from hydra import compose, initialize_config_module
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import validate_config
with initialize_config_module("verl.trainer.config", version_base=None):
    config = compose("ppo_trainer", overrides=sys.argv[1:])
validate_config(config, use_reference_policy=need_reference_policy(config), use_critic=need_critic(config))
"""
"""What main_ppo checks before it starts workers; validate_config raises for sizes that do not fit together."""


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = verl_folder() / "site"
    monkeypatch.syspath_prepend(folder)
    return folder


@pytest.fixture
def planned(site: Path, baking: Callable[..., Stage], packages: Path) -> Callable[..., Launch]:  # noqa: ARG001
    """Plans for a small real model against the real verl, in place of the small one."""
    stage = baking().having("vllm")
    shutil.copytree(TINY, stage.model("actor"), dirs_exist_ok=True)
    (packages / "verl").rename(packages / "small")
    return stage.plan


def run(site: Path, launch: Launch, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **launch.environ, "PYTHONPATH": str(site)},
    )


def test_verl_s_own_hydra_makes_the_same_configuration(site: Path, planned: Callable[..., Launch]) -> None:
    launch = planned("data.train_files=/data/a.parquet", "data.train_batch_size=64", "--cfg", "job")

    result = run(site, launch, *launch.command[1:])

    document: Any = yaml.safe_load(result.stdout)
    assert result.returncode == 0
    assert document == yaml.safe_load(yaml.safe_dump(plain(launch.composed.config)))


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("data.train_batch_size=24",),
        ("algorithm.adv_estimator=grpo", "actor_rollout_ref.actor.use_kl_loss=true", "actor_rollout_ref.rollout.n=5"),
        ("model_engine=megatron", "data.train_batch_size=48", "algorithm.use_kl_in_reward=true"),
        ("data.max_response_length=16384", "trainer.nnodes=2"),
    ],
)
def test_verl_finds_that_all_sizes_fit_together(
    site: Path, planned: Callable[..., Launch], words: tuple[str, ...]
) -> None:
    launch = planned(*words)

    result = run(site, launch, "-c", CHECK, *launch.command[3:])

    assert (result.returncode, result.stdout.splitlines()[-1:]) == (
        0,
        ["[validate_config] All configuration checks passed successfully!"],
    )
