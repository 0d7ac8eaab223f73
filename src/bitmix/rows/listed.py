"""Rows as lists of events: kept beside packed rows, or in their place where that is smaller."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitmix.kernels.bits import Words, pack, words_for
from bitmix.kernels.events import BASE_ROWS, Events
from bitmix.kernels.fixed import Ints
from bitmix.rows.protocol import PLAIN, A, Layout

_SMALL_BYTES = 1 << 26  # lists are kept beside rows if they take no more memory, or this much


class ListedWords:
    """Rows in memory as lists of ones, which are packed when words are asked for."""

    def __init__(self, events: Events) -> None:
        self.events = events
        """With a base of zeros: every event is a 1."""

    def __len__(self) -> int:
        return len(self.events)

    @property
    def nbytes(self) -> int:
        return self.events.starts.nbytes + self.events.cells.nbytes

    def read(self, start: int, stop: int, *, reuse: bool = False) -> Words:
        """The packed rows start … stop."""
        return self.take(np.arange(start, max(start, stop)))

    def take(self, numbers: NDArray[np.intp]) -> Words:
        """The packed rows with these numbers."""
        some = self.events.take(numbers)
        bits = np.zeros((len(numbers), len(some.base)), dtype=np.bool_)
        bits[np.repeat(np.arange(len(numbers)), np.diff(some.starts)), some.cells] = True
        return pack(bits)


def list_events(
    words: Words, layout: Layout, n_columns: int, base: NDArray[np.bool_]
) -> Events | None:
    """The events of all rows, unless the lists would take too much memory."""
    count = partial(Events.count, base=base, n_columns=n_columns, missing=layout.missing)
    limit = max(words.nbytes, _SMALL_BYTES) // 4
    head = layout.scored(words[:BASE_ROWS])
    if count(head) * len(words) > 2 * limit * len(head):  # clearly too many: do not count them all
        return None
    scored = layout.scored(words)
    if count(scored) > limit:
        return None
    return Events.of_words(scored, base, n_columns=n_columns, missing=layout.missing)


def list_sparse(X: Any, binarize: float | None) -> Events | None:
    """The ones of a sparse matrix, if it holds only 0 and 1 and their list is smaller than words."""
    X = X.tocsr()
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


def of_events(
    words: Words,
    *,
    function: Callable[[Events, Ints | None], A],
    base: NDArray[np.bool_],
    n_columns: int,
    layout: Layout = PLAIN,
) -> A:
    """`function` of the events and the weights of a block of packed rows."""
    scored = np.ascontiguousarray(layout.scored(words))
    events = Events.of_words(scored, base, n_columns=n_columns, missing=layout.missing)
    return function(events, layout.weights(words) if layout.weight_one else None)
