"""History: a git repository in a folder, made with the real program and with nobody's settings."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "a person",
    "GIT_AUTHOR_EMAIL": "person@example.com",
    "GIT_COMMITTER_NAME": "a person",
    "GIT_COMMITTER_EMAIL": "person@example.com",
}


@dataclass(frozen=True, slots=True)
class History:
    """`top` is the uppermost folder of the working tree."""

    top: Path

    @classmethod
    def begin(cls, folder: Path, *words: str) -> History:
        folder.mkdir(parents=True, exist_ok=True)
        history = cls(folder)
        history.run("init", "-q", "-b", "main", *words)
        return history

    def run(self, *words: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(self.top), *words], env=os.environ | SETTINGS, capture_output=True, check=True, text=True
        )
        return done.stdout.strip()

    def write(self, path: str, content: str) -> Path:
        file = self.top / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, "utf-8")
        return file

    def commit(self) -> str:
        """Everything that lies here, as a commit; returns its name."""
        self.run("add", "-A")
        self.run("commit", "-q", "--allow-empty", "-m", "a commit")
        return self.run("rev-parse", "HEAD")
