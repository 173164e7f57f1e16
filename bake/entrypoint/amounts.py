"""Amounts: sizes and counts as people who train models read them."""

from __future__ import annotations

GIB = 1 << 30
"""PyTorch and nvidia-smi count memory in powers of two, and so does every finding here."""

_UNITS = ((GIB, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def size(count: float) -> str:
    """`15.0 GiB`, below one `64 MiB`, and below one of these `400 KiB`."""
    unit, name = next(((unit, name) for unit, name in _UNITS if count >= unit), _UNITS[-1])
    return f"{count / unit:,.1f} {name}" if unit == GIB or unit < count < 10 * unit else f"{count / unit:,.0f} {name}"


def billions(count: int) -> str:
    """`8.03 B`, or `494 M` below one."""
    return f"{count / 1e9:,.2f} B" if count >= 1e9 else f"{count / 1e6:,.1f} M"


def counted(count: int, noun: str) -> str:
    """`1 GPU`, `3 GPUs`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def divisors(number: int) -> list[int]:
    """All that divide it, up to 64: nobody cuts a model finer."""
    return [size for size in range(1, min(number, 64) + 1) if number % size == 0]


def largest_divisor(number: int, *, most: int) -> int:
    """The largest number up to `most` that divides it; of numbers beyond 4,096 none is looked for."""
    return next(size for size in range(min(number, most, 4096), 0, -1) if number % size == 0)


def rounded_up(number: int, *, step: int) -> int:
    """The next multiple of `step`, or the number itself where it is one."""
    return -(-number // step) * step


def listed(values: list[int]) -> str:
    """`1, 2 or 4`."""
    words = [str(value) for value in values]
    return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else "".join(words)
