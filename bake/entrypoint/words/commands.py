"""`exec` and `shell`: another program in place of this one, which needs no model."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from bake.entrypoint.process import become
from bake.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence


def exec_word(words: Sequence[str]) -> None:
    """Another command in place of this one."""
    if not words:
        raise UsageError("exec: no command", hint="for example `exec nvidia-smi`; `shell` starts a shell")
    become(words, os.environ)


def shell_word(words: Sequence[str]) -> None:
    """A shell in place of this process: bash where the image has it."""
    shell = shutil.which("bash") or "/bin/sh"
    become([shell, *words], os.environ)
