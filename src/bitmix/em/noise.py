"""The M step of `NoisyTemplates`: templates by majority, noise by what the majority leaves over.

The fit maximises, over templates, weights and noise,

    Σ_x ω_x·ln Σ_i w_i·Π_s (1-ν_is)^[x_s = P_is]·ν_is^[x_s ≠ P_is]  +  a·Σ ln ν(1-ν),

ω_x the weight of a row, the last sum over the free noise levels, a = `PRIOR`; a missing cell leaves
out its factor. Given the shares of an E step, the best template bit is the majority whatever the
noise below ½, and the best noise level is (wrong + a) / (cells + 2a): so every step raises it, but
for the rounding of the integers. The prior is worth one cell that is half wrong for each noise
level: no probability is 0 or 1.
"""

import math

import numpy as np
from numpy.typing import NDArray

from bitmix.em.step import Statistics
from bitmix.kernels import fixed
from bitmix.kernels.fixed import Ints
from bitmix.mixture import Floats
from bitmix.noisy import NoisyTemplates

PRIOR = 0.5
"""a: pseudo-counts, in rows."""


def maximise(
    statistics: Statistics, shape: tuple[int, int], templates: NDArray[np.uint8]
) -> NoisyTemplates:
    """The best mixture given the shares; ties go to 0, cells without rows keep their template."""
    ones, cells = statistics.sums, np.broadcast_to(statistics.counts, statistics.sums.shape)
    majority = np.where(cells > 0, 2 * ones > cells, templates).astype(np.uint8)
    wrong = np.minimum(ones, cells - ones)
    prior = PRIOR * float(statistics.weight_one << fixed.SHARE_BITS)
    noise = (_pooled(wrong, shape) + prior) / (_pooled(cells, shape) + 2 * prior)
    total = statistics.n_rows << fixed.SHARE_BITS
    return NoisyTemplates(majority, statistics.mass / total, noise)


def _pooled(values: Ints, shape: tuple[int, int]) -> Floats:
    """Sums over what shares a noise level, as floats; exact up to their last rounding.

    A value is at most 2^61; high and low halves are summed apart so that no sum overflows.
    """
    axes = tuple(axis for axis in (0, 1) if shape[axis] == 1)
    high = (values >> 31).sum(axis=axes, keepdims=True)
    low = (values & ((1 << 31) - 1)).sum(axis=axes, keepdims=True)
    total: Floats = high * 2.0**31 + low
    return total


def log_prior(mixture: NoisyTemplates) -> float:
    """a·Σ ln ν(1-ν), the last term of the objective."""
    v = mixture.noise
    return PRIOR * math.fsum((np.log(v) + np.log1p(-v)).ravel().tolist())
