"""Rows as lists of events: kept beside packed rows, or in their place where that is smaller."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitmix.kernels.bits import WORD, Words, pack, words_for
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

    def read(self, start: int, stop: int, *, reuse: bool = False) -> Words:
        """The packed rows start … stop."""
        return self.take(np.arange(start, max(start, stop)))

    def take(self, numbers: NDArray[np.intp]) -> Words:
        """The packed rows with these numbers."""
        some = self.subset(numbers)
        starts, cells = some.events.starts, some.events.cells
        bits = np.zeros((len(numbers), len(some.events.base)), dtype=np.bool_)
        bits[np.repeat(np.arange(len(numbers)), np.diff(starts)), cells] = True
        if some.weights is None:
            return pack(bits)
        return np.concatenate([pack(bits), some.weights.astype(WORD)[:, None]], axis=1)


def list_events(
    words: Words, layout: Layout, n_columns: int, base: NDArray[np.bool_]
) -> Events | None:
    """The events of all rows, unless the lists would take too much memory."""

    def differing(words: Words) -> tuple[Words, Words | None, int, NDArray[np.bool_]]:
        return layout.bits(words, n_columns), layout.known(words, n_columns), n_columns, base

    limit = max(words.nbytes, _SMALL_BYTES) // 4
    head = words[:BASE_ROWS]
    few = Events.count(*differing(head)) * len(words) <= 2 * limit * len(head)
    if not few or Events.count(*differing(words)) > limit:  # do not count them all if clearly many
        return None
    return Events.of_words(*differing(words))


def list_sparse(X: Any, binarize: float | None) -> Events | None:
    """The ones of a sparse matrix of 0 and 1, if their list is smaller than packed words."""
    X = X.tocsr()
    if len(X.shape) != 2:
        return None  # the packing of words says what is wrong
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
