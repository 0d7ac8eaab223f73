"""Propositions 1-10 and Lemma 1 of the paper as functions, each within the range where it is true.

The numbers are those of the paper: 1-3 basic facts about distances, Lemma 1 and 4-5 averages,
6 initialisation, 7-8 the first round, 9 pruning, 10 the second round. A value outside the valid
range is a ValueError; the documentation lists what the printed statements claim beyond it.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize

from bitmix.theory.checks import count, positive, unit
from bitmix.theory.guarantee import B_of, E_terms_of
from bitmix.theory.tails import kl, log_choose, poisson_rate

CHERNOFF_RANGE = float(optimize.brentq(lambda u: float(poisson_rate(u)) - u * u / 3, 1.0, 3.0))
"""exp(-μu²/3) bounds P(X ≥ (1+u)μ) up to u = 1.817…, where h(u) = u²/3; beyond it does not."""


@dataclass(frozen=True)
class Moments:
    """Mean and variance of a distance."""

    mean: float
    variance: float


def distance_to_template(n: int, q: float) -> Moments:
    """Proposition 1.1: D(x, P) for x ~ P is Bin(n, q)."""
    n, q = count(n, "n"), unit(q, "q", 0.5)
    return Moments(n * q, n * q * (1 - q))


def distance_to_point(n: int, q: float, d: int) -> Moments:
    """Proposition 1.2: D(x, y) for x ~ P and a fixed binary y with D(P, y) = d."""
    n, q = count(n, "n"), unit(q, "q", 0.5)
    return Moments(n * q + _within(d, n) * (1 - 2 * q), n * q * (1 - q))


def distance_between(n: int, q: float, d: int) -> Moments:
    """Propositions 1.3 (d = 0) and 1.4: D(x, y) for x ~ P, y ~ Q with D(P, Q) = d."""
    n, q = count(n, "n"), unit(q, "q", 0.5)
    pair = 2 * q * (1 - q)
    return Moments(n * pair + _within(d, n) * (1 - 2 * q) ** 2, n * pair * (1 - pair))


def far_from_template(n: int, q: float, factor: float) -> float:
    """Proposition 2a: a bound on P(D(x, P) > λnq), λ = `factor`.

    The printed exp(-nq(λ-1)²/3) holds for λ - 1 ≤ 1.817; beyond it this returns exp(-nq·h(λ-1)),
    which is true for every λ ≥ 1.
    """
    n, q = count(n, "n"), unit(q, "q", 0.5)
    if factor < 1:
        raise ValueError(f"factor must be at least 1, got {factor!r}")
    u = factor - 1
    rate = u * u / 3 if u <= CHERNOFF_RANGE else float(poisson_rate(u))
    return math.exp(-n * q * rate)


def away_from_template(n: int, q: float, eps: float) -> float:
    """Proposition 2b: P(|D(x, P) - nq| > ε·n√q) ≤ 2·exp(-nε²/3), for ε ≤ 1.817√q."""
    n, q, eps = count(n, "n"), unit(q, "q", 0.5), positive(eps, "eps")
    _range(eps, "eps", CHERNOFF_RANGE * math.sqrt(q), "1.817·√q")
    return 2 * math.exp(-n * eps**2 / 3)


def away_from_mean(n: int, q: float, d: int, eps: float) -> float:
    """Proposition 2c: P(|D(x, y) - ν| > εν) ≤ 2·exp(-νε²/3) for x ~ P, y ~ Q, ε in (0, 1)."""
    eps = unit(eps, "eps", 1.0)
    return 2 * math.exp(-distance_between(n, q, d).mean * eps**2 / 3)


def all_distances(
    n: int, m: int, k: int, q: float, c: float, w_min: float, eps0: float
) -> dict[str, float]:
    """Proposition 3: the probability that a) … d) do not all hold, term by term, for ε0 ≤ √q.

    The third term's union runs over k-1 other templates (the printed one forgets them).
    """
    n, m, k = count(n, "n"), count(m, "m"), count(k, "k")
    q, c = unit(q, "q", 0.5), unit(c, "c", 1.0, closed=True)
    eps0 = positive(eps0, "eps0")
    _range(eps0, "eps0", math.sqrt(q), "√q")
    near = math.exp(-n * min(c, 0.5) * eps0**2 / 3)
    return {
        "a": m**2 * math.exp(-2 * n * (1 - q) * eps0**2 / 3),
        "b": m**2 * near,
        "c": 2 * m * math.exp(-n * eps0**2 / 3) + 2 * m * (k - 1) * near,
        "d": k * math.exp(-m * unit(w_min, "w_min", 1.0, closed=True) / 8),
    }


def mean_of_averages(n: int, m: int, q: float, excess: float) -> float:
    """Lemma 1: P(Σ_s Z_s - nq > λ) for averages Z of m coins, λ = `excess`.

    exp(-mλ²/3nq) for λ ≤ 1.817·nq as printed; beyond it the Kullback–Leibler bound.
    """
    n, m, q = count(n, "n"), count(m, "m"), unit(q, "q", 0.5)
    excess = positive(excess, "excess")
    if excess <= CHERNOFF_RANGE * n * q:
        return math.exp(-m * excess**2 / (3 * n * q))
    return math.exp(-m * n * float(kl(q + excess / n, q))) if excess <= n * (1 - q) else 0.0


def subset_averages(n: int, m: int, q: float, t: int, excess: float) -> float:
    """Proposition 4: P(some t or more of m rows average to D(μ, P) ≥ nq + λ), λ = `excess`.

    The union over C(m, t) subsets of Lemma 1; larger subsets follow by their t farthest members.
    """
    m, t = count(m, "m"), count(t, "t")
    if t > m:
        raise ValueError(f"t must be at most m = {m}, got {t}")
    tail = mean_of_averages(n, t, q, excess)
    return min(1.0, math.exp(float(log_choose(m, t)) + math.log(tail))) if tail > 0 else 0.0


def heaviest_subset(distances: ArrayLike, weights: ArrayLike) -> NDArray[np.intp]:
    """Proposition 5: ⌊Σw⌋ rows whose plain mean is at least as far as the weighted mean.

    `distances` are D(x, P); weights lie in [0, 1] and sum to at least 1. Returns row numbers.
    """
    far, w = np.asarray(distances, dtype=np.float64), np.asarray(weights, dtype=np.float64)
    if far.shape != w.shape or far.ndim != 1 or np.any((w < 0) | (w > 1)):
        raise ValueError("weights must be one number from 0 to 1 for each distance")
    size = math.floor(w.sum() + 1e-12)
    if size < 1:
        raise ValueError(f"weights must sum to at least 1, got {w.sum():g}")
    return np.argsort(-far, kind="stable")[:size]


def initialisation(l: int, k: int, w_min: float) -> dict[str, float]:
    """Proposition 6: the probability that some cluster has fewer than 2 seeds, or too many.

    At most 15/8·l·w_i seeds a cluster; the printed exp(+l·w/4) is exp(-l·w/4).
    """
    l, k, w = count(l, "l"), count(k, "k"), unit(w_min, "w_min", 1.0, closed=True)
    return {
        "fewer than two": k * (l + 1) * math.exp(-l * w),
        "more than 15/8·l·w": k * math.exp(-l * w / 4),
    }


def first_round_ratio(n: int, q: float, c: float) -> float:
    """Proposition 7: ln of the least ratio p_i'(x)/p_j'(x) after round 1, n·c·B·(1-2q)."""
    n, q, c = count(n, "n"), unit(q, "q", 0.5), unit(c, "c", 1.0, closed=True)
    return n * c * _positive_B(q) * (1 - 2 * q)


def first_round_distance(n: int, q: float, l: float) -> float:
    """Proposition 8: D(T_i'^(1), P_i) ≤ nq + 2√(6nql) for a survivor (the proof gives the 2)."""
    n, q, l = count(n, "n"), unit(q, "q", 0.5), positive(l, "l")
    return n * q + 2 * math.sqrt(6 * n * q * l)


def pruning_threshold(n: int, q: float, c: float, l: float) -> float:
    """Proposition 9: τ = nc/2 parts same-cluster survivors from others, if c > 4q + 8√(6ql/n)."""
    n, q, c = count(n, "n"), unit(q, "q", 0.5), unit(c, "c", 1.0, closed=True)
    needs = 4 * q + 8 * math.sqrt(6 * q * positive(l, "l") / n)
    if c <= needs:
        raise ValueError(f"c must exceed 4q + 8√(6ql/n) = {needs:g} (C3), got {c:g}")
    return n * c / 2


def second_round_ratio(n: int, q: float, c: float, l: float) -> float:
    """Proposition 10: ln of the least ratio p_i(x)/p_j(x) in round 2, n·c·B/2, if E > 0."""
    n, q, c = count(n, "n"), unit(q, "q", 0.5), unit(c, "c", 1.0, closed=True)
    E = min(E_terms_of(n, q, c, positive(l, "l")))
    if E <= 0:
        raise ValueError(f"E must be positive (C3), got {E:g}: more columns or more separation")
    return n * c * _positive_B(q) / 2


def _positive_B(q: float) -> float:
    B = B_of(q)
    if B <= 0:
        raise ValueError(f"B is positive for q < 0.20078 only, got q = {q:g}")
    return B


def _within(d: int, n: int) -> int:
    if not 0 <= d <= n:
        raise ValueError(f"d must lie in 0 … n = {n}, got {d!r}")
    return d


def _range(value: float, name: str, most: float, formula: str) -> None:
    if value > most * (1 + 1e-12):
        raise ValueError(f"{name} must be at most {formula} = {most:g}, got {value:g}")
