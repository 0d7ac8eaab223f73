"""Propositions 1-10 and Lemma 1 of the paper as functions, each limited to where it is true.

The numbers are those of the paper: 1-3 are basic facts about distances, Lemma 1 and 4-5 are about
averages, 6 about the seeds, 7-8 about the first round, 9 about pruning, 10 about the second round.
A value outside the valid range is an error; "The paper in code" in the documentation lists what the
printed statements claim beyond it. `bitmix.theory.guarantee` combines them.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bitmix.errors import InputError
from bitmix.theory.checks import count, positive
from bitmix.theory.tails import kl, log_choose, poisson_rate

CHERNOFF_RANGE = 1.8169605355364276
"""exp(-μu²/3) bounds P(X ≥ (1+u)μ) up to this u, where h(u) = u²/3, and not beyond."""


@dataclass(frozen=True)
class Moments:
    """Mean and variance of a distance."""

    mean: float
    variance: float


def distance_to_template(n: int, q: float) -> Moments:
    """Proposition 1.1: D(x, P) for x ~ P is Bin(n, q)."""
    return distance_to_point(n, q, 0)


def distance_to_point(n: int, q: float, d: int) -> Moments:
    """Proposition 1.2: D(x, y) for x ~ P and a fixed binary y with D(P, y) = d."""
    n, q = count(n, "n"), positive(q, "q", 0.5)
    return Moments(n * q + _within(d, n) * (1 - 2 * q), n * q * (1 - q))


def distance_between(n: int, q: float, d: int) -> Moments:
    """Propositions 1.3 (d = 0) and 1.4: D(x, y) for x ~ P, y ~ Q with D(P, Q) = d."""
    n, q = count(n, "n"), positive(q, "q", 0.5)
    pair = 2 * q * (1 - q)
    return Moments(n * pair + _within(d, n) * (1 - 2 * q) ** 2, n * pair * (1 - pair))


def far_from_template(n: int, q: float, factor: float) -> float:
    """Proposition 2a: a bound on P(D(x, P) > λnq), λ = `factor`.

    The printed exp(-nq(λ-1)²/3) holds for λ - 1 ≤ 1.817; beyond it this returns exp(-nq·h(λ-1)),
    which is true for every λ ≥ 1.
    """
    n, q = count(n, "n"), positive(q, "q", 0.5)
    if factor < 1:
        raise InputError(f"factor must be at least 1, got {factor!r}")
    u = factor - 1
    rate = u * u / 3 if u <= CHERNOFF_RANGE else float(poisson_rate(u))
    return math.exp(-n * q * rate)


def away_from_template(n: int, q: float, eps: float) -> float:
    """Proposition 2b: D(x, P) misses nq by more than ε·n√q with probability ≤ 2·exp(-nε²/3).

    This holds for ε ≤ 1.817√q.
    """
    n, q, eps = count(n, "n"), positive(q, "q", 0.5), positive(eps, "eps")
    _at_most(eps, "eps", CHERNOFF_RANGE * math.sqrt(q), "1.817·√q")
    return 2 * math.exp(-n * eps**2 / 3)


def away_from_mean(n: int, q: float, d: int, eps: float) -> float:
    """Proposition 2c: D(x, y) misses its mean ν by more than εν with probability ≤ 2·exp(-νε²/3).

    x ~ P and y ~ Q are rows of templates with D(P, Q) = d, and ε lies in (0, 1).
    """
    eps = positive(eps, "eps", 1.0)
    return 2 * math.exp(-distance_between(n, q, d).mean * eps**2 / 3)


def all_distances(
    n: int, m: int, k: int, q: float, c: float, w_min: float, eps0: float
) -> dict[str, float]:
    """Proposition 3: the probability that a) … d) do not all hold, term by term, for ε0 ≤ √q.

    The union bound for distances to other templates covers all k-1 of them; the printed one omits
    that factor.
    """
    n, m, k = count(n, "n"), count(m, "m"), count(k, "k")
    q, c = positive(q, "q", 0.5), positive(c, "c", 1.0, closed=True)
    w_min, eps0 = positive(w_min, "w_min", 1.0, closed=True), positive(eps0, "eps0")
    _at_most(eps0, "eps0", math.sqrt(q), "√q")
    return distance_terms(n, m, k, q, c, w_min, eps0, others=k - 1)


def distance_terms(
    n: int, m: int, k: int, q: float, c: float, w_min: float, eps0: float, *, others: int
) -> dict[str, float]:
    """The formulas of Proposition 3, wherever they are true; `others` is k-1, or 1 as printed."""
    rate = n * eps0**2 / 3
    near = math.exp(-min(c, 0.5) * rate)
    return {
        "distances within a cluster": m**2 * math.exp(-2 * (1 - q) * rate),
        "distances between clusters": m**2 * near,
        "distances to the own template": 2 * m * math.exp(-rate),
        "distances to other templates": 2 * m * others * near,
        "cluster sizes": k * math.exp(-m * w_min / 8),
    }


def mean_of_averages(n: int, m: int, q: float, excess: float) -> float:
    """Lemma 1: a bound on P(Σ_s Z_s - nq > λ) for averages Z of m coins, λ = `excess`.

    It is exp(-mλ²/3nq) for λ ≤ 1.817·nq as printed, and the Kullback–Leibler bound beyond.
    """
    n, m, q = count(n, "n"), count(m, "m"), positive(q, "q", 0.5)
    excess = positive(excess, "excess")
    if excess <= CHERNOFF_RANGE * n * q:
        return math.exp(-m * excess**2 / (3 * n * q))
    return math.exp(-m * n * float(kl(q + excess / n, q))) if excess <= n * (1 - q) else 0.0


def subset_averages(n: int, m: int, q: float, t: int, excess: float) -> float:
    """Proposition 4: P(some t or more of m rows average to D(μ, P) ≥ nq + λ), λ = `excess`.

    It is Lemma 1 with a union over C(m, t) subsets; larger subsets follow by their t farthest
    members.
    """
    m, t = count(m, "m"), count(t, "t")
    if t > m:
        raise InputError(f"t must be at most m = {m}, got {t}")
    tail = mean_of_averages(n, t, q, excess)
    return min(1.0, math.exp(float(log_choose(m, t)) + math.log(tail))) if tail > 0 else 0.0


def heaviest_subset(distances: ArrayLike, weights: ArrayLike) -> NDArray[np.intp]:
    """Proposition 5: ⌊Σw⌋ rows whose plain mean is at least as far as the weighted mean.

    `distances` are D(x, P); weights lie in [0, 1] and sum to at least 1. Returns row numbers.
    """
    far, w = np.asarray(distances, dtype=np.float64), np.asarray(weights, dtype=np.float64)
    if far.shape != w.shape or far.ndim != 1 or np.any((w < 0) | (w > 1)):
        raise InputError("weights must be one number from 0 to 1 for each distance")
    size = math.floor(w.sum() + 1e-12)
    if size < 1:
        raise InputError(f"weights must sum to at least 1, got {w.sum():g}")
    return np.argsort(-far, kind="stable")[:size]


def initialisation(l: float, k: int, w_min: float) -> dict[str, float]:
    """Proposition 6: the probability that some cluster has fewer than 2 seeds, or too many.

    Too many are more than 15/8·l·w_i. The printed exp(+l·w/4) is exp(-l·w/4).
    """
    l, k, w = positive(l, "l"), count(k, "k"), positive(w_min, "w_min", 1.0, closed=True)
    return {
        "every cluster seeded twice": k * (l + 1) * math.exp(-l * w),
        "no cluster seeded too often": k * math.exp(-l * w / 4),
    }


def B(q: float) -> float:
    """B = ½(1-2q)·ln(1/((1-q)(4q+√q))), which is positive for q < .20078 only."""
    q = positive(q, "q", 0.5)
    return -0.5 * (1 - 2 * q) * math.log((1 - q) * (4 * q + math.sqrt(q)))


def first_round_ratio(n: int, q: float, c: float) -> float:
    """Proposition 7: ln of the least ratio p_i'(x)/p_j'(x) after round 1, n·c·B·(1-2q)."""
    n, c = count(n, "n"), positive(c, "c", 1.0, closed=True)
    return n * c * _positive_B(q) * (1 - 2 * q)


def first_round_distance(n: int, q: float, l: float) -> float:
    """Proposition 8: D(T_i'^(1), P_i) ≤ nq + 2√(6nql) for a survivor (the proof gives the 2)."""
    n, q, l = count(n, "n"), positive(q, "q", 0.5), positive(l, "l")
    return n * q + 2 * math.sqrt(6 * n * q * l)


def pruning_separation(n: int, q: float, l: float) -> float:
    """4q + 8√(6ql/n): Proposition 9 needs a larger separation c."""
    n, q, l = count(n, "n"), positive(q, "q", 0.5), positive(l, "l")
    return 4 * q + 8 * math.sqrt(6 * q * l / n)


def pruning_threshold(n: int, q: float, c: float, l: float) -> float:
    """Proposition 9: nc/2 separates survivors of one cluster from others, if c > 4q + 8√(6ql/n)."""
    c, needs = positive(c, "c", 1.0, closed=True), pruning_separation(n, q, l)
    if c <= needs:
        raise InputError(f"c must exceed 4q + 8√(6ql/n) = {needs:g} (C3), got {c:g}")
    return n * c / 2


def E_terms(n: int, q: float, c: float, l: float) -> tuple[float, float, float]:
    """The three bounds on ε0 whose least is E."""
    n, q, l = count(n, "n"), positive(q, "q", 0.5), positive(l, "l")
    c, root = positive(c, "c", 1.0, closed=True), math.sqrt(q)
    second = c * (1 - 2 * q) ** 2
    third = 0.75 * c * (1 - 2 * q) - 2 * q - 4 * math.sqrt(6 * q * l / n)
    return (
        0.25,
        second / 2 / (second + 2 * (1 - q) * (q + root)),
        third / (c * (1 - 2 * q) + q + root),
    )


def second_round_ratio(n: int, q: float, c: float, l: float) -> float:
    """Proposition 10: ln of the least ratio p_i(x)/p_j(x) in round 2, n·c·B/2, if E > 0."""
    E = min(E_terms(n, q, c, l))
    if E <= 0:
        raise InputError(f"E must be positive (C3), got {E:g}: more columns or more separation")
    return n * c * _positive_B(q) / 2


def _positive_B(q: float) -> float:
    value = B(q)
    if value <= 0:
        raise InputError(f"B is positive for q < 0.20078 only, got q = {q:g}")
    return value


def _within(d: int, n: int) -> int:
    if not 0 <= d <= n:
        raise InputError(f"d must lie in 0 … n = {n}, got {d!r}")
    return d


def _at_most(value: float, name: str, most: float, formula: str) -> None:
    if value > most * (1 + 1e-12):
        raise InputError(f"{name} must be at most {formula} = {most:g}, got {value:g}")
