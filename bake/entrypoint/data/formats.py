"""Formats: which kind of table a file is, by its first bytes, and which of them a release of verl reads as they are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bake.entrypoint.data.arrow import open_csv, open_file, open_stream
from bake.entrypoint.data.lines import open_json
from bake.entrypoint.data.parquet import ParquetTable
from bake.entrypoint.data.table import UnreadableError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bake.entrypoint.data.table import Table

SUFFIXES = (".parquet", ".arrow", ".feather", ".jsonl", ".ndjson", ".json", ".csv", ".tsv")
"""What data files are called, in the order in which a folder's are preferred."""

_BINARY: Mapping[bytes, Callable[[str], Table]] = {
    b"PAR1": ParquetTable.open,
    b"ARROW1": open_file,
    b"\xff\xff\xff\xff": open_stream,
}

_TEXT: Mapping[str, Callable[[str], Table]] = {
    ".jsonl": open_json,
    ".ndjson": open_json,
    ".json": open_json,
    ".csv": open_csv,
    ".tsv": open_csv,
}

_OTHER: Mapping[bytes, str] = {
    b"version https://git-lfs": "is a git-lfs pointer, not the data: run `git lfs pull` where it comes from",
    b"<": "is a page of HTML or XML, as a server sends when it refuses a download",
    b"\x1f\x8b": "is compressed with gzip: decompress it first",
    b"\x28\xb5\x2f\xfd": "is compressed with zstd: decompress it first",
    b"BZh": "is compressed with bzip2: decompress it first",
    b"PK\x03\x04": "is a zip archive: unpack it first",
    b"PARE": "is an encrypted parquet file",
    b"FEA1": "is a feather file of version 1: write it again with a newer pyarrow",
}


def open_table(path: str) -> Table:
    """Raises UnreadableError where the file is none of the formats, or is damaged."""
    try:
        with Path(path).open("rb") as stream:
            head = stream.read(64)
    except OSError as error:
        raise UnreadableError(f"cannot be read: {error.strerror}") from error
    if not head:
        raise UnreadableError("is an empty file of 0 bytes")
    for magic, opened in _BINARY.items():
        if head.startswith(magic):
            return opened(path)
    for magic, what in _OTHER.items():
        if head.startswith(magic):
            raise UnreadableError(what)
    suffix = Path(path).suffix.lower()
    if suffix in _TEXT:
        return _TEXT[suffix](path)
    raise UnreadableError(f"is no parquet, Arrow, JSON or CSV file: it begins with {head[:8]!r}")


def is_taken(path: str, table: Table | None, *, release: tuple[int, int] | None) -> bool:
    """Whether verl reads this file as it is; without a table, going by its name.

    Up to 0.6 each file is given to datasets' parquet reader, whatever it is called. From 0.7 the end of the name, in
    small letters, decides (verl 0.7.1 to 0.9.1, verl/utils/dataset/rl_dataset.py, _read_files_and_tokenize).
    """
    parquet = table is None or isinstance(table, ParquetTable)
    if release is not None and release < (0, 7):
        return parquet
    if path.endswith(".parquet"):
        return parquet
    return path.endswith((".json", ".jsonl")) and not isinstance(table, ParquetTable)
