"""Process: the programs that this one starts, and itself as process 1 of a container: an init as small as tini.

One wait serves for three things, the programs' ends, signals, and sockets or pipes that have input. Nothing polls, and
there is no thread. The signals of a terminal or an orchestrator go to the program in front, as if it were alone.
"""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from bake.errors import Terminated, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import FrameType, TracebackType
    from typing import Protocol, TypeAlias

    class _Input(Protocol):
        def fileno(self) -> int: ...

    Input: TypeAlias = int | _Input
    Call: TypeAlias = Callable[[], None]

_OURS = frozenset(
    {
        # They cannot be caught, or tell of a fault in this very process.
        *(signal.SIGKILL, signal.SIGSTOP, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL),
        *(signal.SIGABRT, signal.SIGTRAP, signal.SIGSYS),
        # A program behind the terminal's foreground must not stop when it touches the terminal.
        *(signal.SIGTTIN, signal.SIGTTOU),
        signal.SIGCHLD,
        signal.SIGPIPE,  # a write of this process's own
    }
)
_FORWARDED = sorted(signal.valid_signals() - _OURS)
_DEFAULTS = sorted({*_FORWARDED, signal.SIGTTIN, signal.SIGTTOU, signal.SIGPIPE, signal.SIGCHLD})
"""What a program starts with. Python itself ignores SIGPIPE, and a shell's pipelines would inherit that."""

_ENDINGS = frozenset({signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT})


def become(command: Sequence[str], environ: Mapping[str, str]) -> NoReturn:
    """Turn into the command: its signals and its exit code are this process's, 128+n where signal n killed it.

    Process 1 stays behind it and reaps what the command leaves: the kernel hands orphans to process 1 alone.
    Raises UsageError where the command cannot run.
    """
    if os.getpid() != 1:
        _replace(command, environ)
    with Watch() as watch:
        sys.exit(watch.run(command, environ))


class Program:
    """A program that `Watch.start` started, in a process group of its own. `code` is None as long as it runs."""

    def __init__(self, name: str, pid: int) -> None:
        self.name = name
        self.pid = pid
        self.code: int | None = None

    def signal(self, number: int) -> None:
        """Send a signal, unless the program has ended."""
        if self.code is None:
            os.kill(self.pid, number)


class Watch:
    """Programs, signals and inputs, waited for together. As a context: it handles signals inside, and no longer after.

    A signal goes to the program in front. While there is none, one that asks to end raises Terminated, Ctrl-C
    KeyboardInterrupt, and others are dropped.
    """

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._programs: list[Program] = []
        self._front: Program | None = None
        self._terminal = False
        self._stopping = False
        self._read, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._before: dict[int, Callable[[int, FrameType | None], object] | int | None] = {}

    def __enter__(self) -> Watch:
        self._selector.register(self._read, selectors.EVENT_READ, self._take_signals)
        # The interpreter writes each signal's number into the pipe at once; the handler itself has nothing to do.
        self._wakeup = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        for number in (*_FORWARDED, signal.SIGCHLD):
            self._before[number] = signal.signal(number, _noted)
        for number in (signal.SIGTTIN, signal.SIGTTOU):
            self._before[number] = signal.signal(number, signal.SIG_IGN)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.set_wakeup_fd(self._wakeup)
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        if kind is None:
            self._repeat_unheard()
        self._selector.close()
        os.close(self._read)
        os.close(self._write)

    def start(
        self,
        command: Sequence[str],
        environ: Mapping[str, str],
        *,
        foreground: bool = False,
        output: int | None = None,
    ) -> Program:
        """Start a program. One in front has this process's input and terminal, others have neither.

        `output` is a descriptor that takes its stdout and stderr. Raises UsageError where it cannot run.
        """
        pid = _spawn(command, environ, actions=_redirections(foreground=foreground, output=output))
        program = Program(command[0], pid)
        self._programs.append(program)
        if foreground:
            self._front = program
            self._terminal = _give_terminal(pid)
        return program

    def run(self, command: Sequence[str], environ: Mapping[str, str]) -> int:
        """Start a program in front and turn until it has ended: its exit code. Raises UsageError as `start` does."""
        program = self.start(command, environ, foreground=True)
        while program.code is None:
            self.turn()
        return program.code

    def on_input(self, source: Input, call: Call) -> None:
        """Have `turn` call whenever `source` has input or has ended."""
        self._selector.register(source, selectors.EVENT_READ, call)

    def forget(self, source: Input) -> None:
        """No longer watch a source. Before it is closed."""
        self._selector.unregister(source)

    def turn(self, timeout: float | None = None) -> None:
        """Wait until something happens, at most `timeout` seconds, and do what it asks for."""
        for key, _ in self._selector.select(None if timeout is None else max(0.0, timeout)):
            key.data()
        self._reap()

    def finish(self, program: Program, *, timeout: float | None = None) -> int | None:
        """Turn until the program has ended, or `timeout` seconds have passed: its exit code, None while it runs."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while program.code is None and (deadline is None or time.monotonic() < deadline):
            self.turn(None if deadline is None else deadline - time.monotonic())
        return program.code

    def stop(self, program: Program, *, grace: float) -> None:
        """End a program: SIGTERM, and after `grace` seconds at most SIGKILL to what is left of its group.

        No signal interrupts this.
        """
        self._stopping = True
        try:
            program.signal(signal.SIGTERM)
            self.finish(program, timeout=grace)
            with suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)
            self.finish(program)
        finally:
            self._stopping = False

    def _repeat_unheard(self) -> None:
        """Send signals again that came too late for `turn`, for the handlers from before."""
        with suppress(BlockingIOError):
            for number in os.read(self._read, 4096):
                if number != signal.SIGCHLD:
                    os.kill(os.getpid(), number)

    def _take_signals(self) -> None:
        for number in os.read(self._read, 4096):
            if number == signal.SIGCHLD:
                continue  # `turn` looks for ended programs each time
            if self._front is not None:
                self._front.signal(number)
            elif number == signal.SIGINT and not self._stopping:
                raise KeyboardInterrupt
            elif number in _ENDINGS and not self._stopping:
                raise Terminated

    def _reap(self) -> None:
        """Collect every program that has ended; as process 1 also those that others left behind."""
        if os.getpid() == 1:
            while (ended := _collect(-1)) is not None:
                self._note(*ended)
        else:
            for program in tuple(self._programs):
                if (ended := _collect(program.pid)) is not None:
                    self._note(*ended)

    def _note(self, pid: int, code: int) -> None:
        for program in tuple(self._programs):
            if program.pid == pid:
                program.code = code
                self._programs.remove(program)
                self._clear_front(program)

    def _clear_front(self, program: Program) -> None:
        if program is self._front:
            self._front = None
            if self._terminal:
                with suppress(OSError):  # it may have been closed meanwhile
                    os.tcsetpgrp(0, os.getpgrp())


def _noted(number: int, frame: FrameType | None) -> None:
    """A handler only so that the interpreter notes the signal."""


def _replace(command: Sequence[str], environ: Mapping[str, str]) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and a pipeline of a shell would inherit that
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(command[0], list(command), environ)  # noqa: S606 - no shell is wanted
    except OSError as error:
        raise _cannot_run(command, error) from error


def _spawn(command: Sequence[str], environ: Mapping[str, str], *, actions: Sequence[tuple[int, ...]]) -> int:
    """The new program's pid. It has been executed when this returns, so that no signal meets a half-made one."""
    sys.stdout.flush()
    sys.stderr.flush()
    path = shutil.which(command[0], path=environ.get("PATH", os.defpath)) or command[0]
    try:
        if "/" not in path:
            raise FileNotFoundError(2, os.strerror(2))
        return os.posix_spawn(
            path, list(command), environ, file_actions=actions, setpgroup=0, setsigmask=(), setsigdef=_DEFAULTS
        )
    except OSError as error:
        raise _cannot_run(command, error) from error


def _redirections(*, foreground: bool, output: int | None) -> list[tuple[int, ...]]:
    actions: list[tuple[int, ...]] = []
    if not foreground:
        actions.append((os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0))  # type: ignore[arg-type]
    if output is not None:
        actions += [(os.POSIX_SPAWN_DUP2, output, 1), (os.POSIX_SPAWN_DUP2, output, 2)]
    return actions


def _cannot_run(command: Sequence[str], error: OSError) -> UsageError:
    return UsageError(f"cannot run {command[0]!r}: {error.strerror}")


def _collect(pid: int) -> tuple[int, int] | None:
    """Reap one ended child: its pid and exit code, 128+n for signal n; None where there is none to reap."""
    try:
        ended, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return None
    code = os.waitstatus_to_exitcode(status) if ended else 0
    return (ended, code if code >= 0 else 128 - code) if ended else None


def _give_terminal(pid: int) -> bool:
    """Put a program's group in front of the terminal, where this process is in front of one: Ctrl-C is then its own."""
    try:
        if os.tcgetpgrp(0) != os.getpgrp():
            return False
        os.tcsetpgrp(0, pid)
        os.kill(pid, signal.SIGCONT)  # it may have touched the terminal before it was its own, and was stopped
    except OSError:  # no terminal, or the program has ended
        return False
    return True
