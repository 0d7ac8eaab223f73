"""Tables whose cells are not 0 and 1, in memory or in a file: they are read by codes."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

import numpy as np

from bitmix.errors import InputError, NotPlainError
from bitmix.kernels.bits import WORD, Words, words_for
from bitmix.rows.cells import MISSING, Numbers, Seen, Vocabulary, number_columns, text_of
from bitmix.rows.codes import PLAIN, Codes, Encoder, UnreadCell
from bitmix.rows.convert import Origin, all_known, block_spans, source
from bitmix.rows.learn import Advice, Unreadable, Wishes, learn
from bitmix.support.extras import need


class Part(Protocol):
    """Consecutive rows of a table, before they are read as bits."""

    def numbers(self, vocabulary: Vocabulary) -> Numbers:
        """The numbers of the values of all cells, shape (columns, rows)."""

    def value(self, row: int, column: int) -> Any:
        """The cell itself."""

    def place(self, row: int, column: int) -> str:
        """Where a cell is, for errors; rows are counted from the first of this part."""


@dataclass(frozen=True)
class Columns:
    """Columns of a table in memory or of a batch: arrays, or columns of pandas or Arrow."""

    columns: Any
    origin: Origin
    first_row: int = 0

    def numbers(self, vocabulary: Vocabulary) -> Numbers:
        return number_columns(self.columns, vocabulary)

    def value(self, row: int, column: int) -> Any:
        cells = self.columns[column]
        cell = cells.iloc[row] if hasattr(cells, "iloc") else cells[row]
        return cell.as_py() if hasattr(cell, "as_py") else cell

    def where(self, row: int) -> str:
        return f"row {self.first_row + row}"

    def place(self, row: int, column: int) -> str:
        return self.origin.place(self.first_row + row, column)


def learn_from_parts(
    parts: Callable[[], Iterator[Part]],
    n_columns: int,
    wishes: Wishes,
    advice: Advice,
    categories: Collection[int] = (),
    *,
    name: str = "X",
    pooled: bool = False,
) -> tuple[Codes | None, bool]:
    """The codes of a table, and whether the user left some open, as `learn` returns them.

    With `pooled`, all columns have one code.
    """
    vocabulary, seen = wishes.codes.vocabulary, Seen(n_columns)
    for part in parts():
        seen.add(part.numbers(vocabulary))
        if seen.has_many:
            break
    try:
        if pooled:
            return learn(seen.pooled(), vocabulary, wishes, Advice(None, advice.for_file))
        return learn(seen, vocabulary, wishes, advice, categories)
    except Unreadable as error:
        columns = range(n_columns) if pooled else (error.column,)
        raise _located(error, parts(), columns, vocabulary, advice, name) from None


def _located(
    error: Unreadable, parts: Iterator[Part], columns: Sequence[int], vocabulary: Vocabulary,
    advice: Advice, name: str,
) -> InputError:  # fmt: skip
    """The error with the place of the first cell that has the value."""
    for part in parts:
        cells = part.numbers(vocabulary)[list(columns)]
        if error.value is None:
            found = np.argwhere((cells != MISSING).T)
        else:
            found = np.argwhere((cells == vocabulary.number(error.value)).T)
        if found.size:
            row, i = found[0].tolist()
            value = part.value(row, columns[i])
            remedy = error.advice or advice.many(columns[i], text_of(value))
            shown = repr(value) if isinstance(value, str) else text_of(value)
            place = part.place(row, columns[i])
            return InputError(f"{name} must hold 0 and 1, got {shown} at {place}: {remedy}")
    raise AssertionError("no cell has the value")


class CodedReader:
    """Reads the parts of a table by its codes."""

    def __init__(self, codes: Codes, name: str) -> None:
        self.vocabulary, self.name = codes.vocabulary, name
        self._encoder = Encoder(codes, self.vocabulary)

    def words(self, part: Part) -> tuple[Words, Words | None]:
        """Packed rows and packed known cells; these are None if no cell is missing."""
        try:
            return self._encoder.words(part.numbers(self.vocabulary))
        except UnreadCell as cell:
            value, place = part.value(cell.row, cell.column), part.place(cell.row, cell.column)
            raise self._unread(f"got {value!r} at {place}") from None

    def _unread(self, got: str) -> InputError:
        return InputError(
            f"{self.name} must hold the values that the fit has seen, {got}: correct it, make it "
            "missing, or fit again with it"
        )


class PlainReader(CodedReader):
    """Reads 0 and 1, true and false, and missing cells. Anything else is a NotPlainError."""

    def __init__(self, n_columns: int, name: str) -> None:
        super().__init__(Codes((PLAIN,) * n_columns), name)

    def _unread(self, got: str) -> InputError:
        return NotPlainError(f"{self.name} must hold 0 and 1, {got}: write 0 and 1")


def learn_codes(X: Any, wishes: Wishes) -> tuple[Codes, bool]:
    """The codes of an array or table in memory, and whether the user left some open."""
    (_, n), parts, names = _parts_of(X)
    kinds = [getattr(c, "dtype", getattr(c, "type", "")) for c in next(parts()).columns]
    categories = {
        i for i, kind in enumerate(kinds) if str(kind).startswith(("category", "dictionary"))
    }
    codes, guessed = learn_from_parts(parts, n, wishes, Advice(names, for_file=False), categories)
    if codes is None:  # 0 and 1 as texts
        codes = Codes((PLAIN,) * n, None if names is None else tuple(names))
    return codes, guessed


def coded_words(X: Any, codes: Codes, *, missing: bool = True) -> tuple[Words, Words | None]:
    """Packed rows and packed known cells of an array or table in memory, by given codes."""
    (m, n), parts, names = _parts_of(X)
    if n != len(codes.columns):
        raise InputError(
            f"X has {n} features, but the fit is expecting {len(codes.columns)} features as input"
        )
    if names is not None and codes.names is not None and tuple(names) != codes.names:
        raise InputError(
            f"the columns of X must be those of the fit, in that order: {', '.join(codes.names)}"
        )
    reader, known = CodedReader(codes, "X"), None
    words = np.empty((m, words_for(codes.n_planes)), dtype=WORD)
    for part in parts():
        start = part.first_row
        bits, some = reader.words(part)
        words[start : start + len(bits)] = bits
        if some is None:
            continue
        if not missing:
            column, row = np.argwhere(part.numbers(reader.vocabulary) == MISSING)[0].tolist()
            raise part.origin.missing(part.place(row, column))
        known = all_known(m, codes.n_planes) if known is None else known
        known[start : start + len(bits)] = some
    return words, known


def _parts_of(X: Any) -> tuple[tuple[int, int], Callable[[], Iterator[Columns]], Any]:
    """The shape of X, a function that returns its rows in parts, and the names of its columns."""
    if hasattr(X, "__arrow_c_stream__") and not hasattr(X, "iloc"):
        need("pyarrow")
        X = import_module("pyarrow").table(X)
    shape, rows, names = source(X)
    names = None if names is None else [str(name) for name in names]
    origin = Origin(columns=names)

    def columns(start: int, stop: int) -> list[Any]:
        if hasattr(X, "iloc"):
            return [X.iloc[start:stop, i] for i in range(shape[1])]
        if hasattr(X, "column_names"):
            return list(X.slice(start, stop - start).columns)
        cells = rows(slice(start, stop))
        if isinstance(cells, np.ma.MaskedArray):
            cells = np.ma.filled(cells.astype(object), None)
        return list(cells.T)

    def parts() -> Iterator[Columns]:
        for start, stop in block_spans(*shape):
            yield Columns(columns(start, stop), origin, start)

    return shape, parts, names
