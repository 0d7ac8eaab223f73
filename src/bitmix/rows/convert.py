"""Arrays, sparse matrices and tables to packed words, a block of rows at a time."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bitmix.errors import CellTypeError, InputError, NotPlainError
from bitmix.kernels.bits import WORD, Words, pack, words_for
from bitmix.kernels.fixed import Ints
from bitmix.support.extras import need

BLOCK_CELLS = 1 << 20
_MAX_WEIGHT_BITS = 30
_FRACTION_BITS = 16

Block = Callable[[slice], NDArray[Any]]
"""Returns consecutive rows of a source as a dense array."""


@dataclass(frozen=True)
class Origin:
    """Where cells come from, so that an error can say which one is wrong and what to do."""

    name: str = "X"
    columns: Sequence[Any] | None = None
    """The names of the columns, if they have any."""
    remedy: str = (
        "drop columns that are not features (ids, counts), or set binarize=t to read values "
        "above t as 1"
    )
    """What to do about a value other than 0 and 1. ``{column}`` stands for the column's name."""
    missing_remedy: str = "fill or drop missing cells first, or use TemplateMixture"

    def place(self, row: int, column: int) -> str:
        """The row and column of a cell, both counted from 0."""
        name = "" if self.columns is None else f" ({self.columns[column]!r})"
        return f"row {row}, column {column}{name}"

    def wrong(self, value: str, place: str, column: int) -> InputError:
        """The error for a cell that holds anything but 0 and 1."""
        name = None if self.columns is None else self.columns[column]
        remedy = self.remedy.format(column=repr(name))
        return NotPlainError(f"{self.name} must hold 0 and 1, got {value} at {place}: {remedy}")

    def missing(self, place: str) -> InputError:
        """The error for a missing cell where every cell is needed."""
        return InputError(
            f"{self.name} has a missing cell (NaN or empty) at {place}, but must hold 0 and 1: "
            f"{self.missing_remedy}"
        )


def to_words(
    X: Any, binarize: float | None = None, *, missing: bool = False, first_row: int = 0
) -> tuple[Words, Words | None, int]:
    """Packed rows, packed known cells, and the number of columns.

    A missing cell is NaN, masked, or an empty cell of a nullable column. It is an error unless
    `missing` is set; then its bit is 0. Known cells are None if no cell is missing. Row numbers in
    errors count from `first_row`.
    """
    (m, n), block, names = source(X)
    origin, known = Origin(columns=names), None
    words = np.empty((m, words_for(n)), dtype=WORD)
    step = max(1, BLOCK_CELLS // n)
    for start in range(0, m, step):
        some = slice(start, min(start + step, m))
        words[some], part = pack_cells(
            block(some), origin, first_row + start, binarize=binarize, missing=missing
        )
        if part is not None:
            known = all_known(m, n) if known is None else known
            known[some] = part
    return words, known, n


def pack_cells(
    cells: NDArray[Any],
    origin: Origin,
    first_row: int = 0,
    *,
    binarize: float | None = None,
    missing: bool = False,
) -> tuple[Words, Words | None]:
    """A block of cells as packed bits and packed known cells, which are None if all are known.

    Cells are 0 and 1, or all that are above `binarize` are read as 1.
    """
    if isinstance(cells, np.ma.MaskedArray) or cells.dtype.kind not in "biuf":
        cells = _as_numbers(cells, origin, first_row)
    known = None
    if missing and cells.dtype.kind == "f" and np.isnan(cells).any():
        known = ~np.isnan(cells)
        cells = np.where(known, cells, 0)
    if cells.dtype.kind == "f" and not np.isfinite(cells).all():
        raise _wrong_cell(cells, ~np.isfinite(cells), origin, first_row)
    if cells.dtype.kind == "b" and (binarize is None or 0 <= binarize < 1):
        bits = cells
    elif binarize is not None:
        with np.errstate(over="ignore"):  # a threshold beyond the type is infinite there
            bits = cells > binarize
    else:
        bits = cells == 1
        wrong = ~bits & (cells != 0)
        if wrong.any():
            raise _wrong_cell(cells, wrong, origin, first_row)
    return (pack(bits), None) if known is None else (pack(bits & known), pack(known))


def _wrong_cell(
    cells: NDArray[Any], wrong: NDArray[np.bool_], origin: Origin, first_row: int
) -> InputError:
    """The error for the first of the cells that are wrong."""
    row, column = np.argwhere(wrong)[0]
    value, place = cells[row, column], origin.place(first_row + row, column)
    if np.isnan(value):
        return origin.missing(place)
    if np.isinf(value):
        return InputError(str(origin.wrong("infinity", place, column)))  # no code reads it
    return origin.wrong(str(value), place, column)


def all_known(m: int, n: int) -> Words:
    """The packed known cells of m rows without missing cells."""
    return np.repeat(pack(np.ones((1, n), dtype=np.bool_)), m, axis=0)


def spans(m: int, step: int) -> Iterator[tuple[int, int]]:
    """Consecutive spans (start, stop) of `step` rows each, the last perhaps shorter."""
    for start in range(0, m, step):
        yield start, min(start + step, m)


def block_spans(m: int, n: int) -> Iterator[tuple[int, int]]:
    """Spans of rows with about `BLOCK_CELLS` cells each."""
    return spans(m, max(1, BLOCK_CELLS // n))


def is_anndata(X: Any) -> bool:
    """Whether X is an AnnData object: a matrix with names of its rows and columns. Looks at the
    type, as a table may have columns of these names."""
    return hasattr(type(X), "obs_names") and hasattr(type(X), "var_names")


def column_names(X: Any) -> tuple[str, ...] | None:
    """The names of the columns of a table, if all of them are text."""
    if is_anndata(X):
        return tuple(map(str, X.var_names))
    names = X.column_names if hasattr(type(X), "column_names") else getattr(X, "columns", None)
    if names is None or hasattr(type(X), "tocsr"):
        return None
    names = tuple(names)
    return names if names and all(isinstance(name, str) for name in names) else None


def source(X: Any) -> tuple[tuple[int, int], Block, Any]:
    """The shape of X, a function that returns blocks of its rows, and its column names or None."""
    if isinstance(X, str | bytes | PathLike):
        raise InputError(f"X must be rows of 0 and 1, got the text {X!r}: read the file first")
    if hasattr(X, "collect") and not hasattr(X, "shape"):  # a lazy frame
        raise InputError(
            f"X must be in memory, got a lazy {type(X).__name__}: call .collect() first"
        )
    if hasattr(X, "__arrow_c_stream__") and not hasattr(X, "__array__"):  # DuckDB and others
        need("pyarrow")
        X = import_module("pyarrow").table(X)
    names = getattr(X, "columns", None)
    if hasattr(X, "iloc"):  # pandas
        block: Block = lambda some: _from_pandas(X.iloc[some])  # noqa: E731
    elif hasattr(X, "slice") and hasattr(X, "shape"):  # polars, pyarrow
        names = getattr(X, "column_names", names)
        block = lambda some: np.asarray(X.slice(some.start, some.stop - some.start))  # noqa: E731
    elif hasattr(type(X), "tocsr"):  # scipy sparse
        _check_shape(X.shape)  # not every SciPy has rows of sparse arrays of one dimension
        names, X = None, X.tocsr()
        block = lambda some: _densify(X[some])  # noqa: E731
    elif not isinstance(X, np.ndarray) and is_anndata(X):
        return *source(X.X)[:2], column_names(X)
    else:
        names = None
        try:
            X = X if isinstance(X, np.ma.MaskedArray) else np.asarray(X)
        except ValueError as error:
            raise InputError(f"X must be a table of rows of equal length: {error}") from None
        block = X.__getitem__
    return _check_shape(X.shape), block, names


def _from_pandas(part: Any) -> NDArray[Any]:
    try:
        with np.errstate(invalid="ignore"):  # pandas casts the NaN of a category to an integer
            return part.to_numpy()
    except (TypeError, ValueError) as error:  # of values that pandas itself cannot compare
        raise NotPlainError(
            f"X must hold 0 and 1, but pandas makes no array of it: {error}"
        ) from None


def _densify(part: Any) -> NDArray[Any]:
    """Rows of a sparse matrix as a dense array, of bits if it stores nothing but 0 and 1."""
    part.sum_duplicates()
    if not np.all((part.data == 0) | (part.data == 1)):
        return part.toarray()
    bits = np.zeros(part.shape, dtype=np.bool_)
    rows = np.repeat(np.arange(part.shape[0]), np.diff(part.indptr))
    bits[rows, part.indices] = part.data
    return bits


def _check_shape(shape: tuple[int, ...]) -> tuple[int, int]:
    if len(shape) != 2:
        raise InputError(
            f"Expected 2D array, got {len(shape)}D array instead. Reshape your data: "
            "X.reshape(1, -1) if it is one row, X.reshape(-1, 1) if it is one column"
        )
    m, n = shape
    if m == 0:
        raise InputError(
            f"Found array with 0 sample(s) (shape={shape}): at least one row is needed"
        )
    if n == 0:
        raise InputError(
            f"Found array with 0 feature(s) (shape={shape}) while a minimum of 1 is required."
        )
    return m, n


def _as_numbers(cells: NDArray[Any], origin: Origin, first_row: int) -> NDArray[Any]:
    """Cells as numbers; masked cells, None and pandas' NA become NaN."""
    if isinstance(cells, np.ma.MaskedArray):
        cells = _fill_masked(cells)
    kind = cells.dtype.kind
    if kind in "biuf":
        return cells
    if kind == "c":
        raise InputError(f"Complex data not supported: {origin.name} must hold 0 and 1")
    if kind != "O":
        kind_of_error = NotPlainError if kind in "UST" else InputError  # texts may have codes
        raise kind_of_error(f"{origin.name} must hold 0 and 1, got values of type {cells.dtype}")
    numbers = np.empty(cells.shape, dtype=np.float64)
    for row, column in np.ndindex(cells.shape):
        value = cells[row, column]
        try:
            numbers[row, column] = _as_number(value)
        except (TypeError, ValueError, OverflowError):
            place = origin.place(first_row + row, column)
            if isinstance(value, dict | list | tuple | set):
                raise CellTypeError(
                    f"argument must be a string or a number: {origin.name} must hold 0 and 1, "
                    f"got {type(value).__name__} at {place}"
                ) from None
            raise NotPlainError(
                f"{origin.name} must hold 0 and 1, got {value!r} at {place}: "
                "drop columns that are not features, and encode text as 0 and 1"
            ) from None
    return numbers


def _as_number(value: Any) -> float:
    if value is None or type(value).__name__ == "NAType":
        return np.nan
    if isinstance(value, str | bytes):
        raise ValueError("text, even '0' and '1', is not a number")
    if isinstance(value, np.ndarray) and value.ndim > 0:
        raise ValueError("an array, even of one number, is not a number")
    return float(value)


def _fill_masked(cells: np.ma.MaskedArray) -> NDArray[Any]:
    """A masked array as a plain one, its masked cells NaN where its type allows it."""
    if cells.dtype.kind not in "biufO" or not np.ma.is_masked(cells):
        return cells.data
    kind = np.object_ if cells.dtype.kind == "O" else np.float64
    return np.ma.filled(cells.astype(kind), np.nan)


_REVERSED = np.array([int(f"{octet:08b}"[::-1], 2) for octet in range(256)], dtype=np.uint8)


def octets_to_words(octets: NDArray[np.uint8], bitorder: str = "little") -> Words:
    """Rows of packed bytes as words: column s is bit s mod 8 of byte s // 8, or bit 7 - s mod 8
    in big bit order.
    """
    _check_bit_order(bitorder)
    rows, width = octets.shape
    padded = np.zeros((rows, 8 * words_for(8 * width)), dtype=np.uint8)
    padded[:, :width] = octets if bitorder == "little" else _REVERSED[octets]
    return padded.view(WORD)


def words_to_octets(words: Words, n_columns: int, bitorder: str = "little") -> NDArray[np.uint8]:
    """The inverse of `octets_to_words`."""
    _check_bit_order(bitorder)
    octets = np.ascontiguousarray(words).view(np.uint8)[:, : -(-n_columns // 8)]
    return octets.copy() if bitorder == "little" else _REVERSED[octets]


def _check_bit_order(bitorder: Any) -> None:
    if bitorder not in ("big", "little"):
        raise InputError(f"bitorder must be 'big' or 'little', got {bitorder!r}")


def fixed_weights(sample_weight: ArrayLike, m: int) -> tuple[Ints, int]:
    """Weights as integers, and the integer that stands for a weight of 1.

    Whole weights stay as they are. Others are rounded to multiples of 2^-16; finer if all are below
    1, and coarser if their sum would not fit otherwise.
    """
    try:
        w = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"sample_weight must be {m} numbers, one per row: {error}") from None
    if w.shape != (m,):
        raise InputError(f"sample_weight must be {m} numbers, one per row, got shape {w.shape}")
    wrong = np.flatnonzero(~(np.isfinite(w) & (w >= 0)))
    if wrong.size:
        raise InputError(
            f"sample_weight must be finite and not negative, got {w[wrong[0]]} for row {wrong[0]}"
        )
    total = float(w.sum())
    if total == 0:
        raise InputError("sample_weight must not be zero for every row")
    if total < 1:
        raise InputError(
            f"sample_weight is how often each row counts, so its sum must be at least 1, got "
            f"{total:g}: multiply it, for example so that it sums to the number of rows"
        )
    room = _MAX_WEIGHT_BITS - int(np.ceil(np.log2(total + 1)))
    if room < 0:
        raise InputError(
            f"sample_weight must sum to at most 2^{_MAX_WEIGHT_BITS}, got {total:g}: scale it down"
        )
    small = max(0, -math.frexp(float(w.max()))[1])
    one = 1 if np.all(w == np.floor(w)) else 1 << min(_FRACTION_BITS + small, room)
    return np.rint(w * one).astype(np.int64), one
