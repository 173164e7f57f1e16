"""Attempt: a step of transformers, kept from stdout and turned into one fault where it fails.

What transformers says is kept in a list: its loading report holds the names that its exceptions leave out.
"""

from __future__ import annotations

import logging
import sys
import warnings
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bake.entrypoint.fault import Fault

_Answer = TypeVar("_Answer")
_LINE = 240
"""The longest line, in characters, that is shown of an exception."""


class _Listener(logging.Handler):
    """Keeps messages instead of printing them."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@contextmanager
def quiet() -> Iterator[list[str]]:
    """No warning, no progress bar, and nothing on stdout from here on; gives the list that messages go to."""
    from transformers.utils import logging as library

    listener, root = _Listener(), logging.getLogger("transformers")
    handlers, progress = list(root.handlers), library.is_progress_bar_enabled()
    root.handlers = [listener]
    library.disable_progress_bar()
    try:
        with redirect_stdout(sys.stderr), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield listener.messages
    finally:
        root.handlers = handlers
        if progress:
            library.enable_progress_bar()


def attempt(step: Callable[[], _Answer], fault: Fault) -> _Answer | Fault:
    """What the step gives, or this fault, with the first line of what was raised as what was found."""
    try:
        return step()
    except Exception as error:  # noqa: BLE001 - hundreds of classes of transformers, and models' own code, run in here
        return replace(fault, found=first_line(error))


def first_line(error: BaseException) -> str:
    """The kind of an exception and the first line of what it says; the next one too where that ends with a colon."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    count = next((at for at, line in enumerate(lines, start=1) if not line.endswith(":")), len(lines))
    text = ": ".join([type(error).__name__, *(line.removesuffix(":") for line in lines[:count])])
    return text if len(text) <= _LINE else f"{text[: _LINE - 1]}…"
