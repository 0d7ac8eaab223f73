"""Theorems 1 and 2 of the paper as a calculator.

Three readings. ``"printed"`` takes every formula as it stands in the paper. ``"corrected"`` mends
what the proofs do not carry (see "The paper in code" in the documentation): the sign of the
initialisation term, ε0 = min(E, √q(1 - 2k·e^(-ncB/2))) and the factor k-1 in the union bound.
``"kl"`` keeps ε0 = E and puts tails that hold for every ε0 (Kullback–Leibler, or h(u) for sums of
unequal coins) in place of the paper's Chernoff terms, and Theorem 2's last display unsimplified.
"""

import html
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from bitmix.theory.checks import count, unit
from bitmix.theory.tails import kl, log_choose, poisson_rate

Reading = Literal["printed", "corrected", "kl"]
READINGS = ("printed", "corrected", "kl")


@dataclass(frozen=True)
class Condition:
    """One inequality: `has` must reach `needs`."""

    name: str
    needs: float
    has: float
    holds: bool
    says: str
    """The inequality in words."""

    @property
    def slack(self) -> float:
        """has / needs: at least 1 where the condition holds."""
        return self.has / self.needs if self.needs > 0 else math.inf


@dataclass(frozen=True)
class Guarantee:
    """What the paper's theorems say at one parameter point."""

    n: int
    m: int
    k: int
    q: float
    c: float
    w_min: float
    delta: float
    epsilon: float
    reading: Reading
    n_seeds: float
    """l: real as in condition 1, or as given."""
    B: float
    E: float
    """Largest ε0 the propositions allow: the least of `E_terms`."""
    E_terms: tuple[float, float, float]
    epsilon0: float
    """ε0 as the reading takes it."""
    conditions: Mapping[str, Condition]
    """Conditions 1-4 of Theorem 1 and C1-C3."""
    hypotheses: Mapping[str, bool]
    """What the proofs use besides; each true where `holds`."""
    failure_terms: Mapping[str, float]
    """Theorem 2's failure probability, term by term."""
    failure_probability: float
    """Their sum: above 1 it says nothing."""
    excess: float
    """Theorem 2's bound on D(T_i, P_i) - D(mean(S_i), P_i), if nothing fails."""
    holds: bool
    """Whether Theorem 1 applies: all its conditions, and B > 0, E > 0."""

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        verdict = "holds" if self.holds else "does not hold"
        lines = [
            f"Theorem 1 ({self.reading} reading) {verdict} at n = {self.n:,}, m = {self.m:,}, "
            f"k = {self.k}, q = {self.q:g}, c = {self.c:g}, w_min = {self.w_min:g}, "
            f"δ = {self.delta:g}, ε = {self.epsilon:g}",
            f"l = {self.n_seeds:.1f}, B = {self.B:.4g}, E = {self.E:.4g}",
        ]
        for condition in self.conditions.values():
            mark = "✓" if condition.holds else "✗"
            lines.append(
                f"  {mark} {condition.name:>2}  {condition.says:<38} needs {condition.needs:12.6g}"
                f"   has {condition.has:12.6g}"
            )
        lines += [f"  ✗ {name}" for name, holds in self.hypotheses.items() if not holds]
        lines.append(f"Theorem 2: failure ≤ {self.failure_probability:.4g}")
        lines += [f"    {value:10.3g}  {name}" for name, value in self.failure_terms.items()]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def seeds_of(w_min: float, delta: float) -> float:
    """Condition 1: l = (4/w_min)·ln(2/(δ·w_min))."""
    return 4 / w_min * math.log(2 / (delta * w_min))


def B_of(q: float) -> float:
    """B = ½(1-2q)·ln(1/((1-q)(4q+√q))): positive for q < .20078 only."""
    return -0.5 * (1 - 2 * q) * math.log((1 - q) * (4 * q + math.sqrt(q)))


def E_terms_of(n: int, q: float, c: float, l: float) -> tuple[float, float, float]:
    """The three bounds on ε0 whose least is E."""
    root = math.sqrt(q)
    second = c * (1 - 2 * q) ** 2
    third = 0.75 * c * (1 - 2 * q) - 2 * q - 4 * math.sqrt(6 * q * l / n)
    return (
        0.25,
        second / 2 / (second + 2 * (1 - q) * (q + root)),
        third / (c * (1 - 2 * q) + q + root),
    )


def guarantee(
    n: int,
    m: int,
    k: int,
    q: float,
    c: float,
    w_min: float,
    delta: float = 0.1,
    epsilon: float = 0.1,
    *,
    n_seeds: int | None = None,
    reading: Reading = "corrected",
) -> Guarantee:
    """Evaluate Theorems 1 and 2 at one point.

    Parameters
    ----------
    n, m, k : int
        Columns, rows, templates.
    q : float
        Noise level, in (0, ½).
    c : float
        Separation: least distance between templates over n, in (0, 1].
    w_min : float
        Least weight, at most 1/k.
    delta, epsilon : float
        δ, the probability of failure, and ε, the excess error in units of q.
    n_seeds : int, optional
        l as used; by default condition 1's real number.
    reading : {"corrected", "printed", "kl"}

    Examples
    --------
    >>> from bitmix.theory import guarantee
    >>> g = guarantee(10_000, 300, 2, q=0.1, c=1.0, w_min=0.5)
    >>> g.holds, round(g.failure_probability, 4)
    (True, 0.0502)
    """
    n, m, k = count(n, "n"), count(m, "m"), count(k, "k")
    q, c = unit(q, "q", 0.5), unit(c, "c", 1.0, closed=True)
    w_min, delta = unit(w_min, "w_min", 1.0, closed=True), unit(delta, "delta", 1.0)
    epsilon = unit(epsilon, "epsilon", 1.0)
    if w_min * k > 1 + 1e-9:
        raise ValueError(f"w_min·k must be at most 1, got {w_min:g}·{k}: weights sum to 1")
    if reading not in READINGS:
        raise ValueError(f"reading must be one of {', '.join(READINGS)}, got {reading!r}")
    l = seeds_of(w_min, delta) if n_seeds is None else float(count(n_seeds, "n_seeds"))
    return _evaluate(_Point(n, m, k, q, c, w_min, delta, epsilon, reading, l))


@dataclass(frozen=True)
class _Point:
    """One parameter point, checked, with what follows from it at once."""

    n: int
    m: int
    k: int
    q: float
    c: float
    w: float
    delta: float
    epsilon: float
    reading: Reading
    l: float

    @property
    def B(self) -> float:
        return B_of(self.q)

    @property
    def ncB(self) -> float:
        return self.n * self.c * self.B

    @property
    def E_terms(self) -> tuple[float, float, float]:
        return E_terms_of(self.n, self.q, self.c, self.l)

    @property
    def e0(self) -> float:
        """ε0 as the reading takes it."""
        E = min(self.E_terms)
        if self.reading != "corrected":
            return E
        if self.B <= 0:
            return 0.0
        return max(0.0, min(E, math.sqrt(self.q) * (1 - 2 * self.k * math.exp(-self.ncB / 2))))

    @property
    def sound(self) -> bool:
        return self.B > 0 and self.e0 > 0


def _evaluate(p: _Point) -> Guarantee:
    terms = _failure_terms(p)
    total = math.fsum(terms.values()) if p.sound or p.reading == "printed" else math.inf
    excess = _excess(p)
    conditions = _conditions(p)
    hypotheses = {"B > 0": p.B > 0, "E > 0": min(p.E_terms) > 0}
    needed = ("1", "2", "3", "4")
    if p.reading != "printed":
        hypotheses |= _hypotheses(p)
    if p.reading == "kl":
        needed = ("1", "C1", "C2", "C3")
        hypotheses |= {
            "Theorem 2's failure ≤ δ": total <= p.delta,
            "Theorem 2's excess ≤ εq": excess <= p.epsilon * p.q,
        }
    holds = all(conditions[name].holds for name in needed) and all(hypotheses.values())
    return Guarantee(
        p.n, p.m, p.k, p.q, p.c, p.w, p.delta, p.epsilon, p.reading, p.l, p.B, min(p.E_terms),
        p.E_terms, p.e0, conditions, hypotheses, terms, total, excess, holds,
    )  # fmt: skip


def _failure_terms(p: _Point) -> dict[str, float]:
    """Theorem 2, term by term, in the order of its statement."""
    distances = _kl_terms(p) if p.reading == "kl" and p.sound else _chernoff_terms(p)
    lw = p.l * p.w
    return {
        "distances within a cluster": distances[0],
        "distances between clusters": distances[1],
        "distances to the own template": distances[2],
        "distances to other templates": distances[3],
        "cluster sizes": p.k * math.exp(-p.m * p.w / 8),
        "every cluster seeded twice": p.k * (p.l + 1) * math.exp(-lw),
        "no cluster seeded too often": p.k
        * math.exp(min(lw / 12, 700.0) if p.reading == "printed" else -lw / 4),
        "averages of subsets": p.k
        * (average_failure(p.n, p.m, p.q, p.l) if p.reading == "kl" else 1 / p.n),
    }


def _chernoff_terms(p: _Point) -> tuple[float, ...]:
    """The four distance terms as the paper writes them; "corrected" counts all k-1 others."""
    rate = p.n * p.e0**2 / 3
    near = math.exp(-min(p.c, 0.5) * rate)
    others = 1 if p.reading == "printed" else p.k - 1
    return (
        p.m**2 * math.exp(-2 * (1 - p.q) * rate),
        p.m**2 * near,
        2 * p.m * math.exp(-rate),
        2 * p.m * others * near,
    )


def _kl_terms(p: _Point) -> tuple[float, ...]:
    """The four distance terms with tails that hold for every ε0."""
    n, q, root, pair = p.n, p.q, math.sqrt(p.q), 2 * p.q * (1 - p.q)

    def coins(rate: float, spread: float) -> float:
        """P(|Bin(n, rate) - n·rate| ≥ n·spread)."""
        low = math.exp(-n * float(kl(rate - spread, rate))) if spread <= rate else 0.0
        high = math.exp(-n * float(kl(rate + spread, rate))) if rate + spread <= 1 else 0.0
        return low + high

    def unequal(mean: float) -> float:
        """P(|X - mean| ≥ ε0·mean) for a sum of unequal coins."""
        return sum(math.exp(-mean * float(poisson_rate(u))) for u in (p.e0, -p.e0))

    pairs = p.m * (p.m - 1) / 2
    return (
        pairs * coins(pair, pair * p.e0 / root),
        pairs * unequal(n * (pair + p.c * (1 - 2 * q) ** 2)),
        p.m * coins(q, p.e0 * root),
        p.m * (p.k - 1) * unequal(n * (q + p.c * (1 - 2 * q))),
    )


def average_failure(n: int, m: int, q: float, l: float) -> float:
    """Proposition 8's union over t-subsets, t = ⌊m/16l + 1⌋, at λ = √(6nql), by KL."""
    t = math.floor(m / (16 * l) + 1)
    mean = q + math.sqrt(6 * q * l / n)
    if mean > 1:
        return 0.0
    return math.exp(min(0.0, float(log_choose(m, t)) - t * n * float(kl(mean, q))))


def _excess(p: _Point) -> float:
    """Theorem 2's bound on D(T_i, P_i) - D(mean(S_i), P_i)."""
    if p.B <= 0:
        return math.inf
    if p.reading != "kl":
        return 5 / p.w * math.exp(-p.ncB / 4) * p.n * p.q
    wrong = math.exp(-p.ncB / 2)
    if p.k * wrong >= 1:
        return math.inf
    reach = p.q + max(p.e0, 0.0) * math.sqrt(p.q)
    return wrong * p.n * (p.k * reach + 2 / p.w) / (1 - p.k * wrong)


def _hypotheses(p: _Point) -> dict[str, bool]:
    """What the proofs use without asking for it; see the errata in the documentation."""
    reach = p.n * (p.q + p.c * (1 - 2 * p.q)) * (1 + max(p.e0, 0.0))
    seeds = p.k * (p.l + 1) * math.exp(-p.l * p.w) + p.k * math.exp(-p.l * p.w / 4)
    return {
        "ε0 > 0": p.e0 > 0,
        "l > k": p.l > p.k,
        "seeding fails with probability ≤ 7δ/12": seeds <= 7 * p.delta / 12 * (1 + 1e-12),
        "ncB(1-2q)/2 ≥ ln(n(q+c(1-2q))(1+ε0))": p.ncB * (1 - 2 * p.q) / 2 >= math.log(reach),
        "exp(-ncB/4) ≤ q": -p.ncB / 4 <= math.log(p.q),
        "k·exp(-ncB/2) < 1/3": -p.ncB / 2 < -math.log(3 * p.k),
    }


def _conditions(p: _Point) -> dict[str, Condition]:
    """Conditions 1-4 of Theorem 1, and C1-C3."""
    n, m, l, B, noise = p.n, p.m, p.l, p.B, 1 - 2 * p.q
    l_needed = seeds_of(p.w, p.delta)
    c1 = math.log(16 * l / min(6 * n * p.q, 1.0)) / (B * noise) if B else math.inf
    c2 = max(8 * l, 16 * math.log(n))
    c3 = max(1.0, 2 / (3 * noise)) * (4 * p.q + 8 * math.sqrt(6 * p.q * l / n))
    rows = max(c2, 8 / p.w * math.log(12 * p.k / p.delta))
    apart = 4 / (n * B) * math.log(5 * n / (p.epsilon * p.w)) if B else math.inf
    pairs = (m + 1) ** 2 if p.reading == "printed" else max((m + 1) ** 2, m * (m + p.k))
    wide = math.inf
    if p.e0:
        wide = 3 / (min(p.c, 0.5) * p.e0**2) * math.log(12 * pairs / p.delta)
    listed = (
        Condition("1", l_needed, l, l >= l_needed - 1e-9, "l = (4/w)·ln(2/δw)"),
        Condition("2", rows, m, m >= rows, "m ≥ max(8l, 16 ln n, 8/w·ln(12k/δ))"),
        _above("3", max(apart, c3, c1 / n), p.c, "c > max(4/nB·ln(5n/εw), C3, C1/n)"),
        _above("4", max(wide, 6 * p.k / p.delta), n, "n > 3/(min(c,½)ε0²)·ln(12(m+1)²/δ)"),
        _above("C1", c1, n * p.c, "nc > ln(16l/min(6nq,1))/(B(1-2q))"),
        _above("C2", c2, m, "m > max(16 ln n, 8l)"),
        _above("C3", c3, p.c, "c > max(1, 2/3(1-2q))(4q+8√(6ql/n))"),
    )
    return {condition.name: condition for condition in listed}


def _above(name: str, needs: float, has: float, says: str) -> Condition:
    return Condition(name, needs, has, has > needs, says)
