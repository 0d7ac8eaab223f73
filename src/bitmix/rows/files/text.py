"""Text tables, .csv and .tsv: cells of one character at the speed of memory, others one by one."""

import csv
import warnings
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bitmix.errors import ColumnWarning, InputError
from bitmix.kernels.bits import Words, pack
from bitmix.rows.files.lines import FileLines, Lines, split
from bitmix.rows.files.table import Picked, Piece, Stream, Table, Wanted

_BITS = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, "false": 0, "true": 1, "False": 0, "True": 1}


def open_text(path: Path, wanted: Wanted) -> Table:
    """A file of cells between commas or tabs."""
    kind = path.name.lower().removesuffix(".gz")
    return text_table(FileLines(path), "\t" if kind.endswith(".tsv") else ",", wanted)


def text_table(lines: Lines, separator: str, wanted: Wanted) -> Table:
    """A table of cells between separators; its first line may name the columns."""
    path = lines.path
    first = next((block for block, _ in lines.blocks()), b"")
    if not first:
        raise InputError(f"{path} is empty: rows of 0 and 1 are needed")
    cells = _cells(path, separator, _decoded(path, first[: first.index(b"\n")], 1), 1)
    if not cells:
        raise InputError(f"{path} must not start with an empty line")
    if all(_bit(cell) is not None for cell in cells):
        wanted.check_nameless(path, len(cells))
        if cells == [str(i) for i in range(len(cells))]:  # what pandas names one or two columns
            warnings.warn(
                f"the first line of {path}, {separator.join(cells)}, is read as a row: if it names "
                "the columns, give them names that are not 0 and 1",
                ColumnWarning,
                stacklevel=2,
            )
        picked, names = Picked(list(range(len(cells))), None, None), None
    else:
        _check_separator(path, separator, cells)
        names = tuple(cell.strip() for cell in cells)
        picked = wanted.pick(path, names)
    reader = _Reader(lines, separator, len(cells), names, picked)
    return Table(
        path=path,
        n_columns=len(picked.features),
        size=lines.size,
        stream=reader.stream,
        names=None if names is None else tuple(names[i] for i in picked.features),
        has_ids=picked.id is not None,
        has_labels=picked.label is not None,
    )


@dataclass(frozen=True)
class _Reader:
    lines: Lines
    separator: str
    n_cells: int
    """Cells of a line, whatever they are."""
    names: tuple[str, ...] | None
    picked: Picked

    def stream(self) -> Stream:
        line = 1
        for block, share in self.lines.blocks():
            if line == 1 and self.names is not None:
                block, line = block[block.index(b"\n") + 1 :], 2
            if block:
                piece = self._quick(block) or self._careful(block, line)
                line += len(piece.words)
                yield piece, share

    def _quick(self, block: bytes) -> Piece | None:
        """Lines whose features are all of one character; None where anything else is met."""
        if b"\r" in block:  # within a line: those that end one are gone
            return None
        quoted = b'"' in block
        if self._around == (0, 0):
            words = self._regular(block)
            return None if words is None else Piece(words)
        if quoted and self._around is None:
            return None
        cells = self._split(split(block))
        if cells is None:
            return None
        features, others = cells
        if quoted and not all(map(_unquote, others)):
            return None
        words = self._regular(b"\n".join(features) + b"\n")
        try:
            ids, labels = (
                None if i is None else _all_decoded([line[i] for line in others])
                for i in (self._other(self.picked.id), self._other(self.picked.label))
            )
        except UnicodeDecodeError:
            return None
        return None if words is None else Piece(words, ids, labels)

    def _split(self, lines: list[bytes]) -> tuple[list[bytes], list[list[bytes]]] | None:
        """The features of each line, still separated, and its other cells (see `_other`)."""
        separator = self.separator.encode()
        if self._around is None:
            cells = [line.split(separator) for line in lines]
            if {*map(len, cells)} != {self.n_cells}:
                return None
            chosen = itemgetter(*self.picked.features, self.picked.features[0])
            return [separator.join(chosen(line)[:-1]) for line in cells], cells
        before, after = self._around
        heads = [line.split(separator, before) for line in lines]
        tails = [head.pop().rsplit(separator, after) for head in heads]
        if {*map(len, heads)} != {before} or {*map(len, tails)} != {after + 1}:
            return None
        features = [tail[0] for tail in tails]
        return features, [head + tail[1:] for head, tail in zip(heads, tails, strict=True)]

    def _other(self, column: int | None) -> int | None:
        """Where `_split` leaves the cell of a column that is no feature."""
        if column is None or self._around is None or column < self._around[0]:
            return column
        return column - len(self.picked.features)

    @cached_property
    def _around(self) -> tuple[int, int] | None:
        """How many columns stand before and after the features, if these stand together."""
        features = self.picked.features
        first = features[0]
        if features != list(range(first, first + len(features))):
            return None
        return first, self.n_cells - first - len(features)

    def _regular(self, block: bytes) -> Words | None:
        """Lines that are features and nothing else: digits, or numbers or words of pandas."""
        words = self._digits(block)
        if words is None and b".0" in block:
            separator = self.separator.encode()
            plain = block.replace(b".0" + separator, separator).replace(b".0\n", b"\n")
            words = self._digits(plain)
        elif words is None and b"e" in block:
            words = self._digits(block.replace(b"False", b"0").replace(b"True", b"1"))
        return words

    def _digits(self, block: bytes) -> Words | None:
        """Lines of features of one character each."""
        zeros, fixed = self._pattern
        if len(block) % len(zeros):
            return None
        changed = np.frombuffer(block, dtype=np.uint8).reshape(-1, len(zeros)) ^ zeros
        if (changed & fixed).any():
            return None
        return pack(changed[:, ::2])

    @cached_property
    def _pattern(self) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """A line of zeros, and its bits that are the same in every line: all but which digit."""
        n = len(self.picked.features)
        line = self.separator.join("0" * n) + "\n"
        fixed = np.full(2 * n, 0xFF, dtype=np.uint8)
        fixed[::2] = 0xFE
        return np.frombuffer(line.encode(), dtype=np.uint8), fixed

    def _careful(self, block: bytes, line: int) -> Piece:
        """Cell by cell: quotes, spaces, 1.0 and True; and the exact place of what is wrong."""
        octets = bytearray()
        ids: list[str] = []
        labels: list[str] = []
        path = self.lines.path
        for number, text in enumerate(_decoded(path, block[:-1], line).split("\n"), line):
            cells = _cells(path, self.separator, text, number)
            if len(cells) != self.n_cells:
                raise InputError(
                    f"{path} must hold 0 and 1 in {self.n_cells:,} columns, but line "
                    f"{number:,} has {len(cells):,} cells: complete or remove it"
                )
            octets += bytes([self._checked(cells, i, number) for i in self.picked.features])
            if self.picked.id is not None:
                ids.append(cells[self.picked.id].strip())
            if self.picked.label is not None:
                labels.append(cells[self.picked.label].strip())
        bits = np.frombuffer(octets, dtype=np.uint8).reshape(-1, len(self.picked.features))
        return Piece(
            pack(bits),
            ids if self.picked.id is not None else None,
            labels if self.picked.label is not None else None,
        )

    def _checked(self, cells: list[str], column: int, line: int) -> int:
        cell = cells[column]
        bit = _BITS.get(cell)
        if bit is None:
            bit = _bit(cell)
        if bit is not None:
            return bit
        value = repr(cell) if cell.strip() else "an empty cell"
        if self.names is None:
            where, remedy = f"cell {column + 1:,}", "name the columns in a first line"
        else:
            name = self.names[column]
            where = f"column {name!r}"
            remedy = f"say --id-column {name} or --label-column {name} if it is no feature"
        raise InputError(
            f"{self.lines.path} must hold 0 and 1, but line {line:,} has {value} in {where}: "
            f"{remedy}"
        )


def _cells(path: Path, separator: str, text: str, line: int) -> list[str]:
    try:
        rows = csv.reader([text], delimiter=separator, skipinitialspace=True, strict=True)
        return next(rows)
    except csv.Error as error:
        raise InputError(f"{path}, line {line:,}: {error}") from None


def _bit(cell: str) -> int | None:
    """What a cell says, written in any way a number or truth value is written."""
    cell = cell.strip().lower()
    if cell in _BITS:
        return _BITS[cell]
    try:
        value = float(cell)
    except ValueError:
        return None
    return int(value) if value in (0, 1) else None


def _decoded(path: Path, block: bytes, line: int) -> str:
    try:
        return block.decode()
    except UnicodeDecodeError as error:
        wrong = line + block.count(b"\n", 0, error.start)
        raise InputError(f"{path} must be UTF-8 text, but line {wrong:,} is not") from None


def _all_decoded(cells: list[bytes]) -> list[str]:
    return [cell.strip() for cell in b"\n".join(cells).decode().split("\n")]


def _unquote(cells: list[bytes]) -> bool:
    """Take the quotes from around cells; False where there are others."""
    for i, cell in enumerate(cells):
        if b'"' in cell:
            if not (cell[:1] == cell[-1:] == b'"' and cell.count(b'"') == 2):
                return False
            cells[i] = cell[1:-1]
    return True


def _check_separator(path: Path, separator: str, cells: list[str]) -> None:
    if len(cells) > 1:
        return
    for other, name in ((";", "semicolons"), ("\t", "tabs"), (",", "commas")):
        if other != separator and other in cells[0]:
            raise InputError(
                f"{path} has one column {cells[0][:60]!r}, it seems because its cells stand "
                f"between {name}: a .csv has commas, a .tsv has tabs"
            )
