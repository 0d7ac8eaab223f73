"""Noise models: the M step, and the objective with its prior.

A fit maximises, over templates, weights and flip rates,

    Σ_x ω_x·ln Σ_i w_i f_i(x)  +  ln of the prior,

ω_x the weight of a row; a missing cell leaves out its factor of f_i. Given the responsibilities of
an E step, a template bit is 1 if the ones of its cell are likelier under a 1, and a flip rate is the
share of flipped bits among the cells that share it. So every step raises the objective, but for the
rounding of integers. The prior keeps probabilities off 0 and 1; its strength b counts in rows:

* flip rates: (b/2)·Σ ln ν(1-ν) over the rates ν, as if b more cells had been half flipped;
* a probability p per cell: b·Σ μ_s·ln p + (1-μ_s)·ln(1-p), μ_s the share of ones of the column, as
  if each component had b more rows that are like all rows. This keeps a small component from
  estimating p ≈ ½ for a column that is almost always 0.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitmix.em.step import Statistics
from bitmix.kernels import fixed
from bitmix.kernels.fixed import Ints
from bitmix.models.mixture import MIN_PROBABILITY, Floats, Mixture, NoiseModel, wide_log_rates

_PRIOR_BITS = 40  # the objective takes the strength of the prior as a multiple of 2^-40
_MAX_ROUNDS = 20


@dataclass(frozen=True)
class Noise:
    """The noise model to fit."""

    model: NoiseModel
    prior: float
    """b: the strength of the prior, in rows. With 0 the fit is one of maximum likelihood."""
    given: tuple[float | None, ...] = ()
    """Flip rates that are known: (q,), or (α, β) of which one may be None."""

    def maximise(self, statistics: Statistics, before: Mixture) -> Mixture:
        """The M step: the best mixture given the responsibilities.

        A tie between bits goes to the majority of the column over all rows, and cells without rows
        keep their template. With two flip rates, bits and rates are improved in turn until the
        bits stay the same.
        """
        ones, cells = statistics.sums, statistics.counts
        prior = self.prior * (statistics.weight_one << fixed.SHARE_BITS)
        if self.model == "cell":
            means = _shares(ones + prior * statistics.column_shares, cells + prior, before.means)
            return Mixture(means, statistics.weights, None)
        cells = np.broadcast_to(cells, ones.shape)
        bits = _best_bits(ones, cells, before)
        noise = self._best_rates(ones, cells, bits, prior)
        if self.model == "updown":
            for _ in range(_MAX_ROUNDS):
                last, bits = (
                    bits,
                    _best_bits(ones, cells, Mixture(before.means, before.weights, noise)),
                )
                if np.array_equal(last, bits):
                    break
                noise = self._best_rates(ones, cells, bits, prior)
        return Mixture(bits.astype(np.float64), statistics.weights, noise)

    def _best_rates(self, ones: Ints, cells: Ints, bits: NDArray[np.bool_], prior: float) -> Any:
        """The flip rates of the model, or those that are given."""
        k, n = ones.shape
        flipped = np.where(bits, cells - ones, ones)
        if self.model == "updown":
            parts = zip((~bits, bits), self.given or (None, None), strict=True)
            return np.array(
                [
                    given or _rates(flipped * of, cells * of, (1, 1), prior)[0, 0]
                    for of, given in parts
                ]
            )
        if self.given:
            return self.given[0]
        shape = {"shared": (1, 1), "component": (k, 1), "feature": (1, n)}[self.model]
        rates = _rates(flipped, cells, shape, prior)
        return float(rates[0, 0]) if self.model == "shared" else rates

    def objective(self, statistics: Statistics, mixture: Mixture) -> int:
        """ln L + ln of the prior, in units of 2^-42 nats over `weight_one`.

        `statistics` are those of an E step from `mixture`.
        """
        if self.prior == 0:
            return statistics.likelihood_units
        log_prior = statistics.mean_row_units
        if mixture.noise is not None:
            right, wrong = mixture.log_rates
            log_prior = int((right + wrong).sum()) >> 1
        prior = round(self.prior * 2.0**_PRIOR_BITS) * log_prior
        prior = prior << fixed.LIKELIHOOD_BITS >> (fixed.LOG_BITS + _PRIOR_BITS)
        return statistics.likelihood_units + statistics.weight_one * prior


def evidence(ones: Ints, cells: Ints, noise: Any) -> Any:
    """How much the cells speak for a template bit of 1: above 0, it is likelier than a 0.

    With one rate the majority decides, in whole numbers. With rates (α, β), a 1 speaks for it by
    ln((1-β)/α) and a 0 against it by ln((1-α)/β).
    """
    if np.shape(noise) != (2,):
        return 2 * ones - cells
    (zero_right, zero_wrong), (one_right, one_wrong) = (
        wide_log_rates(rate) for rate in noise.tolist()
    )
    return ones * ((one_right - zero_wrong) / 2.0**128) - (cells - ones) * (
        (zero_right - one_wrong) / 2.0**128
    )


def _best_bits(ones: Ints, cells: Ints, before: Mixture) -> NDArray[np.bool_]:
    lead = evidence(ones, cells, before.noise)
    of_column = evidence(ones.sum(axis=0), cells.sum(axis=0), before.noise)
    return np.where(cells > 0, (lead > 0) | ((lead == 0) & (of_column > 0)), before.means > 0.5)


def _rates(flipped: Ints, cells: Ints, shape: tuple[int, int], prior: float) -> Floats:
    """Flipped bits among the cells that share a rate, with `prior` more cells, half of them flipped.

    Sums are exact up to their last rounding. A sum over components is at most 2^61, as the
    responsibilities of a row add to one; over columns, high and low halves are summed apart.
    """
    axes = tuple(axis for axis in (0, 1) if shape[axis] == 1)

    def pooled(values: Ints) -> Floats:
        high = (values >> 31).sum(axis=axes, keepdims=True)
        low = (values & ((1 << 31) - 1)).sum(axis=axes, keepdims=True)
        return high * 2.0**31 + low

    wrong, total = pooled(flipped) + prior / 2, pooled(cells) + prior
    return _shares(wrong, total, 0.5).clip(MIN_PROBABILITY, 1 - MIN_PROBABILITY)


def _shares(part: Any, total: Any, otherwise: Any) -> Floats:
    """part / total, or `otherwise` where the total is 0."""
    empty = total == 0
    if not np.any(empty):
        return np.asarray(part / total, dtype=np.float64)
    return np.where(empty, otherwise, part / np.where(empty, 1, total))
