"""The tar bytes of a layer, in exactly the form that BuildKit writes when it is reproducible.

Go's archive/tar decides that form (writer.go, `writeUSTARHeader` and `writePAXHeader`): USTAR wherever a header fits,
with device numbers written as zeros, and a PAX header before it where a name is longer than USTAR can split, is not
ASCII, or a file has 8 GiB or more. Modification time, owner and group are always 0, and owner names empty, so that a
layer's digest depends on paths, modes and bytes alone.
"""

from __future__ import annotations

BLOCK = 512
TRAILER = bytes(2 * BLOCK)
"""Two zero blocks end an archive (POSIX pax, "ustar Interchange Format")."""

DIRECTORY_MODE = 0o755
FILE_MODE = 0o444
_LINK_MODE = 0o777

_NAME, _PREFIX = 100, 155
_OCTAL_SIZE_LIMIT = 8 << 30


def directory_header(path: str, *, mode: int = DIRECTORY_MODE) -> bytes:
    """The header of a directory; `path` has no slash at either end."""
    return _header(path + "/", kind=b"5", mode=mode)


def file_header(path: str, *, size: int, mode: int = FILE_MODE) -> bytes:
    """The header of a regular file of `size` bytes: one block, or three where a PAX header comes first."""
    return _header(path, kind=b"0", mode=mode, size=size)


def link_header(path: str, target: str) -> bytes:
    """The header of a symbolic link; `target` is ASCII and at most 100 bytes."""
    return _header(path, kind=b"2", mode=_LINK_MODE, target=target)


def padding(size: int) -> int:
    """How many zero bytes follow a body of `size` bytes to fill its last block."""
    return -size % BLOCK


def tree_order(path: str) -> tuple[bytes, ...]:
    """The sort key that lists a tree depth first, names in byte order within a directory, as BuildKit walks it."""
    return tuple(path.encode().split(b"/"))


def parents(path: str) -> tuple[str, ...]:
    """The directories above a path, outermost first: `a/b/c` has `a` and `a/b`."""
    parts = path.split("/")
    return tuple("/".join(parts[:depth]) for depth in range(1, len(parts)))


def _header(path: str, *, kind: bytes, mode: int, size: int = 0, target: str = "") -> bytes:
    large = size >= _OCTAL_SIZE_LIMIT
    split = _split(path)
    if split and not large:
        prefix, name = split
        return _block(name, prefix=prefix, kind=kind, mode=mode, size=size, target=target)
    records = {"path": path} if len(path.encode()) > _NAME or not path.isascii() else {}
    if large:
        records["size"] = str(size)
    return _extended(path, records) + _block(
        _ascii(path), kind=kind, mode=mode, size=0 if large else size, target=target
    )


def _split(path: str) -> tuple[str, str] | None:
    """USTAR's prefix and name (Go's `splitUSTARPath`), or None where USTAR cannot hold the path."""
    if not path.isascii():
        return None
    if len(path) <= _NAME:
        return "", path
    end = _PREFIX + 1 if len(path) > _PREFIX + 1 else len(path.rstrip("/"))
    cut = path.rfind("/", 0, end)
    if cut <= 0 or not 0 < len(path) - cut - 1 <= _NAME:
        return None
    return path[:cut], path[cut + 1 :]


def _extended(path: str, records: dict[str, str]) -> bytes:
    """A PAX extended header (POSIX pax, "pax Interchange Format"), named as Go names it, with its body."""
    directory, _, name = path.rpartition("/")
    stand_in = _ascii(f"{directory}/PaxHeaders.0/{name}" if directory else f"PaxHeaders.0/{name}")[:_NAME].rstrip("/")
    body = b"".join(_record(key, value) for key, value in sorted(records.items()))
    return _block(stand_in, kind=b"x", mode=0, size=len(body), devices=False) + body + bytes(padding(len(body)))


def _record(key: str, value: str) -> bytes:
    """One PAX record, `length key=value\\n`, where the length counts its own digits."""
    rest = f" {key}={value}\n".encode()
    length = len(rest)
    while length != (total := len(rest) + len(str(length))):
        length = total
    return str(length).encode() + rest


def _ascii(text: str) -> str:
    return "".join(letter for letter in text if letter.isascii())


def _block(
    name: str, *, kind: bytes, mode: int, size: int, prefix: str = "", target: str = "", devices: bool = True
) -> bytes:
    device = b"0000000\0" if devices else bytes(8)
    head = b"".join((_name_field(name), _octal(mode, 8), _octal(0, 8), _octal(0, 8), _octal(size, 12), _octal(0, 12)))
    tail = b"".join(
        (kind, _field(target, _NAME), b"ustar\x0000", bytes(64), device * 2, _field(prefix, _PREFIX), bytes(12))
    )
    checksum = sum(head) + sum(tail) + 8 * ord(" ")
    return head + b"%06o\0 " % checksum + tail


def _name_field(name: str) -> bytes:
    """The name field.

    One that is cut must not end in a slash, or readers take it for a directory (Go's `formatString`).
    """
    field = bytearray(_field(name[:_NAME], _NAME))
    if len(name) > _NAME and field.endswith(b"/"):
        field[len(field.rstrip(b"/"))] = 0
    return bytes(field)


def _field(text: str, width: int) -> bytes:
    return text.encode("ascii").ljust(width, b"\0")


def _octal(number: int, width: int) -> bytes:
    return b"%0*o\0" % (width - 1, number)
