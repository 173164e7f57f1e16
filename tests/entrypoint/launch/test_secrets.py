"""Secrets in overrides: verl gets them, and no text that is told has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bake.entrypoint.launch import masked
from bake.errors import LaunchError

if TYPE_CHECKING:
    from tests.entrypoint.launch.stage import Stage

ELSEWHERE = "a secret is safer in the environment, as with -e WANDB_API_KEY"


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("+trainer.wandb_api_key=s3cr3t", "+trainer.wandb_api_key=***"),
        ("++a.b.WANDB_API_KEY='s3 cr3t'", "++a.b.WANDB_API_KEY=***"),
        ("+hub.Token=[a,b]", "+hub.Token=***"),
        ("+db.password=a=b, c", "+db.password=***"),
        ("apikey=x", "apikey=***"),
        ("+env={env_vars: {WANDB_API_KEY: s3cr3t, A: b}}", "+env={env_vars: {WANDB_API_KEY: ***, A: b}}"),
        ("+env={HF_TOKEN: 's3, cr3t',A: b}", "+env={HF_TOKEN: ***,A: b}"),
        ("trainer.total_epochs=3", "trainer.total_epochs=3"),
        ("data.max_tokens=512", "data.max_tokens=512"),
        ("data.tokenizer=/a", "data.tokenizer=/a"),
        ("--cfg", "--cfg"),
        ("~hub.token", "~hub.token"),
    ],
)
def test_the_value_of_a_secret_is_masked(word: str, told: str) -> None:
    assert masked(word) == told


def test_a_secret_is_passed_on_and_noted_without_its_value(stage: Stage) -> None:
    launch = stage.plan("+trainer.wandb_api_key=s3cr3t")

    assert launch.command[-1] == "+trainer.wandb_api_key=s3cr3t"
    assert launch.notes[-1] == f"+trainer.wandb_api_key=***: {ELSEWHERE}"
    assert "s3cr3t" not in " ".join(launch.notes)


@pytest.mark.parametrize(
    ("word", "told"),
    [
        (
            "trainer.api_key=s3cr3t",
            (
                "the command line: trainer.api_key=***\n"
                "  why:   verl 0.9 has no key trainer.api_key\n"
                "  to do: see verl's keys with `train --cfg job`; a key that your own code reads takes a +: "
                f"+trainer.api_key=***; {ELSEWHERE}"
            ),
        ),
        (
            "trainer.api_key=s3=cr3t",
            (
                "the command line: trainer.api_key=***\n"
                "  why:   Hydra cannot read it\n"
                f"  to do: if the value is one text, write \"trainer.api_key='***'\"; {ELSEWHERE}"
            ),
        ),
        (
            "trainer.save_freq.token='s3 cr3t'",
            (
                "the command line: trainer.save_freq.token=***\n"
                "  why:   trainer.save_freq is one value, and holds no keys\n"
                f"  to do: write trainer.save_freq=…; {ELSEWHERE}"
            ),
        ),
        (
            "algorithm={token: s3cr3t}",
            (
                "the command line: algorithm={token: ***}\n"
                "  why:   verl 0.9 has no key algorithm.token\n"
                "  to do: see verl's keys with `train --cfg job`; a key that your own code reads takes a +: "
                f"'+algorithm={{token: ***}}'; {ELSEWHERE}"
            ),
        ),
    ],
)
def test_a_refusal_tells_no_secret(stage: Stage, word: str, told: str) -> None:
    with pytest.raises(LaunchError) as caught:
        stage.plan(word)

    assert caught.value.message == f"verl was not started: 1 setting is refused\n{told}"
