"""Arrays and tables of Python whose cells are not 0 and 1: they are read by codes."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from bitmix.errors import InputError
from bitmix.kernels.bits import WORD, Words, words_for
from bitmix.rows.cells import TOO_MANY, Seen, Vocabulary, factor, number_columns, text_of
from bitmix.rows.codes import Codes, Encoder, UnreadCell
from bitmix.rows.convert import Origin, all_known, block_spans, source
from bitmix.rows.learn import Advice, Unreadable, Wishes, learn
from bitmix.support.extras import need

Columns = Callable[[int, int], list[Any]]
"""The columns of the rows start … stop."""


def learn_codes(X: Any, wishes: Wishes) -> tuple[Codes | None, bool]:
    """The codes of a table, and whether the user left some open, as `learn` returns them."""
    (m, n), columns, names = _columns_of(X)
    vocabulary = wishes.codes.vocabulary
    seen = study(columns, m, n, vocabulary)
    try:
        return learn(seen, vocabulary, names, wishes, _categories(X, columns), for_file=False)
    except Unreadable as error:
        raise _placed(error, columns, (m, n), Origin(columns=names), vocabulary) from None


def study(columns: Columns, m: int, n: int, vocabulary: Vocabulary) -> Seen:
    """The distinct values of each column; it ends early if a column has too many."""
    seen = Seen(n)
    for start, stop in block_spans(m, n):
        seen.add(number_columns(columns(start, stop), vocabulary))
        if any(TOO_MANY in values for values in seen.values):
            break
    return seen


def coded_words(
    X: Any, codes: Codes, *, missing: bool = True, first_row: int = 0
) -> tuple[Words, Words | None]:
    """Packed rows and packed known cells, read by codes that are given."""
    (m, n), columns, names = _columns_of(X)
    if n != len(codes.columns):
        raise InputError(f"X must have the {len(codes.columns)} columns of the codes, got {n}")
    vocabulary, origin, known = codes.vocabulary, Origin(columns=names), None
    encoder = Encoder(codes, vocabulary)
    words = np.empty((m, words_for(codes.n_planes)), dtype=WORD)
    for start, stop in block_spans(m, n):
        block = columns(start, stop)
        try:
            words[start:stop], part = encoder.words(number_columns(block, vocabulary))
        except UnreadCell as cell:
            places, values = factor(block[cell.column])
            value = text_of(values[places[cell.row]])
            place = origin.place(first_row + start + cell.row, cell.column)
            raise unseen_value(origin.name, value, place) from None
        if part is None:
            continue
        if not missing:
            numbers = number_columns(block, vocabulary)
            column, row = np.argwhere(numbers == 0)[0].tolist()
            raise origin.missing(origin.place(first_row + start + row, column))
        known = all_known(m, codes.n_planes) if known is None else known
        known[start:stop] = part
    return words, known


def unseen_value(name: str, value: str, place: str) -> InputError:
    """The error for a value that the codes of a fit do not have."""
    return InputError(
        f"{name} must hold the values that the fit has seen, got {value!r} at {place}: correct it, "
        "make it missing, or fit again with it"
    )


def _columns_of(X: Any) -> tuple[tuple[int, int], Columns, Any]:
    """The shape of X, a function that returns the columns of some rows, and the names."""
    if hasattr(X, "__arrow_c_stream__") and not hasattr(X, "iloc"):
        need("pyarrow")
        X = import_module("pyarrow").table(X)
    shape, rows, names = source(X)
    names = None if names is None else [str(name) for name in names]
    if hasattr(X, "iloc"):
        return shape, lambda a, b: [X.iloc[a:b, i] for i in range(shape[1])], names
    if hasattr(X, "column_names"):
        return shape, lambda a, b: X.slice(a, b - a).columns, names
    return shape, lambda a, b: list(_unmasked(rows(a, b)).T), names


def _unmasked(cells: Any) -> Any:
    if isinstance(cells, np.ma.MaskedArray):
        return np.ma.filled(cells.astype(object), None)
    return cells


def _categories(X: Any, columns: Columns) -> set[int]:
    """The columns whose type is a category."""
    kinds = [getattr(column, "dtype", getattr(column, "type", "")) for column in columns(0, 1)]
    return {i for i, kind in enumerate(kinds) if str(kind).startswith(("category", "dictionary"))}


def _placed(
    error: Unreadable, columns: Columns, shape: tuple[int, int], origin: Origin,
    vocabulary: Vocabulary,
) -> InputError:  # fmt: skip
    """The error with the place of the first cell that has the value."""
    number = TOO_MANY if error.value is None else vocabulary.number(error.value)
    for start, stop in block_spans(*shape):
        column = columns(start, stop)[error.column]
        cells = number_columns([column], vocabulary)[0]
        found = np.flatnonzero(cells == number if error.value is not None else cells != 0)
        if found.size:
            places, values = factor(column)
            value = text_of(values[places[found[0]]])
            advice = error.advice or Advice(origin.columns, False).many(
                error.column, value, shape[0], shape[0]
            )
            place = origin.place(start + int(found[0]), error.column)
            shown = value if not isinstance(values[places[found[0]]], str) else repr(value)
            return InputError(f"{origin.name} must hold 0 and 1, got {shown} at {place}: {advice}")
    raise AssertionError("no cell has the value")
