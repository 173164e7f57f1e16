"""What every command has in common: help, options anywhere, JSON, quiet, one result on stdout."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

from bake import __version__
from bake.cli import group as words_of_all
from tests.cli.place import BAKE, Bake, Place, Ran, error, finish

if TYPE_CHECKING:
    from collections.abc import Iterator

GOLDEN = Path(__file__).parent / "golden"
HEAVY = {"docker", "huggingface_hub", "rich", "torch", "transformers"}


def commands(group: click.Group = words_of_all.bake, *above: str) -> Iterator[tuple[str, ...]]:
    for name, command in group.commands.items():
        yield (*above, name)
        if isinstance(command, click.Group):
            yield from commands(command, *above, name)


def command_of(words: tuple[str, ...]) -> click.Command:
    found: click.Command = words_of_all.bake
    for word in words:
        assert isinstance(found, click.Group)
        found = found.commands[word]
    return found


COMMANDS = list(commands())
READING = [
    ("list",),
    ("show", "tiny@v1"),
    ("plan", "tiny@v1"),
    ("verify", "tiny@v1"),
    ("build", "tiny@v1"),
    ("lock",),
    ("lock", "tiny@v1"),
    ("lock", "--check"),
    ("cache",),
    ("cache", "prune"),
]
"""Commands that succeed where a model is built."""


def spoken(words: tuple[str, ...]) -> str:
    return " ".join(words)


@pytest.mark.parametrize("words", COMMANDS, ids=spoken)
def test_every_command_explains_itself(bake: Bake, words: tuple[str, ...]) -> None:
    ran = bake(*words, "--help")

    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"Usage: bake {spoken(words)}")
    assert bake(*words, "-h") == ran


@pytest.mark.parametrize("words", COMMANDS, ids=spoken)
def test_every_command_has_a_summary_that_fits_the_help_page(words: tuple[str, ...]) -> None:
    summary = command_of(words).get_short_help_str(80)

    assert summary
    assert not summary.endswith("...")


@pytest.mark.parametrize("words", COMMANDS, ids=spoken)
def test_no_option_is_listed_without_a_word_about_it(words: tuple[str, ...]) -> None:
    command = command_of(words)
    options = [option for option in command.params if isinstance(option, click.Option)]

    assert [option.name for option in options if not option.help] == []


def test_the_help_page_is_golden(bake: Bake) -> None:
    """`COLUMNS=80 bake --help > tests/cli/golden/help.txt` writes it anew."""
    assert bake("--help") == Ran(0, (GOLDEN / "help.txt").read_text("utf-8"), "")


def test_bake_alone_shows_the_help_page(bake: Bake) -> None:
    ran = bake()

    assert "error:" not in ran.err
    assert (GOLDEN / "help.txt").read_text("utf-8") in (ran.out, ran.err)


def test_the_version_is_one_line(bake: Bake) -> None:
    assert bake("--version") == Ran(0, f"bake {__version__}\n", "")


def test_an_option_may_stand_before_or_after_the_command(place: Place, bake: Bake) -> None:
    place.lock.rename(place.root / "other.lock")

    assert bake("--lock", "other.lock", "--json", "list") == Ran(0, "[]\n", "")
    assert bake("list", "--json", "--lock", "other.lock") == Ran(0, "[]\n", "")
    assert bake("--json", "list", "--lock", "other.lock") == Ran(0, "[]\n", "")


def test_the_environment_names_a_lock_and_loses_against_what_is_typed(
    place: Place, bake: Bake, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.lock.rename(place.root / "other.lock")
    monkeypatch.setenv("BAKE_LOCK", "nope.lock")

    assert bake("list") == Ran(3, "", error("no lock nope.lock", hint="bake init --lock nope.lock writes one"))
    assert bake("--lock", "other.lock", "--json", "list") == Ran(0, "[]\n", "")
    assert bake("--json", "list", "--lock", "other.lock") == Ran(0, "[]\n", "")
    monkeypatch.setenv("BAKE_LOCK", "other.lock")
    assert bake("--json", "list") == Ran(0, "[]\n", "")


@pytest.mark.usefixtures("tiny")
def test_plan_takes_the_output_that_build_takes(bake: Bake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAKE_TO", "docker:tiny:v1")

    assert bake("plan", "tiny@v1").out.startswith("tiny@v1 -> docker:tiny:v1\n")
    assert bake("plan", "tiny@v1", "--to", "oci:out").out.startswith("tiny@v1 -> oci:out\n")
    assert bake("--json", "plan", "tiny@v1", "--to", "oci:out").document["output"] == "oci:out"


def test_an_option_after_a_subcommand_counts_for_it(bake: Bake) -> None:
    assert bake("cache", "prune", "--json").document == {"freed": 0}
    assert bake("cache", "--json", "prune").document == {"freed": 0}
    assert bake("--json", "cache", "prune").document == {"freed": 0}


@pytest.mark.parametrize("words", READING, ids=spoken)
@pytest.mark.usefixtures("built")
def test_json_is_one_document_and_quiet_leaves_stderr_clean(bake: Bake, words: tuple[str, ...]) -> None:
    ran = bake("-q", "--json", *words)

    assert (ran.code, ran.err) == (0, "")
    assert ran.document is not None


def test_json_of_init_and_add(place: Place, bake: Bake) -> None:
    place.lock.unlink()
    place.add_model()

    assert bake("-q", "--json", "init").document == {"lock": str(place.lock)}
    assert bake("-q", "--json", "add", "tiny@v1", "dir://m").document["model"] == "tiny@v1"


def test_json_tells_an_error_as_well(bake: Bake) -> None:
    ran = bake("--json", "show", "tiny@v1")

    hint = "the lock is empty: bake add NAME@VERSION SOURCE"
    assert ran.code == 3
    assert ran.document == {"error": {"code": 3, "message": "no model tiny@v1 in the lock", "hint": hint}}
    assert ran.err == error("no model tiny@v1 in the lock", hint=hint)


def test_build_prints_exactly_its_reference(tiny: Place) -> None:
    ran = tiny.run("build", "tiny@v1")

    assert (ran.code, ran.out.count("\n")) == (0, 1)
    assert ran.out.startswith("oci:dist/tiny-v1@sha256:")


def test_no_codes_go_to_what_is_no_terminal(tiny: Place) -> None:
    ran = tiny.run("build", "tiny@v1", environ={"TERM": "xterm-256color"})

    assert "\x1b" not in ran.out + ran.err


@pytest.mark.usefixtures("tiny")
def test_plain_lines_say_what_was_done(bake: Bake) -> None:
    ran = bake("build", "tiny@v1")

    assert ran.err == (
        "tiny@v1: packing: 417 B\n"
        f"tiny@v1: {ran.digest}, 13.8 kB in 3 layers\n"
        "packed 2 layers (9.2 kB), the others were there\n"
        "no token in the config, the history, or any layer but the base's and the weights' own\n"
        "next: bake verify oci:dist/tiny-v1\n"
    )


@pytest.mark.parametrize("words", [("frobnicate",), ("list", "extra"), ("show",), ("build", "tiny@v1", "--nope")])
def test_words_that_mean_nothing_exit_with_2(bake: Bake, words: tuple[str, ...]) -> None:
    ran = bake(*words)

    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: ")
    assert "hint: bake" in ran.err


@pytest.mark.parametrize(
    "text", ["tiny", "Tiny@v1", "tiny@", "@v1", "tiny@v1@v2", "../up@v1", "-x@v1", "a" * 64 + "@v"]
)
def test_a_name_outside_the_grammar_exits_with_2(bake: Bake, text: str) -> None:
    ran = bake("show", "--", text)

    assert ran.code == 2
    assert "expected " in ran.err


def test_a_fault_shows_no_trace_unless_it_is_asked_for(bake: Bake) -> None:
    assert "Traceback" not in bake("show", "tiny@v1").err
    assert "Traceback" in bake("--debug", "show", "tiny@v1").err


def test_a_reader_that_goes_away_is_no_fault(tiny: Place) -> None:
    process = tiny.start("show", "tiny@v1")
    assert process.stdout is not None
    process.stdout.close()
    process.stdout = None

    ran = finish(process)

    assert (ran.code, ran.err) == (141, "")


@pytest.mark.parametrize("words", [("list",), ("--help",), ("--version",), ("completion", "bash")], ids=spoken)
def test_a_reader_that_was_never_there_is_no_fault(tiny: Place, words: tuple[str, ...]) -> None:
    """As in `bake list | true`."""
    reader, writer = os.pipe()
    os.close(reader)

    done = subprocess.run([BAKE, *words], cwd=tiny.root, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)

    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("words", [("list",), ("build", "tiny@v1"), ("--version",)], ids=spoken)
def test_a_closed_stdout_is_no_fault(tiny: Place, words: tuple[str, ...]) -> None:
    assert tiny.run("-q", *words, before=("sh", "-c", 'exec "$@" >&-', "sh")) == Ran(0, "", "")


def test_a_closed_stderr_is_no_fault(tiny: Place) -> None:
    ran = tiny.run("build", "tiny@v1", before=("sh", "-c", 'exec "$@" 2>&-', "sh"))

    assert (ran.code, ran.out) == (0, f"oci:dist/tiny-v1@{ran.digest}\n")


@pytest.mark.parametrize("words", [("list",), ("build", "tiny@v1"), ("completion", "bash")], ids=spoken)
def test_a_full_stdout_is_told(tiny: Place, words: tuple[str, ...]) -> None:
    ran = tiny.run("-q", *words, before=("sh", "-c", 'exec "$@" >/dev/full', "sh"))

    assert ran == Ran(7, "", error("cannot write the result to stdout: No space left on device"))


@pytest.mark.parametrize(
    "words", [("list",), ("build", "tiny@v1"), ("init",), ("--lock", "{lock}", "build", "tiny@v1")], ids=spoken
)
def test_a_working_folder_that_was_deleted_is_told(tiny: Place, words: tuple[str, ...]) -> None:
    script = 'mkdir gone && cd gone && rmdir ../gone && exec "$@"'
    said = [word.format(lock=tiny.lock) for word in words]

    ran = tiny.run("-q", *said, before=("sh", "-c", script, "sh"))

    assert ran == Ran(2, "", error("the working folder was deleted", hint="cd to one that exists"))


@pytest.mark.parametrize("words", [("--help",), ("list",), ("show", "tiny@v1"), ("plan", "tiny@v1"), ("cache",)])
def test_looking_around_imports_nothing_heavy(built: Place, words: tuple[str, ...]) -> None:
    code = f"import sys; from bake.cli import run; run({words!r}); print(*sys.modules, file=sys.stderr)"

    ran = python(built, code)

    assert ran.code == 0
    assert HEAVY & set(ran.err.split()) == set()


def test_building_from_a_folder_imports_nothing_heavy(tiny: Place) -> None:
    code = "import sys; from bake.cli import run; run(['-q', 'build', 'tiny@v1']); print(*sys.modules, file=sys.stderr)"

    ran = python(tiny, code)

    assert ran.code == 0
    assert HEAVY & set(ran.err.split()) == set()


def python(place: Place, code: str) -> Ran:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=place.root, capture_output=True, text=True, timeout=60, check=False
    )
    return Ran(done.returncode, done.stdout, done.stderr)
