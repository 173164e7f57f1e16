"""The cases whose headers Go was asked for, and the one way to ask: `python -m tests.tar.golden` writes golden.json."""

from __future__ import annotations

import hashlib
import json
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path

from bake import tar

GOLDEN = Path(__file__).with_name("golden.json")
_GO = Path(__file__).with_name("headers.go")
_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Case:
    """A header. `kind` is the type flag: 0 a file, 2 a symbolic link, 5 a directory."""

    kind: str
    name: str
    size: int = 0
    target: str = ""

    def __str__(self) -> str:
        shown = self.name if len(self.name) <= 24 else f"{self.name[:10]}…{self.name[-10:]}"
        return f"{self.kind}:{len(self.name.encode())}:{self.size}:{shown}"

    def header(self) -> bytes:
        """The header that bake writes."""
        match self.kind:
            case "5":
                return tar.directory_header(self.name)
            case "2":
                return tar.link_header(self.name, self.target)
            case _:
                return tar.file_header(self.name, size=self.size)


def deep(length: int) -> str:
    """A path of components of nine letters, of that length."""
    return ("bbbbbbbbb/" * length)[: length - 1] + "c"


NAMES = (
    "config.json",
    "opt/models/tiny/config.json",
    "with space/and 'quote'/-dash",
    "a" * 99,
    "a" * 100,
    "a" * 101,
    "a" * 155,
    "a" * 255,
    "a" * 256,
    deep(99),
    deep(100),
    deep(101),
    deep(155),
    deep(156),
    deep(157),
    deep(255),
    deep(256),
    deep(257),
    deep(600),
    "p" * 155 + "/" + "n" * 100,
    "p" * 155 + "/" + "n" * 99,
    "p" * 156 + "/" + "n" * 100,
    "p" * 155 + "/" + "n" * 101,
    "opt/models/tiny/" + "n" * 101,
    "p" * 100 + "/n",
    "mod\u00e8le.json",
    "\u6f22\u5b57/\u6f22",
    "opt/models/tiny/\u00e9" + "n" * 120,
    "\u00e9" * 60 + "/" + "\u6f22" * 60,
    "d" * 86 + "/" + "n" * 120,  # the PAX header's name, cut at 100, ends in the slash after PaxHeaders.0
    "x" * 99 + "/" + "y" * 160,  # the main header's name, cut at 100, ends in a slash
)
_LONG = "opt/models/tiny/" + "n" * 101
_SIZES = (0, 1, 511, 512, 513, 64 << 20, 8 * _GIB - 1, 8 * _GIB, 50 * _GIB)

CASES = (
    *(Case("0", name, 3) for name in NAMES),
    *(Case("5", name) for name in NAMES),
    *(Case("0", "opt/models/tiny/model.safetensors", size) for size in _SIZES),
    *(Case("0", _LONG, size) for size in (8 * _GIB - 1, 8 * _GIB)),
    Case("0", "mod\u00e8le.safetensors", 8 * _GIB),
    Case("0", deep(156), 8 * _GIB),
    Case("2", "models", 0, "opt/models/tiny"),
    Case("2", "models", 0, "t" * 100),
)


def ask_go(cases: tuple[Case, ...] = CASES) -> tuple[bytes, ...]:
    """The header that Go writes for each case."""
    asked = [asdict(case) | {"name": case.name + "/" * (case.kind == "5")} for case in cases]
    lines = "\n".join(json.dumps(case) for case in asked)
    answer = subprocess.run(["go", "run", _GO], input=lines, capture_output=True, text=True, check=True)
    return tuple(bytes.fromhex(line) for line in answer.stdout.split())


def main() -> None:
    """Write golden.json, one case a line."""
    lines = [
        json.dumps(asdict(case) | {"length": len(header), "sha256": hashlib.sha256(header).hexdigest()})
        for case, header in zip(CASES, ask_go(), strict=True)
    ]
    GOLDEN.write_text("[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    main()
