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

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitmix.em.step import Statistics
from bitmix.kernels import backend, fixed
from bitmix.kernels.fixed import Ints
from bitmix.kernels.items import Items
from bitmix.models.mixture import MIN_PROBABILITY, Floats, Mixture, NoiseModel, wide_log_rates

_PRIOR_BITS = 40  # the objective takes the strength of the prior as a multiple of 2^-40
_MAX_ROUNDS = 20
_COLUMNS_AT_ONCE = 1 << 16  # when cells are counted; it decides memory, not a result


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

        Bits and flip rates are improved in turn until the bits stay the same. Cells without rows
        keep their template.
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
        for _ in range(_MAX_ROUNDS):
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
        prior = self.prior * (statistics.weight_one << fixed.SHARE_BITS)
        (k, n), ones = bits.shape, statistics.sums
        units = statistics.n_rows << fixed.SHARE_BITS
        cells = np.broadcast_to(statistics.counts, bits.shape)
        if self.items is not None:  # an item counts once, by the column of the template's value
            unused = self.items.is_value & ~bits
            ones, cells = np.where(unused, 0, ones), np.where(unused, 0, cells)
            if self.model == "feature":
                ones = self.items.pooled(np.where(bits, cells - ones, ones))
                cells, bits = self.items.pooled(cells), np.zeros_like(bits)
        if self.model == "updown":
            parts = zip((~bits, bits), self.given or (None, None), strict=True)
            return np.array(
                [
                    given or _rates(ones, cells, bits, (1, 1), prior, units, of)[0, 0]
                    for of, given in parts
                ]
            )
        shape = {"shared": (1, 1), "component": (k, 1), "feature": (1, n)}[self.model]
        rates = _rates(ones, cells, bits, shape, prior, units)
        return float(rates[0, 0]) if self.model == "shared" else rates

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
    lead -= statistics.counts * by_zero
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


def _rates(
    ones: Ints, cells: Ints, bits: NDArray[np.bool_], shape: tuple[int, int], prior: float,
    n_rows_units: int, of: NDArray[np.bool_] | None = None,
) -> Floats:  # fmt: skip
    """Flipped bits among the cells that share a rate, with `prior` more cells, half flipped; only
    the cells in `of`, if it is given.

    Sums are exact up to their last rounding. A sum over components is at most that of all rows, as
    the responsibilities of a row add to one. Over columns, high and low halves are summed apart
    unless 62 bits hold the sum, and some columns at a time, so that a wide table needs little
    memory.
    """
    axes = (0,) * (shape[0] == 1) + (1,) * (shape[1] == 1)
    sums = np.zeros((2, 2, *shape), dtype=np.int64)  # flipped or all, high or low
    half = (1 << 31) - 1
    for first in range(0, bits.shape[1], _COLUMNS_AT_ONCE):
        some = np.s_[:, first : first + _COLUMNS_AT_ONCE]
        total = cells[some]
        flipped = np.where(bits[some], total - ones[some], ones[some])
        into = sums[..., some[1]] if shape[1] > 1 else sums
        fits = (n_rows_units * total.shape[1]) >> 62 == 0
        for number, values in enumerate((flipped, total)):
            counted = values if of is None else values * of[some]
            if fits:
                part = counted.sum(axis=axes, keepdims=True)
                high, low = part >> 31, part & half
            else:
                high = (counted >> 31).sum(axis=axes, keepdims=True)
                low = (counted & half).sum(axis=axes, keepdims=True)
            into[number, 0] += high
            into[number, 1] += low
    wrong, all_cells = sums[:, 0] * 2.0**31 + sums[:, 1]
    rates = np.full(shape, 0.5)
    np.divide(wrong + prior / 2, all_cells + prior, out=rates, where=all_cells + prior != 0)
    return rates.clip(MIN_PROBABILITY, 1 - MIN_PROBABILITY)
