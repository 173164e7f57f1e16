"""Installed: what can be known of the image's transformers without importing it, which takes seconds."""

from __future__ import annotations

import re
from importlib.metadata import Distribution, PackageNotFoundError, distribution

_SOURCES = ("configuration_auto.py", "auto_mappings.py")
"""Where CONFIG_MAPPING_NAMES is written: the first in transformers 4, the second since 5."""

_ENTRY = re.compile(r"""["']([\w.-]+)["']\s*[,:]\s*["']\w*Config\w*["']""")
_FEWEST = 100
"""Fewer entries than this mean that the list is written in another way by then, and nothing is known."""


def model_types(version: str | None) -> frozenset[str] | None:
    """The model types that this transformers can load without a model's own code.

    None where this version is not the one installed, or its sources do not tell.
    """
    try:
        package: Distribution = distribution("transformers")
    except PackageNotFoundError:
        return None
    if version is None or package.version != version:
        return None
    types = frozenset(_ENTRY.findall("".join(_source(package, name) for name in _SOURCES)))
    return types if len(types) >= _FEWEST else None


def _source(package: Distribution, name: str) -> str:
    path = package.locate_file(f"transformers/models/auto/{name}")
    try:
        with open(str(path), encoding="utf-8") as stream:  # noqa: PTH123 - locate_file gives no pathlib.Path
            return stream.read()
    except OSError:
        return ""
