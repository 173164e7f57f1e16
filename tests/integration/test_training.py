"""A baked image from `docker run` to the checkpoint, with real verl; and every way in which it must not get that far.

The GPU is a stand-in: a CPU that verl takes for one (tests/verl_cpu). All else is what a user has.
"""

from __future__ import annotations

import re
import sys
import time
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.engine import DOCKER, run_container, start_container
from tests.integration.training import (
    FIRST_STEP,
    SECOND_SHARD,
    derive,
    has_started_ray,
    log,
    orphans,
    outputs_of,
    refused,
    train_words,
    training,
    without_shard,
    write_data,
)
from tests.verl_cpu.data import rows
from tests.verl_cpu.settings import BATCH

if TYPE_CHECKING:
    from pathlib import Path

    from testcontainers.core.container import DockerContainer

    from tests.integration.engine import Shop

pytestmark = [DOCKER, pytest.mark.verl]

FLIP = "f = open('{}', 'r+b'); f.seek(-1, 2); last = f.read()[0]; f.seek(-1, 2); f.write(bytes([last ^ 1]))"
STARTING = re.compile(r"^(\S+) starting verl: .*\n(\S+) ", re.MULTILINE)
"""The entrypoint's last line and the first of verl's, each after its time."""


@pytest.fixture(scope="module")
def flipped(trainer: Shop) -> str:
    """One bit of a weight is another: names, sizes and headers are right."""
    return derive(trainer, "flipped", FLIP)


@pytest.fixture(scope="module")
def halved(trainer: Shop) -> str:
    return without_shard(trainer)


def tell_start(container: DockerContainer, capfd: pytest.CaptureFixture[str]) -> None:
    """Print how long it took from `docker run` until all was checked, and until verl said its first word."""
    found = STARTING.search(log(container))
    assert found is not None
    begin = _time(container.get_wrapped_container().attrs["Created"])
    checked, spoke = ((_time(text) - begin).total_seconds() for text in found.groups())
    with capfd.disabled():
        line = f"docker run to verl's start: {checked:.1f} s; to verl's first line: {spoke:.1f} s"
        print(f"\nmeasured: {line}", file=sys.stderr)  # noqa: T201 - for people


def _time(text: str) -> datetime:
    """As Docker prints it, in nanoseconds, which datetime cannot hold."""
    return datetime.fromisoformat(text[:26]).replace(tzinfo=timezone.utc)


def test_the_image_trains_two_steps_and_leaves_a_checkpoint_in_the_mounted_folder(
    trainer: Shop, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    outputs = outputs_of(tmp_path)

    with training(trainer, *train_words(), writable={"/outputs": outputs}) as container:
        code = container.wait()
        tell_start(container, capfd)
        text, ray = log(container), has_started_ray(container)

    assert code == 0, text[-4000:]
    assert ray
    assert "step:2 - " in text
    assert ": choices: " not in text, "a rollout that VERL_USE_EXTERNAL_MODULES brings is right"
    assert "verl_cpu: 21 tensors went to the rollout\n" in text
    saved = outputs / trainer.model.replace("@", "-") / "verl_examples" / "gsm8k"
    assert (saved / "latest_checkpointed_iteration.txt").read_text() == "2"
    assert {path.name for path in (saved / "global_step_2" / "actor").glob("*.pt")} == {
        "model_world_size_1_rank_0.pt",
        "optim_world_size_1_rank_0.pt",
        "extra_state_world_size_1_rank_0.pt",
    }


def test_sigterm_ends_a_training_promptly_with_verls_own_code(trainer: Shop) -> None:
    """What verl ends with depends on where the signal meets it: 1, or that of Ray's own abort."""
    words = train_words("trainer.total_epochs=1000", "trainer.total_training_steps=1000")

    with training(trainer, *words, until=FIRST_STEP) as container:
        container.get_wrapped_container().stop(timeout=60)
        code = container.wait()

    assert code not in {0, 137}, "137 is what the engine kills with, after a minute"


def orphans_at_last(container: DockerContainer) -> tuple[str, ...]:
    """Once only the container's own command is left, or after a minute."""
    deadline = time.monotonic() + 60
    while len(found := orphans(container)) > 1 and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


def test_process_1_reaps_what_a_training_leaves_behind(trainer: Shop) -> None:
    script = "sleep 0.1 & sleep 0.2 & sleep 0.3 &"
    with start_container(trainer.engine, trainer.image, "exec", "sleep", "60") as container:
        container.get_wrapped_container().exec_run(["sh", "-c", script])
        left = orphans_at_last(container)

    assert left == ("S",)


def test_one_flipped_bit_is_found_at_level_full(trainer: Shop, flipped: str) -> None:
    ran = run_container(trainer.engine, flipped, "verify", "--level", "full")

    assert ran.code == 10
    assert f"{SECOND_SHARD}: altered\n" in ran.out
    assert ran.err == f"error: faults: 1 in {trainer.model}\nhint: each fault says what to do\n"


def test_one_flipped_bit_is_no_fault_at_level_quick(trainer: Shop, flipped: str) -> None:
    assert run_container(trainer.engine, flipped, "verify").code == 0


@pytest.mark.parametrize(
    ("words", "environment"), [(("--level", "full"), {}), ((), {"BAKE_VERIFY": "full"})], ids=["option", "variable"]
)
def test_a_training_that_verifies_fully_stops_at_one_flipped_bit(
    trainer: Shop, flipped: str, words: tuple[str, ...], environment: dict[str, str]
) -> None:
    ran, ray = refused(trainer, "train", *words, *train_words(), image=flipped, environ=environment)

    assert (ran.code, ray) == (10, False)
    assert f"{SECOND_SHARD}: altered\n" in ran.err
    assert ran.err.endswith(
        f"error: faults: 1 in {trainer.model}\nhint: training was not started; each fault above says what to do\n"
    )


def test_a_training_stops_at_a_missing_shard(trainer: Shop, halved: str) -> None:
    ran, ray = refused(trainer, *train_words(), image=halved)

    assert (ran.code, ray) == (10, False)
    assert f"{SECOND_SHARD}: missing\n" in ran.err


def prompts_of_text() -> list[dict[str, Any]]:
    return [{**row, "prompt": row["prompt"][0]["content"]} for row in rows(2 * BATCH)]


def from_nowhere() -> list[dict[str, Any]]:
    return [{**row, "data_source": "org/nobody-knows"} for row in rows(2 * BATCH)]


@pytest.mark.parametrize(
    ("found", "check"),
    [(prompts_of_text(), "data-prompts"), (rows(BATCH - 1), "data-rows"), (from_nowhere(), "data-rewards")],
    ids=["prompts are strings", "fewer rows than a batch", "nobody scores this data source"],
)
def test_a_training_stops_at_data_that_verl_would_fail_on_late(
    trainer: Shop, tmp_path: Path, found: list[dict[str, Any]], check: str
) -> None:
    data = write_data(tmp_path / "data", found)

    ran, ray = refused(trainer, *train_words(), mounts={"/data": data})

    assert (ran.code, ray) == (11, False)
    assert f"\nerror: preflight: {check}\n" in ran.err


def test_a_training_stops_at_a_key_of_some_guide_and_names_verls_own(trainer: Shop) -> None:
    ran, ray = refused(trainer, *train_words("trainer.learning_rate=1e-6"))

    assert (ran.code, ray) == (12, False)
    assert ran.err == (
        "error: verl was not started: 1 setting is refused\n"
        "the command line: trainer.learning_rate=1e-6\n"
        "  why:   verl has no such key; actor and critic each have their own\n"
        "  to do: write actor_rollout_ref.actor.optim.lr=1e-6 critic.optim.lr=1e-6\n"
        "hint: `train --dry-run` checks again without starting anything\n"
    )
