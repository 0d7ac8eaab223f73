"""Rows with missing cells or with weights: the same words, and some more beside them."""

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bitmix.errors import InputError
from bitmix.kernels import backend
from bitmix.kernels.bits import WORD, Words, pack
from bitmix.kernels.fixed import Ints
from bitmix.rows.packed import BitMatrix
from bitmix.rows.protocol import A, Layout

_MOST_WEIGHT_BITS = 30
_FRACTION_BITS = 16


class AugmentedRows:
    """Rows of which some cells are not known, or that count more or less than once.

    Parameters
    ----------
    bits : BitMatrix
        Unknown cells are 0.
    known : BitMatrix, optional
        Which cells are known; by default all.
    weights : array of int64, optional
        The weight of each row in units of which `weight_one` make 1.
    weight_one : int
    """

    remote = False

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
        wide = np.ascontiguousarray(np.concatenate(parts, axis=1))
        self._bits, self._known = bits, known
        self._wide = BitMatrix(wide, 64 * wide.shape[1])
        self.layout = Layout(known is not None, weight_one if weights is not None else 0)

    @property
    def shape(self) -> tuple[int, int]:
        return self._bits.shape

    def take(self, indices: Sequence[int] | NDArray[np.integer[Any]]) -> Words:
        """The bits of these rows; unknown cells as most rows have them."""
        words = self._bits.take(indices)
        if self._known is None:
            return words
        filled: Words = words | (self._majority & ~self._known.take(indices))
        return filled

    def chosen(self, indices: NDArray[np.int64]) -> "AugmentedRows":
        """Only these rows, with all that belongs to them."""
        part = object.__new__(AugmentedRows)
        part._bits = self._bits[indices]
        part._known = None if self._known is None else self._known[indices]
        part._wide, part.layout = self._wide[indices], self.layout
        return part

    def fingerprint(self) -> str:
        return f"{self.layout} {self._wide.fingerprint()}"

    def map_reduce(
        self, function: Callable[[Words], A], *, block_cells: int = 1, workers: int = 1 << 16
    ) -> A:
        return self._wide.map_reduce(function, block_cells=block_cells, workers=workers)

    def map_rows(
        self, function: Callable[[Words], NDArray[Any]], *, block_cells: int = 1
    ) -> NDArray[Any]:
        return self._wide.map_rows(function, block_cells=block_cells)

    @cached_property
    def _majority(self) -> Words:
        """What most known cells of each column are, packed."""
        assert self._known is not None
        once, n = np.ones((len(self._bits), 1), dtype=np.int64), self.shape[1]
        ones, known = (
            backend(part.words).column_sums(part.words, once, n)
            for part in (self._bits, self._known)
        )
        return pack(2 * ones > known)


def fixed_weights(sample_weight: ArrayLike, m: int) -> tuple[Ints, int]:
    """Weights as whole numbers, and how many units make 1: whole weights as they are.

    Others are rounded to 2^-16, or finer where all are below 1 and coarser where their sum leaves
    no room.
    """
    try:
        w = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"sample_weight must be {m} numbers, one a row: {error}") from None
    if w.shape != (m,):
        raise InputError(f"sample_weight must be {m} numbers, one a row, got shape {w.shape}")
    wrong = np.flatnonzero(~(np.isfinite(w) & (w >= 0)))
    if wrong.size:
        raise InputError(
            f"sample_weight must be numbers from 0, got {w[wrong[0]]} for row {wrong[0]}"
        )
    total = float(w.sum())
    if total == 0:
        raise InputError("sample_weight must not be zero for every row")
    if total < 1:
        raise InputError(
            f"sample_weight says how often a row counts and must sum to 1 at least, got {total:g}: "
            "multiply it, so that it sums to the number of rows if nothing else is known"
        )
    room = _MOST_WEIGHT_BITS - int(np.ceil(np.log2(total + 1)))
    if room < 0:
        raise InputError(
            f"sample_weight must sum to at most 2^{_MOST_WEIGHT_BITS}, got {total:g}: scale it down"
        )
    small = max(0, -math.frexp(float(w.max()))[1])
    one = 1 if np.all(w == np.floor(w)) else 1 << min(_FRACTION_BITS + small, room)
    return np.rint(w * one).astype(np.int64), one
