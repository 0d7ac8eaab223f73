"""Integer scores ln(w_i f_i(x)) of rows: affine in the bits, a popcount where templates are binary.

Both forms agree to the last bit where both apply: with binary templates every coefficient is
±step, and const + Σ x·coef is const' - step·D(x, T).

*Bounds.* An affine score is highest for the row R with a 1 wherever the coefficient is positive,
and loses the size of the coefficient for each column in which a row differs from R. A row that
differs in D columns therefore loses at least the D smallest and at most the D largest of these
sizes. So a popcount bounds the score, by whole numbers and without rounding; and where one
component's lower bound is above the upper bounds of all others by 22 nats or more, its share of
the row is one and theirs are zero, to the last bit, as if the scores had been computed.
"""

from dataclasses import dataclass, replace

import numpy as np

from bitmix.kernels import backend
from bitmix.kernels.bits import Words, pack, unpack, words_for
from bitmix.kernels.fixed import Ints


@dataclass(frozen=True, eq=False)
class Bounds:
    """Between what a score lies, by the distance of the row to a binary template."""

    templates: Words
    lower: Ints
    """Shape (k, 64·words + 1), by component and distance."""
    upper: Ints


@dataclass(frozen=True, eq=False)
class HammingScores:
    """score_i(x) = const_i - step_i·D(x, template_i), in units of 2^-bits nats."""

    const: Ints
    step: int | Ints
    """λ = ln((1-q)/q) in units of 2^-bits nats: one, or one a template."""
    templates: Words
    bits: int

    def __call__(self, words: Words) -> Ints:
        found = backend(words).hamming(words, self.templates)
        found *= np.negative(self.step)
        found += self.const
        return found

    def bounds(self) -> Bounds:
        """Both bounds are the score itself."""
        steps = np.broadcast_to(self.step, self.const.shape)
        distances = np.arange(64 * self.templates.shape[1] + 1)
        scores = self.const[:, None] - steps[:, None] * distances
        return Bounds(self.templates, scores, scores)

    def mean(self, n_rows: int, ones: Ints) -> Ints:
        """The mean score over all rows, given their ones in each column.

        A distance is affine in the bits of the template, too.
        """
        sums = backend(self.templates).affine(
            self.templates, ones.sum(keepdims=True), (n_rows - 2 * ones)[None]
        )
        steps = np.broadcast_to(self.step, self.const.shape)
        lost = [int(step) * int(d) // n_rows for step, d in zip(steps, sums[:, 0], strict=True)]
        found: Ints = self.const - np.array(lost)
        return found

    def total(self, rows: Ints, ones: Ints) -> int:
        """The sum of scores of so many rows of each component, given their ones in each column."""
        bits = unpack(self.templates, ones.shape[1]).astype(np.int64)
        distances = np.where(bits == 1, rows[:, None] - ones, ones).sum(axis=1)
        steps = np.broadcast_to(self.step, self.const.shape)
        return sum(
            int(m) * int(const) - int(step) * int(d)
            for m, const, step, d in zip(rows, self.const, steps, distances, strict=True)
        )

    def scaled_down(self, halvings: int) -> "HammingScores":
        """All scores divided by 2^halvings."""
        return replace(self, const=self.const >> halvings, step=self.step >> halvings)


@dataclass(frozen=True, eq=False)
class AffineScores:
    """score_i(x) = const_i + Σ_s x_s·coef_is, in units of 2^-bits nats."""

    const: Ints
    coef: Ints
    bits: int

    def __call__(self, words: Words) -> Ints:
        return backend(words).affine(words, self.const, self.coef)

    def bounds(self) -> Bounds:
        """By the sum of the smallest and of the largest coefficients."""
        k, n = self.coef.shape
        best = self.const + np.where(self.coef > 0, self.coef, 0).sum(axis=1)
        least = np.zeros((k, 64 * words_for(n) + 1), dtype=np.int64)
        losses = np.sort(np.abs(self.coef), axis=1)
        np.cumsum(losses, axis=1, out=least[:, 1 : n + 1])
        most = least.copy()
        np.cumsum(losses[:, ::-1], axis=1, out=most[:, 1 : n + 1])
        return Bounds(pack(self.coef > 0), best[:, None] - most, best[:, None] - least)

    def mean(self, n_rows: int, ones: Ints) -> Ints:
        """The mean score over all rows, given their ones in each column."""
        n = self.coef.shape[1]
        found: Ints = self.const + np.array([total // n_rows for total in self._sums(ones[:n])])
        return found

    def total(self, rows: Ints, ones: Ints) -> int:
        """The sum of scores of so many rows of each component, given their ones in each column."""
        consts = sum(int(m) * int(const) for m, const in zip(rows, self.const, strict=True))
        return consts + sum(self._sums(ones))

    def _sums(self, ones: Ints) -> list[int]:
        """Σ_s ones_s·coef_is of each component.

        Coefficients are below 2^53 in size, ones at most 2^31 and columns 10^6: products of halves
        add up to less than 2^63.
        """
        totals = [0] * len(self.coef)
        for some, ones_shift in ((ones >> 16, 16), (ones & 0xFFFF, 0)):
            for part, coef_shift in ((self.coef >> 26, 26), (self.coef & ((1 << 26) - 1), 0)):
                for i, found in enumerate((some * part).sum(axis=1)):
                    totals[i] += int(found) << (ones_shift + coef_shift)
        return totals

    def scaled_down(self, halvings: int) -> "AffineScores":
        """All scores divided by 2^halvings."""
        return replace(self, const=self.const >> halvings, coef=self.coef >> halvings)


Scores = HammingScores | AffineScores
