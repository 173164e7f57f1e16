"""Sizes and times as people read and write them."""

from __future__ import annotations

import re

_UNITS = ("kB", "MB", "GB", "TB", "PB")
_STEP = 1000
_SIZE = re.compile(r"(?P<number>\d{1,9}(?:\.\d{1,9})?) ?(?P<prefix>[kKMGT]?)(?P<binary>i?)B", re.ASCII)
_TIME = re.compile(r"(?P<number>\d{1,9}(?:\.\d{1,9})?) ?(?P<unit>s|min|h)", re.ASCII)
_SECONDS = {"s": 1, "min": 60, "h": 3600}


def size_text(size: float) -> str:
    """Bytes in decimal units, as registries and the Hub show them: `16.1 GB`."""
    if round(size) < _STEP:
        return f"{size:.0f} B"
    power = next((power for power in range(1, len(_UNITS)) if size < (_STEP - 0.05) * _STEP**power), len(_UNITS))
    return f"{size / _STEP**power:.1f} {_UNITS[power - 1]}"


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


def parse_size(text: str) -> int:
    """Bytes of `9.9GB` (10^9) or `64 MiB` (2^20). Raises ValueError with what was found for other text, and for 0."""
    found = _SIZE.fullmatch(text)
    power = " kmgt".index(found["prefix"].lower() or " ") if found else 0
    size = round(float(found["number"]) * (1024 if found["binary"] else _STEP) ** power) if found else 0
    if not size or (found and found["binary"] and not power):
        raise ValueError(f"expected a size such as 5GB, 500MB or 4GiB, found {text!r}")
    return size


def parse_time(text: str) -> int:
    """`90s`, `30min`, `1.5h`, in seconds. Raises ValueError for other text, and for less than a second."""
    found = _TIME.fullmatch(text)
    seconds = round(float(found["number"]) * _SECONDS[found["unit"]]) if found else 0
    if not seconds:
        raise ValueError("expected a time such as 90s, 30min or 2h")
    return seconds
