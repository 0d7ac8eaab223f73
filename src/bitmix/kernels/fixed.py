"""Fixed point: the units, and the proofs that nothing overflows.

Three units are in use.

* **Scores** ``ln(w_i f_i(x))`` are int64 in units of 2^-F nats, F = `score_bits`.
* **Shares** (posterior probabilities) are int64 in units of 2^-30: the shares of a row sum to
  exactly 2^30, so m ≤ 2^31 rows sum to at most 2^61.
* **Log-likelihoods** of a row are its best score and the logarithm of what the others add, in
  units of 2^-32 nats. Sums are Python's own integers, in units of 2^-42: no score is cut, and any
  way of adding gives the same.

``exp`` and ``log`` never come from the platform: they are sums, products and quotients of floats in
a fixed order (`reference.exps`, `reference.logs`). IEEE 754 rounds each of these to the nearest
float, so they are the same on every platform, as long as no compiler fuses a product and a sum.
NumPy cannot, and numba does not unless it is asked to. Below, an *exp unit* is 2^-31.

*exp(-g), g the gap of a score to the best of its row.* From g = 22 nats on it is 0 (true value
below 0.6 exp units). Otherwise it is **within 0.6 exp units**.

*Share of component i* among k: floor(2^30·e_i / Σe), the remainder to the best. With every e_i
within η = 2^-31 and Σe ≥ 1, a share other than the best is off by at most k·η + 2^-30, and the
best by the sum of these, at most (k-1)(2η + 2^-30). So **every share is within k·2^-28**
(`share_error`), given the integer scores.

*ln of the normaliser* Z = Σe ∈ [1, k] is within 2^-32. With the error (k-1)η of Z itself, **a
row's log-likelihood is within (k+1)·2^-29** (`likelihood_error`), given the integer scores.
"""

from functools import cache
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

SHARE_BITS = 30
EXP_BITS = 31
LOG_BITS = 32
CUT_NATS = 22
MAX_SCORE_BITS = 42
LIKELIHOOD_BITS = MAX_SCORE_BITS
LN2, PER_LN2 = 0.6931471805599453, 1.4426950408889634
"""ln 2 and 1 / ln 2 as floats."""
SHORT_LN2 = 0.6931471805599472
"""ln 2 in 46 bits: its multiples up to 32 are exact."""
MAX_COMPONENTS = 2**21
MAX_ROWS = 2**31

WIDE_BITS = 128
"""Fraction bits of exact logarithms; the tests compare them with `decimal`."""


@cache
def _wide_logs() -> tuple[int, ...]:
    """ln(1 + t/1024), t = 0 … 1024, in units of 2^-128."""
    return tuple(accumulate((_log_step(1024 + t) for t in range(1024)), initial=0))


def _log_step(t: int) -> int:
    """ln((t+1)/t) = 2·artanh(1/(2t+1)), by its series."""
    odd = 2 * t + 1
    power, total, j = (2 << WIDE_BITS) // odd, 0, 1
    while power:
        total += power // j
        power //= odd * odd
        j += 2
    return total


def wide_log(numerator: int, denominator: int) -> int:
    """ln of a ratio in units of 2^-128, within 2^-90; the denominator is a power of two.

    With x = 2^e·(1 + t/1024)·(1 + z)/(1 - z), |z| < 2^-11: what is left out of the series of
    2·artanh z is below z^9.
    """
    logs, bits = _wide_logs(), numerator.bit_length()
    lead = numerator << max(0, 11 - bits)
    edge = (lead >> (lead.bit_length() - 11)) << (lead.bit_length() - 11)
    t = (edge >> (edge.bit_length() - 11)) - 1024
    z = ((lead - edge) << WIDE_BITS) // (lead + edge)
    square = z * z >> WIDE_BITS
    series, power = z, z
    for odd in (3, 5, 7):
        power = power * square >> WIDE_BITS
        series += power // odd
    return (bits - denominator.bit_length()) * logs[-1] + logs[t] + 2 * series


def to_units(wide: Any, bits: int) -> Any:
    """From units of 2^-128 to the nearest whole number of units of 2^-bits; an integer of Python's,
    or an array of them.
    """
    cut = WIDE_BITS - bits
    return (wide + (1 << (cut - 1))) >> cut


def score_bits(bound_nats: int) -> int:
    """F, the most fraction bits for which scores up to `bound_nats` stay below 2^61.

    Then a gap between two scores stays below 2^62. F is also at most 42, so that ln((1-q)/q)·2^F,
    at most 745·2^42 for any float q, stays below 2^52 and is exact as a float.
    """
    return min(MAX_SCORE_BITS, 61 - bound_nats.bit_length())


def score_error(n_columns: int, bits: int) -> float:
    """Largest error of an integer score in nats: (n+1)·2^(1-F); see `Mixture.scores`."""
    return float((n_columns + 1) * 2.0 ** (1 - bits))


def total(values: Ints, counts: Ints | int = 1) -> int:
    """Σ values·counts of values below 2^61 in size, the counts adding to 2^31 at most.

    High and low halves are summed apart, so that neither overflows.
    """
    high, low = values >> 31, values & ((1 << 31) - 1)
    return (int((high * counts).sum()) << 31) + int((low * counts).sum())


def share_error(n_components: int) -> float:
    """Largest error of a share, given the integer scores: k·2^-28."""
    return float(n_components * 2.0**-28)


def likelihood_error(n_components: int) -> float:
    """Largest error of a row's log-likelihood in nats, given the integer scores: (k+1)·2^-29."""
    return float((n_components + 1) * 2.0**-29)
