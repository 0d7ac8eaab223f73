"""Text files, plain or gzip, as blocks of whole lines."""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from bitmix.errors import FileFormatError, InputError

BLOCK_BYTES = 1 << 20
_LONGEST_LINE = 1 << 28
_ENDS = b"\r\n"


def blocks(path: Path) -> Iterator[tuple[bytes, float]]:
    """Whole lines, each ended by one newline, and the share of the file that has been read.

    Empty lines at the end of the file are left out.
    """
    size = max(1, path.stat().st_size)
    rest = b""
    with path.open("rb") as raw, _unpacked(path, raw) as file:
        while chunk := _read(path, file):
            whole, rest = _cut(rest + chunk)
            if len(rest) > _LONGEST_LINE:
                raise InputError(
                    f"{path} has a line of more than {_LONGEST_LINE:,} bytes: is it a text table?"
                )
            if whole:
                yield whole, raw.tell() / size
    rest = rest.rstrip(_ENDS)
    if rest:
        yield _plain_ends(rest + b"\n"), 1.0


def _unpacked(path: Path, raw: IO[bytes]) -> IO[bytes]:
    if path.suffix.lower() != ".gz":
        return raw
    return gzip.GzipFile(fileobj=raw)  # type: ignore[return-value]


def _read(path: Path, file: IO[bytes]) -> bytes:
    try:
        return file.read(BLOCK_BYTES)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise FileFormatError(f"{path} is cut short or damaged: {error}") from None


def _cut(data: bytes) -> tuple[bytes, bytes]:
    """Whole lines, and what is left; empty lines at the end wait for what follows them."""
    end = data.rfind(b"\n") + 1
    if data.startswith((b"\n", b"\r\n")) or data.endswith((b"\n\n", b"\n\r\n"), 0, end):
        text = data[:end].rstrip(_ENDS)
        end = data.find(b"\n", len(text)) + 1 if text else 0
    return _plain_ends(data[:end]), data[end:]


def _plain_ends(lines: bytes) -> bytes:
    return lines.replace(b"\r\n", b"\n") if b"\r" in lines else lines


def split(block: bytes) -> list[bytes]:
    """Its lines."""
    lines = block.split(b"\n")
    lines.pop()
    return lines
