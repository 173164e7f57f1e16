"""Against real verl: its own validation of the configuration, in five releases, and its own table of loggers."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bake.entrypoint.machine import Machine
from bake.entrypoint.preflight.batches import check_batches
from bake.entrypoint.preflight.loggers import check_loggers
from bake.entrypoint.preflight.situation import Situation
from bake.entrypoint.settings import Settings
from tests.entrypoint.preflight.situations import situation
from tests.needs import verl_folder

pytestmark = pytest.mark.verl

TINY = Path(__file__).parents[2] / "models/tiny-llama"
RELEASES = ["0.5.0", "0.6.1", "0.7.1", "0.8.0", "0.9.1"]

ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"

RIGHT = [
    f"actor_rollout_ref.model.path={TINY}",
    f"critic.model.path={TINY}",
    "algorithm.adv_estimator=grpo",
    "trainer.n_gpus_per_node=8",
    "data.train_batch_size=64",
    f"{ROLLOUT}.name=vllm",
    f"{ROLLOUT}.n=2",
    f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu=4",
    f"{ACTOR}.ppo_mini_batch_size=32",
    f"{ACTOR}.ppo_micro_batch_size_per_gpu=4",
    "critic.ppo_mini_batch_size=32",
    "critic.ppo_micro_batch_size_per_gpu=4",
]

CASES: list[list[str]] = [
    [],
    ["algorithm.adv_estimator=gae"],
    ["data.train_batch_size=33"],
    ["data.train_batch_size=33", f"{ACTOR}.use_dynamic_bsz=True"],
    [f"{ACTOR}.ppo_mini_batch_size=128"],
    ["critic.ppo_mini_batch_size=128"],
    ["critic.ppo_mini_batch_size=128", "algorithm.adv_estimator=gae"],
    [f"{ACTOR}.ppo_micro_batch_size_per_gpu=null"],
    [f"{ACTOR}.ppo_micro_batch_size=8"],
    [f"{ACTOR}.ppo_micro_batch_size_per_gpu=null", f"{ACTOR}.ppo_micro_batch_size=5"],
    [f"{ACTOR}.ppo_micro_batch_size_per_gpu=null", f"{ACTOR}.ppo_micro_batch_size=8"],
    [f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu=null"],
    [f"{ACTOR}.use_kl_loss=True"],
    ["algorithm.adv_estimator=gae", "critic.ppo_micro_batch_size_per_gpu=null"],
    ["algorithm.adv_estimator=gae", "critic.ppo_micro_batch_size_per_gpu=null", "critic.ppo_micro_batch_size=4"],
    [f"{ACTOR}.ulysses_sequence_parallel_size=2", "actor_rollout_ref.model.use_remove_padding=False"],
    [f"{ACTOR}.ulysses_sequence_parallel_size=2", "actor_rollout_ref.model.use_remove_padding=True"],
]


def ask(release: str) -> list[dict[str, Any]]:
    """verl's answer to each case: the whole configuration, and why it refuses it."""
    place = verl_folder()
    lines = "".join(json.dumps([*RIGHT, *case]) + "\n" for case in CASES)
    environ = {**os.environ, "PYTHONPATH": f"{place / release}:{place / 'site'}", "HF_HUB_OFFLINE": "1"}
    oracle = Path(__file__).with_name("oracle.py")
    done = subprocess.run(
        [sys.executable, str(oracle)], input=lines, env=environ, capture_output=True, text=True, check=True, timeout=300
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def refused(tree: dict[str, Any], release: str) -> bool:
    """By the rules that verl asks before anything is loaded; the workers' own come later, and are not asked here."""
    major, minor = (int(part) for part in release.split(".")[:2])
    whole = Situation(settings=Settings(tree), models=(), machine=Machine(), environ={}, release=(major, minor))
    return any(finding.why.startswith("verl stops:") for finding in check_batches(whole))


@pytest.mark.slow
@pytest.mark.parametrize("release", RELEASES)
def test_batches_are_refused_exactly_where_verl_refuses_them(release: str) -> None:
    answers = ask(release)

    verl = [(case, answer["refusal"] is not None) for case, answer in zip(CASES, answers, strict=True)]
    ours = [(case, refused(answer["tree"], release)) for case, answer in zip(CASES, answers, strict=True)]

    assert ours == verl


@pytest.mark.parametrize("release", RELEASES)
def test_loggers_are_those_that_verl_knows(release: str) -> None:
    source = (verl_folder() / release / "verl/utils/tracking.py").read_text()
    listed = re.search(r"supported_backend = \[(.*?)\]", source, re.DOTALL)
    assert listed is not None
    known = re.findall(r'"(\w+)"', listed[1])
    major, minor = (int(part) for part in release.split(".")[:2])
    asked = {
        "trainer.logger": ["wandb", "mlflow", "trackio", "file", "rl_insight", "clearml", "swanlab", "tensorboard"]
    }

    findings = check_loggers(situation(asked, release=(major, minor), environ={"HOME": "/nowhere"}))

    unknown = {name for finding in findings for name in re.findall(r"'(\w+)', which verl", finding.what)}
    assert unknown == set(asked["trainer.logger"]) - set(known)
