"""What the tests of the Hub read, and how they read it."""

from __future__ import annotations

import random
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bake.hub import Patience

if TYPE_CHECKING:
    from bake.errors import BakeError
    from bake.hub import HubSnapshot

REPO = "org/name"
CONFIG = b'{"architectures": ["LlamaForCausalLM"]}'
WEIGHTS = random.Random(0).randbytes(3_000_000)
FILES = {"config.json": CONFIG, "model.safetensors": WEIGHTS, "sub/été #1.txt": b"text"}


@dataclass(frozen=True)
class Waits:
    """Patience that writes the seconds down instead of waiting them."""

    seconds: list[float] = field(default_factory=list)

    def patience(self) -> Patience:
        return Patience(tries=3, base=1.0, longest=60.0, sleep=self.seconds.append)


def read(snapshot: HubSnapshot, path: str = "model.safetensors", *, offset: int = 0) -> bytes:
    return b"".join(snapshot.stream(path, size=len(FILES[path]), offset=offset))


def silent_host() -> str:
    """An address at which nothing listens."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{closed.getsockname()[1]}"


def fault_of(error: BakeError) -> tuple[type[BakeError], str, str | None]:
    return type(error), error.message, error.hint
