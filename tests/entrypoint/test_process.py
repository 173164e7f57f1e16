"""Becoming another program: for real, in front of a terminal, and as process 1 of a PID namespace of its own."""

from __future__ import annotations

import os
import pty
import select
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bake.entrypoint.process import Watch
from bake.errors import Terminated, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
BECOME = "import os, sys; from bake.entrypoint.process import become; become(sys.argv[1:], os.environ)"
UNSHARE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
TICK = "sleep 0.05"
ZOMBIE = "grep -qs '^State:.Z' /proc/[0-9]*/status"


def _may_unshare() -> bool:
    try:
        return subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


as_process_1 = pytest.mark.skipif(not _may_unshare(), reason="unshare may not make a PID namespace here")


def become(*command: str) -> list[str]:
    return [sys.executable, "-W", "error", "-c", BECOME, *command]


def start(*command: str, stdin: int | None = None, stdout: int = subprocess.PIPE) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command,
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )


def run(*command: str) -> tuple[int, str]:
    process = start(*command)
    try:
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    return process.returncode, output


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def process_1(unshare: subprocess.Popen[str]) -> int:
    """The pid, as seen from here, of process 1 in what unshare forked."""
    return int(Path(f"/proc/{unshare.pid}/task/{unshare.pid}/children").read_text())


def test_elsewhere_the_command_takes_the_very_process_over() -> None:
    process = start(*become("sh", "-c", "echo $$; exit 5"))

    output, _ = process.communicate(timeout=60)
    assert (process.returncode, output) == (5, f"{process.pid}\n")


@as_process_1
def test_process_1_stays_and_ends_with_the_command_s_code() -> None:
    assert run(*UNSHARE, *become("sh", "-c", "echo $$ $PPID; exit 5")) == (5, "2 1\n")


@as_process_1
def test_death_by_a_signal_comes_back_as_128_and_its_number() -> None:
    assert run(*UNSHARE, *become("sh", "-c", "kill -KILL $$")) == (137, "")


@as_process_1
@pytest.mark.parametrize("name", ["TERM", "INT", "USR1", "HUP", "QUIT", "WINCH", "RTMIN"])
def test_a_signal_to_process_1_reaches_the_command(name: str) -> None:
    script = f"trap 'echo got {name}; exit 9' {name}; echo ready; while :; do {TICK}; done"
    process = start(*UNSHARE, *become("bash", "-c", script))
    ready = first_line(process)

    os.kill(process_1(process), getattr(signal, f"SIG{name}"))

    output, _ = process.communicate(timeout=60)
    assert (process.returncode, ready, output) == (9, "ready\n", f"got {name}\n")


@as_process_1
def test_orphans_are_reaped_by_process_1() -> None:
    orphan = f"until grep -q '^PPid:.1$' /proc/$$/status; do {TICK}; done; echo $$"
    script = f'pid=$(sh -c "$0" & ); while test -e /proc/$pid; do {TICK}; done; echo reaped'

    assert run(*UNSHARE, *become("sh", "-c", script, orphan)) == (0, "reaped\n")


@as_process_1
def test_a_thousand_orphans_leave_no_zombie() -> None:
    script = f"for n in $(seq 1000); do (true &); done; while {ZOMBIE}; do {TICK}; done; echo all reaped"

    assert run(*UNSHARE, *become("sh", "-c", script)) == (0, "all reaped\n")


@pytest.mark.parametrize("front", [[], pytest.param([*UNSHARE], marks=as_process_1)], ids=["elsewhere", "process 1"])
def test_the_command_ignores_no_signal_that_python_ignores(front: list[str]) -> None:
    code, output = run(*front, *become("grep", "SigIgn", "/proc/self/status"))

    pythons = 1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1
    assert (code, int(output.split()[1], 16) & pythons) == (0, 0)


@as_process_1
@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("no-such-command", "cannot run 'no-such-command': No such file or directory"),
        ("/no/such/command", "cannot run '/no/such/command': No such file or directory"),
        ("/etc/passwd", "cannot run '/etc/passwd': Permission denied"),
        ("", "cannot run '': No such file or directory"),
    ],
)
def test_a_command_that_cannot_run_is_a_usage_error(command: str, message: str) -> None:
    with Watch() as watch, pytest.raises(UsageError) as caught:
        watch.run([command], os.environ)

    assert caught.value.message == message


@contextmanager
def terminal(*command: str) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """The command as process 1 of a container with a terminal, as `docker run -it` has it; and our end of it."""
    ours, theirs = pty.openpty()
    process = start(*UNSHARE, "setsid", "--ctty", *become(*command), stdin=theirs, stdout=theirs)
    os.close(theirs)
    try:
        yield ours, process
    finally:
        process.kill()
        process.wait(timeout=60)
        os.close(ours)


def read_until(ours: int, text: str) -> str:
    """What a terminal shows, up to a text, or to its end."""
    shown = b""
    with suppress(OSError):  # a terminal that nobody has open any more
        while text.encode() not in shown:
            assert select.select([ours], [], [], 60)[0], f"still expecting {text!r} after {shown!r}"
            shown += os.read(ours, 4096)
    return shown.decode()


def wait_until_in_front(ours: int, name: str) -> None:
    """Until a program of this name is what the keys of a terminal reach; for a minute."""
    deadline = time.monotonic() + 60
    while Path(f"/proc/{os.tcgetpgrp(ours)}/comm").read_text() != f"{name}\n":
        assert time.monotonic() < deadline, f"{name} is not in front"
        time.sleep(0.05)


@as_process_1
def test_ctrl_c_reaches_the_command_once() -> None:
    script = (
        f"trap 'echo caught; n=0' INT; n=-1000; echo ready; while test $n -lt 6; do {TICK}; n=$((n+1)); done; exit 3"
    )
    with terminal("bash", "-c", script) as (ours, process):
        read_until(ours, "ready\r\n")
        os.write(ours, b"\x03")

        shown = read_until(ours, "no such text")
        code = process.wait(timeout=60)

    assert (code, shown) == (3, "^Ccaught\r\n")


@as_process_1
def test_a_shell_has_job_control() -> None:
    with terminal("env", "PS1=ready> ", "bash", "--norc", "-i") as (ours, process):
        started = read_until(ours, "ready> ")
        os.write(ours, b"sleep 100\n")
        wait_until_in_front(ours, "sleep")
        os.write(ours, b"\x1a")
        stopped = read_until(ours, "ready> ")
        os.write(ours, b"exit\nexit 4\n")
        read_until(ours, "no such text")
        code = process.wait(timeout=60)

    assert "no job control" not in started
    assert "Stopped" in stopped
    assert code == 4


def test_a_signal_that_comes_before_the_command_runs_is_not_lost() -> None:
    with Watch() as watch:
        os.kill(os.getpid(), signal.SIGTERM)

        assert watch.run(["sleep", "60"], os.environ) == 143


@pytest.mark.parametrize(
    ("number", "interrupt"),
    [(signal.SIGTERM, Terminated), (signal.SIGHUP, Terminated), (signal.SIGINT, KeyboardInterrupt)],
)
def test_a_signal_without_a_program_in_front_ends_the_wait(
    number: signal.Signals, interrupt: type[KeyboardInterrupt]
) -> None:
    with Watch() as watch:
        os.kill(os.getpid(), number)

        with pytest.raises(interrupt) as caught:
            watch.turn(10)

    assert caught.type is interrupt


def test_after_the_watch_signals_are_handled_as_before() -> None:
    before = signal.getsignal(signal.SIGTERM)

    with Watch() as watch:
        during = signal.getsignal(signal.SIGTERM)
        watch.turn(0)

    assert during is not before
    assert signal.getsignal(signal.SIGTERM) is before


def test_inputs_are_waited_for_beside_programs() -> None:
    ours, theirs = socket.socketpair()
    heard = []
    with ours, theirs, Watch() as watch:
        watch.on_input(ours, lambda: heard.append(ours.recv(9)))
        program = watch.start(["sleep", "60"], os.environ)
        theirs.send(b"hello")
        watch.turn(10)
        watch.stop(program, grace=10)

    assert (heard, program.code) == ([b"hello"], 143)


def test_a_program_that_ignores_sigterm_is_killed_with_all_of_its_group() -> None:
    read, write = os.pipe()
    with os.fdopen(read) as output, Watch() as watch:
        program = watch.start(["bash", "-c", "trap '' TERM; sleep 61 & echo ready; wait"], os.environ, output=write)
        os.close(write)
        ready = output.readline()
        watch.stop(program, grace=0.1)
        rest = output.read()  # ends once nobody of the group is left

    assert (program.code, ready, rest) == (137, "ready\n", "")


def test_a_program_in_the_background_reads_nothing_of_ours() -> None:
    read, write = os.pipe()
    with os.fdopen(read) as output, Watch() as watch:
        program = watch.start(["readlink", "/proc/self/fd/0"], os.environ, output=write)
        os.close(write)

        assert (output.read(), watch.finish(program, timeout=60)) == ("/dev/null\n", 0)
