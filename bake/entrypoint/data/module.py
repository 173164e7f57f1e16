"""Module: a Python file that verl will load by its path: a reward function, a dataset class. Parsed, never imported."""

from __future__ import annotations

import ast
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from bake.entrypoint.data.table import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CALLED_WITH = ("data_source", "solution_str", "ground_truth", "extra_info")
"""The keywords that verl's naive and dapo reward managers call a reward function with, in all of 0.5 to 0.9."""


class ModuleError(ValueError):
    """What is wrong with the file, to be read after its name."""


def require(path: str, name: str) -> ast.stmt | None:
    """The top-level statement that gives `name` its value; None where an import of `*` may. Raises ModuleError."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an invalid escape in somebody's string is no concern of ours
            tree = ast.parse(Path(path).read_bytes(), filename=path)
    except OSError as error:
        raise ModuleError(_unread(path, error)) from error
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ModuleError(f"is no Python: {one_line(error)}") from error
    defined = dict(_defined(tree.body))
    if name not in defined and "*" not in defined:
        functions = [found for found in defined if not found.startswith("_")]
        raise ModuleError(f"does not define {name!r}; it defines {', '.join(functions) or 'nothing'}")
    return defined.get(name)


def lacking(statement: ast.stmt | None) -> list[str]:
    """The keywords of a reward function's call that this function does not take; empty where that is not plain."""
    if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)) or statement.decorator_list:
        return []
    arguments = statement.args
    if arguments.kwarg is not None:
        return []
    taken = {argument.arg for argument in (*arguments.args, *arguments.kwonlyargs)}
    return [name for name in CALLED_WITH if name not in taken]


def _unread(path: str, error: OSError) -> str:
    home = "; verl does not expand ~" if path.startswith("~") else ""
    return f"cannot be read: {error.strerror}{home}"


def _defined(body: Sequence[ast.stmt]) -> Iterator[tuple[str, ast.stmt]]:
    """Names and the statements that set them, those inside if, try and with among them."""
    for statement in body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield statement.name, statement
        elif isinstance(statement, (ast.Import, ast.ImportFrom)):
            yield from (((alias.asname or alias.name).split(".")[0], statement) for alias in statement.names)
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            yield from (
                (node.id, statement) for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)
            )
        else:
            for field in ("body", "orelse", "handlers", "finalbody"):
                yield from _defined(getattr(statement, field, []))
