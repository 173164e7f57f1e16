from __future__ import annotations

import pytest

from bake.units import count_text, parse_size, parse_time, size_text, time_text


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (999.7, "1.0 kB"),
        (1000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (16_060_556_376, "16.1 GB"),
        (2_000 * 10**15, "2000.0 PB"),
    ],
)
def test_sizes_are_in_decimal_units(size: float, expected: str) -> None:
    assert size_text(size) == expected


@pytest.mark.parametrize(
    ("count", "expected"), [(0, "0 files"), (1, "1 file"), (2, "2 files"), (10_000, "10,000 files")]
)
def test_counts_agree_with_their_noun(count: int, expected: str) -> None:
    assert count_text(count, "file") == expected


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "1 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (150, "2 min 30 s"),
        (3599.9, "1 h 00 min"),
        (3900, "1 h 05 min"),
    ],
)
def test_times_are_read_at_a_glance(seconds: float, text: str) -> None:
    assert time_text(seconds) == text


@pytest.mark.parametrize(
    ("text", "size"),
    [("1B", 1), ("2kB", 2000), ("2 KB", 2000), ("9.9GB", 9_900_000_000), ("64MiB", 64 << 20), ("1.5 TiB", 3 << 39)],
)
def test_sizes_are_read_in_decimal_and_binary_units(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "10", "GB", "0GB", "-1GB", "0.1B", "1iB", "10 gb", "5G", "5Gb", "10Gbit", "1e9B", "٣GB", "20GB "]
)
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^expected a size such as 5GB, 500MB or 4GiB, found "):
        parse_size(text)


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("30min", 1800), ("1.5 h", 5400)])
def test_times_are_read(text: str, seconds: int) -> None:
    assert parse_time(text) == seconds


@pytest.mark.parametrize("text", ["", "10", "0s", "0.1s", "1m", "1d", "-1s"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^expected a time such as 90s, 30min or 2h$"):
        parse_time(text)
