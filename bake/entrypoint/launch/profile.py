"""Profile: overrides in a YAML file, for what a cluster's operator wants of every training.

A mapping (nested or dotted keys), or a list of overrides as one would type them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bake.entrypoint.launch.given import leaves
from bake.entrypoint.override import text_of

if TYPE_CHECKING:
    from pathlib import Path

HINT = "write a mapping such as `trainer: {total_epochs: 1}`, or a list such as `- trainer.total_epochs=1`"


def load_profile(path: Path) -> tuple[str, ...]:
    """The file's overrides; none where there is no file. Raises ValueError that says what is wrong with it, and where.

    OmegaConf's own loader reads it, as Hydra would: it takes 1e-6 for a number, and refuses a key given twice.
    """
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    try:
        document = OmegaConf.to_container(OmegaConf.load(path), resolve=False)
    except FileNotFoundError:
        return ()
    except YAMLError as error:
        raise ValueError(_place(error)) from error
    except (OmegaConfBaseException, UnicodeDecodeError) as error:
        raise ValueError(str(error).partition("\n")[0]) from error
    except OSError as error:  # also what OmegaConf raises for a document that is one word or one number
        raise ValueError(error.strerror or "expected a mapping or a list, found one word") from error
    return _texts(document)


def _texts(document: Any) -> tuple[str, ...]:
    if isinstance(document, dict):
        return tuple(f"{key}={_text(value)}" for key, value in leaves(document) if key)
    for number, entry in enumerate(document, start=1):
        if not isinstance(entry, str):
            raise ValueError(  # noqa: TRY004 - it is the file's content that is wrong, not the program
                f"entry {number}: expected an override, found {entry!r}"
            )
    return tuple(document)


def _text(value: Any) -> str:
    """As Override has it, and mappings inside lists too."""
    if isinstance(value, dict):
        return f"{{{','.join(f'{key}:{_text(item)}' for key, item in value.items())}}}"
    if isinstance(value, list):
        return f"[{','.join(_text(item) for item in value)}]"
    return text_of(value if isinstance(value, (str, int, float)) or value is None else str(value))


def _place(error: Any) -> str:
    """Where YAML stops to be YAML. Some of its errors know no place."""
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error)
    return problem if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: {problem}"
