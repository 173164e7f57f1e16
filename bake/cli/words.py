"""How the command line is spoken to:

options that stand before or after a command, and commands in groups on the help page.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the options that every command takes say.

    So does `--registry-profile`, which the commands have that push.
    """

    lock: Path | None = None
    as_json: bool = False
    quiet: bool = False
    offline: bool = False
    debug: bool = False
    no_progress: bool = False
    registry_profile: str | None = None


class RateType(click.ParamType):  # type: ignore[type-arg] # not generic before click 8.3
    """The rate of a line as people have it at hand: `100MB`, `1Gbit`, `300Mbps`; in bytes a second."""

    name = "RATE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        found = _RATE.fullmatch(value.strip())
        if found is None or not float(found["number"]):
            self.fail(f"expected a rate such as 100MB/s, 1Gbit/s or 300Mbps, found {value!r}", param, ctx)
        thousands: int = 1000 ** " kmgt".index(found["prefix"].lower() or " ")
        return float(found["number"]) * thousands / (1 if found["unit"] == "B" else 8)


_RATE = re.compile(r"(?P<number>\d{1,9}(?:\.\d{1,9})?) ?(?P<prefix>[kKMmGgTt]?)(?P<unit>B|[Bb]its?|b)(?:/s|ps)?")
"""A capital B is a byte; a small one, and `bit`, are a bit."""


_PROFILE = (
    "What the registry takes, if bake does not know it, or knows it otherwise: a profile (ghcr, ecr, harbor, …), "
    "layer=SIZE, body=SIZE, chunk=SIZE, time=TIME, parallel=N. May be repeated. BAKE_REGISTRY_PROFILE=HOST:… says it "
    "for good; docs/registries.md has it all."
)

registry_profile = click.option("--registry-profile", metavar="[NAME,]KEY=VALUE,…", multiple=True, help=_PROFILE)
"""For each command that pushes; what it says is in the settings, and from there in the workspace."""


def _common_options() -> list[click.Option]:
    return [
        click.Option(
            ["--lock", "lock"],
            metavar="FILE",
            type=click.Path(path_type=Path, dir_okay=False),
            envvar="BAKE_LOCK",
            help="The lock to use.  [default: models.lock here, or in a folder above]",
        ),
        click.Option(["--json", "as_json"], is_flag=True, help="Print the result as JSON."),
        click.Option(["-q", "--quiet"], is_flag=True, help="Print nothing but the result, warnings and errors."),
        click.Option(["--offline"], is_flag=True, envvar="BAKE_OFFLINE", help="Use no network."),
        click.Option(["--no-progress"], is_flag=True, help="Plain lines instead of progress bars."),
        click.Option(["--debug"], is_flag=True, help="Show the Python trace of an error."),
    ]


_COMMON = frozenset({"lock", "as_json", "quiet", "offline", "no_progress", "debug"})


def settings(context: click.Context) -> Settings:
    """What was said before and after the command, taken together."""
    found = context.find_object(Settings)
    return found or Settings()


def completed_settings(context: click.Context) -> Settings:
    """What is said so far on a line that is being completed: no command has run, so nothing is taken together yet."""
    said = Settings()
    for each in (context.parent, context):
        given = {name: each.params[name] for name in _COMMON if each.params.get(name)} if each else {}
        said = replace(said, **given)
    return said


class Command(click.Command):
    """A command that takes the common options too; they are merged with those before it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += _common_options()

    def invoke(self, context: click.Context) -> Any:
        _merge(context)
        return super().invoke(context)

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """The command's own options first, then those that every command takes."""
        own: list[tuple[str, str]] = []
        common: list[tuple[str, str]] = []
        for parameter in self.get_params(context):
            if isinstance(parameter, click.Option) and (record := parameter.get_help_record(context)):
                (common if parameter.name in _COMMON else own).append(record)
        for title, records in (("Options", own), ("Common options", common)):
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class Group(click.Group):
    """A group whose help page shows its commands by theme, in the order in which a newcomer meets them."""

    command_class = Command

    def __init__(self, *args: Any, themes: Mapping[str, tuple[str, ...]] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += _common_options()
        self.themes = themes or {}

    def invoke(self, context: click.Context) -> Any:
        _merge(context)
        return super().invoke(context)

    def list_commands(self, context: click.Context) -> list[str]:
        themed = [name for names in self.themes.values() for name in names if name in self.commands]
        return themed + [name for name in super().list_commands(context) if name not in themed]

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        themes = self.themes or {"Commands": tuple(self.list_commands(context))}
        width = max(map(len, self.commands), default=0)
        for title, names in themes.items():
            commands = [(name, self.commands[name]) for name in names if name in self.commands]
            if commands:
                with formatter.section(title):
                    formatter.write_dl(
                        [(name.ljust(width), command.get_short_help_str(80)) for name, command in commands]
                    )


def _merge(context: click.Context) -> None:
    before = context.find_object(Settings)
    said = {name: context.params.pop(name, None) for name in _COMMON}
    typed = {name: value for name, value in said.items() if value and (before is None or _is_typed(context, name))}
    if profile := context.params.pop("registry_profile", ()):
        typed["registry_profile"] = ",".join(profile)
    context.obj = replace(before or Settings(), **typed)


def _is_typed(context: click.Context, name: str) -> bool:
    """Whether an option stands on the command line here: what the environment says was taken before the command."""
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE
