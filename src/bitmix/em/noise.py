"""Noise models: the M step, and the objective with its prior.

A fit maximises, over templates, weights and flip rates,

    Σ_x ω_x·ln Σ_i w_i f_i(x)  +  ln of the prior,

ω_x the weight of a row; a missing cell leaves out its factor of f_i. Given the responsibilities of
an E step, a template bit is 1 if that makes its cells more likely, and a flip rate is the share of
flipped bits among the cells that share it. So every step raises the objective, up to the rounding
of integers. The prior, with μ_s the share of ones of column s and b its strength
in rows:

* a template bit is 1 with probability μ_s, as a bit of any row is. This keeps a component from
  ending as the copy of a single row;
* flip rates: (b/2)·Σ ln ν(1-ν) over the rates ν, as if b more cells had been half flipped;
* a probability p per cell: b·Σ μ_s·ln p + (1-μ_s)·ln(1-p), as if each component had b more rows
  that are like all rows. This keeps a small component from estimating p ≈ ½ for a column that is
  almost always 0.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitmix.em.step import Statistics
from bitmix.kernels import backend, fixed
from bitmix.kernels.fixed import Ints
from bitmix.kernels.items import Items
from bitmix.models.mixture import MIN_PROBABILITY, Floats, Mixture, NoiseModel, wide_log_rates

_PRIOR_BITS = 40  # the objective takes the strength of the prior as a multiple of 2^-40
_ROUNDS = 3  # of bits and rates in an M step; more of them cost time and end no better


@dataclass(frozen=True)
class Noise:
    """The noise model to fit."""

    model: NoiseModel
    prior: float
    """b: the strength of the prior, in rows. With 0 there is no prior: maximum likelihood."""
    given: tuple[float | None, ...] = ()
    """Flip rates that are known: (q,), or (α, β) of which one may be None."""
    items: Items | None = None
    """The columns that are values of items with several values."""
    background: bool = False
    """Whether the last component has the share of ones of each column over all rows, so that only
    its weight is estimated; with a probability per cell."""

    def maximise(self, statistics: Statistics, before: Mixture) -> Mixture:
        """The M step: the best mixture given the responsibilities.

        Template bits and flip rates are improved in turn, a few times, which raises the objective;
        that is enough for EM. Cells without rows keep their template.
        """
        if self.model == "cell":
            prior = self.prior * (statistics.weight_one << fixed.SHARE_BITS)
            cells, means = statistics.counts + prior, statistics.sums.astype(np.float64)
            means += prior * statistics.column_shares
            if cells.all():
                means /= cells
            else:
                np.divide(means, cells, out=means, where=cells != 0)
                np.copyto(means, before.means, where=cells == 0)
            if self.background:
                means[-1] = statistics.column_shares
            return Mixture(means, statistics.weights, None, self.items)
        bits, noise = None, before.noise
        if noise is None:  # probabilities to start from
            noise = self.rates(statistics, statistics.means(before.means) > 0.5)
        empty = None if statistics.counts.all() else statistics.counts == 0
        for _ in range(_ROUNDS):
            lead = evidence(statistics, noise, self.prior > 0)
            better = lead > 0
            if self.items is not None:
                better = self.items.one_per_item(lead, better)
            if empty is not None:
                better = np.where(empty, before.means > 0.5, better)
            if bits is not None and np.array_equal(better, bits):
                break
            bits, noise = better, self.rates(statistics, better)
        return Mixture(better.astype(np.float64), statistics.weights, noise, self.items)

    def rates(self, statistics: Statistics, bits: NDArray[np.bool_]) -> Any:
        """The best flip rates for these template bits, or those that are given."""
        if self.given and self.model == "shared":
            return self.given[0]
        ones, cells = statistics.sums, np.broadcast_to(statistics.counts, bits.shape)
        if self.items is not None:  # an item counts once, by the column of the template's value
            unused = self.items.is_value & ~bits
            ones, cells = np.where(unused, 0, ones), np.where(unused, 0, cells)
            if self.model == "feature":
                ones = self.items.pooled(np.where(bits, cells - ones, ones))
                cells, bits = self.items.pooled(cells), np.zeros_like(bits)
        prior = self.prior * (statistics.weight_one << fixed.SHARE_BITS)
        if self.model == "feature":
            return _rates(count_flips(ones, cells, bits, 0).sum(axis=0), prior)[None]
        largest = (statistics.n_rows << fixed.SHARE_BITS) * bits.shape[1]
        flips = count_flips(ones, cells, bits, 1, largest)
        if self.model == "component":
            return _rates(flips.sum(axis=0), prior)[:, None]
        flips = flips.sum(axis=2)
        if self.model == "shared":
            return float(_rates(flips.sum(axis=0), prior))
        rates = _rates(flips.T, prior)
        return np.array([
            rate if given is None else given
            for rate, given in zip(rates, self.given or (None, None), strict=True)
        ])  # fmt: skip

    def objective(self, statistics: Statistics, mixture: Mixture) -> int:
        """ln L + ln of the prior, in units of 2^-42 nats over `weight_one`.

        `statistics` are those of an E step from `mixture`.
        """
        if self.prior == 0:
            return statistics.likelihood_units
        of_bits, of_rates = 0, statistics.mean_row_units
        if mixture.noise is not None:
            right, wrong = mixture.log_rates
            of_rates = int((right + wrong).sum()) >> 1
            if_zero, if_one = statistics.log_column_shares
            n_ones = mixture.means.sum(axis=0).astype(np.int64)
            of_bits = int((n_ones * if_one + (len(mixture.means) - n_ones) * if_zero).sum())
        units = (of_bits << _PRIOR_BITS) + round(self.prior * 2.0**_PRIOR_BITS) * of_rates
        prior = units << fixed.LIKELIHOOD_BITS >> (fixed.LOG_BITS + _PRIOR_BITS)
        return statistics.likelihood_units + statistics.weight_one * prior


def evidence(statistics: Statistics, noise: Any, has_prior: bool) -> Floats:
    """The evidence for a template bit of 1, in nats: above 0, a 1 is more likely than a 0.

    A cell that is 1 adds ln((1-β)/α), a cell that is 0 subtracts ln((1-α)/β). The prior adds
    ln(μ/(1-μ)); without it, a tie goes to the majority of the column. The values of an item are
    compared with each other: a 1 adds ln((1-q)(R-1)/q) to its own value, of R values, and the prior
    adds ln μ.
    """
    rates = noise if np.shape(noise) == (2,) else (noise, noise)
    (zero_right, zero_wrong), (one_right, one_wrong) = map(_log_rates, rates)
    row = float(statistics.weight_one << fixed.SHARE_BITS)
    by_one, by_zero = (one_right - zero_wrong) / row, (zero_right - one_wrong) / row
    if (items := statistics.items) is not None:
        by_one = by_one + np.where(items.is_value, items.log_others / row, 0.0)
        by_zero = np.where(items.is_value, 0.0, by_zero)
    lead = statistics.sums * (by_one + by_zero)
    order: Any = "F" if lead.flags.f_contiguous else "C"  # a difference of both takes far longer
    lead -= np.multiply(statistics.counts, by_zero, order=order)
    if_zero, if_one = statistics.log_column_shares
    of_column = (if_one - if_zero) / 2.0**fixed.LOG_BITS
    if has_prior:
        lead += of_column
        return lead
    return np.where(lead == 0, of_column, lead)


def _log_rates(rates: Any) -> tuple[Any, Any]:
    """ln(1 - rate) and ln(rate) as floats, the same on every machine."""
    if np.ndim(rates) == 0:
        wide = wide_log_rates(float(rates))
        return wide[0] / 2.0**128, wide[1] / 2.0**128
    kernels = backend(8e-8 * rates.size)
    logs = (kernels.logs(part) for part in (1 - rates, rates))
    right, wrong = (log / 2.0**fixed.LOG_BITS for log in logs)
    return right, wrong


def count_flips(
    ones: Ints, cells: Ints, bits: NDArray[np.bool_], axis: int, largest: int = 0
) -> NDArray[Any]:
    """Flipped bits and all cells, summed over an axis: first where the template is 0, then where it
    is 1; shape (2, 2, k or n).

    A sum over components is at most that of all rows, as the responsibilities of a row add to one.
    Over columns, `largest` is the most it may be: if 62 bits do not hold it, high and low halves
    are summed apart, and the result has whole numbers of Python.
    """

    def exact(add: Callable[[Ints], Any], values: Ints) -> Any:
        if largest >> 62 == 0:
            return add(values)
        return add(values >> 31).astype(object) * 2**31 + add(values & ((1 << 31) - 1))

    over, sums = "is,is->s" if axis == 0 else "is,is->i", []
    for values in (ones, cells):
        of_1 = exact(partial(np.einsum, over, bits), values)
        sums.append((exact(partial(np.sum, axis=axis), values) - of_1, of_1))
    (ones_of_0, ones_of_1), (cells_of_0, cells_of_1) = sums
    return np.array([(ones_of_0, cells_of_0), (cells_of_1 - ones_of_1, cells_of_1)])


def _rates(flips: NDArray[Any], prior: float) -> Floats:
    """Flipped bits among all cells, with `prior` more cells, half flipped; ½ without cells."""
    flipped, cells = flips.astype(np.float64)
    rates = np.full(cells.shape, 0.5)
    np.divide(flipped + prior / 2, cells + prior, out=rates, where=cells + prior != 0)
    return rates.clip(MIN_PROBABILITY, 1 - MIN_PROBABILITY)
