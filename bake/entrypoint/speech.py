"""Speech: how the words read options and tell a person, or a program, what they found."""

from __future__ import annotations

import argparse
import json
import sys
from typing import NoReturn

from bake.errors import UsageError


class Parser(argparse.ArgumentParser):
    """Options of one word. Raises UsageError where argparse would end the process."""

    def __init__(self, word: str) -> None:
        super().__init__(prog=word, add_help=False, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.prog}: {message}", hint="`help` explains the words")


def tell(line: str) -> None:
    """A line for people, on stderr: stdout is the result."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def show(line: str) -> None:
    """A line of the result, on stdout."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def show_document(document: object) -> None:
    """The result for programs, as one line of JSON: a log collector takes each line for a message of its own."""
    show(json.dumps(document, ensure_ascii=False))
