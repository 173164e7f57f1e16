"""Hydra's own options beside overrides, in any order."""

from __future__ import annotations

import pytest

from bake.entrypoint.launch.flags import Flags, Parser, split
from bake.errors import LaunchError


def test_options_are_those_of_hydra_itself() -> None:
    from hydra._internal.utils import get_args_parser

    hydra = {tuple(action.option_strings): action.choices for action in get_args_parser()._actions}

    ours = {tuple(action.option_strings): action.choices for action in Parser().options}
    assert ours == {flags: choices for flags, choices in hydra.items() if flags}


@pytest.mark.parametrize(
    "words",
    [
        ("--config-name", "mine", "a=1", "~b"),
        ("--config-name=mine", "a=1", "~b"),
        ("-cn", "mine.yaml", "a=1", "~b"),
        ("a=1", "--config-name", "mine", "~b"),
        ("a=1", "~b", "--config-na", "mine"),
    ],
)
def test_options_are_taken_apart_from_overrides_wherever_they_stand(words: tuple[str, ...]) -> None:
    flags, overrides = split(words)

    assert (flags.config_name, flags.words[0], overrides) == ("mine", "--config-name", ("a=1", "~b"))


def test_all_that_decides_where_the_configuration_is() -> None:
    words = ["-cd", "/mnt/conf", "-cp", "/mnt/main", "-cn", "mine", "--cfg", "job", "--resolve"]

    assert split(words) == (
        Flags(
            words=(
                "--cfg",
                "job",
                "--resolve",
                "--config-path",
                "/mnt/main",
                "--config-name",
                "mine",
                "--config-dir",
                "/mnt/conf",
            ),
            config_name="mine",
            config_path="/mnt/main",
            config_dir="/mnt/conf",
            inspects=True,
        ),
        (),
    )


@pytest.mark.parametrize(
    "words", [["--cfg", "job"], ["--help"], ["-h"], ["--version"], ["--info"], ["--hydra-help"], ["-sc", "query=bash"]]
)
def test_options_that_only_ask_begin_no_training(words: list[str]) -> None:
    assert split(words)[0].inspects


@pytest.mark.parametrize("words", [["a=1"], ["--resolve"], ["--run"], ["-cn", "mine"], ["-p", "_global_"]])
def test_all_others_do(words: list[str]) -> None:
    assert not split(words)[0].inspects


def test_what_shell_completion_is_asked_for_is_no_override() -> None:
    assert split(["--shell-completion", "install=bash"]) == (
        Flags(words=("--shell-completion", "install=bash"), inspects=True),
        (),
    )


def test_nothing_is_verl_s_own_configuration() -> None:
    assert split(["a=1"]) == (Flags(config_name="ppo_trainer"), ("a=1",))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--epochs", "3"], "train: unrecognized arguments: --epochs"),
        (["--config-name"], "train: argument --config-name/-cn: expected one argument"),
        (
            ["--multirun", "a=1,2"],
            "--multirun starts several trainings one after another, which one container cannot check beforehand",
        ),
    ],
)
def test_an_option_that_makes_no_training_is_refused(words: list[str], message: str) -> None:
    with pytest.raises(LaunchError) as caught:
        split(words)

    assert (caught.value.message, caught.value.code) == (message, 12)
