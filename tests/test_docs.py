"""What the documentation says of codes and commands is what bake does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bake import errors
from bake.cli import group
from bake.cli.main import BUG, INTERRUPTED, TERMINATED
from bake.registry.adjustment import KEYS, NAMES, Adjustment
from bake.registry.profiles import GENERIC

ROOT = Path(__file__).parents[1]
_ROW = re.compile(r"^\| (\d+) \| ", re.MULTILINE)
_TREE = re.compile(r"(\w+) +(\d+) {3}")
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^\$ bake +([a-z]+)(.*)$", re.MULTILINE)
_TARGET = re.compile(r"^\$ make ([a-z]+)", re.MULTILINE)

CODES = {
    error.__name__: error.code for error in errors.BakeError.__subclasses__() if error.__module__ == errors.__name__
}
NO_ERROR = {0, BUG, INTERRUPTED, TERMINATED, 141}
REGISTRIES = (ROOT / "docs" / "registries.md").read_text("utf-8")
PROFILES = {
    name: row.split(" | ")
    for name, row in re.findall(r"^\| `([a-z-]+)` \| .*? \| (.*none.*) \|$", REGISTRIES, re.MULTILINE)
}
README = "\n".join(_BLOCK.findall((ROOT / "README.md").read_text("utf-8")))
TYPED = _COMMAND.findall(README)


def test_every_exit_code_is_in_the_table_and_no_other() -> None:
    table = (ROOT / "docs" / "exit-codes.md").read_text("utf-8")

    listed = [int(code) for code in _ROW.findall(table)]
    assert listed == sorted(set(CODES.values()) | NO_ERROR)


def test_each_class_of_error_has_a_code_of_its_own_and_stands_in_the_tree() -> None:
    assert len(set(CODES.values())) == len(CODES)
    assert {name: int(code) for name, code in _TREE.findall(errors.__doc__ or "")} == CODES


def test_every_code_has_an_example() -> None:
    text = (ROOT / "docs" / "exit-codes.md").read_text("utf-8").partition("## An example of each")[2]

    shown = {int(code) for code in re.findall(r"^(\d+)[, ]", text, re.MULTILINE)}
    assert shown == set(CODES.values()) | NO_ERROR - {0}


def test_the_readme_shows_commands() -> None:
    assert {command for command, _ in TYPED} >= {"init", "add", "build", "verify", "plan", "run", "render"}


@pytest.mark.parametrize(("command", "words"), TYPED, ids=lambda text: text.split()[0] if text.strip() else "alone")
def test_every_command_and_option_of_the_readme_exists(command: str, words: str) -> None:
    known = group.bake.commands[command]

    options = {option for parameter in known.params for option in parameter.opts}
    own = words.partition(" #")[0].partition(" -- ")[0]
    assert {word for word in own.split() if re.fullmatch("--?[a-z-]*[a-z]", word)} <= options


def test_every_target_of_make_in_the_readme_exists() -> None:
    made = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))

    assert set(_TARGET.findall(README)) <= made


def test_every_profile_of_a_registry_is_in_the_table_and_no_other() -> None:
    assert PROFILES.keys() == NAMES.keys()


@pytest.mark.parametrize("name", NAMES)
def test_the_table_says_of_each_profile_what_bake_knows(name: str) -> None:
    keys = [key for key in KEYS if key != "parallel"]
    said = ",".join(f"{key}={value}" for key, value in zip(keys, PROFILES[name], strict=True))

    profile, changes = NAMES[name], dict(Adjustment.parse(said, source="the table").changes)
    assert {field: getattr(profile, field) for field in changes} == changes
    assert profile.parallel == GENERIC.parallel == 5


def test_every_key_of_a_profile_is_in_the_table() -> None:
    section = REGISTRIES.partition("| key |")[2].partition("\n\n")[0]

    assert re.findall(r"^\| `([a-z]+)` \|", section, re.MULTILINE) == list(KEYS)


@pytest.mark.parametrize("said", re.findall(r"--registry-profile (\S*=\S*)", REGISTRIES))
def test_every_profile_that_the_page_types_can_be_read(said: str) -> None:
    assert Adjustment.parse(said, source="the page").changes
