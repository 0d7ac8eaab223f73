"""Text tables: cells between commas, tabs, semicolons or blanks.

Cells are read by one of three ways, block by block. Features that are single digits side by side
are read as bytes, at the speed of memory. pyarrow reads other blocks, where it is installed. The
standard `csv` module reads whatever is left, and names the line of what is wrong.
"""

import csv
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitmix.errors import ColumnWarning, InputError
from bitmix.kernels.bits import Words, pack
from bitmix.rows.cells import Numbers, Vocabulary, as_number, is_missing, number_columns, text_of
from bitmix.rows.coded import PlainReader
from bitmix.rows.codes import KNOWN
from bitmix.rows.convert import Origin, pack_cells
from bitmix.rows.files.arrow import columns_to_cells
from bitmix.rows.files.lines import Lines, check_encoding, split
from bitmix.rows.files.molecules import smiles_table
from bitmix.rows.files.request import ColumnFinder, Request, Roles
from bitmix.rows.files.sparse import pairs_table
from bitmix.rows.files.table import Parts, Table, make_table
from bitmix.rows.files.transposed import for_inner, transposed

_SEPARATORS = {",": "commas", "\t": "tabs", ";": "semicolons", " ": "blanks"}
_ZEROS = ["0", "0.0", "false", "False", "FALSE"]
_ONES = ["1", "1.0", "true", "True", "TRUE"]
_MISSING = ["", "NA", "na", "NaN", "nan", "NAN", "null", "NULL", "Null"]
_BLANKS = re.compile(rb"[ \t]+")
_ROARY = {
    "Non-unique Gene name", "Annotation", "No. isolates", "No. sequences",
    "Avg sequences per isolate", "Genome Fragment", "Genome fragment", "Order within Fragment",
    "Order within fragment", "Accessory Fragment", "Accessory Order with Fragment", "QC",
    "Min group size nuc", "Max group size nuc", "Avg group size nuc",
}  # fmt: skip
"""Columns of gene_presence_absence.csv that are about a gene, as Roary and Panaroo write them."""
_OPTIONS = (
    "columns", "drop", "id_column", "label_column", "weight_column", "one_values", "items",
    "missing", "filled", "binarize", "codes", "sep", "header", "encoding", "transpose", "pairs",
    "smiles_column", "fingerprint", "skip_errors",
)  # fmt: skip


@dataclass(frozen=True)
class Header:
    """What the first lines of a text table say about it."""

    separator: str
    n_cells: int
    """The number of cells per line, of features and others."""
    names: tuple[str, ...] | None
    """The names of the columns, if the first line has them."""


def open_text(path: Path, request: Request) -> Table:
    """A file of cells between separators."""
    check_encoding(request.encoding)
    kind = path.name.lower().removesuffix(".gz")
    if kind == "gene_presence_absence.csv" and request.transpose is None:
        request = replace(request, transpose=True, filled=request.codes is None)
    separator = "," if kind.endswith(".csv") else "\t"
    return text_table(Lines(path, request.encoding), separator, request)


def text_table(lines: Lines, separator: str, request: Request) -> Table:
    """A table of cells between separators; its first line may name the columns."""
    path = lines.path
    request.refuse(path, "a text table", _OPTIONS)
    header = read_header(lines, separator, request)
    if request.smiles_column is not None:
        return smiles_table(Reader(lines, header, Roles((0,))), request)
    if request.skip_errors:
        raise InputError(
            f"skip_errors= is for molecules and does not apply to {path}: leave it out, or set "
            "smiles_column="
        )
    if request.pairs:
        return pairs_table(Reader(lines, header, Roles((0, 1))), request)
    if request.transpose:
        return _features_in_rows(lines, header, request)
    roles = request.roles(path, header.n_cells, header.names)
    reader = Reader(lines, header, roles)
    return make_table(path, lines.size, request, roles, reader.parts)


def open_rtab(path: Path, request: Request) -> Table:
    """Genes in rows, strains in columns, as Roary, Panaroo and others write .Rtab."""
    return open_text(path, replace(request, transpose=True))


def _features_in_rows(lines: Lines, header: Header, request: Request) -> Table:
    """A text table whose lines are features. One of its columns names them."""
    names, columns = header.names, ColumnFinder(header.names, header.n_cells, str(lines.path))
    if names is None:
        features = list(range(header.n_cells))
        roles = Roles(features, None)
        if request.id_column is not None:
            column = columns.find(request.id_column, "id_column")
            roles = Roles([i for i in features if i != column] or features, None, column)
    else:
        first = names[0] if request.id_column is None else request.id_column
        column = columns.find(first, "id_column")
        known = {column, *(i for i, name in enumerate(names) if name in _ROARY)}
        left_out = {names[i]: "about the genes" for i in sorted(known - {column})}
        rows = [i for i in range(header.n_cells) if i not in known]
        if not rows:
            raise InputError(f"{lines.path} has no columns but {names[column]!r}: rows are needed")
        roles = Roles(rows, tuple(names[i] for i in rows), column, left_out=left_out)
    reader = Reader(lines, header, roles)
    inner = make_table(
        lines.path, lines.size, for_inner(lines.path, request, len(roles.features)), roles,
        reader.parts, pooled=True,
    )  # fmt: skip
    return transposed(inner, request)


def read_header(lines: Lines, separator: str, request: Request) -> Header:
    """The separator and the names of the columns, given or found in the first two lines."""
    path = lines.path
    block = b""
    for more, _ in lines.blocks():
        block += more
        if block.count(b"\n") > 1:
            break
    if not block:
        raise InputError(f"{path} is empty: rows of 0 and 1 are needed")
    texts = [_decoded(path, line, i) for i, line in enumerate(block.split(b"\n", 2)[:2], 1)]
    texts = [text for text in texts if text] if texts[0] else texts
    if not texts[0].strip():
        raise InputError(f"{path} must not start with an empty line")
    if request.sep is None:
        separator = _found_separator(path, separator, texts)
    elif len(request.sep) == 1 and request.sep not in '"\r\n':
        separator = request.sep
    else:
        raise InputError(f"sep must be one character, as ';' or a blank, got {request.sep!r}")
    rows = [_cells(path, separator, text, i) for i, text in enumerate(texts, 1)]
    names = _names(path, separator, rows, request.header)
    return Header(separator, len(rows[0] if names is None else names), names)


def _found_separator(path: Path, usual: str, texts: Sequence[str]) -> str:
    """The separator that makes several cells of the first lines, and as many in each."""
    fitting = []
    for separator in _SEPARATORS:
        try:
            counts = [len(_cells(path, separator, text, 1)) for text in texts]
        except InputError:
            continue
        several = min(counts) > 1 and counts[-1] - counts[0] in (0, 1)
        words = separator == " " and len(texts) == 1 and not texts[0].replace(" ", "").isdecimal()
        if several and not words:
            fitting.append(separator)
    marks = [separator for separator in fitting if separator != " "] or fitting
    if len(marks) > 1:
        both = " or ".join(_SEPARATORS[mark] for mark in marks)
        raise InputError(
            f"{path} could have cells between {both}: set sep={marks[0]!r} or sep={marks[1]!r}"
        )
    return marks[0] if marks else usual


def _names(
    path: Path, separator: str, rows: Sequence[list[str]], header: bool | None
) -> tuple[str, ...] | None:
    """The names of the columns, or None if the first line is a row."""
    first = [cell.strip() for cell in rows[0]]
    if header is False:
        return None
    if len(rows) > 1 and len(rows[1]) == len(first) + 1:  # R does not name the row names
        first = ["", *first]
    texts = [text_of(cell) for cell in first]
    numbers = [str(i) for i in range(len(first))]
    if header is None and all(_is_value(text) for text in texts):
        if first != numbers:
            return None
        if len(first) <= 2:  # how pandas names one or two columns
            warnings.warn(
                f"the first line of {path}, {separator.join(first)}, is read as a row: set "
                "header=True if it names the columns",
                ColumnWarning,
                stacklevel=2,
            )
            return None
    elif (
        header is None and all(as_number(text) is not None for text in texts) and (first != numbers)
    ):
        raise InputError(
            f"the first line of {path}, {separator.join(first)[:60]!r}, could be a row or the "
            "names of the columns: set header=False if it is a row, header=True if it has names"
        )
    return tuple(first)


def _is_value(text: str) -> bool:
    """Whether a cell of the first line is more likely a value than a name."""
    number = as_number(text)
    if number is not None:
        return 0 <= number < 10 or text in ("-9", "-1", "99")
    return text.lower() in KNOWN or (is_missing(text) and text != "")


@dataclass(frozen=True)
class Reader:
    """Reads the rows of a text table."""

    lines: Lines
    header: Header
    roles: Roles

    def parts(self) -> Parts:
        line = 1
        for block, fraction in self.lines.blocks():
            if line == 1 and self.header.names is not None:
                block, line = block[block.index(b"\n") + 1 :], 2
            if not block:
                continue
            if not block.isascii():
                _decoded(self.lines.path, block, line)  # an error unless it is UTF-8
            if self.header.separator == " ":
                block = _one_blank(block)
            yield TextPart(self, block, line), fraction
            line += block.count(b"\n")

    @property
    def path(self) -> Path:
        return self.lines.path

    @cached_property
    def around(self) -> tuple[int, int] | None:
        """The number of columns before and after the features, if these are side by side."""
        features = self.roles.features
        first = features[0]
        if list(features) != list(range(first, first + len(features))):
            return None
        return first, self.header.n_cells - first - len(features)

    @cached_property
    def line_of_zeros(self) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """A line of zeros, and its bits that are the same in every line: all but which digit."""
        n = len(self.roles.features)
        line = self.header.separator.join("0" * n) + "\n"
        fixed = np.full(2 * n, 0xFF, dtype=np.uint8)
        fixed[::2] = 0xFE
        return np.frombuffer(line.encode(), dtype=np.uint8), fixed

    @cached_property
    def plain(self) -> PlainReader:
        """Reads 0 and 1 that are spelled in other ways, and missing cells."""
        return PlainReader(len(self.roles.features), str(self.path))

    @cached_property
    def used(self) -> list[int]:
        """The numbers of the columns that are read."""
        return [*self.roles.features, *self.roles.others]

    @cached_property
    def quoted_cell(self) -> re.Pattern[bytes]:
        """A cell within quotes that has no quotes inside."""
        edge = re.escape(self.header.separator.encode()) + rb"\n"
        return re.compile(rb'(?<![^%s])"[^"\n]*"(?=[%s])' % (edge, edge))

    def read_by_pyarrow(self, block: bytes, *, as_bits: bool) -> Any:
        """The columns as Arrow has them, features first; None if there are unusual cells.

        Features are booleans, or else texts, each of which is stored once.
        """
        if not self.has_pyarrow or b"\r" in block:
            return None
        quoted = len(self.quoted_cell.findall(block)) if b'"' in block else 0
        if 2 * quoted != block.count(b'"'):  # readers differ in what they make of other quotes
            return None
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        feature = pa.bool_() if as_bits else pa.dictionary(pa.int32(), pa.string())
        types = {str(i): feature for i in self.roles.features}
        types |= {str(i): pa.string() for i in self.roles.others}
        names = [str(i) for i in range(self.header.n_cells)]
        try:
            table = arrow_csv.read_csv(
                pa.BufferReader(block),
                arrow_csv.ReadOptions(column_names=names, block_size=1 << 30),
                arrow_csv.ParseOptions(delimiter=self.header.separator),
                arrow_csv.ConvertOptions(
                    column_types=types, include_columns=list(types), true_values=_ONES,
                    false_values=_ZEROS, null_values=_MISSING if as_bits else [],
                    strings_can_be_null=False,
                ),
            )  # fmt: skip
        except pa.ArrowInvalid:
            return None
        if table.num_rows != block.count(b"\n"):
            return None
        return [table.column(str(i)).combine_chunks() for i in self.used]

    @cached_property
    def has_pyarrow(self) -> bool:
        try:
            import pyarrow.csv  # noqa: F401
        except ModuleNotFoundError:
            return False
        return self.header.separator.isascii()


class TextPart:
    """Consecutive lines of a text table."""

    def __init__(self, reader: Reader, block: bytes, line: int) -> None:
        self._reader, self._block, self._line = reader, block, line
        self._texts: Sequence[list[str]] | None = None

    def plain(self) -> tuple[Words, Words | None]:
        words = self._digits()
        if words is not None:
            return words, None
        return self._booleans() or self._reader.plain.words(self)

    def numbers(self, vocabulary: Vocabulary) -> Numbers:
        return number_columns(self._columns[: len(self._reader.roles.features)], vocabulary)

    def others(self) -> Sequence[list[str]]:
        if self._texts is None:
            columns = self._columns[len(self._reader.roles.features) :]
            self._texts = [_stripped(column) for column in columns]
        return self._texts

    def texts(self) -> list[list[str]]:
        """The features as texts."""
        features = self._columns[: len(self._reader.roles.features)]
        return [_stripped(column) for column in features]

    def value(self, row: int, column: int) -> str:
        line = split(self._block)[row].decode()
        cells = _cells(self._reader.path, self._reader.header.separator, line, self._line + row)
        return cells[self._reader.roles.features[column]].strip()

    def where(self, row: int) -> str:
        return f"line {self._line + row:,}"

    def place(self, row: int, column: int) -> str:
        number, names = self._reader.roles.features[column], self._reader.header.names
        name = f"cell {number + 1:,}" if names is None else f"column {names[number]!r}"
        return f"{self.where(row)}, {name}"

    def _digits(self) -> Words | None:
        """Lines whose features are single digits side by side; None if there is anything else."""
        block, reader = self._block, self._reader
        if reader.around is None or b'"' in block or b"\r" in block:
            return None
        before, after = reader.around
        if before == after == 0:
            self._texts = []
            return self._digits_alone(block)
        separator = reader.header.separator.encode()
        heads = [line.split(separator, before) for line in split(block)]
        tails = [head.pop().rsplit(separator, after) for head in heads]
        if {*map(len, heads)} != {before} or {*map(len, tails)} != {after + 1}:
            return None
        words = self._digits_alone(b"\n".join(tail[0] for tail in tails) + b"\n")
        if words is not None:
            last = reader.roles.features[-1]
            self._texts = [
                _decode_all([head[column] for head in heads]) if column < before
                else _decode_all([tail[column - last] for tail in tails])
                for column in reader.roles.others
            ]  # fmt: skip
        return words

    def _digits_alone(self, block: bytes) -> Words | None:
        """Lines that are single digits and separators, and nothing else."""
        zeros, fixed = self._reader.line_of_zeros
        if len(block) % len(zeros):
            return None
        changed = np.frombuffer(block, dtype=np.uint8).reshape(-1, len(zeros)) ^ zeros
        if (changed & fixed).any():
            return None
        return pack(changed[:, ::2])

    @cached_property
    def _columns(self) -> list[Any]:
        """The columns that are read, features first: of Arrow, or lists of texts."""
        columns = self._by_pyarrow()
        return self._by_csv() if columns is None else columns

    def _by_pyarrow(self, *, as_bits: bool = False) -> list[Any] | None:
        return self._reader.read_by_pyarrow(self._block, as_bits=as_bits)

    def _booleans(self) -> tuple[Words, Words | None] | None:
        """Usual spellings of 0, 1 and missing cells, by pyarrow; None if there are others."""
        columns = self._by_pyarrow(as_bits=True)
        if columns is None:
            return None
        n = len(self._reader.roles.features)
        self._texts = [_stripped(column) for column in columns[n:]]
        cells = columns_to_cells(columns[:n])
        return pack_cells(cells, Origin(str(self._reader.path)), missing=True)

    def _by_csv(self) -> list[list[str]]:
        """Whatever the standard module reads, and the place of what is wrong."""
        path, header = self._reader.path, self._reader.header
        rows = []
        for number, text in enumerate(self._block[:-1].decode().split("\n"), self._line):
            cells = _cells(path, header.separator, text, number)
            if len(cells) != header.n_cells:
                raise InputError(
                    f"{path} must have {header.n_cells:,} columns, but line {number:,} has "
                    f"{len(cells):,} cells: complete or remove it"
                )
            rows.append(cells)
        return [[cells[i] for cells in rows] for i in self._reader.used]


def _cells(path: Path, separator: str, text: str, line: int) -> list[str]:
    if separator == " ":
        text = " ".join(text.split())
    try:
        rows = csv.reader([text], delimiter=separator, skipinitialspace=True, strict=True)
        return next(rows)
    except csv.Error as error:
        raise InputError(f"{path}, line {line:,}: {error}") from None


def _one_blank(block: bytes) -> bytes:
    """Lines with one blank between cells, and none around them."""
    block = _BLANKS.sub(b" ", block).replace(b" \n", b"\n").replace(b"\n ", b"\n")
    return block.removeprefix(b" ")


def _decoded(path: Path, block: bytes, line: int) -> str:
    try:
        return block.decode()
    except UnicodeDecodeError as error:
        wrong = line + block.count(b"\n", 0, error.start)
        raise InputError(
            f"{path} must be UTF-8 text, but line {wrong:,} is not: name its encoding, as "
            "encoding='latin-1'"
        ) from None


def _stripped(column: Any) -> list[str]:
    return [text.strip() for text in (column if isinstance(column, list) else column.to_pylist())]


def _decode_all(cells: list[bytes]) -> list[str]:
    return [cell.strip() for cell in b"\n".join(cells).decode().split("\n")]
