from __future__ import annotations

import pytest

from bake.units import count_text, parse_size, size_text, time_text


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
    [
        ("5GB", 5 * 10**9),
        ("5 gB", 5 * 10**9),
        ("1.5GiB", 3 << 29),
        ("200MB", 200 * 10**6),
        ("800kB", 800_000),
        ("2TiB", 2 << 40),
    ],
)
def test_a_size_in_words_is_read(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "5", "5G", "5Gb", "0GB", "0.0GB", "-5GB", "5GB ", "5 GBs", "1e3GB", "٣GB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^expected a size such as 5GB, 500MB or 4GiB, found "):
        parse_size(text)
