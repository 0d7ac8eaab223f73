"""Fingerprints of molecules, .fps: per line hexadecimal digits, a tab, and the id.

Bit i of a fingerprint is bit i mod 8 of its byte i // 8, as in our words.
"""

import binascii
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from bitmix.errors import InputError
from bitmix.rows.convert import octets_to_words
from bitmix.rows.files.lines import Lines, split
from bitmix.rows.files.request import Request
from bitmix.rows.files.table import Chunk, Parts, Table

_DIGITS = frozenset(b"0123456789abcdefABCDEF")


def open_fps(path: Path, request: Request) -> Table:
    """A file of fingerprints."""
    return fps_table(Lines(path), request)


def fps_table(lines: Lines, request: Request) -> Table:
    """A table of fingerprints; its header lines are what the file says about itself."""
    path = lines.path
    request.refuse(path, "a file of fingerprints", ("columns", "codes"))
    header, rows = _header(lines)
    if not header and not rows:
        raise InputError(f"{path} is empty: fingerprints are needed")
    about = _about(path, header)
    digits, tab, _ = rows[: rows.find(b"\n")].partition(b"\t")
    n_bits = _n_bits(path, about, len(digits))
    reader = _Reader(lines, n_bits, len(header), bool(tab))
    if not rows:
        raise InputError(f"{path} has no rows")
    if len(digits) != 2 * -(-n_bits // 8):
        raise reader._error(split(rows), len(header) + 1)
    names = (*map(str, range(n_bits)), "id")
    roles = replace(request.roles(path, n_bits), id=n_bits if tab else None, all_names=names)
    return Table(path, lines.size, roles, reader.parts, about=about)


@dataclass(frozen=True)
class _Reader:
    """Reads the rows of a file of fingerprints."""

    lines: Lines
    n_bits: int
    header_lines: int
    has_ids: bool

    def parts(self) -> Parts:
        line = 1
        for block, fraction in self.lines.blocks():
            header, rows = _split_header(block) if line <= self.header_lines else ([], block)
            line += len(header)
            if rows:
                chunk = self._chunk(split(rows), line)
                line += len(chunk.words)
                yield chunk, fraction

    def _chunk(self, lines: list[bytes], line: int) -> Chunk:
        width = -(-self.n_bits // 8)
        digits = [text[: 2 * width] for text in lines]
        tails = [text[2 * width :] for text in lines]
        after = {tail[:1] for tail in tails}
        if {*map(len, digits)} != {2 * width} or after != {b"\t" if self.has_ids else b""}:
            raise self._error(lines, line)
        try:
            octets = np.frombuffer(binascii.unhexlify(b"".join(digits)), dtype=np.uint8)
            ids = _ids(tails) if self.has_ids else None
        except ValueError:  # binascii.Error and UnicodeDecodeError
            raise self._error(lines, line) from None
        octets = octets.reshape(-1, width)
        if self.n_bits % 8 and np.any(octets[:, -1] >> self.n_bits % 8):
            raise self._error(lines, line)
        return Chunk(octets_to_words(octets), None, ids)

    def _error(self, lines: list[bytes], line: int) -> InputError:
        """The error for the first line that is wrong."""
        width = 2 * -(-self.n_bits // 8)
        for number, text in enumerate(lines, line):
            where = f"{self.lines.path}, line {number:,}"
            digits, tab, id_ = text.partition(b"\t")
            wrong = next((i for i, digit in enumerate(digits) if digit not in _DIGITS), None)
            if wrong is not None:
                letter = digits[wrong : wrong + 1].decode(errors="replace")
                return InputError(
                    f"{where}: a fingerprint must be hexadecimal digits, but digit {wrong + 1:,} "
                    f"is {letter!r}"
                )
            if len(digits) != width:
                return InputError(
                    f"{where}: a fingerprint of {self.n_bits:,} bits must be {width:,} hexadecimal "
                    f"digits, got {len(digits):,}"
                )
            if self.n_bits % 8 and int(digits[-2:], 16) >> self.n_bits % 8:
                return InputError(
                    f"{where}: bits are set past the last of {self.n_bits:,} (#num_bits)"
                )
            if bool(tab) != self.has_ids:
                return InputError(f"{where}: every fingerprint must have a tab and an id, or none")
            if id_.decode(errors="replace").encode() != id_:
                return InputError(f"{where}: the id is not UTF-8 text")
        raise AssertionError("no line is wrong")


def _ids(tails: list[bytes]) -> list[str]:
    """The texts after the first tab of each line, up to the second if there is one."""
    text = b"".join(tails)
    if text.count(b"\t") == len(tails):
        return text.decode().split("\t")[1:]
    return [tail.split(b"\t")[1].decode() for tail in tails]


def _header(lines: Lines) -> tuple[list[bytes], bytes]:
    """The header lines, and some rows after them if there are any."""
    header, rows = [], b""
    for block, _ in lines.blocks():
        more, rows = _split_header(block)
        header += more
        if rows:
            break
    return header, rows


def _split_header(block: bytes) -> tuple[list[bytes], bytes]:
    """The lines that start with # at the top, and the rest."""
    header = []
    while block.startswith(b"#"):
        line, _, block = block.partition(b"\n")
        header.append(line)
    return header, block


def _about(path: Path, header: list[bytes]) -> dict[str, str]:
    """The values that the header sets. Those of a name that comes twice are on separate lines."""
    about: dict[str, str] = {}
    for line in header:
        name, is_set, value = line[1:].decode(errors="replace").partition("=")
        if is_set:
            about[name] = f"{about[name]}\n{value}" if name in about else value
        elif name.startswith("FPS") and name != "FPS1":
            raise InputError(f"{path} is of format {name}: only FPS1 is read")
    return about


def _n_bits(path: Path, about: dict[str, str], n_digits: int) -> int:
    said = about.get("num_bits")
    if said is None:
        if n_digits == 0:
            raise InputError(f"{path} has no fingerprints")
        return 4 * n_digits + 4 * (n_digits % 2)
    if not said.isdecimal() or int(said) == 0:
        raise InputError(f"{path} must say #num_bits= with a number from 1, got {said!r}")
    return int(said)
