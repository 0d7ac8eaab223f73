"""The events behind the sharper certificate, each with an upper bound on its probability.

The proofs are in the documentation, under "Certificates and their proofs". As there, W = m/4l is
the mass that a seed needs to survive step 5, r bounds the total mass that round 1 gives to seeds of
wrong clusters, t ≤ ⌊W - r⌋ is the least number of rows that a survivor averages, s = (r/W)·Dmax
bounds the change of a distance by wrong mass, and λ0 = ln a0 is the least log-odds of a bit.
"""

import itertools
import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy import special

from bitmix.theory.tails import (
    Floats,
    bisect,
    coarse,
    kl,
    log_choose,
    log_upper_tail,
    lower_tail,
    noise_of_pair,
    upper_tail,
    window,
)

LONGEST_EXACT_LAW = 50_000
"""Up to this many columns the law of a gap is computed exactly; beyond, by Chernoff's bound."""
_MOST_SUBSETS_EXACT = 12
_TILTS = np.geomspace(1e-4, 12.0, 120)


@dataclass(frozen=True)
class Point:
    """One parameter point with checked values."""

    n: int
    m: int
    q: float
    distances: NDArray[np.int64]
    weights: Floats
    l: int

    @property
    def k(self) -> int:
        return len(self.weights)

    @property
    def W(self) -> float:
        return self.m / (4 * self.l)

    @property
    def pair(self) -> float:
        """p2 = 2q(1-q): the probability that two rows of one template differ in a column."""
        return 2 * self.q * (1 - self.q)


def missed_cluster(point: Point) -> float:
    """E0: some cluster has no seed. Labels of seeds are independent draws."""
    k, l, w = point.k, point.l, point.weights
    if k > _MOST_SUBSETS_EXACT:
        return float(min(1.0, np.sum((1 - w) ** l)))
    total = 0.0
    for size in range(1, k):
        for subset in itertools.combinations(range(k), size):
            total += (-1) ** (size + 1) * max(0.0, 1 - w[list(subset)].sum()) ** l
    return float(min(1.0, max(total, 0.0) + 1e-15))


def noise_candidates(point: Point, delta: float) -> list[tuple[int, float]]:
    """E1: thresholds U0 for the distance of the closest pair of seeds, and P(it is larger).

    Given the labels there are at least ⌈(l-k)/2⌉ disjoint pairs of seeds from one cluster.
    """
    pairs = -(-(point.l - point.k) // 2)
    if pairs < 1:
        return []
    candidates: dict[int, float] = {}
    for target in (delta * 1e-1, delta * 1e-2, delta * 1e-3, delta * 1e-5, delta * 1e-8):
        U0 = max(1, int(scipy.stats.binom.isf(target ** (1 / pairs), point.n, point.pair)))
        if point.n / 2 - 0.25 > U0:
            candidates[U0] = float(upper_tail(point.n, point.pair, U0 + 1) ** pairs)
    return list(candidates.items())


def log_odds(U0: float, n: int) -> float:
    """λ0 = ln((1-q0)/q0) for q0(1-q0) = U0/2n, as step 2 takes it."""
    q0 = noise_of_pair(U0 / n)
    return math.log((1 - q0) / q0)


def wrong_responsibility(n: int, d: int, q: float, lam: float) -> float:
    """E min(1, a^-gap), which bounds the mean responsibility of z for x in round 1.

    gap = D(x, z) - D(x, y) for x, y of one template and z of one at distance d: a sum of
    n - d steps of ±1 with probability q(1-q) each and d steps of +1 with 1-3q(1-q), -1 with q(1-q).
    The law is computed by FFT after tilting, so that small values keep their digits.
    """
    r = q * (1 - q)

    def log_mgf(theta: float) -> float:
        up, down = math.exp(-theta), math.exp(theta)
        return (n - d) * math.log1p(r * (up + down - 2)) + d * math.log(
            (1 - 3 * r) * up + 2 * r + r * down
        )

    most = min(lam, 30.0)
    theta = float(scipy.optimize.minimize_scalar(log_mgf, bounds=(0.0, most), method="bounded").x)
    if n > LONGEST_EXACT_LAW:
        return min(1.0, math.exp(log_mgf(theta)))
    size = 2 * n + 1
    wave = np.exp(2j * np.pi * np.arange(size // 2 + 1) / size)
    up, down = math.exp(-theta), math.exp(theta)
    common = (1 - 2 * r) + r * (up * wave + down / wave)
    differ = 2 * r + (1 - 3 * r) * up * wave + r * down / wave
    spectrum = (common / (1 + r * (up + down - 2))) ** (n - d) * (
        differ / ((1 - 3 * r) * up + 2 * r + r * down)
    ) ** d
    tilted = np.fft.irfft(np.conj(spectrum), size)
    gap = np.concatenate([np.arange(n + 1), np.arange(-n, 0)])
    inner = float(
        np.sum(np.maximum(tilted, 0) * np.exp(np.minimum(theta * gap, (theta - lam) * gap)))
    )
    return min(1.0, math.exp(log_mgf(theta)) * min(1.0, inner + 1e-11))


def expected_wrong_mass(point: Point, lam: float) -> float:
    """E2: E[total wrong mass of round 1; E0 and E1], for Markov's inequality."""
    w, responsibility = point.weights, {}
    total = 0.0
    for i, j in itertools.permutations(range(point.k), 2):
        d = int(point.distances[i, j])
        if d not in responsibility:
            responsibility[d] = wrong_responsibility(point.n, d, point.q, lam)
        total += w[i] * w[j] * responsibility[d]
    return float(point.l * (point.m - 1) * total)


def farthest_pair(point: Point, budget: float) -> tuple[int, float]:
    """Dmax and a bound (≤ budget) on P(two rows are farther apart); otherwise n and 0."""
    d = int(point.distances.max())
    mean = point.pair + d / point.n * (1 - 2 * point.q) ** 2
    log_pairs = math.log(max(1.0, point.m * (point.m - 1) / 2))

    def log_tail(x: int) -> float:
        return log_pairs - point.n * float(kl(min(1.0, (x + 1) / point.n), mean))

    least = min(point.n, math.ceil(mean * point.n))
    most = bisect(lambda x: log_tail(x) <= math.log(budget), least - 1, point.n)
    return (point.n, 0.0) if most == point.n else (most, math.exp(log_tail(most)))


def starved_cluster(point: Point, r: float, t: int) -> float:
    """E3: all seeds of some cluster starve, |S_i| - r < N_i·W, or it has t rows or fewer."""
    total = 0.0
    for w in point.weights:
        seeds, chance, missed = coarse(*window(point.l, float(w)))
        # More seeds need more rows, so a bin may take the value of its upper end. No seed is E0.
        needed = seeds * max(point.W - 1, 0.0) + r
        short = lower_tail(point.m - point.l, w, np.ceil(needed) - 1)
        short = np.where(seeds == 0, 0.0, short)
        total += float(np.sum(chance * short)) + missed + float(lower_tail(point.m, w, t))
    return total


def stray_rows(point: Point, t: int, need: float) -> float:
    """E4: expected number of rows less than `need` bits nearer to a t-mean of their own cluster.

    For x of cluster i this compares the mean of its t smallest distances into S_j with that of its
    t largest into S_i: Chernoff's bound given the flips f of x on the d differing columns, with a
    union over pairs of t-subsets.
    """
    if point.m - 1 < 2 * t:
        return math.inf
    subsets = _log_disjoint(point.m - 1, t)
    total = 0.0
    chances: dict[tuple[int, float], float] = {}
    for i, j in itertools.permutations(range(point.k), 2):
        d, both = int(point.distances[i, j]), float(point.weights[i] * point.weights[j])
        if (d, both) not in chances:
            chances[d, both] = _stray_chance(point, d, t, need, subsets + t * math.log(both))
        total += point.weights[i] * chances[d, both]
    return float(point.m * total)


def _stray_chance(point: Point, d: int, t: int, need: float, log_count: float) -> float:
    # The exponent rises with f for every tilt (its slope is 2(τ + ln α - ln α') > 0 as q < ½), so
    # a bin of flips may take the value of its upper end.
    flips, chance, missed = coarse(*window(d, point.q))
    tau = _TILTS[:, None]
    down = np.log1p(point.q * np.expm1(-tau))
    up = np.log1p(point.q * np.expm1(tau))
    exponent = t * (
        (point.n - d) * (down + up)
        + (d - flips) * (2 * up - tau)
        + flips * (2 * down + tau)
        + tau * need
    )
    best = np.minimum(0.0, log_count + exponent.min(axis=0))
    return float(np.sum(chance * np.exp(best)) + missed)


def wrong_selection(point: Point, t: int, s: float) -> float:
    """E5, step 6 in ℓ1: two survivors of one cluster as far apart as two of different clusters."""
    if point.m < 2 * t:
        return math.inf
    n, q = point.n, point.q
    log_law = _log_spread(t, q)
    spread = np.arange(t + 1)
    tau = _TILTS
    log_mgf = n * (special.logsumexp(np.multiply.outer(tau, spread) + log_law, axis=1) + 1e-15)
    typical = n * float(np.exp(log_law) @ spread) / t
    d_least = int(_off_diagonal(point.distances).min())
    if typical >= d_least:
        return math.inf
    theta = np.linspace(typical, d_least, 80)[1:-1]
    log_within = np.logaddexp.reduce(
        [_log_overlapping(point.m, t, float(w)) for w in point.weights]
    )
    within = log_within + (log_mgf[:, None] - np.multiply.outer(tau, t * theta)).min(axis=0)
    between = np.full(len(theta), -np.inf)
    subsets = _log_disjoint(point.m, t)
    for i, j in itertools.combinations(range(point.k), 2):
        d = int(point.distances[i, j])
        count = subsets + t * math.log(point.weights[i] * point.weights[j])
        need = np.ceil(t * (d - theta - 2 * s) - 1e-9)
        tail = np.where(need <= 0, 0.0, log_upper_tail(2 * t * d, q, np.maximum(need, 1)))
        between = np.logaddexp(between, count + tail)
    return float(np.exp(np.minimum(np.logaddexp(within, between).min(), 1.0)))


def wrong_bit(point: Point, h: int) -> float:
    """E6: some bit of some template has (|S_i| - h - ½)/2 flips or more."""
    total = 0.0
    for w in point.weights:
        sizes, chance, missed = window(point.m, float(w))
        if len(sizes) <= LONGEST_EXACT_LAW // 2:
            wrong = upper_tail(sizes, point.q, (sizes - h - 0.5) / 2)
            total += min(1.0, float(np.sum(chance * np.minimum(1.0, point.n * wrong)))) + missed
        else:
            rate = max(point.q, 0.5 - (h + 0.5) / (2 * sizes[0]))
            total += point.n * math.exp(-sizes[0] * float(kl(rate, point.q))) + missed
    return total


def _log_disjoint(m: int, t: int) -> float:
    """ln of the number of ordered pairs of disjoint t-subsets of m rows."""
    return float(np.sum(np.log(m - np.arange(2.0 * t))) - 2 * special.gammaln(t + 1))


def _log_overlapping(m: int, t: int, w: float) -> float:
    """ln E of the number of unordered pairs of different t-subsets of a cluster of weight w."""
    shared = np.arange(max(0, 2 * t - m), t)
    falling = np.concatenate([[0.0], np.cumsum(np.log(m - np.arange(2.0 * t)))])  # ln m!/(m-j)!
    log_pairs = (
        falling[2 * t - shared]
        - special.gammaln(shared + 1)
        - 2 * special.gammaln(t - shared + 1)
        + (2 * t - shared) * math.log(w)
    )
    return float(special.logsumexp(log_pairs) - math.log(2))


@cache
def _log_spread(t: int, q: float) -> Floats:
    """ln P(|Bin(t, q) - Bin'(t, q)| = x), x = 0 … t, in logarithms so that nothing underflows."""
    law = scipy.stats.binom.logpmf(np.arange(t + 1), t, q)
    either = [special.logsumexp(law[: t + 1 - x] + law[x:]) for x in range(t + 1)]
    return np.array(either) + np.where(np.arange(t + 1) > 0, math.log(2), 0.0)


def _off_diagonal(d: NDArray[np.int64]) -> NDArray[np.int64]:
    return d[~np.eye(len(d), dtype=bool)]


def wrong_hamming_selection(point: Point, t: int, s: float) -> float:
    """E5, step 6 in expected Hamming distance: no threshold separates within from between.

    Within a cluster the two t-subsets may have rows in common. Per column e^(τ(S + T - 2ST)) is
    submodular in (S, T) for tilts τ up to 2, so common rows only lower the moment function of
    disjoint subsets: hence tilts up to 2 there.
    """
    if point.m < 2 * t:
        return math.inf
    n, q = point.n, point.q
    values = np.arange(t + 1) / t
    law = np.multiply.outer(*[scipy.stats.binom.pmf(np.arange(t + 1), t, q)] * 2).ravel()
    S, T = (grid.ravel() for grid in np.meshgrid(values, values, indexing="ij"))
    common = S + T - 2 * S * T
    typical = n * float(law @ common)
    least = int(_off_diagonal(point.distances).min())
    top = (n - least) * float(law @ common) + least * float(law @ (1 - common))
    if typical >= top:
        return math.inf
    theta = np.linspace(typical, top, 60)[1:-1]
    low = _TILTS[_TILTS <= 2]
    rise = n * np.log(np.exp(np.multiply.outer(low, common)) @ law)
    log_within = np.logaddexp.reduce(
        [
            np.logaddexp(
                _log_overlapping(point.m, t, float(w)),
                float(log_choose(point.m, t))
                + t * math.log(w),  # also a subset with itself, as H(A, A) > 0
            )
            for w in point.weights
        ]
    )
    within = log_within + (rise[:, None] - np.multiply.outer(low, theta)).min(axis=0)
    fall_common = np.log(np.exp(-np.multiply.outer(_TILTS, common)) @ law)
    fall_differ = np.log(np.exp(-np.multiply.outer(_TILTS, 1 - common)) @ law)
    between = np.full(len(theta), -np.inf)
    for i, j in itertools.combinations(range(point.k), 2):
        d = int(point.distances[i, j])
        count = _log_disjoint(point.m, t) + t * math.log(point.weights[i] * point.weights[j])
        fall = (n - d) * fall_common + d * fall_differ
        tail = (fall[:, None] + np.multiply.outer(_TILTS, theta + 2 * s)).min(axis=0)
        between = np.logaddexp(between, count + np.minimum(tail, 0.0))
    return float(np.exp(np.minimum(np.logaddexp(within, between).min(), 1.0)))
