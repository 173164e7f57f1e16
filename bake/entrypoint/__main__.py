"""The image's entrypoint: `verify`, `train`, `exec`, `help`. Verify comes first, then verl replaces this process.

Exit codes are those of bake.errors; once verl or a command has started, they are its own.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, cast, get_args

from bake.entrypoint.fault import report
from bake.entrypoint.launch import require_verl, train_command
from bake.entrypoint.tree import FolderTree
from bake.entrypoint.verify import Level, load_record, verify
from bake.errors import BakeError, CheckFailed, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bake.entrypoint.fault import Fault
    from bake.record import Record, RecordedModel

RECORD = Path(__file__).parents[2] / "record.json"
"""/opt/bake/record.json in an image, beside the folder that holds this package."""

USAGE = """\
usage: IMAGE [train] [OVERRIDE…]   verify the baked models, then start verl PPO training; OVERRIDE is Hydra's key=value
       IMAGE verify [--level quick|full] [--json] [--record FILE] [--root DIR]
                                   verify only; DIR is where the models' absolute paths begin (default /)
       IMAGE exec COMMAND…         run another command in this image
       IMAGE help                  print this

environment: BAKE_VERIFY=quick|full|off   how train verifies (default quick)
exit codes:  0 done, 1 a model is at fault, 2 usage, 8 the image itself is not whole
"""


def run() -> NoReturn:
    """What /opt/bake/__main__.py calls. As process 1 in a container, only a handler makes SIGTERM stop this."""
    signal.signal(signal.SIGTERM, lambda number, _: os._exit(128 + number))
    sys.exit(main(sys.argv[1:]))


def main(argv: Sequence[str]) -> int:
    """Do what the words say; returns the exit code, unless another program took this process over."""
    try:
        _dispatch(list(argv) or ["train"])
    except BakeError as error:
        _tell(f"error: {error.message}")
        if error.hint:
            _tell(f"hint: {error.hint}")
        return error.code
    except KeyboardInterrupt:
        return 130
    return 0


def _dispatch(words: list[str]) -> None:
    word, rest = words[0], words[1:]
    if word not in _WORDS and "=" in word:
        word, rest = "train", words
    if word not in _WORDS:
        raise UsageError(
            f"unknown word {word!r} (expected train, verify, exec or help)",
            hint="`exec` runs another command; `help` explains the words",
        )
    _WORDS[word](rest)


def _verify(words: list[str]) -> None:
    options = _verify_options(words)
    record = load_record(options.record)
    found = {model: _check(model, level=options.level, root=options.root) for model in record.models}
    if options.json:
        sys.stdout.write(json.dumps(_document(found), indent=2) + "\n")
    else:
        for model, faults in found.items():
            sys.stdout.writelines(f"{line}\n" for line in _lines(model, faults, root=options.root))
    _refuse_faults(found, hint="each fault says what to do")


def _verify_options(words: list[str]) -> argparse.Namespace:
    parser = _Parser(prog="verify", add_help=False, allow_abbrev=False)
    parser.add_argument("--level", choices=get_args(Level), default="quick")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument("--root", type=Path, default=Path("/"))
    return parser.parse_args(words)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.prog}: {message}", hint="`help` explains the words")


def _train(words: list[str]) -> None:
    level = os.environ.get("BAKE_VERIFY") or "quick"
    if level == "off":
        _tell("warning: BAKE_VERIFY=off: the models are not verified")
        command = train_command(words, os.environ, baked=None)
    elif level in get_args(Level):
        record = load_record(RECORD)
        command = train_command(words, os.environ, baked={model.path for model in record.models})
        _verify_or_refuse(record, level=cast("Level", level))
    else:
        raise UsageError(f"BAKE_VERIFY is {level!r} (expected quick, full or off)")
    require_verl()
    _execute(command)


def _verify_or_refuse(record: Record, *, level: Level) -> None:
    start = time.monotonic()
    root = Path("/")
    found = {model: _check(model, level=level, root=root) for model in record.models}
    for model, faults in found.items():
        for line in _lines(model, faults, root=root):
            _tell(line)
    _refuse_faults(found, hint="training was not started; each fault above says what to do")
    _tell(f"verified in {time.monotonic() - start:.1f} s ({level})")


def _exec(words: list[str]) -> None:
    if not words:
        raise UsageError("exec: no command", hint="for example `exec bash`")
    _execute(words)


def _help(_: list[str]) -> None:
    sys.stdout.write(USAGE)


_WORDS: Mapping[str, Callable[[list[str]], None]] = {
    "train": _train,
    "verify": _verify,
    "exec": _exec,
    "help": _help,
    "-h": _help,
    "--help": _help,
}


def _check(model: RecordedModel, *, level: Level, root: Path) -> tuple[Fault, ...]:
    """Modes count in the image itself, not on a volume that a cluster mounted with modes of its own."""
    return verify(model, FolderTree(_folder(model, root)), level=level, check_modes=root == Path("/"))


def _folder(model: RecordedModel, root: Path) -> Path:
    return root / model.path.lstrip("/")


def _lines(model: RecordedModel, faults: tuple[Fault, ...], *, root: Path) -> tuple[str, ...]:
    if not faults:
        return (f"{model.name}@{model.version}: {len(model.files)} files are as recorded",)
    return report(faults, folder=str(_folder(model, root)))


def _document(found: Mapping[RecordedModel, tuple[Fault, ...]]) -> object:
    return [
        {
            "name": model.name,
            "version": model.version,
            "roles": model.roles,
            "path": model.path,
            "faults": [fault.document() for fault in faults],
        }
        for model, faults in found.items()
    ]


def _refuse_faults(found: Mapping[RecordedModel, tuple[Fault, ...]], *, hint: str) -> None:
    faulty = [f"{len(faults)} in {model.name}@{model.version}" for model, faults in found.items() if faults]
    if faulty:
        raise CheckFailed(f"faults: {', '.join(faulty)}", hint=hint)


def _execute(command: list[str]) -> NoReturn:
    """Replace this process, so that signals and the exit code are the command's."""
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execvp(command[0], command)  # noqa: S606 - no shell is wanted
    except OSError as error:
        raise UsageError(f"cannot run {command[0]!r}: {error.strerror}") from error


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    run()
