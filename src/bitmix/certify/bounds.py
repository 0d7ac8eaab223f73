"""Bounds on probabilities for the certificate of a fit; functions of numbers only."""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from bitmix.theory.tails import TINY, Floats, bisect, log_upper_tail, upper_tail

_LONGEST_EXACT = 4_000
"""Up to this many columns, the law of a margin is computed exactly."""


def upper_limit(successes: int, trials: int, error: float) -> float:
    """Clopper–Pearson upper limit: it is below the true rate with probability `error` at most."""
    if trials < 1 or successes >= trials:
        return 1.0
    return float(stats.beta.isf(error, successes + 1, trials - successes))


def lower_limits(successes: ArrayLike, trials: ArrayLike, error: float) -> Floats:
    """Clopper–Pearson lower limits: each is too high with probability `error` at most."""
    v, M = np.asarray(successes, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    limits = stats.beta.ppf(error, np.maximum(v, 1), M - v + 1)
    return np.asarray(np.where(v > 0, limits, 0.0))


def interval(successes: int, trials: int, error: float) -> tuple[float, float]:
    """Two-sided Clopper–Pearson interval with coverage at least 1 - error."""
    low = float(lower_limits(successes, trials, error / 2))
    return low, upper_limit(successes, trials, error / 2)


def least_gap(m: int, n: int, p2: float, error: float) -> int:
    """ℓ(p2): the least L with C(m,2)·P(Bin(n, p2) ≥ L) ≤ error; n + 1 if even n is too likely."""
    log_pairs = math.log(max(1.0, m * (m - 1) / 2))

    def rare(gap: int) -> bool:
        return log_pairs + float(log_upper_tail(n, p2, gap)) <= math.log(error)

    return bisect(rare, 0, n + 1)  # P(Bin ≥ n+1) = 0


def columns_needed(m: int, n: int, gap: int, p2: float, error: float) -> int | None:
    """Estimate how many columns of the same kind would make the gap large enough.

    The gap is the least of about m²/4 distances, so it lies some z standard deviations below their
    mean; the mean grows with n, the deviation with √n. This is advice, not part of any proof.
    """
    z = float(stats.norm.isf(min(0.5, 4 / m**2)))
    spread = z * math.sqrt(p2 * (1 - p2))
    mean = (gap + spread * math.sqrt(n)) / n
    for factor in np.geomspace(1.05, 1000, 80):
        columns = math.ceil(n * float(factor))
        if least_gap(m, columns, p2, error) <= mean * columns - spread * math.sqrt(columns):
            return columns
    return None


def margin_needed(d: int, m: int, q: float, error: float) -> int:
    """g: the least margin on d columns that no true cluster reaches on both sides; d + 2 if none.

    If the template of a row agrees with template a on u of the d columns in which a and b differ,
    the row has a margin s = 2A - d, where A is a sum of u coins of rate 1 - q and d - u of rate q.
    P(s ≥ g) is log-concave in u, so P(s ≥ g)·P(s ≤ -g) is largest for u = d/2, and there it rises
    with q. So m(m-1) times that product bounds the probability that any true cluster has rows on
    both sides. Margins have the parity of d.
    """
    if q >= 0.5:
        return d + 2
    if d < 1 or m < 2:
        return d % 2 or 2
    needed = np.arange(d // 2 + 1, d + 1)  # agreements
    log_bound = math.log(m * (m - 1.0)) + _log_upper(d // 2, d, q) + _log_upper(-(-d // 2), d, q)
    enough = np.flatnonzero(log_bound[needed] <= math.log(error))
    return int(2 * needed[enough[0]] - d) if enough.size else d + 2


@lru_cache(64)
def _log_upper(u: int, d: int, q: float) -> Floats:
    """ln P(A ≥ h) for h = 0 … d, A ~ Bin(u, 1-q) + Bin(d-u, q); for large d by Chernoff's bound."""
    h = np.arange(d + 1)
    if d <= _LONGEST_EXACT:
        law = np.convolve(
            stats.binom.pmf(np.arange(u + 1), u, 1 - q),
            stats.binom.pmf(np.arange(d - u + 1), d - u, q),
        )
        return np.asarray(np.log(np.cumsum(law[::-1])[::-1] * (1 + 1e-9) + TINY))
    tilt = np.geomspace(1e-3, 20.0, 200)
    log_mgf = u * np.log(q + (1 - q) * np.exp(tilt)) + (d - u) * np.log1p(q * np.expm1(tilt))
    best = np.full(d + 1, 0.0)
    for t, value in zip(tilt.tolist(), log_mgf.tolist(), strict=True):
        best = np.minimum(best, value - t * h)
    return best


def wrong_vote(sizes: ArrayLike, votes: ArrayLike, rate: float) -> Floats:
    """P(Bin(M, rate) ≥ v): the probability that flips at this rate give a wrong bit v votes."""
    return upper_tail(sizes, min(rate, 0.5), votes)


def poisson_quantile(mean: float, error: float) -> int:
    """The least count that a Poisson variable of this mean exceeds with probability ≤ `error`."""
    return int(stats.poisson.isf(error, mean)) if mean > 0 else 0
