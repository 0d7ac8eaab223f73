"""Text as blocks of whole lines, from a file, plain or gzip, or from standard input."""

import codecs
import gzip
import shutil
import tempfile
import weakref
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from bitmix.errors import FileFormatError, InputError

BLOCK_BYTES = 1 << 22
_MAX_LINE = 1 << 28
_ENDS = b"\r\n"
_MARKS = {codecs.BOM_UTF8: None, codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
"""What stands before a text, and the encoding that it tells of."""

Blocks = Iterator[tuple[bytes, float]]
"""Whole lines, each ended by one newline, and the fraction of the file that has been read.

Empty lines at the end of the file are left out.
"""


@dataclass(frozen=True)
class Lines:
    """The lines of a file, plain or gzip, as UTF-8."""

    path: Path
    encoding: str | None = None
    """The encoding of the file; by default UTF-8, or what its first bytes tell."""
    copy: IO[bytes] | None = field(default=None, repr=False)
    """In place of a file: a copy of what came through a pipe."""

    @property
    def size(self) -> int:
        return self.path.stat().st_size if self.copy is None else 0

    def blocks(self) -> Blocks:
        size = max(1, self.size)
        with self._opened() as raw:
            file: IO[bytes] = raw
            if self.path.suffix.lower() == ".gz":
                file = gzip.GzipFile(fileobj=raw)  # type: ignore[assignment]
            yield from self._whole_lines(self._decoded(file), lambda: raw.tell() / size)

    @contextmanager
    def _opened(self) -> Iterator[IO[bytes]]:
        if self.copy is not None:
            self.copy.seek(0)
            yield self.copy
        else:
            with self.path.open("rb") as file:
                yield file

    def _decoded(self, file: IO[bytes]) -> Iterator[bytes]:
        """Blocks of any length, in UTF-8, without a mark of byte order."""
        start = self._read(file, 3)
        mark = next((mark for mark in _MARKS if start.startswith(mark)), None)
        encoding = self.encoding if mark is None else _MARKS[mark]
        if encoding is None:
            yield start if mark is None else start.removeprefix(mark)
            while data := self._read(file, BLOCK_BYTES):
                yield data
            return
        try:
            decoder = codecs.getincrementaldecoder(encoding)()
            yield decoder.decode(start).encode()
            while data := self._read(file, BLOCK_BYTES):
                yield decoder.decode(data).encode()
            yield decoder.decode(b"", final=True).encode()
        except UnicodeError:
            raise InputError(
                f"{self.path} is not text in the encoding {encoding}: name another, as "
                "encoding='latin-1'"
            ) from None

    def _read(self, file: IO[bytes], size: int) -> bytes:
        try:
            return file.read(size)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise FileFormatError(f"{self.path} is cut short or damaged: {error}") from None

    def _whole_lines(self, parts: Iterator[bytes], fraction: Callable[[], float]) -> Blocks:
        rest = b""
        for data in parts:
            lines, rest = _split_off_lines(rest + data)
            if len(rest) > _MAX_LINE:
                raise InputError(
                    f"{self.path} has a line of more than {_MAX_LINE:,} bytes: is it a text table?"
                )
            if lines:
                yield lines, fraction()
        rest = rest.rstrip(_ENDS)
        if rest:
            yield _with_newlines(rest + b"\n"), 1.0


def piped(file: IO[bytes], encoding: str | None = None) -> Lines:
    """The lines of standard input, which is copied to a temporary file first."""
    copy = tempfile.TemporaryFile()  # noqa: SIM115, it is closed with the lines
    shutil.copyfileobj(file, copy, BLOCK_BYTES)
    lines = Lines(Path("standard input"), encoding, copy)
    weakref.finalize(lines, copy.close)
    return lines


def check_encoding(encoding: str | None) -> None:
    """Refuse an encoding that Python does not know."""
    try:
        codecs.lookup(encoding or "utf-8")
        "".encode(encoding or "utf-8")
    except (LookupError, UnicodeError, TypeError):
        raise InputError(
            f"encoding must be one that Python knows, as utf-8, latin-1 or cp1252, got {encoding!r}"
        ) from None


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
