"""Summary: a file of Markdown that several commands append to, as GitHub's $GITHUB_STEP_SUMMARY is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bake import disk

if TYPE_CHECKING:
    from pathlib import Path


def append_summary(path: Path, text: str) -> None:
    """Append to a file, which need not be there; with no text, see that it could be. Raises OutputError."""
    with disk.writing(path), path.open("a", encoding="utf-8") as stream:
        if text:
            stream.write(f"{text}\n")
