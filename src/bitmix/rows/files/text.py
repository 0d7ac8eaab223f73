"""Text tables, .csv and .tsv.

Cells are read by one of three ways, block by block. Features that are single digits side by side
are read as bytes, at the speed of memory. pyarrow reads other blocks, where it is installed. The
standard `csv` module reads whatever is left, and names the line of what is wrong.
"""

import csv
import math
import re
import warnings
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitmix.errors import ColumnWarning, InputError
from bitmix.kernels.bits import Words, pack
from bitmix.rows.convert import Origin, pack_cells
from bitmix.rows.files.arrow import column_to_texts, columns_to_cells
from bitmix.rows.files.lines import FileLines, Lines, split
from bitmix.rows.files.table import (
    FILL,
    NOT_A_FEATURE,
    Chunk,
    Chunks,
    Request,
    Roles,
    Table,
)

_ZEROS = ["0", "0.0", "false", "False", "FALSE"]
_ONES = ["1", "1.0", "true", "True", "TRUE"]
_MISSING = ["", "NA", "na", "NaN", "nan", "NAN", "null", "NULL", "Null"]
_GAP = 2
_CODES = {**dict.fromkeys(_ZEROS, 0), **dict.fromkeys(_ONES, 1)}


def open_text(path: Path, request: Request) -> Table:
    """A file of cells between commas or tabs."""
    kind = path.name.lower().removesuffix(".gz")
    return text_table(FileLines(path), "\t" if kind.endswith(".tsv") else ",", request)


def text_table(lines: Lines, separator: str, request: Request) -> Table:
    """A table of cells between separators; its first line may name the columns."""
    path = lines.path
    first = next((block for block, _ in lines.blocks()), b"")
    if not first:
        raise InputError(f"{path} is empty: rows of 0 and 1 are needed")
    cells = _cells(path, separator, _decoded(path, first[: first.index(b"\n")], 1), 1)
    if not cells:
        raise InputError(f"{path} must not start with an empty line")
    names = None
    if all(_code(cell) in (0, 1) for cell in cells):
        if cells == [str(i) for i in range(len(cells))]:  # how pandas names one or two columns
            warnings.warn(
                f"the first line of {path}, {separator.join(cells)}, is read as a row: if it names "
                "the columns, give them names that are not 0 and 1",
                ColumnWarning,
                stacklevel=2,
            )
    else:
        _check_separator(path, separator, cells)
        names = tuple(cell.strip() for cell in cells)
    roles = request.roles(path, len(cells), names)
    reader = _Reader(lines, separator, len(cells), names, roles, request.missing)
    return Table(path, len(roles.features), lines.size, reader.read_chunks, roles)


@dataclass(frozen=True)
class _Reader:
    """Reads the rows of a text table."""

    lines: Lines
    separator: str
    n_cells: int
    """The number of cells per line, of features and others."""
    names: tuple[str, ...] | None
    roles: Roles
    missing: bool

    def read_chunks(self) -> Chunks:
        line = 1
        for block, fraction in self.lines.blocks():
            if line == 1 and self.names is not None:
                block, line = block[block.index(b"\n") + 1 :], 2
            if block:
                if not block.isascii():
                    _decoded(self.lines.path, block, line)  # an error unless it is UTF-8
                chunk = self._digits(block) or self._by_pyarrow(block) or self._by_csv(block, line)
                line += len(chunk.words)
                yield chunk, fraction

    def _digits(self, block: bytes) -> Chunk | None:
        """Lines whose features are single digits side by side; None if there is anything else."""
        if self._around is None or b'"' in block or b"\r" in block:
            return None
        before, after = self._around
        if before == after == 0:
            words = self._digits_alone(block)
            return None if words is None else Chunk(words)
        separator = self.separator.encode()
        heads = [line.split(separator, before) for line in split(block)]
        tails = [head.pop().rsplit(separator, after) for head in heads]
        if {*map(len, heads)} != {before} or {*map(len, tails)} != {after + 1}:
            return None
        words = self._digits_alone(b"\n".join(tail[0] for tail in tails) + b"\n")
        if words is None:
            return None
        last = self.roles.features[-1]
        ids, labels = (
            None if column is None
            else _decode_all([head[column] for head in heads]) if column < before
            else _decode_all([tail[column - last] for tail in tails])
            for column in (self.roles.id, self.roles.label)
        )  # fmt: skip
        return Chunk(words, None, ids, labels)

    def _digits_alone(self, block: bytes) -> Words | None:
        """Lines that are single digits and separators, and nothing else."""
        zeros, fixed = self._line_of_zeros
        if len(block) % len(zeros):
            return None
        changed = np.frombuffer(block, dtype=np.uint8).reshape(-1, len(zeros)) ^ zeros
        if (changed & fixed).any():
            return None
        return pack(changed[:, ::2])

    @cached_property
    def _around(self) -> tuple[int, int] | None:
        """The number of columns before and after the features, if these are side by side."""
        features = self.roles.features
        first = features[0]
        if list(features) != list(range(first, first + len(features))):
            return None
        return first, self.n_cells - first - len(features)

    @cached_property
    def _line_of_zeros(self) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """A line of zeros, and its bits that are the same in every line: all but which digit."""
        n = len(self.roles.features)
        line = self.separator.join("0" * n) + "\n"
        fixed = np.full(2 * n, 0xFF, dtype=np.uint8)
        fixed[::2] = 0xFE
        return np.frombuffer(line.encode(), dtype=np.uint8), fixed

    def _by_pyarrow(self, block: bytes) -> Chunk | None:
        """Cells that are spelled as usual; None if there are others, or without pyarrow."""
        if self._pyarrow_options is None or b"\r" in block:
            return None
        quoted = len(self._quoted_cell.findall(block)) if b'"' in block else 0
        if 2 * quoted != block.count(b'"'):  # readers differ in what they make of other quotes
            return None
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        try:
            table = arrow_csv.read_csv(pa.BufferReader(block), **self._pyarrow_options)
        except pa.ArrowInvalid:
            return None
        if table.num_rows != block.count(b"\n"):
            return None
        (batch,) = table.to_batches()
        cells = columns_to_cells([batch.column(str(i)) for i in self.roles.features])
        words, known = pack_cells(cells, self._origin, missing=self.missing)
        ids, labels = (
            None if i is None else [text.strip() for text in column_to_texts(batch.column(str(i)))]
            for i in (self.roles.id, self.roles.label)
        )
        return Chunk(words, known, ids, labels)

    @cached_property
    def _quoted_cell(self) -> re.Pattern[bytes]:
        """A cell within quotes that has no quotes inside."""
        edge = re.escape(self.separator.encode()) + rb"\n"
        return re.compile(rb'(?<![^%s])"[^"\n]*"(?=[%s])' % (edge, edge))

    @cached_property
    def _pyarrow_options(self) -> dict[str, Any] | None:
        try:
            import pyarrow as pa
            from pyarrow import csv as arrow_csv
        except ModuleNotFoundError:
            return None
        types = {str(i): pa.bool_() for i in self.roles.features}
        types |= {str(i): pa.string() for i in (self.roles.id, self.roles.label) if i is not None}
        return {
            "read_options": arrow_csv.ReadOptions(
                column_names=[str(i) for i in range(self.n_cells)], block_size=1 << 30,
                use_threads=False,
            ),
            "parse_options": arrow_csv.ParseOptions(delimiter=self.separator),
            "convert_options": arrow_csv.ConvertOptions(
                column_types=types, include_columns=list(types), true_values=_ONES,
                false_values=_ZEROS, null_values=_MISSING if self.missing else [],
                strings_can_be_null=False,
            ),
        }  # fmt: skip

    def _by_csv(self, block: bytes, line: int) -> Chunk:
        """Cell by cell: whatever the standard module reads, and the place of what is wrong."""
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
            octets += bytes([self._checked_code(cells, i, number) for i in self.roles.features])
            if self.roles.id is not None:
                ids.append(cells[self.roles.id].strip())
            if self.roles.label is not None:
                labels.append(cells[self.roles.label].strip())
        codes = np.frombuffer(octets, dtype=np.uint8).reshape(-1, len(self.roles.features))
        return Chunk(
            pack(codes == 1),
            pack(codes != _GAP) if (codes == _GAP).any() else None,
            ids if self.roles.id is not None else None,
            labels if self.roles.label is not None else None,
        )

    def _checked_code(self, cells: list[str], column: int, line: int) -> int:
        cell = cells[column]
        code = _CODES.get(cell)
        if code is None:
            code = _code(cell)
        if code is not None and (code != _GAP or self.missing):
            return code
        name = f"cell {column + 1:,}" if self.names is None else f"column {self.names[column]!r}"
        place = f"line {line:,}, {name}"
        if code == _GAP:
            raise self._origin.missing(place)
        raise self._origin.wrong(repr(cell), place, column)

    @cached_property
    def _origin(self) -> Origin:
        if self.names is None:
            return Origin(str(self.lines.path), None, "name the columns in a first line", FILL)
        return Origin(str(self.lines.path), self.names, NOT_A_FEATURE, FILL)


def _cells(path: Path, separator: str, text: str, line: int) -> list[str]:
    try:
        rows = csv.reader([text], delimiter=separator, skipinitialspace=True, strict=True)
        return next(rows)
    except csv.Error as error:
        raise InputError(f"{path}, line {line:,}: {error}") from None


def _code(cell: str) -> int | None:
    """0, 1, `_GAP` for a missing cell, or None for anything else."""
    cell = cell.strip()
    if cell in _MISSING:
        return _GAP
    if cell.lower() in _CODES:
        return _CODES[cell.lower()]
    try:
        value = float(cell)
    except ValueError:
        return None
    if math.isnan(value):
        return _GAP
    return int(value) if value in (0, 1) else None


def _decoded(path: Path, block: bytes, line: int) -> str:
    try:
        return block.decode()
    except UnicodeDecodeError as error:
        wrong = line + block.count(b"\n", 0, error.start)
        raise InputError(f"{path} must be UTF-8 text, but line {wrong:,} is not") from None


def _decode_all(cells: list[bytes]) -> list[str]:
    return [cell.strip() for cell in b"\n".join(cells).decode().split("\n")]


def _check_separator(path: Path, separator: str, cells: list[str]) -> None:
    if len(cells) > 1:
        return
    for other, name in ((";", "semicolons"), ("\t", "tabs"), (",", "commas")):
        if other != separator and other in cells[0]:
            raise InputError(
                f"{path} has one column {cells[0][:60]!r}, perhaps because {name} separate its "
                "cells: a .csv has commas, a .tsv has tabs"
            )
