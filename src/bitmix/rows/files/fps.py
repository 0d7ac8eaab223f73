"""Fingerprints of molecules, .fps: lines of hexadecimal digits, a tab, and the id.

Bit i of a fingerprint is bit i mod 8 of its byte i // 8, as in our words.
"""

import binascii
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np

from bitmix.errors import InputError
from bitmix.rows.files.lines import FileLines, Lines, split
from bitmix.rows.files.table import Piece, Stream, Table, Wanted, packed_octets

_DIGITS = frozenset(b"0123456789abcdefABCDEF")


def open_fps(path: Path, wanted: Wanted) -> Table:
    """A file of fingerprints."""
    return fps_table(FileLines(path), wanted)


def fps_table(lines: Lines, wanted: Wanted) -> Table:
    """Fingerprints; the header lines are what the file says of itself."""
    path = lines.path
    header, rows = _header(lines)
    if not header and not rows:
        raise InputError(f"{path} is empty: fingerprints are needed")
    about = _about(path, header)
    digits, tab, _ = rows[: rows.find(b"\n")].partition(b"\t")
    n_bits = _n_bits(path, about, len(digits))
    wanted.check_nameless(path, n_bits)
    reader = _Reader(lines, n_bits, len(header), bool(tab))
    return Table(
        path=path,
        n_columns=n_bits,
        size=lines.size,
        stream=reader.stream,
        about=about,
        has_ids=reader.has_ids,
    )


@dataclass(frozen=True)
class _Reader:
    lines: Lines
    n_bits: int
    header_lines: int
    has_ids: bool

    def stream(self) -> Stream:
        line = 1
        for block, share in self.lines.blocks():
            rows = block
            if line <= self.header_lines:
                header, rows = _split_header(block)
                line += len(header)
            if rows:
                piece = self._piece(split(rows), line)
                line += len(piece.words)
                yield piece, share

    def _piece(self, lines: list[bytes], line: int) -> Piece:
        width = -(-self.n_bits // 8)
        digits = [text[: 2 * width] for text in lines]
        tails = [text[2 * width :] for text in lines]
        after = {tail[:1] for tail in tails}
        if {*map(len, digits)} != {2 * width} or after != {b"\t" if self.has_ids else b""}:
            self._explain(lines, line)
        try:
            octets = np.frombuffer(binascii.unhexlify(b"".join(digits)), dtype=np.uint8)
            ids = _ids(tails) if self.has_ids else None
        except ValueError:  # binascii.Error and UnicodeDecodeError
            self._explain(lines, line)
        octets = octets.reshape(-1, width)
        if self.n_bits % 8 and np.any(octets[:, -1] >> self.n_bits % 8):
            self._explain(lines, line)
        return Piece(packed_octets(octets), ids)

    def _explain(self, lines: list[bytes], line: int) -> NoReturn:
        """The first line that is wrong, and why."""
        width = 2 * -(-self.n_bits // 8)
        for number, text in enumerate(lines, line):
            digits, tab, rest = text.partition(b"\t")
            where = f"{self.lines.path}, line {number:,}"
            wrong = next((i for i, digit in enumerate(digits) if digit not in _DIGITS), None)
            if wrong is not None:
                letter = digits[wrong : wrong + 1].decode(errors="replace")
                raise InputError(
                    f"{where}: a fingerprint must be hexadecimal digits, but digit {wrong + 1:,} "
                    f"is {letter!r}"
                )
            if len(digits) != width:
                raise InputError(
                    f"{where}: a fingerprint of {self.n_bits:,} bits must be {width:,} hexadecimal "
                    f"digits, got {len(digits):,}"
                )
            if self.n_bits % 8 and int(digits[-2:], 16) >> self.n_bits % 8:
                raise InputError(
                    f"{where}: bits are set past the last of {self.n_bits:,} (#num_bits)"
                )
            if bool(tab) != self.has_ids:
                raise InputError(f"{where}: every fingerprint must have a tab and an id, or none")
            try:
                rest.decode()
            except UnicodeDecodeError:
                raise InputError(f"{where}: the id is not UTF-8 text") from None
        raise AssertionError("only called for lines that are wrong")


def _ids(tails: list[bytes]) -> list[str]:
    """What stands between the first tab and the second, if there is one."""
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
    """What the header says; of a word that comes twice, both, on lines of their own."""
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
