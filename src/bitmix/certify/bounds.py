"""The probabilities behind the certificate of a fit: numbers in, numbers out."""

import math

import numpy as np
from scipy import stats

from bitmix.theory.tails import Floats, log_upper_tail, upper_tail


def upper_limit(successes: int, trials: int, error: float) -> float:
    """Clopper–Pearson upper limit: it is below the true rate with probability `error` at most."""
    if trials < 1 or successes >= trials:
        return 1.0
    return float(stats.beta.ppf(1 - error, successes + 1, trials - successes))


def interval(successes: int, trials: int, error: float) -> tuple[float, float]:
    """Two-sided Clopper–Pearson interval with coverage at least 1 - error."""
    low = 0.0
    if successes > 0:
        low = float(stats.beta.ppf(error / 2, successes, trials - successes + 1))
    return low, upper_limit(successes, trials, error / 2)


def least_gap(m: int, n: int, p2: float, error: float) -> int:
    """ℓ(p2): the least L with C(m,2)·P(Bin(n, p2) ≥ L) ≤ error; n + 1 if even n is too likely."""
    log_pairs = math.log(max(1.0, m * (m - 1) / 2))
    low, high = 0, n + 1  # P(Bin ≥ n+1) = 0
    while high - low > 1:
        middle = (low + high) // 2
        if log_pairs + float(log_upper_tail(n, p2, middle)) <= math.log(error):
            high = middle
        else:
            low = middle
    return high


def columns_needed(m: int, n: int, gap: int, p2: float, error: float) -> int | None:
    """About how many columns of the same kind would make the gap large enough.

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


def outvoted(sizes: Floats, n: int, q: float) -> float:
    """n·Σ_i P(Bin(M_i, q) ≥ M_i/2): a bound on P(some majority is wrong) at noise q or less."""
    return float(n * np.sum(upper_tail(sizes, min(q, 0.5), sizes / 2)))


def overturned(sizes: Floats, votes: Floats, n: int) -> float:
    """n·k·max P(Bin(M_i, ½) ≥ v_i), v_i the weakest majority: needs no common noise level."""
    return float(n * len(sizes) * np.max(upper_tail(sizes, 0.5, votes)))


def poisson_quantile(mean: float, error: float) -> int:
    """The least count that a Poisson variable of this mean exceeds with probability ≤ `error`."""
    return int(stats.poisson.isf(error, mean)) if mean > 0 else 0
