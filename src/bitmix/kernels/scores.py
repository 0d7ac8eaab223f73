"""Integer scores ln(w_i f_i(x)) of rows, in three forms that agree to the last bit where several
apply: popcounts for binary templates, a probability per cell, and any coefficients per cell.
"""

from dataclasses import dataclass
from operator import mul
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bitmix.kernels import backend, fixed
from bitmix.kernels.bits import Words, unpack
from bitmix.kernels.events import Events, EventTable, lanes, padded
from bitmix.kernels.fixed import Ints


class Block(Protocol):
    """Rows in either form; `bitmix.rows.protocol.Block` has both."""

    @property
    def bits(self) -> Words: ...

    @property
    def known(self) -> Words | None: ...

    @property
    def events(self) -> Events: ...


class Scores(Protocol):
    """What every form of scores can do. They are in units of 2^-bits nats."""

    @property
    def bits(self) -> int: ...

    @property
    def n_components(self) -> int: ...

    def __call__(self, block: Block, /) -> Ints:
        """The scores of rows, shape (rows, k)."""

    def table(self, base: NDArray[np.bool_], missing: bool) -> EventTable:
        """The same scores as sums over events."""


@dataclass(frozen=True, eq=False)
class PopcountScores:
    """const_i + per_one_i·|x| + per_match_i·|x ∧ T_i| for binary templates T_i of n columns."""

    const: Ints
    per_one: Ints
    per_match: Ints
    zeros: tuple[Ints, Ints]
    """What a 0 adds where the template is 0, and where it is 1; `const` has the sum of these."""
    templates: Words
    n_columns: int
    bits: int

    @property
    def n_components(self) -> int:
        return len(self.const)

    def __call__(self, block: Block) -> Ints:
        if block.known is not None:
            events = block.events
            return self.table(events.base, missing=True).scores(events)
        bits = block.bits
        return backend(2e-9 * bits.size * len(self.const)).popcount_scores(
            bits, self.templates, self.const, self.per_one, self.per_match
        )

    def table(self, base: NDArray[np.bool_], missing: bool) -> EventTable:
        bits = unpack(self.templates, self.n_columns)
        coef = np.where(bits, (self.per_one + self.per_match)[:, None], self.per_one[:, None])
        if not missing:
            zero = np.zeros((1, 1), dtype=np.int64)
            return EventTable.of_columns(self.const, zero, coef, self.bits, base, missing)
        zero = np.where(bits, self.zeros[1][:, None], self.zeros[0][:, None])
        const = self.const - zero.sum(axis=1)
        return EventTable.of_columns(const, zero, coef, self.bits, base, missing)

    def total(self, rows: Ints, ones: Ints) -> int:
        """The sum of the scores of `rows` rows per component with `ones` ones per column."""
        bits = unpack(self.templates, ones.shape[1]).view(np.bool_)
        total = 0
        for value, counts in (
            (self.const, rows),
            (self.per_one, ones.sum(axis=1)),
            (self.per_match, ones.sum(axis=1, where=bits)),
        ):
            total += sum(map(mul, value.tolist(), counts.tolist()))
        return total


@dataclass(frozen=True, eq=False)
class AffineScores:
    """const_i + Σ_s zero_is + x_s·coef_is over the known cells of a row."""

    const: Ints
    zero: Ints
    """Of a shape that stretches to that of `coef`."""
    coef: Ints
    """Shape (k, n)."""
    bits: int

    @property
    def n_components(self) -> int:
        return len(self.const)

    def __call__(self, block: Block) -> Ints:
        events = block.events
        return self.table(events.base, events.missing).scores(events)

    def table(self, base: NDArray[np.bool_], missing: bool) -> EventTable:
        return EventTable.of_columns(self.const, self.zero, self.coef, self.bits, base, missing)

    def total(self, rows: Ints, ones: Ints) -> int:
        """The sum of the scores of `rows` rows per component with `ones` ones per column.

        Coefficients are below 2^53 in size, ones at most 2^31 and columns 10^6: products of
        halves add up to less than 2^63.
        """
        const = self.const + np.broadcast_to(self.zero, self.coef.shape).sum(axis=1)
        total = sum(map(mul, rows.tolist(), const.tolist()))
        for some, ones_shift in ((ones >> 16, 16), (ones & 0xFFFF, 0)):
            for part, coef_shift in ((self.coef >> 26, 26), (self.coef & ((1 << 26) - 1), 0)):
                total += int((some * part).sum()) << (ones_shift + coef_shift)
        return total


@dataclass(frozen=True, eq=False)
class CellScores:
    """const_i + Σ_s ln P(x_s | i) over the known cells of a row, given the probabilities of a 1."""

    const: Ints
    probabilities: NDArray[np.float64]
    """Shape (k, n), no closer to 0 and 1 than 2^-40."""
    bits: int
    value_columns: NDArray[np.intp] | None = None
    """The columns that are one of several values of an item: there a 0 adds nothing."""

    @property
    def n_components(self) -> int:
        return len(self.const)

    def __call__(self, block: Block) -> Ints:
        events = block.events
        return self.table(events.base, events.missing).scores(events)

    def table(self, base: NDArray[np.bool_], missing: bool) -> EventTable:
        k, n = self.probabilities.shape
        lines = np.zeros((2 * n if missing else n, lanes(k)), dtype=np.int64)
        by_column = np.ascontiguousarray(self.probabilities.T)
        at_base = backend(8e-8 * k * n).cell_lines(by_column, base, self.bits, lines)
        if self.value_columns is not None:
            at_base -= self._without_zeros(base, lines)
        at_base = padded(self.const + at_base, lanes(k))
        return EventTable(self.const, at_base, lines, base, self.bits)

    def _without_zeros(self, base: NDArray[np.bool_], lines: Ints) -> Ints:
        """Take out of the lines what a 0 adds in the columns of items; what that is at the base."""
        (k, n), columns = self.probabilities.shape, self.value_columns
        p = self.probabilities[:, columns]
        zero = backend(4e-8 * p.size).logs(1 - p) >> (fixed.LOG_BITS - self.bits)
        is_one = base[columns]
        lines[columns, :k] += np.where(is_one[:, None], -zero.T, zero.T)
        at_base = np.where(is_one, 0, zero)
        if len(lines) > n:
            lines[n + columns, :k] += at_base.T
        return at_base.sum(axis=1)
