"""Ask real verl: for each line of overrides on stdin, whether its own validation of the configuration takes them.

Run with the release's folder and site on PYTHONPATH. One line of JSON a line: the composed tree, and verl's refusal.
"""

from __future__ import annotations

import contextlib
import json
import sys
from types import SimpleNamespace
from typing import Any

import transformers
from hydra import compose, initialize_config_module
from omegaconf import OmegaConf

# transformers 5 has dropped a name that verl 0.6 imports, and that nothing here uses
transformers.AutoModelForVision2Seq = getattr(
    transformers, "AutoModelForVision2Seq", transformers.AutoModelForImageTextToText
)


def refusal(config: Any, *, reference: bool, critic: bool) -> str | None:
    try:
        with contextlib.redirect_stdout(sys.stderr):
            _validate(config, reference=reference, critic=critic)
    except (AssertionError, ValueError) as error:
        return str(error) or type(error).__name__
    except Exception as error:  # noqa: BLE001 - Hydra wraps what a dataclass raises in an error of its own
        return str(error.__cause__ or error)
    return None


def _validate(config: Any, *, reference: bool, critic: bool) -> None:
    try:
        from verl.utils.config import validate_config
    except ImportError:  # 0.5
        from verl.trainer.ppo.ray_trainer import RayPPOTrainer

        trainer = SimpleNamespace(config=config, use_reference_policy=reference, use_critic=critic)
        RayPPOTrainer._validate_config(trainer)
    else:
        validate_config(config, use_reference_policy=reference, use_critic=critic)


def main() -> None:
    with initialize_config_module("verl.trainer.config", version_base=None):
        for line in sys.stdin:
            config = compose("ppo_trainer", overrides=json.loads(line))
            reference = config.algorithm.use_kl_in_reward or config.actor_rollout_ref.actor.use_kl_loss
            critic = config.critic.get("enable")
            critic = critic if critic is not None else config.algorithm.adv_estimator == "gae"
            tree = OmegaConf.to_container(config, resolve=True, throw_on_missing=False)
            answer = {"tree": tree, "refusal": refusal(config, reference=reference, critic=critic)}
            sys.stdout.write(json.dumps(answer) + "\n")


main()
