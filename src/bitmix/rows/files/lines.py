"""Text as blocks of whole lines, from a file, plain or gzip, or from standard input."""

import gzip
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from bitmix.errors import FileFormatError, InputError

BLOCK_BYTES = 1 << 22
_MAX_LINE = 1 << 28
_ENDS = b"\r\n"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # which some programs of Windows write before UTF-8


Blocks = Iterator[tuple[bytes, float]]
"""Whole lines, each ended by one newline, and the fraction of the file that has been read.

Empty lines at the end of the file are left out.
"""


@dataclass(frozen=True)
class FileLines:
    """The lines of a file, plain or gzip."""

    path: Path

    @property
    def size(self) -> int:
        return self.path.stat().st_size

    def blocks(self) -> Blocks:
        size = max(1, self.size)
        with self.path.open("rb") as raw:
            file: IO[bytes] = raw
            if self.path.suffix.lower() == ".gz":
                file = gzip.GzipFile(fileobj=raw)  # type: ignore[assignment]
            yield from _whole_lines(self.path, file, lambda: raw.tell() / size)


class PipedLines:
    """The lines of standard input. The first call of `blocks` is for a look at the first lines."""

    path = Path("standard input")
    size = 0

    def __init__(self, file: IO[bytes]) -> None:
        self._unread = _whole_lines(self.path, file, lambda: 0.0)
        self._read: list[tuple[bytes, float]] = []
        self._calls = 0

    def blocks(self) -> Blocks:
        self._calls += 1
        if self._calls == 1:
            for block in self._unread:
                self._read.append(block)
                yield block
        elif self._calls == 2:
            yield from self._read
            self._read.clear()
            yield from self._unread
        else:
            raise InputError("standard input can be read only once: write it to a file first")


Lines = FileLines | PipedLines


def _whole_lines(path: Path, file: IO[bytes], fraction: Callable[[], float]) -> Blocks:
    rest = _read(path, file, len(_BYTE_ORDER_MARK)).removeprefix(_BYTE_ORDER_MARK)
    while data := _read(path, file, BLOCK_BYTES):
        lines, rest = _split_off_lines(rest + data)
        if len(rest) > _MAX_LINE:
            raise InputError(
                f"{path} has a line of more than {_MAX_LINE:,} bytes: is it a text table?"
            )
        if lines:
            yield lines, fraction()
    rest = rest.rstrip(_ENDS)
    if rest:
        yield _with_newlines(rest + b"\n"), 1.0


def _read(path: Path, file: IO[bytes], size: int) -> bytes:
    try:
        return file.read(size)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise FileFormatError(f"{path} is cut short or damaged: {error}") from None


def _split_off_lines(data: bytes) -> tuple[bytes, bytes]:
    """The whole lines, and the rest, with empty lines that may be the last of the file."""
    end = data.rfind(b"\n") + 1
    if data.startswith((b"\n", b"\r\n")) or data.endswith((b"\n\n", b"\n\r\n"), 0, end):
        text = data[:end].rstrip(_ENDS)
        end = data.find(b"\n", len(text)) + 1 if text else 0
    return _with_newlines(data[:end]), data[end:]


def _with_newlines(lines: bytes) -> bytes:
    return lines.replace(b"\r\n", b"\n") if b"\r" in lines else lines


def split(block: bytes) -> list[bytes]:
    """The lines of a block, without their ends."""
    return block.split(b"\n")[:-1]
