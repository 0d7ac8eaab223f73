"""Integer scores ln(w_i f_i(x)) of rows: affine in the bits, popcounts where templates are binary.

Both forms agree to the last bit where both apply.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from bitmix.kernels import backend
from bitmix.kernels.bits import Words, unpack
from bitmix.kernels.events import Events
from bitmix.kernels.fixed import Ints


class Block(Protocol):
    """Rows in either form; `bitmix.rows.protocol.Block` has both."""

    @property
    def bits(self) -> Words: ...

    @property
    def events(self) -> Events: ...


@dataclass(frozen=True, eq=False)
class PopcountScores:
    """const_i + per_one_i·|x| + per_match_i·|x ∧ T_i| for binary templates T_i of n columns.

    Units of 2^-bits nats. No cell may be missing.
    """

    const: Ints
    per_one: Ints
    per_match: Ints
    templates: Words
    n_columns: int
    bits: int

    def __call__(self, block: Block) -> Ints:
        """The scores of rows, shape (rows, k)."""
        return backend(self.templates).popcount_scores(
            block.bits, self.templates, self.const, self.per_one, self.per_match
        )

    def affine(self) -> "AffineScores":
        """The same scores, as sums over columns."""
        bits = unpack(self.templates, self.n_columns).astype(np.int64)
        coef = self.per_one[:, None] + self.per_match[:, None] * bits
        return AffineScores(self.const, coef, self.bits)

    def total(self, rows: Ints, ones: Ints) -> int:
        """The sum of the scores of `rows` rows per component with `ones` ones per column."""
        bits = unpack(self.templates, ones.shape[1]).astype(np.int64)
        counts = (rows, ones.sum(axis=1), (ones * bits).sum(axis=1))
        values = (self.const, self.per_one, self.per_match)
        return sum(
            int(count) * int(value)
            for counted, valued in zip(counts, values, strict=True)
            for count, value in zip(counted, valued, strict=True)
        )


@dataclass(frozen=True, eq=False)
class AffineScores:
    """score_i(x) = const_i + Σ_s x_s·coef_is, in units of 2^-bits nats."""

    const: Ints
    coef: Ints
    """Shape (k, n)."""
    bits: int
    zero: Ints | None = None
    """If cells may be missing: what each known cell adds, shape (k, n)."""

    def __call__(self, block: Block) -> Ints:
        """The scores of rows, shape (rows, k)."""
        events = block.events
        const, table = events.table(*self.parts)
        scores = backend(table).event_scores(events.starts, events.cells, const, table)
        return scores[:, : len(self.const)]

    @property
    def parts(self) -> tuple[Ints, Ints, Ints | None]:
        """What `Events.table` takes."""
        return self.const, self.coef, self.zero

    def affine(self) -> "AffineScores":
        return self

    def total(self, rows: Ints, ones: Ints) -> int:
        """The sum of the scores of `rows` rows per component with `ones` ones per column.

        Coefficients are below 2^53 in size, ones at most 2^31 and columns 10^6: products of halves
        add up to less than 2^63.
        """
        total = sum(int(m) * int(const) for m, const in zip(rows, self.const, strict=True))
        for some, ones_shift in ((ones >> 16, 16), (ones & 0xFFFF, 0)):
            for part, coef_shift in ((self.coef >> 26, 26), (self.coef & ((1 << 26) - 1), 0)):
                total += int((some * part).sum()) << (ones_shift + coef_shift)
        return total

    def scaled_down(self, halvings: int) -> "AffineScores":
        """All scores divided by 2^halvings."""
        zero = None if self.zero is None else self.zero >> halvings
        return AffineScores(self.const >> halvings, self.coef >> halvings, self.bits, zero)


Scores = PopcountScores | AffineScores
