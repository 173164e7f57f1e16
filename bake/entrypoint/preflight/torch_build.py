"""Torch build: which GPUs the image's PyTorch was built for. torch/version.py is read as text; nothing is imported."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

_AMD = re.compile(r"^hip\b.*=\s*['\"]", re.MULTILINE)


def torch_version() -> str:
    """The text of torch/version.py, empty without one."""
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        return ""
    try:
        return Path(spec.origin).with_name("version.py").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def is_for_amd() -> bool:
    """A line such as `hip: Optional[str] = '6.4'`: ROCm, whose GPUs NVIDIA's driver does not list."""
    return _AMD.search(torch_version()) is not None
