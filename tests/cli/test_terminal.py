"""bake on a terminal: bars that come and go, colours that may be refused, completion."""

from __future__ import annotations

import os
import pty
import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.cli.place import BAKE, Bake, Place, Ran

if TYPE_CHECKING:
    from pathlib import Path

COLOUR = re.compile(r"\x1b\[[0-9;]*[1-9][0-9;]*m")
SHOWN, HIDDEN = "\x1b[?25h", "\x1b[?25l"
"""Codes that show and hide the cursor."""


def on_terminal(place: Place, *words: str, **environ: str) -> tuple[int, str, str]:
    """Run bake with a terminal as stderr; returns the exit code, stdout, and what came to the terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [BAKE, *words],
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
        cwd=place.root,
        env={**os.environ, "TERM": "xterm-256color", **environ},
    )
    os.close(theirs)
    told = read_terminal(ours)
    out, _ = process.communicate(timeout=60)
    return process.returncode, out, told


def read_terminal(terminal: int) -> str:
    parts = []
    try:
        while part := os.read(terminal, 65536):
            parts.append(part)
    except OSError:  # EIO: the last one who had it open has closed it
        pass
    finally:
        os.close(terminal)
    return b"".join(parts).decode()


def test_bars_appear_and_leave_the_terminal_as_it_was(place: Place) -> None:
    place.add_large_model(20 << 20)

    code, out, told = on_terminal(place, "add", "big@v1", "dir://m")

    assert (code, out.count("\n")) == (0, 1)
    assert "big@v1: hashing" in told
    assert "━" in told
    assert told.rindex(SHOWN) > told.rindex(HIDDEN)
    assert told.endswith("next: bake build big@v1\r\n")


def test_a_failure_below_a_bar_leaves_the_terminal_as_it_was(place: Place, bake: Bake) -> None:
    folder = place.add_large_model(20 << 20)
    assert bake("-q", "add", "big@v1", "dir://m").code == 0
    with (folder / "part-1.safetensors").open("r+b") as stream:
        stream.seek(10 << 20)
        stream.write(b"x")

    code, out, told = on_terminal(place, "build", "big@v1")

    assert (code, out) == (6, "")
    assert told.rindex(SHOWN) > told.rindex(HIDDEN)
    assert told.index("error: ") > told.rindex(SHOWN)


def test_no_progress_gives_plain_lines_on_a_terminal(tiny: Place) -> None:
    code, _, told = on_terminal(tiny, "build", "tiny@v1", "--no-progress")

    assert code == 0
    assert "\x1b" not in told
    assert "tiny@v1: packing: 417 B" in told


def test_no_color_refuses_colours(place: Place) -> None:
    place.add_large_model(20 << 20)

    code, _, told = on_terminal(place, "add", "big@v1", "dir://m", NO_COLOR="1")

    assert code == 0
    assert COLOUR.findall(told) == []


def test_quiet_says_nothing_on_a_terminal(tiny: Place) -> None:
    assert on_terminal(tiny, "-q", "build", "tiny@v1")[2] == ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_completion_script(place: Place, shell: str) -> None:
    ran = place.run("completion", shell)

    assert (ran.code, ran.err) == (0, "")
    assert f"_BAKE_COMPLETE={shell}_complete" in ran.out


def test_bash_accepts_its_completion_script(place: Place, tmp_path: Path) -> None:
    (tmp_path / "bake.bash").write_text(place.run("completion", "bash").out, "utf-8")

    done = subprocess.run(["bash", "-n", tmp_path / "bake.bash"], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def complete(place: Place, *words: str) -> list[str]:
    """What bash would offer for the last word."""
    return asked_to_complete(place, *words).out.split()


def asked_to_complete(place: Place, *words: str) -> Ran:
    line = {"COMP_WORDS": " ".join(["bake", *words]), "COMP_CWORD": str(len(words))}
    return place.run(environ={"_BAKE_COMPLETE": "bash_complete", **line})


def test_models_of_the_lock_are_completed(tiny: Place) -> None:
    assert complete(tiny, "show", "ti") == ["plain,tiny@v1"]
    assert complete(tiny, "show", "x") == []


def test_commands_are_completed(place: Place) -> None:
    assert complete(place, "pl") == ["plain,plan"]


def test_completion_finds_the_lock_that_is_named(tiny: Place) -> None:
    tiny.lock.rename(tiny.root / "other.lock")

    assert complete(tiny, "--lock", "other.lock", "show", "ti") == ["plain,tiny@v1"]


def test_completion_without_a_lock_offers_nothing_and_says_nothing(place: Place) -> None:
    place.lock.unlink()

    ran = asked_to_complete(place, "show", "ti")

    assert (ran.out.strip(), ran.err) == ("", "")
