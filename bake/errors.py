"""Every way in which bake fails on purpose: one class an exit code.

    BakeError
    ├── CheckFailed     1   a check ran and found faults (verify, lock --check)
    ├── UsageError      2   the command line does not say what to do
    ├── LockError       3   models.lock is missing, malformed, stale or does not hold what was asked for
    ├── SourceError     4   a model's source does not exist, may not be read or is not a usable model
    ├── NetworkError    5   a host did not answer, or went on failing after retries
    ├── DigestError     6   bytes are not the bytes that the lock names
    ├── OutputError     7   the output or the store cannot be written, or holds something else
    ├── ImageError      8   an image or a base image is missing, malformed or of an unknown kind
    ├── DaemonError     9   Docker is not there, may not be used, or refused
    ├── ModelFault     10   in an image: a baked model is not as its record says, or would not load
    ├── PreflightFault 11   in an image: the machine, the settings or the data would make the training fail
    ├── LaunchError    12   in an image: verl is not there, or does not take what it would be told
    └── ClusterError   13   in an image: the nodes did not come together, or do not hold the same models

verl and Python end with 1, docker with 125 to 127: 10 to 13 are none of these, so that a scheduler can tell them apart.
Exit code 0 is success, 130 an interrupt (Ctrl-C) and 143 SIGTERM. docs/exit-codes.md says the same for users.
"""

from __future__ import annotations

from typing import ClassVar


class BakeError(Exception):
    """A failure that is told to a person: what was expected, what was found, where; and what to type next."""

    code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class CheckFailed(BakeError):  # noqa: N818 - a check that fails is an answer, not a malfunction
    code = 1


class UsageError(BakeError):
    code = 2


class LockError(BakeError):
    code = 3


class SourceError(BakeError):
    code = 4


class NetworkError(BakeError):
    code = 5


class DigestError(BakeError):
    code = 6


class OutputError(BakeError):
    code = 7


class ImageError(BakeError):
    code = 8


class DaemonError(BakeError):
    code = 9


class ModelFault(BakeError):  # noqa: N818 - as CheckFailed
    code = 10


class PreflightFault(BakeError):  # noqa: N818 - as CheckFailed
    code = 11


class LaunchError(BakeError):
    code = 12


class ClusterError(BakeError):
    code = 13


class Terminated(KeyboardInterrupt):
    """SIGTERM: everything is put down in order, as after Ctrl-C."""
