"""The image's entrypoint. Verify and preflight come first, then verl replaces this process.

Exit codes are those of bake.errors; once verl or a command has started, they are its own.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn

from bake.errors import BakeError, Terminated, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

USAGE = """\
usage: IMAGE [train] [OPTION…] [OVERRIDE…]      verify models, check machine and data, start verl PPO training
       IMAGE preflight [OPTION…] [OVERRIDE…]    the same checks, and no training
       IMAGE verify [--level quick|full|load] [--json] [--record FILE] [--root DIR]
                                                verify the models alone
       IMAGE ray-head [OPTION…] trainer.nnodes=N [OVERRIDE…]
                                                train on N nodes: start Ray, wait for the others, train
       IMAGE ray-worker [--level LEVEL] HOST[:PORT]
                                                be one of the N nodes: verify, and join the head
       IMAGE shell | exec COMMAND… | help

OVERRIDE is Hydra's key=value in verl's own keys, as data.train_files=/data/train.parquet. Hydra's flags work too.
Later ones win: the entrypoint's defaults, the lock's, those of /etc/bake/train.yaml, the command line's.

options of train, preflight and ray-head:
  --level LEVEL         how models are verified: quick (names, sizes, headers; the default), full (every byte),
                        load (as transformers loads them), off
  --map FIELD=COLUMN    read verl's field (prompt, ground_truth, data_source) from this column of the data
  --no-preflight NAME   leave one check out; `all` leaves out every one
  --dry-run             print the command that would start verl, and start nothing
  --json                results as JSON on stdout, one a line

verify: DIR is where the models' absolute paths begin (default /); FILE is a record (default: the image's)
environment: BAKE_VERIFY is the default of --level, BAKE_SCRATCH a folder for data files that must be converted
exit codes: 0 done, 2 usage, 8 the image is not whole, 10 a model is at fault, 11 preflight found an error,
            12 verl cannot be launched so, 13 the nodes did not come together; after the start, verl's own
"""

_HELP = ("help", "-h", "--help")
_COMMANDS = ("exec", "shell")
"""Words whose options are another program's."""

_WORDS = {
    "train": ("training", "train_word"),
    "preflight": ("training", "preflight_word"),
    "verify": ("verifying", "verify_word"),
    "ray-head": ("joining", "head_word"),
    "ray-worker": ("joining", "worker_word"),
    "shell": ("commands", "shell_word"),
    "exec": ("commands", "exec_word"),
}


def run() -> NoReturn:
    """What /opt/bake/__main__.py calls. As process 1 in a container, only a handler makes SIGTERM stop this."""
    signal.signal(signal.SIGTERM, lambda number, _: os._exit(128 + number))
    sys.exit(main(sys.argv[1:]))


def main(argv: Sequence[str]) -> int:
    """Do what the words say; returns the exit code, unless another program took this process over."""
    words = list(argv) or ["train"]
    try:
        _dispatch(words)
    except BakeError as error:
        _report(error, as_json="--json" in words and words[0] not in _COMMANDS)
        return error.code
    except BrokenPipeError:  # whoever reads stdout has gone, as head does
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # so that Python does not try again at its end
        return 141
    except Terminated:
        return 143
    except KeyboardInterrupt:
        return 130
    return 0


def _dispatch(words: list[str]) -> None:
    """A word is imported when it is said: `help` answers at once, and `exec` needs nothing that may be broken."""
    word, rest = words[0], words[1:]
    if word in _HELP:
        sys.stdout.write(USAGE)
        sys.stdout.flush()
        return
    if word.startswith(("-", "~")) or "=" in word:
        word, rest = "train", words
    if word not in _WORDS:
        known = ", ".join(_WORDS)
        raise UsageError(
            f"unknown word {word!r} (expected {known} or help)",
            hint="`exec` runs another command; `help` explains the words",
        )
    module, function = _WORDS[word]
    getattr(import_module(f"bake.entrypoint.words.{module}"), function)(rest)


def _report(error: BakeError, *, as_json: bool) -> None:
    """On stderr for people; with --json on stdout as well, as one line."""
    sys.stderr.write(f"error: {error.message}\n")
    if error.hint:
        sys.stderr.write(f"hint: {error.hint}\n")
    if as_json:
        document = {"error": {"code": error.code, "message": error.message, "hint": error.hint}}
        sys.stdout.write(json.dumps(document, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    run()
