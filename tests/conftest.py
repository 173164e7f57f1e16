"""What holds for every test, wherever it is started from."""

from __future__ import annotations

import signal


def pytest_configure() -> None:
    """Let programs that the tests start hear Ctrl-C: a shell's background job ignores it, and so would its children."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
