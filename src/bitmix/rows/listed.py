"""Rows as lists of events: kept beside packed rows, or in their place where that is smaller."""

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitmix.errors import InputError
from bitmix.kernels.bits import WORD, Words, words_for
from bitmix.kernels.events import BASE_ROWS, Events
from bitmix.kernels.fixed import Ints
from bitmix.rows.protocol import Layout

_SMALL_BYTES = 1 << 26  # lists are kept beside rows if they take no more memory, or this much


class ListedWords:
    """Rows in memory as lists of ones, which are packed when words are asked for."""

    def __init__(self, events: Events, weights: Ints | None = None) -> None:
        self.events = events
        """With a base of zeros: every event is a 1."""
        self.weights = weights

    def __len__(self) -> int:
        return len(self.events)

    @property
    def nbytes(self) -> int:
        return self.events.starts.nbytes + self.events.cells.nbytes

    def subset(self, numbers: NDArray[np.intp]) -> "ListedWords":
        """The rows with these numbers."""
        weights = None if self.weights is None else self.weights[numbers]
        return ListedWords(self.events.take(numbers), weights)

    def column_counts(self) -> Ints:
        """The number of ones in each column, rows counted by weight."""
        cells, counts = self.events.cells, np.zeros(len(self.events.base), dtype=np.int64)
        lengths = np.diff(self.events.starts)
        np.add.at(counts, cells, 1 if self.weights is None else np.repeat(self.weights, lengths))
        return counts

    def with_columns(self, columns: NDArray[np.intp]) -> "ListedWords":
        """These columns alone."""
        starts, cells = self.events.starts, self.events.cells
        place = np.full(len(self.events.base), -1)
        place[columns] = np.arange(len(columns))
        new = place[cells]
        before = np.concatenate([[0], np.cumsum(new >= 0)])
        base = np.zeros(len(columns), dtype=np.bool_)
        events = Events(before[starts], new[new >= 0].astype(np.uint32), base)
        return ListedWords(events, self.weights)

    def keys(self) -> list[bytes]:
        """The rows as bytes, the same for equal rows."""
        cells = self.events.cells
        return [cells[start:stop].tobytes() for start, stop in pairwise(self.events.starts)]

    def read(self, start: int, stop: int, *, reuse: bool = False) -> Words:
        """The packed rows start … stop."""
        return self.take(np.arange(start, max(start, stop)))

    def take(self, numbers: NDArray[np.intp]) -> Words:
        """The packed rows with these numbers."""
        some = self.subset(numbers)
        starts, cells = some.events.starts, some.events.cells
        words = np.zeros((len(numbers), words_for(len(some.events.base))), dtype=WORD)
        row = np.repeat(np.arange(len(numbers)), np.diff(starts))
        np.bitwise_or.at(words, (row, cells >> 6), WORD.type(1) << (cells & 63).astype(WORD))
        if some.weights is None:
            return words
        return np.concatenate([words, some.weights.astype(WORD)[:, None]], axis=1)


def list_events(
    words: Words, layout: Layout, n_columns: int, base: NDArray[np.bool_]
) -> Events | None:
    """The events of all rows, unless the lists would take too much memory."""
    bits, known = layout.bits(words, n_columns), layout.known(words, n_columns)
    limit = max(words.nbytes, _SMALL_BYTES) // 4
    head, known_head = bits[:BASE_ROWS], None if known is None else known[:BASE_ROWS]
    few = Events.count(head, known_head, n_columns, base) * len(bits) <= 2 * limit * len(head)
    if not few:  # clearly many, so that they are not all counted
        return None
    if Events.count(bits, known, n_columns, base) > limit:
        return None
    return Events.of_words(bits, known, n_columns, base)


def list_sparse(X: Any, binarize: float | None) -> Events | None:
    """The ones of a sparse matrix of 0 and 1, if their list is smaller than packed words."""
    if len(X.shape) != 2:
        return None  # the packing of words says what is wrong
    try:
        X = X.tocsr()
    except ValueError:  # older versions of scipy make matrices that they cannot convert
        raise InputError(f"X must hold 0 and 1, got a sparse matrix of type {X.dtype}") from None
    try:
        X.check_format(full_check=True)
    except ValueError as error:
        raise InputError(f"X is damaged: it is not a valid sparse matrix: {error}") from None
    m, n = X.shape
    if 4 * X.nnz > 8 * m * words_for(max(n, 1)) or binarize is not None or not m * n:
        return None
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    if not np.all((X.data == 0) | (X.data == 1)):
        return None  # the packing of words says which value is wrong
    X = X.astype(np.bool_)
    X.eliminate_zeros()
    starts, cells = X.indptr.astype(np.int64), X.indices.astype(np.uint32)
    return Events(starts, cells, np.zeros(n, dtype=np.bool_))
