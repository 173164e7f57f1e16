"""Running one command line: whatever goes wrong is told here, and only here, with its exit code."""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from typing import TYPE_CHECKING, NoReturn, TextIO

import click

from bake.cli.group import bake, nobody_listens
from bake.errors import BakeError, CheckFailed, Terminated

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

BUG = 70
"""The exit code of a fault in bake itself (EX_SOFTWARE of sysexits.h)."""

INTERRUPTED = 130
"""The exit code of Ctrl-C: 128 + SIGINT."""

TERMINATED = 143
"""The exit code of SIGTERM: 128 + SIGTERM."""


def main() -> NoReturn:
    """The `bake` command."""
    sys.stdout = sys.stdout or _nowhere()
    sys.stderr = sys.stderr or _nowhere()
    signal.signal(signal.SIGTERM, _terminate)
    code = run(sys.argv[1:])
    if code in {
        INTERRUPTED,
        TERMINATED,
    }:  # threads that wait for a silent host would keep the interpreter, and hold nothing of value
        sys.stdout.flush()
        os._exit(code)
    sys.exit(code)


def _terminate(_number: int, _frame: object) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # whoever sends it twice does not want to wait
    raise Terminated


def _nowhere() -> TextIO:
    """In the place of a stream that was closed by who started bake; like the real ones it stays open to the end."""
    return open(os.open(os.devnull, os.O_WRONLY), "w", closefd=False)


def run(arguments: Sequence[str]) -> int:
    """Run one command line; returns its exit code. Whatever goes wrong is told here, and only here."""
    said = _Said(arguments)
    try:
        code = bake.main(args=list(arguments), prog_name="bake", standalone_mode=False, obj=None)
    except BakeError as error:
        return said.tell(error, code=error.code, message=error.message, hint=error.hint)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return 2
    except click.UsageError as error:
        help_path = error.ctx.command_path if error.ctx else "bake"
        return said.tell(error, code=2, message=error.format_message(), hint=f"{help_path} --help")
    except click.ClickException as error:
        return said.tell(error, code=2, message=error.format_message(), hint=None)
    except (click.Abort, KeyboardInterrupt) as error:
        terminated = isinstance(error.__cause__ or error, Terminated)
        print("terminated" if terminated else "interrupted", file=sys.stderr)  # noqa: T201
        return TERMINATED if terminated else INTERRUPTED
    except SystemExit:  # click's word for a reader of stdout that has gone
        return nobody_listens()
    except Exception:  # noqa: BLE001 - what nothing else knew of is a fault of bake's own
        traceback.print_exc()
        print("error: this is a fault in bake itself; please report the lines above", file=sys.stderr)  # noqa: T201
        return BUG
    return code if isinstance(code, int) else 0  # click returns the code of an exit that a command asked for


class _Said:
    """How a failure is told, as far as the words alone say, since they may be what is wrong."""

    def __init__(self, arguments: Iterable[str]) -> None:
        words = list(arguments)
        words = words[: words.index("--")] if "--" in words else words
        self._as_json = "--json" in words
        self._debug = "--debug" in words

    def tell(self, error: Exception, *, code: int, message: str, hint: str | None) -> int:
        if self._debug:
            traceback.print_exception(error)
        lines = [f"error: {message}", *([f"hint: {hint}"] if hint else [])]
        print("\n".join(lines), file=sys.stderr)  # noqa: T201
        if self._as_json and not isinstance(error, CheckFailed):
            click.echo(json.dumps({"error": {"code": code, "message": message, "hint": hint}}, indent=2))
        return code
