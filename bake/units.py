"""Sizes and times as people read them."""

from __future__ import annotations

import re

_UNITS = ("kB", "MB", "GB", "TB", "PB")
_STEP = 1000
_SIZE = re.compile(r"(?P<number>\d{1,6}(?:\.\d{1,3})?) ?(?P<prefix>[KMGT])(?P<binary>I?)B", re.IGNORECASE | re.ASCII)


def size_text(size: float) -> str:
    """Bytes in decimal units, as registries and the Hub show them: `16.1 GB`."""
    if round(size) < _STEP:
        return f"{size:.0f} B"
    power = next((power for power in range(1, len(_UNITS)) if size < (_STEP - 0.05) * _STEP**power), len(_UNITS))
    return f"{size / _STEP**power:.1f} {_UNITS[power - 1]}"


def parse_size(text: str) -> int:
    """Bytes of a size in words: `5GB` (10^9) or `5GiB` (2^30), as transformers' max_shard_size. Raises ValueError."""
    found = _SIZE.fullmatch(text)
    if found is None or not float(found["number"]) or text.endswith("b"):  # transformers takes Gb for bits
        raise ValueError(f"expected a size such as 5GB, 500MB or 4GiB, found {text!r}")
    step = 1024 if found["binary"] else _STEP
    scale: int = step ** " KMGT".index(found["prefix"].upper())
    return round(float(found["number"]) * scale)


def count_text(count: int, noun: str) -> str:
    """`1 file`, `3 files`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def time_text(seconds: float) -> str:
    """`4 s`, `2 min 30 s`, `1 h 05 min`."""
    whole = max(1, round(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"
