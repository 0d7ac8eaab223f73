"""Rows as lists of events: the cells in which a row differs from a base row, or that are unknown.

The base has a 1 in the columns that are mostly 1, so that lists are short for sparse and for dense
columns. A score that is affine in the bits is the score of the base plus one number per event, so a
pass costs as much as there are events.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitmix.kernels import backend
from bitmix.kernels.bits import Words, pack, words_for
from bitmix.kernels.fixed import Ints
from bitmix.kernels.reference import Cells

BASE_ROWS = 256  # enough to see which columns are mostly 1; any base gives the same results
_BELOW_ALL = -(1 << 62)
_LANES = 8
_COOL = 2  # scores halved this often are not screened; it decides time, not a result


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
        starts, cells = backend(6e-8 * differing.size).set_bits(differing)
        gap = 64 * words_for(n_columns) - n_columns
        if known is not None and gap:  # unknown cells are numbered from n on
            cells[cells >= n_columns] -= np.uint32(gap)
        return cls(starts, cells, base, known is not None)

    @staticmethod
    def count(bits: Words, known: Words | None, n_columns: int, base: NDArray[np.bool_]) -> int:
        """The number of events that `of_words` would list."""
        return int(np.bitwise_count(_differing(bits, known, n_columns, base)).sum())

    def __len__(self) -> int:
        return len(self.starts) - 1

    def take(self, numbers: NDArray[np.intp]) -> "Events":
        """The rows with these numbers; negative ones count from the end."""
        numbers = np.arange(len(self))[numbers]
        lengths = np.diff(self.starts)[numbers]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        places = np.arange(starts[-1]) + np.repeat(self.starts[numbers] - starts[:-1], lengths)
        return Events(starts, self.cells[places], self.base, self.missing)

    def rows(self, start: int, stop: int) -> "Events":
        """The events of these rows; no events are copied."""
        return Events(self.starts[start : stop + 1], self.cells, self.base, self.missing)


@dataclass(frozen=True, eq=False)
class EventTable:
    """Integer scores of rows by their events, in units of 2^-bits nats.

    The number of components is filled up to a multiple of 8 with some that no row belongs to.
    """

    const: Ints
    """The part of each score that no cell adds, ln w_i, shape (k,)."""
    at_base: Ints
    """The score of a row without events per component, shape (width,)."""
    lines: Ints
    """What each event adds, shape (n or 2n, width)."""
    base: NDArray[np.bool_]
    bits: int
    halvings: int = 0
    """How often the scores were halved."""

    @classmethod
    def of_columns(
        cls, const: Ints, zero: Ints, coef: Ints, bits: int, base: NDArray[np.bool_], missing: bool
    ) -> "EventTable":
        """The table of scores const_i + Σ_s zero_is + x_s·coef_is over the known cells of a row."""
        (k, n), zero = coef.shape, np.broadcast_to(zero, coef.shape)
        lines = np.zeros((2 * n if missing else n, lanes(k)), dtype=np.int64)
        lines[:n, :k] = coef.T
        lines[:n][base] *= -1
        if missing:
            lines[n:, :k] = -zero.T
            lines[n:][base, :k] -= coef.T[base]
        at_base = const + zero.sum(axis=1) + coef[:, base].sum(axis=1)
        return cls(const, padded(at_base, lanes(k)), lines, base, bits)

    @property
    def n_components(self) -> int:
        return len(self.const)

    @property
    def missing(self) -> bool:
        """Whether cells may be unknown."""
        return len(self.lines) > len(self.base)

    @cached_property
    def screen(self) -> Any:
        """What `event_pass` takes to leave out components whose share is 0; None if scores were
        halved so often that hardly any is left out."""
        if self.halvings >= _COOL:
            return None
        return backend().screen(self.at_base, self.lines, self.n_components, self.bits)

    def scores(self, events: Events) -> Ints:
        """The scores of rows, shape (rows, k)."""
        kernels = backend(1e-9 * len(events.cells) * len(self.at_base))
        scores = kernels.event_scores(events.starts, events.cells, self.at_base, self.lines)
        return scores[:, : self.n_components]

    def ones(self, mass: Ints, sums: Ints) -> tuple[Ints, Ints | None]:
        """Sums over ones and over known cells per component and column, from sums over events.

        `mass` are sums over rows, shape (k,), and `sums` over events, shaped as `lines`; `sums` are
        overwritten.
        """
        n, sums = len(self.base), sums[:, : len(mass)]
        known = mass - sums[n:] if self.missing else None
        ones, columns = sums[:n], np.flatnonzero(self.base)
        ones[columns] = (mass if known is None else known[columns]) - ones[columns]
        return ones.T, None if known is None else known.T

    def of_mean_row(self, shares: NDArray[np.float64]) -> Ints:
        """What the cells of a row add to each score that is 1 to these shares."""
        rates = np.rint(shares * 2.0**30).astype(np.int64)
        lines = self.lines[: len(rates)]
        total = self.at_base + backend(2e-9 * lines.size).mean_line(lines, self.base, rates)
        return total[: self.n_components] - self.const

    def scaled_down(self, halvings: int) -> "EventTable":
        """All scores divided by 2^halvings.

        Lines are counted from a row of zeros first, so that rounding does not depend on the base.
        """
        if not halvings:
            return self
        at_base, lines = self.at_base.copy(), self.lines.copy()
        self._move_base(at_base, lines)
        at_base, lines = at_base >> halvings, lines >> halvings
        self._move_base(at_base, lines)
        at_base = padded(at_base[: self.n_components], len(at_base))
        return EventTable(
            self.const >> halvings, at_base, lines, self.base, self.bits, self.halvings + halvings
        )

    def _move_base(self, at_base: Ints, lines: Ints) -> None:
        """Count from a row of zeros instead of the base, or from the base again; in place."""
        columns = np.flatnonzero(self.base)
        if self.missing:
            lines[len(self.base) + columns] -= lines[columns]
        at_base += lines[columns].sum(axis=0)
        lines[columns] *= -1


def lanes(k: int) -> int:
    """k, filled up to whole vectors."""
    return -(-k // _LANES) * _LANES


def padded(const: Ints, width: int) -> Ints:
    """Scores of components, with some that are below all others."""
    out = np.full(width, _BELOW_ALL)
    out[: len(const)] = const
    return out


def _differing(bits: Words, known: Words | None, n_columns: int, base: NDArray[np.bool_]) -> Words:
    """Words with a 1 for each known cell that differs from the base, and for each unknown cell."""
    differs = bits ^ pack(base[None])
    if known is None:
        return differs
    unknown = pack(np.ones((1, n_columns), dtype=np.bool_)) & ~known
    return np.concatenate([differs & known, unknown], axis=1)
