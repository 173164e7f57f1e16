"""Flags: Hydra's own options, taken apart from the overrides, which Hydra reads only in one run behind them."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from bake.entrypoint.launch.installed import CONFIG_NAME
from bake.errors import LaunchError

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """`words` are the options as Hydra takes them. A path stays as it was written: it is relative to
    verl/trainer for `config_path`, to the current folder for `config_dir`. `inspects`: Hydra only says something,
    and no training begins.
    """

    words: tuple[str, ...] = ()
    config_name: str = CONFIG_NAME
    config_path: str | None = None
    config_dir: str | None = None
    inspects: bool = False


def split(words: Sequence[str]) -> tuple[Flags, tuple[str, ...]]:
    """The options, and the overrides in their order. Raises LaunchError for an option that Hydra does not have."""
    parser = Parser()
    options = parser.parse_intermixed_args(list(words))
    if options.multirun:
        raise LaunchError(
            "--multirun starts several trainings one after another, which one container cannot check beforehand",
            hint="start one container for each training",
        )
    given = [(option.option_strings[0], getattr(options, option.dest)) for option in parser.options]
    words = [word for flag, value in given if value for word in ([flag] if value is True else [flag, value])]
    overrides = options.overrides
    if options.shell_completion:  # what follows says which shell, and is no override
        words, overrides = [*words, *overrides], []
    return (
        Flags(
            words=tuple(words),
            config_name=(options.config_name or CONFIG_NAME).removesuffix(".yaml"),
            config_path=options.config_path,
            config_dir=options.config_dir,
            inspects=any(getattr(options, name) for name in _INSPECT),
        ),
        tuple(overrides),
    )


_INSPECT = ("help", "hydra_help", "version", "cfg", "info", "shell_completion")
_INFORMATION = ["all", "config", "defaults", "defaults-tree", "plugins", "searchpath"]


class Parser(argparse.ArgumentParser):
    """As hydra/_internal/utils.py get_args_parser (hydra-core 1.3); a test holds the two side by side."""

    def __init__(self) -> None:
        super().__init__(prog="train", add_help=False, allow_abbrev=True)
        flag, value = {"action": "store_true"}, {"action": "store"}
        names = {
            ("--help", "-h"): flag,
            ("--hydra-help",): flag,
            ("--version",): flag,
            ("--cfg", "-c"): value | {"choices": ["job", "hydra", "all"]},
            ("--resolve",): flag,
            ("--package", "-p"): value,
            ("--run", "-r"): flag,
            ("--multirun", "-m"): flag,
            ("--shell-completion", "-sc"): flag,
            ("--config-path", "-cp"): value,
            ("--config-name", "-cn"): value,
            ("--config-dir", "-cd"): value,
            ("--experimental-rerun",): value,
            ("--info", "-i"): value | {"const": "all", "nargs": "?", "choices": _INFORMATION},
        }
        self.options = [self.add_argument(*flags, **kind) for flags, kind in names.items()]  # type: ignore[arg-type]
        self.add_argument("overrides", nargs="*")

    def error(self, message: str) -> NoReturn:
        raise LaunchError(
            f"train: {message}",
            hint="train takes overrides such as trainer.total_epochs=1, and Hydra's options such as --config-name NAME",
        )
