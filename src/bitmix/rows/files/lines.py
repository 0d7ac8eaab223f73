"""Text as blocks of whole lines: of a file, plain or gzip, or of standard input."""

import gzip
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from bitmix.errors import FileFormatError, InputError

BLOCK_BYTES = 1 << 20
_LONGEST_LINE = 1 << 28
_ENDS = b"\r\n"
_BOM = b"\xef\xbb\xbf"  # which some programs of Windows put before UTF-8


Blocks = Iterator[tuple[bytes, float]]
"""Whole lines, each ended by one newline, and the share of the file that has been read.

Empty lines at the end of the file are left out.
"""


class Lines(Protocol):
    """Where lines come from."""

    @property
    def path(self) -> Path: ...

    @property
    def size(self) -> int:
        """Bytes, 0 where that is not known."""

    def blocks(self) -> Blocks:
        """From the first line on."""


@dataclass(frozen=True)
class FileLines:
    """A file, plain or gzip."""

    path: Path

    @property
    def size(self) -> int:
        return self.path.stat().st_size

    def blocks(self) -> Blocks:
        size = max(1, self.size)
        with self.path.open("rb") as raw, _unpacked(self.path, raw) as file:
            yield from _whole_lines(self.path, file, lambda: raw.tell() / size)


class PipedLines:
    """Standard input: looked at once for its first lines, then read once."""

    path = Path("standard input")
    size = 0

    def __init__(self, file: IO[bytes]) -> None:
        self._more = _whole_lines(self.path, file, lambda: 0.0)
        self._seen: list[tuple[bytes, float]] = []
        self._calls = 0

    def blocks(self) -> Blocks:
        self._calls += 1
        if self._calls == 1:
            for block in self._more:
                self._seen.append(block)
                yield block
        elif self._calls == 2:
            yield from self._seen
            self._seen.clear()
            yield from self._more
        else:
            raise InputError("standard input can be read only once: write it to a file first")


def _whole_lines(path: Path, file: IO[bytes], share: Callable[[], float]) -> Blocks:
    rest = _read(path, file, len(_BOM)).removeprefix(_BOM)
    while chunk := _read(path, file):
        whole, rest = _cut(rest + chunk)
        if len(rest) > _LONGEST_LINE:
            raise InputError(
                f"{path} has a line of more than {_LONGEST_LINE:,} bytes: is it a text table?"
            )
        if whole:
            yield whole, share()
    rest = rest.rstrip(_ENDS)
    if rest:
        yield _plain_ends(rest + b"\n"), 1.0


def _unpacked(path: Path, raw: IO[bytes]) -> IO[bytes]:
    if path.suffix.lower() != ".gz":
        return raw
    return gzip.GzipFile(fileobj=raw)  # type: ignore[return-value]


def _read(path: Path, file: IO[bytes], size: int | None = None) -> bytes:
    try:
        return file.read(BLOCK_BYTES if size is None else size)
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
