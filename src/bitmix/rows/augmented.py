"""Rows with missing cells or with weights: words for the bits, and more words beside them."""

import math
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bitmix.errors import InputError
from bitmix.kernels import backend
from bitmix.kernels.bits import WORD, Words, pack
from bitmix.kernels.events import BASE_ROWS, Events, majority
from bitmix.kernels.fixed import Ints
from bitmix.rows.listed import list_events, of_events
from bitmix.rows.packed import BitMatrix
from bitmix.rows.protocol import A, Layout
from bitmix.support.randomness import draw_by_weight, draw_without_replacement

_MAX_WEIGHT_BITS = 30
_FRACTION_BITS = 16
_MAX_REPEATED = 100_000


class AugmentedRows:
    """Rows in memory of which some cells are missing, or that have weights.

    Parameters
    ----------
    bits : BitMatrix
        The bits of missing cells are 0.
    known : BitMatrix, optional
        1 for each cell that is not missing; by default no cell is missing.
    weights : array of int64, optional
        The weight of each row in units of 1 / `weight_one`.
    weight_one : int
    """

    remote = False
    _events: Events | None = None
    _is_listed = False

    def __init__(
        self,
        bits: BitMatrix,
        known: BitMatrix | None = None,
        weights: Ints | None = None,
        weight_one: int = 1,
    ) -> None:
        parts = [bits.words]
        if known is not None:
            parts.append(known.words)
        if weights is not None:
            parts.append(weights.astype(WORD)[:, None])
        words = np.ascontiguousarray(np.concatenate(parts, axis=1))
        self._rows = BitMatrix(words, 64 * words.shape[1])
        self._n_columns = bits.shape[1]
        self.feature_names = bits.feature_names
        self.layout = Layout(known is not None, weight_one if weights is not None else 0)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self._rows), self._n_columns

    @property
    def bits(self) -> BitMatrix:
        """The bits; those of missing cells are 0."""
        return self._matrix(self.layout.bits(self._rows.words))

    @property
    def known(self) -> BitMatrix | None:
        """1 for each cell that is not missing; None if no cell can be missing."""
        known = self.layout.known(self._rows.words)
        return None if known is None else self._matrix(known)

    def take(self, indices: Sequence[int] | NDArray[np.integer[Any]]) -> Words:
        """The bits of these rows; a missing cell has the value of most rows in its column."""
        words = self._rows.take(indices)
        bits, known = self.layout.bits(words), self.layout.known(words)
        return np.ascontiguousarray(bits) if known is None else bits | (self._majority & ~known)

    @property
    def weights(self) -> NDArray[np.float64]:
        """The weight of each row."""
        return self.layout.weights(self._rows.words) / max(1, self.layout.weight_one)

    @property
    def total_weight(self) -> float:
        """The sum of the weights."""
        return float(self.weights.sum())

    def repeated(self) -> "AugmentedRows":
        """Each row as often as its weight says, if weights are whole and not too many."""
        weights = self.layout.weights(self._rows.words)
        if self.layout.weight_one != 1 or weights.sum() > _MAX_REPEATED:
            return self
        numbers = np.repeat(np.arange(len(weights)), weights)
        known = self.known
        return AugmentedRows(self.bits[numbers], None if known is None else known[numbers])

    def draw(self, l: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """The numbers of l random rows, drawn as often as their weights say."""
        if not self.layout.weight_one:
            return draw_without_replacement(self.shape[0], l, rng)
        return draw_by_weight(self.layout.weights(self._rows.words), l, rng)

    def subset(self, indices: NDArray[np.int64]) -> "AugmentedRows":
        """These rows, with their known cells and weights."""
        part = object.__new__(AugmentedRows)
        part._rows, part._n_columns = self._rows[indices], self._n_columns
        part.feature_names, part.layout = self.feature_names, self.layout
        return part

    def map_reduce(
        self, function: Callable[[Words], A], *, block_cells: int = 1, workers: int = 1 << 16
    ) -> A:
        return self._rows.map_reduce(function, block_cells=block_cells, workers=workers)

    def map_events(
        self, function: Callable[[Events, Ints | None], A], *, block_cells: int, workers: int
    ) -> A:
        """The sum of `function` over blocks of rows, given their events and their weights."""
        listed = self.listed()
        if listed is None:
            of_words = partial(
                of_events, function=function, base=self.base, n_columns=self._n_columns,
                layout=self.layout,
            )  # fmt: skip
            return self.map_reduce(of_words, block_cells=block_cells, workers=workers)
        weights = self._weights if self.layout.weight_one else None
        return self._rows.fold(
            lambda a, b: function(listed.rows(a, b), None if weights is None else weights[a:b]),
            block_cells=block_cells,
            workers=workers,
        )

    def listed(self) -> Events | None:
        """The events of all rows, if their lists are not too long."""
        if not self._is_listed:
            self._events = list_events(self._rows.words, self.layout, self._n_columns, self.base)
            self._is_listed = True
        return self._events

    @cached_property
    def base(self) -> NDArray[np.bool_]:
        """Which columns are mostly 1 in the first rows."""
        head = self.layout.bits(self._rows.words[:BASE_ROWS])
        return majority(np.ascontiguousarray(head), self._n_columns)

    @cached_property
    def _weights(self) -> Ints:
        return self.layout.weights(self._rows.words)

    def map_rows(
        self, function: Callable[[Words], NDArray[Any]], *, block_cells: int = 1
    ) -> NDArray[Any]:
        return self._rows.map_rows(function, block_cells=block_cells)

    def _matrix(self, words: Words) -> BitMatrix:
        matrix = BitMatrix(words, self._n_columns)
        matrix.feature_names = self.feature_names
        return matrix

    @cached_property
    def _majority(self) -> Words:
        """The value of most known cells in each column, packed."""
        words = self.layout.scored(self._rows.words)
        once = np.ones((len(words), 1), dtype=np.int64)
        sums = backend(words).column_sums(words, once, 64 * words.shape[1])
        ones, known = self.layout.columns(sums, self._n_columns)
        assert known is not None, "only rows with missing cells need it"
        return pack(2 * ones > known)


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
