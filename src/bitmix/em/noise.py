"""The M step of `NoisyTemplates`: templates by majority, noise by what the majority leaves over.

The fit maximises, over templates, weights and noise,

    Σ_x ω_x·ln Σ_i w_i·Π_s (1-ν_is)^[x_s = P_is]·ν_is^[x_s ≠ P_is]  +  ln of the prior,

ω_x the weight of a row; a missing cell leaves out its factor. Given the shares of an E step, the
best template bit is the majority whatever the noise below ½, and the best noise level is the share
of what is wrong: so every step raises the objective, but for the rounding of the integers. The
prior only keeps every probability off 0 and 1:

* levels that cells share: a·Σ ln ν(1-ν), a = `PRIOR`, the sum over the levels. The best is
  (wrong + a) / (cells + 2a), as if one more cell had been half wrong.
* a level for each cell, that is, a free probability p of a 1: b·Σ μ_s·ln p_is + (1-μ_s)·ln(1-p_is),
  b = `CELL_PRIOR`, μ_s the share of ones of the column over all rows. The best is
  (ones + b·μ_s) / (cells + b): a tenth of a row is drawn towards the column. A column that is
  nearly always 0 is not thought of as a coin by a cluster of few rows.
"""

import math

import numpy as np
from numpy.typing import NDArray

from bitmix.em.step import Statistics
from bitmix.kernels import fixed
from bitmix.kernels.fixed import Ints
from bitmix.mixture import Floats
from bitmix.noisy import NoiseModel, NoisyTemplates, noise_shape

PRIOR = 0.5
"""a: pseudo-counts, in rows."""
CELL_PRIOR = 0.1
"""b: pseudo-counts, in rows."""


def maximise(
    statistics: Statistics, model: NoiseModel, templates: NDArray[np.uint8]
) -> NoisyTemplates:
    """The best mixture given the shares; a tie goes to the majority of its column over all rows,
    and cells without rows keep their template.
    """
    weights = statistics.mass / (statistics.n_rows << fixed.SHARE_BITS)
    ones, cells = statistics.sums, statistics.counts
    row = float(statistics.weight_one << fixed.SHARE_BITS)
    if model == "cell":
        prior, rates = CELL_PRIOR * row, column_rates(statistics)
        all_cells = cells + prior
        one = (ones + prior * rates) / all_cells
        zero = (cells - ones + prior * (1 - rates)) / all_cells
        return NoisyTemplates((one > zero).view(np.uint8), weights, np.minimum(one, zero))
    shape = noise_shape(model, *ones.shape)
    cells = np.broadcast_to(cells, ones.shape)
    lead = 2 * ones - cells
    by_column = (lead == 0) & (_pooled(lead, (1, lead.shape[1])) > 0)
    majority = np.where(cells > 0, (lead > 0) | by_column, templates).astype(np.uint8)
    wrong = np.minimum(ones, cells - ones)
    prior = PRIOR * row
    noise = (_pooled(wrong, shape) + prior) / (_pooled(cells, shape) + 2 * prior)
    return NoisyTemplates(majority, weights, noise)


def column_rates(statistics: Statistics) -> Floats:
    """μ_s, with one more cell that is half a one; the same for every E step on the same rows."""
    row = float(statistics.weight_one << fixed.SHARE_BITS)
    ones, cells = (values.sum(axis=0) for values in (statistics.sums, statistics.counts))
    rates: Floats = (ones + 0.5 * row) / (cells + row)
    return rates


def _pooled(values: Ints, shape: tuple[int, int]) -> Floats:
    """Sums over what shares a noise level, as floats; exact up to their last rounding.

    A sum over components is at most 2^61, as the shares of a row add to one. For sums over columns
    high and low halves are summed apart so that none overflows.
    """
    axes = tuple(axis for axis in (0, 1) if shape[axis] == 1)
    if axes == (0,):
        by_column: Floats = values.sum(axis=0, keepdims=True).astype(np.float64)
        return by_column
    high = (values >> 31).sum(axis=axes, keepdims=True)
    low = (values & ((1 << 31) - 1)).sum(axis=axes, keepdims=True)
    total: Floats = high * 2.0**31 + low
    return total


def log_prior(mixture: NoisyTemplates, model: NoiseModel, rates: Floats) -> float:
    """The last term of the objective; `rates` are the `column_rates`."""
    v = mixture.noise
    if model == "cell":
        wrong = np.where(mixture.templates == 1, 1 - rates, rates)
        return CELL_PRIOR * float((wrong * np.log(v) + (1 - wrong) * np.log1p(-v)).sum())
    return PRIOR * math.fsum((np.log(v) + np.log1p(-v)).ravel().tolist())
