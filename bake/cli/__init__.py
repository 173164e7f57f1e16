"""The words: each command parses what was typed, calls one verb of `bake.api`, and prints what comes back.

stdout is the result, made to be piped; progress, notes and errors go to stderr. docs/exit-codes.md lists the codes.
"""

from bake.cli import building, ci, housekeeping, images, locks, registries
from bake.cli.group import bake
from bake.cli.main import main, run

__all__ = ["bake", "building", "ci", "housekeeping", "images", "locks", "main", "registries", "run"]
