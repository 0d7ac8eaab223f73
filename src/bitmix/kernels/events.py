"""Rows as lists of events: the cells in which a row differs from a base row, or that are unknown.

The base has a 1 in the columns that are mostly 1, so that lists are short for sparse and for dense
columns. A score that is affine in the bits is the score of the base plus one number per event, so a
pass costs as much as there are events.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitmix.kernels import backend
from bitmix.kernels.bits import Words, pack, unpack, words_for
from bitmix.kernels.fixed import Ints
from bitmix.kernels.reference import Cells

_BELOW_ALL = -(1 << 62)
BASE_ROWS = 256  # enough to see which columns are mostly 1; any base gives the same results


@dataclass(frozen=True, eq=False)
class Events:
    """Rows of n columns. Event s: the row differs from the base in column s. Event n + s: the cell
    in column s is unknown.
    """

    starts: Ints
    """Shape (rows + 1,): the events of row r are cells[starts[r] : starts[r + 1]]."""
    cells: Cells
    base: NDArray[np.bool_]
    """Shape (n,)."""
    missing: bool = False
    """Whether cells may be unknown."""

    @classmethod
    def of_words(
        cls, bits: Words, known: Words | None, n_columns: int, base: NDArray[np.bool_]
    ) -> "Events":
        """The events of packed rows; `known` are their known cells if some may be missing."""
        differing = _differing(bits, known, n_columns, base)
        starts, cells = backend(differing).set_bits(differing)
        gap = 64 * words_for(n_columns) - n_columns
        if known is not None and gap:  # unknown cells are numbered from n on
            cells[cells >= n_columns] -= np.uint32(gap)
        return cls(starts, cells, base, known is not None)

    @classmethod
    def none(cls, base: NDArray[np.bool_], missing: bool) -> "Events":
        """No rows, with this base."""
        return cls(np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.uint32), base, missing)

    @classmethod
    def count(
        cls, bits: Words, known: Words | None, n_columns: int, base: NDArray[np.bool_]
    ) -> int:
        """The number of events that `of_words` would list."""
        return int(np.bitwise_count(_differing(bits, known, n_columns, base)).sum())

    def __len__(self) -> int:
        return len(self.starts) - 1

    def take(self, numbers: NDArray[np.intp]) -> "Events":
        """The rows with these numbers."""
        lengths = np.diff(self.starts)[numbers]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        places = np.arange(starts[-1]) + np.repeat(self.starts[numbers] - starts[:-1], lengths)
        return Events(starts, self.cells[places], self.base, self.missing)

    def rows(self, start: int, stop: int) -> "Events":
        """The events of these rows; no events are copied."""
        return Events(self.starts[start : stop + 1], self.cells, self.base, self.missing)

    @property
    def n_kinds(self) -> int:
        """The number of different events."""
        return len(self.base) * (2 if self.missing else 1)

    def table(self, const: Ints, coef: Ints, zero: Ints | None) -> tuple[Ints, Ints]:
        """The score of the base per component, and what each event adds to it, shape (kinds, k).

        A row scores const + Σ_s x_s·coef_s; if cells may be missing, a known cell adds `zero`. The
        number of components is filled up to a multiple of 8 with some that no row belongs to.
        """
        (k, n), width = coef.shape, -(-len(const) // 8) * 8
        table = np.zeros((self.n_kinds, width), dtype=np.int64)
        table[:n, :k] = coef.T
        table[:n][self.base] *= -1
        at_base = const + coef[:, self.base].sum(axis=1)
        if zero is not None:
            table[n:, :k] = -zero.T
            table[n:][self.base, :k] -= coef.T[self.base]
            at_base += zero.sum(axis=1)
        padded = np.full(width, _BELOW_ALL)
        padded[:k] = at_base
        return padded, table

    def ones(self, mass: Ints, sums: Ints) -> tuple[Ints, Ints | None]:
        """Sums over ones and over known cells per component and column, from sums over events.

        `mass` are sums over rows, shape (k,), and `sums` over events, shape (k, kinds).
        """
        n = len(self.base)
        known = mass[:, None] - sums[:, n:] if self.missing else None
        cells = mass[:, None] if known is None else known
        return np.where(self.base, cells - sums[:, :n], sums[:, :n]), known


def _differing(
    bits: Words, known: Words | None, n_columns: int, base: NDArray[np.bool_]
) -> Words:
    """Words with a 1 for each known cell that differs from the base, and for each unknown cell."""
    differs = bits ^ pack(base[None])
    if known is None:
        return differs
    unknown = pack(np.ones((1, n_columns), dtype=np.bool_)) & ~known
    return np.concatenate([differs & known, unknown], axis=1)


def majority(words: Words, n_columns: int) -> NDArray[np.bool_]:
    """Which columns are 1 in more than half of the rows."""
    counts = unpack(words, n_columns).sum(axis=0, dtype=np.int64)
    majority: Any = 2 * counts > len(words)
    return majority
