"""Arrays, sparse matrices and tables to packed words, a block of rows at a time."""

from collections.abc import Callable, Iterator
from importlib import import_module
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitmix.errors import CellTypeError, InputError
from bitmix.kernels.bits import WORD, Words, pack, words_for

Block = Callable[[int, int], NDArray[Any]]
"""Rows start … stop of the source, dense."""

_BLOCK_CELLS = 1 << 22


def to_words(X: Any, binarize: float | None = None, first: int = 0) -> tuple[Words, int]:
    """Packed rows and the number of columns; values are checked on the way.

    In errors rows are numbered from `first`.
    """
    (m, n), block, names = _source(X)
    words = np.empty((m, words_for(n)), dtype=WORD)
    for start, stop in _spans(m, n):
        dense = _numeric(block(start, stop), first + start, names)
        words[start:stop] = pack(_bits(dense, first + start, names, binarize))
    return words, n


def column_names(X: Any) -> tuple[str, ...] | None:
    """The names of the columns of a table, if it has names that are text."""
    names = getattr(X, "column_names", getattr(X, "columns", None))
    if names is None or hasattr(X, "tocsr"):
        return None
    names = tuple(names)
    return names if names and all(isinstance(name, str) for name in names) else None


def to_words_and_known(X: Any, binarize: float | None = None) -> tuple[Words, Words, int]:
    """As `to_words` for a source with missing cells, which become 0, and which cells are known.

    Missing are NaN, masked cells, and the empty cells of nullable columns.
    """
    (m, n), block, names = _source(X, missing=True)
    words, known = (np.empty((m, words_for(n)), dtype=WORD) for _ in range(2))
    for start, stop in _spans(m, n):
        dense = _numeric(_without_gaps(block(start, stop)), start, names)
        gaps = np.isnan(dense) if dense.dtype.kind == "f" else np.zeros(dense.shape, dtype=np.bool_)
        words[start:stop] = pack(_bits(np.where(gaps, 0, dense), start, names, binarize) & ~gaps)
        known[start:stop] = pack(~gaps)
    return words, known, n


def _without_gaps(block: NDArray[Any]) -> NDArray[Any]:
    """Masked cells, None and pandas' NA as NaN."""
    if isinstance(block, np.ma.MaskedArray):
        if block.dtype.kind in "biuf":
            filled: NDArray[np.float64] = np.ma.filled(block.astype(np.float64), np.nan)
            return filled
        if block.dtype.kind != "O":
            return block.data
        block = np.where(np.ma.getmaskarray(block), np.nan, block.data)
    if block.dtype.kind != "O":
        return block
    gap = np.frompyfunc(lambda value: value is None or type(value).__name__ == "NAType", 1, 1)
    return np.where(gap(block).astype(np.bool_), np.nan, block)


def _source(X: Any, missing: bool = False) -> tuple[tuple[int, int], Block, Any]:
    """Shape, a reader of dense row blocks, and column names where the source has them."""
    if isinstance(X, str | bytes | PathLike):
        raise InputError(f"X must be rows of 0 and 1, got the text {X!r}: read the file first")
    if hasattr(X, "collect") and not hasattr(X, "shape"):  # a lazy frame
        raise InputError(
            f"X must be in memory, got a lazy {type(X).__name__}: call .collect() first"
        )
    if hasattr(X, "__dataframe__") and not hasattr(X, "__array__"):
        X = _through_interchange(X)
    names = getattr(X, "columns", None)
    if hasattr(X, "iloc"):  # pandas
        block: Block = lambda a, b: _of_pandas(X.iloc[a:b])  # noqa: E731
    elif hasattr(X, "slice") and hasattr(X, "shape"):  # polars, pyarrow
        names = getattr(X, "column_names", names)
        block = lambda a, b: np.asarray(X.slice(a, b - a))  # noqa: E731
    elif hasattr(X, "tocsr"):  # scipy sparse
        names, X = None, X.tocsr()
        block = lambda a, b: _densify(X[a:b])  # noqa: E731
    else:
        names = None
        X = X if missing and isinstance(X, np.ma.MaskedArray) else _as_array(X)
        block = lambda a, b: X[a:b]  # noqa: E731
    return _checked_shape(X.shape), block, names


def _of_pandas(part: Any) -> NDArray[Any]:
    with np.errstate(invalid="ignore"):  # categories with gaps go by way of NaN as a whole number
        dense: NDArray[Any] = part.to_numpy()
    return dense


def _through_interchange(X: Any) -> Any:
    """A table that speaks only the dataframe interchange protocol, by a library that reads it."""
    for library in ("pyarrow.interchange", "pandas.api.interchange"):
        try:
            return import_module(library).from_dataframe(X)
        except ModuleNotFoundError:
            continue
    raise InputError(
        "X speaks only the dataframe interchange: install pandas or pyarrow to read it"
    )


def _as_array(X: Any) -> NDArray[Any]:
    if isinstance(X, np.ma.MaskedArray):
        if X.ndim == 2 and X.dtype.names is None and np.ma.is_masked(X):
            row, column = np.argwhere(np.ma.getmaskarray(X))[0]
            raise InputError(f"X is masked at row {row}, column {column}: fill missing cells first")
        X = X.data
    try:
        return np.asarray(X)
    except ValueError as error:
        raise InputError(f"X must be a table of rows of equal length: {error}") from None


def _densify(part: Any) -> NDArray[Any]:
    """A block of a sparse matrix: as bits if it stores nothing but 0 and 1, else as it is."""
    part.sum_duplicates()
    if not np.all((part.data == 0) | (part.data == 1)):
        return part.toarray()  # type: ignore[no-any-return]
    bits = np.zeros(part.shape, dtype=np.bool_)
    rows = np.repeat(np.arange(part.shape[0]), np.diff(part.indptr))
    bits[rows, part.indices] = part.data
    return bits


def _checked_shape(shape: tuple[int, ...]) -> tuple[int, int]:
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


def _spans(m: int, n: int) -> Iterator[tuple[int, int]]:
    step = max(1, _BLOCK_CELLS // n)
    return ((start, min(start + step, m)) for start in range(0, m, step))


def _numeric(block: NDArray[Any], start: int, names: Any) -> NDArray[Any]:
    """Object columns (mixed or nullable) as floats; a cell that is no number is named."""
    if block.dtype.kind in "biuf":
        return block
    if block.dtype.kind == "c":
        raise InputError("Complex data not supported: X must hold 0 and 1")
    if block.dtype.kind != "O":
        raise InputError(f"X must hold 0 and 1, got values of type {block.dtype}")
    for row, column in np.ndindex(block.shape):
        value = block[row, column]
        if not _is_number(value):
            place = _place(start + row, column, names)
            if isinstance(value, dict | list | tuple | set):
                raise CellTypeError(
                    f"argument must be a string or a number: X must hold 0 and 1, "
                    f"got {type(value).__name__} at {place}"
                )
            raise InputError(
                f"X must hold 0 and 1, got {value!r} at {place}: "
                "drop columns that are not features, encode text, and fill missing cells"
            )
    return block.astype(np.float64)


def _is_number(value: Any) -> bool:
    if isinstance(value, str | bytes):
        return False  # "0" and "1" are text until somebody says what they mean
    try:
        float(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _bits(block: NDArray[Any], start: int, names: Any, binarize: float | None) -> NDArray[np.bool_]:
    if block.dtype.kind == "b" and (binarize is None or 0 <= binarize < 1):
        return block
    if block.dtype.kind == "f" and not np.isfinite(block).all():
        row, column = np.argwhere(~np.isfinite(block))[0]
        value = "NaN" if np.isnan(block[row, column]) else "infinity"
        raise InputError(
            f"X contains {value} at {_place(start + row, column, names)}, but must hold 0 and 1: "
            "fill or drop missing cells first"
        )
    if binarize is not None:
        with np.errstate(over="ignore"):  # a threshold beyond the type is infinite there
            above: NDArray[np.bool_] = block > binarize
        return above
    bits: NDArray[np.bool_] = block == 1
    wrong = ~bits & (block != 0)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise InputError(
            f"X must hold 0 and 1, got {block[row, column]!s} at "
            f"{_place(start + row, column, names)}: drop columns that are not features "
            "(ids, counts), or set binarize=t to read values above t as 1"
        )
    return bits


def _place(row: int, column: int, names: Any) -> str:
    name = "" if names is None else f" ({names[column]!r})"
    return f"row {row}, column {column}{name}"
