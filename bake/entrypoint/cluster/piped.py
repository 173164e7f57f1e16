"""Piped: a program in the background whose output comes back line by line, for as long as the watch turns."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bake.entrypoint.process import Watch

_LONGEST = 65536
"""Bytes. A line that is longer comes in pieces."""


class Piped:
    """Starts at once; `stop` ends it. Raises UsageError where the program cannot run."""

    def __init__(
        self, watch: Watch, command: Sequence[str], environ: Mapping[str, str], *, on_line: Callable[[str], None]
    ) -> None:
        self._watch = watch
        self._on_line = on_line
        self._rest = b""
        self._read, write = os.pipe()
        try:
            self.program = watch.start(command, environ, output=write)
        except BaseException:
            os.close(self._read)
            raise
        finally:
            os.close(write)
        os.set_blocking(self._read, False)
        self._open = True
        watch.on_input(self._read, self._take)

    def stop(self, *, grace: float) -> None:
        """End the program, if it still runs, and take what it said last."""
        self._watch.stop(self.program, grace=grace)
        if self._open:
            self._take()
        if self._open:  # what it started may hold the other end, and goes on
            self._close()

    def _take(self) -> None:
        try:
            content = os.read(self._read, _LONGEST)
        except BlockingIOError:
            return
        if not content:
            self._close()
        *lines, self._rest = (self._rest + content).split(b"\n")
        if len(self._rest) >= _LONGEST or not content:
            lines.append(self._rest)
            self._rest = b""
        for line in lines:
            if line:
                self._on_line(line.decode(errors="replace"))

    def _close(self) -> None:
        self._open = False
        self._watch.forget(self._read)
        os.close(self._read)
