"""Tails of binomial laws that are never computed too small, so that sums are upper bounds.

Logarithms are natural. Functions named ``log_…`` return upper bounds of log-probabilities.
"""

import math
from collections.abc import Callable

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray
from scipy import special

Floats = NDArray[np.float64]

TINY = 1e-300
"""Added where a tail computed by SciPy may have underflowed to 0."""


def noise_of_pair(p2: float) -> float:
    """q ≤ ½ with 2q(1-q) = p2; ½ if there is none."""
    return 0.5 if p2 >= 0.5 else p2 / (1 + math.sqrt(1 - 2 * p2))


def kl(x: ArrayLike, p: ArrayLike) -> Floats:
    """KL(x‖p) between two coins, in nats; x may be 0 or 1."""
    x, p = np.asarray(x, dtype=np.float64), np.asarray(p, dtype=np.float64)
    return np.asarray(special.rel_entr(x, p) + special.rel_entr(1 - x, 1 - p))


def poisson_rate(u: ArrayLike) -> Floats:
    """h(u) = (1+u)·ln(1+u) - u for u ≥ -1: P(X ≥ (1+u)μ) ≤ exp(-μ·h(u)) for sums of coins."""
    u = np.asarray(u, dtype=np.float64)
    return np.asarray(special.xlog1py(1 + u, u) - u)


def upper_tail(n: ArrayLike, p: ArrayLike, at_least: ArrayLike) -> Floats:
    """P(Bin(n, p) ≥ at_least)."""
    return _bounded(scipy.stats.binom.sf(np.ceil(at_least) - 1, n, p))


def lower_tail(n: ArrayLike, p: ArrayLike, at_most: ArrayLike) -> Floats:
    """P(Bin(n, p) ≤ at_most)."""
    return _bounded(scipy.stats.binom.cdf(np.floor(at_most), n, p))


def log_upper_tail(n: int, p: float, at_least: ArrayLike) -> Floats:
    """ln P(Bin(n, p) ≥ at_least), by the law itself or, where that underflows, Chernoff's bound."""
    at_least = np.asarray(at_least, dtype=np.float64)
    with np.errstate(divide="ignore"):
        exact = scipy.stats.binom.logsf(np.ceil(at_least) - 1, n, p)
    rate = np.clip(at_least / n, p, 1.0)
    chernoff = np.where(at_least > n, -np.inf, -n * kl(rate, p))
    return np.asarray(np.where(exact > -650, np.minimum(exact, 0.0), chernoff))


def log_choose(n: ArrayLike, k: ArrayLike) -> Floats:
    """ln of the binomial coefficient."""
    n, k = np.asarray(n, dtype=np.float64), np.asarray(k, dtype=np.float64)
    return np.asarray(-special.betaln(n - k + 1, k + 1) - np.log1p(n))


def bisect(enough: Callable[[int], bool], low: int, high: int) -> int:
    """A number in (low, high] at which `enough` turns true, where it is true at `high`."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def window(n: int, p: float, miss: float = 1e-18) -> tuple[Floats, Floats, float]:
    """Values of Bin(n, p), their probabilities, and a bound on the omitted probability."""
    low = _where_rare(n, p, miss / 2, 0)
    high = _where_rare(n, p, miss / 2, n)
    values = np.arange(low, high + 1, dtype=np.float64)
    return values, scipy.stats.binom.pmf(values, n, p), miss


def coarse(values: Floats, chance: Floats, missed: float) -> tuple[Floats, Floats, float]:
    """The same window in at most 2,000 bins, each with the value of its upper end."""
    size = -(-len(values) // 2000)
    starts = np.arange(0, len(values), size)
    ends = np.minimum(starts + size, len(values)) - 1
    return values[ends], np.add.reduceat(chance, starts), missed


def _where_rare(n: int, p: float, miss: float, end: int) -> int:
    """The value nearest the mean, towards `end`, from which on Chernoff's bound is below `miss`."""
    near, far = round(n * p), end  # from `far` on it is rare enough, or there are no more values
    while abs(far - near) > 1:
        middle = (near + far) // 2
        if n * float(kl(middle / n, p)) >= -np.log(miss):
            far = middle
        else:
            near = middle
    return far


def _bounded(tail: Floats) -> Floats:
    return np.asarray(np.clip(tail + TINY, 0.0, 1.0))
