"""Theorems 1 and 2 of the paper as a calculator.

There are two readings. ``"corrected"``, the default, corrects what the proofs do not support (see
"The paper in code" in the documentation): the sign of the initialisation term, ε0 =
min(E, √q(1 - 2k·e^(-ncB/2))), the factor k-1 in the union bound, and assumptions that the proofs
use but the theorem does not state. ``"printed"`` uses every formula as printed, for comparison with
the paper.
"""

import html
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from decimal import Context, Decimal, localcontext
from functools import cached_property
from typing import Any, Literal

from bitmix.errors import InputError
from bitmix.theory import propositions
from bitmix.theory.checks import count, positive

Reading = Literal["corrected", "printed"]
READINGS = ("corrected", "printed")
THEOREM_1 = ("1", "2", "3", "4")
"""Names of the conditions of Theorem 1; C1-C3 are those of the propositions."""


@dataclass(frozen=True)
class Condition:
    """One inequality: `has` must reach `needs`."""

    name: str
    needs: float
    has: float
    holds: bool
    says: str
    """The inequality as a formula."""

    @property
    def slack(self) -> float:
        """has / needs: at least 1 if the condition holds."""
        return self.has / self.needs if self.needs > 0 else math.inf


@dataclass(frozen=True)
class Guarantee:
    """The paper's theorems at one parameter point."""

    n: int
    m: int
    k: int
    q: float
    c: float
    w_min: float
    delta: float
    epsilon: float
    n_seeds: float
    """l: the real number of condition 1, or as given."""
    reading: Reading

    @cached_property
    def B(self) -> float:
        return propositions.B(self.q)

    @cached_property
    def E_terms(self) -> tuple[float, float, float]:
        """The three bounds on ε0 that the propositions need."""
        return propositions.E_terms(self.n, self.q, self.c, self.n_seeds)

    @property
    def E(self) -> float:
        """Largest ε0 that the propositions allow: the least of `E_terms`."""
        return min(self.E_terms)

    @cached_property
    def epsilon0(self) -> float:
        """ε0: E as printed; corrected, at most √q(1 - 2k·e^(-ncB/2)) as well."""
        if self.reading == "printed":
            return self.E
        if self.B <= 0:
            return 0.0
        most = math.sqrt(self.q) * (1 - 2 * self.k * math.exp(-self._ncB / 2))
        return max(0.0, min(self.E, most))

    @cached_property
    def conditions(self) -> Mapping[str, Condition]:
        """Conditions 1-4 of Theorem 1, and C1-C3."""
        n, m, l, w, B, signal = self.n, self.m, self.n_seeds, self.w_min, self.B, 1 - 2 * self.q
        l_needed = float(seeds_needed(w, self.delta))
        c1 = math.log(16 * l / min(6 * n * self.q, 1.0)) / (B * signal) if B else math.inf
        c2 = max(8 * l, 16 * math.log(n))
        c3 = max(1.0, 2 / (3 * signal)) * propositions.pruning_separation(n, self.q, l)
        rows = max(c2, 8 / w * math.log(12 * self.k / self.delta))
        apart = 4 / (n * B) * math.log(5 * n / (self.epsilon * w)) if B else math.inf
        pairs = (m + 1) ** 2
        if self.reading == "corrected":
            pairs = max(pairs, m * (m + self.k))
        columns = math.inf
        if self.epsilon0:
            columns = 3 / (min(self.c, 0.5) * self.epsilon0**2) * math.log(12 * pairs / self.delta)
        listed = (
            Condition("1", l_needed, l, l >= l_needed - 1e-9, "l = (4/w)·ln(2/δw)"),
            Condition("2", rows, m, m >= rows, "m ≥ max(8l, 16 ln n, 8/w·ln(12k/δ))"),
            _above("3", max(apart, c3, c1 / n), self.c, "c > max(4/nB·ln(5n/εw), C3, C1/n)"),
            _above(
                "4", max(columns, 6 * self.k / self.delta), n, "n > 3/(min(c,½)ε0²)·ln(12(m+1)²/δ)"
            ),
            _above("C1", c1, n * self.c, "nc > ln(16l/min(6nq,1))/(B(1-2q))"),
            _above("C2", c2, m, "m > max(16 ln n, 8l)"),
            _above("C3", c3, self.c, "c > max(1, 2/3(1-2q))(4q+8√(6ql/n))"),
        )
        return {condition.name: condition for condition in listed}

    @cached_property
    def hypotheses(self) -> Mapping[str, bool]:
        """Assumptions that the proofs use besides the conditions; all of them must be true."""
        used = {"B > 0": self.B > 0, "E > 0": self.E > 0}
        if self.reading == "printed":
            return used
        signal = 1 - 2 * self.q
        reach = self.n * (self.q + self.c * signal) * (1 + self.epsilon0)
        seeding = sum(propositions.initialisation(self.n_seeds, self.k, self.w_min).values())
        return used | {
            "ε0 > 0": self.epsilon0 > 0,
            "l > k": self.n_seeds > self.k,
            "seeding fails with probability ≤ 7δ/12": seeding <= 7 * self.delta / 12 * (1 + 1e-12),
            "ncB(1-2q)/2 ≥ ln(n(q+c(1-2q))(1+ε0))": self._ncB * signal / 2 >= math.log(reach),
            "exp(-ncB/4) ≤ q": -self._ncB / 4 <= math.log(self.q),
            "k·exp(-ncB/2) < 1/3": -self._ncB / 2 < -math.log(3 * self.k),
        }

    @property
    def holds(self) -> bool:
        """Whether Theorem 1 applies: conditions 1-4 and all hypotheses."""
        conditions = all(self.conditions[name].holds for name in THEOREM_1)
        return conditions and all(self.hypotheses.values())

    @cached_property
    def failure_terms(self) -> Mapping[str, float]:
        """Theorem 2's failure probability, term by term: Propositions 3, 6 and 8."""
        printed = self.reading == "printed"
        terms = propositions.distance_terms(
            self.n, self.m, self.k, self.q, self.c, self.w_min, self.epsilon0,
            others=1 if printed else self.k - 1,
        )  # fmt: skip
        terms |= propositions.initialisation(self.n_seeds, self.k, self.w_min)
        if printed:
            power = min(self.n_seeds * self.w_min / 12, 700.0)  # exp(710) overflows
            terms["no cluster seeded too often"] = self.k * math.exp(power)
        return terms | {"averages of subsets": self.k / self.n}

    @property
    def failure_probability(self) -> float:
        """The sum of `failure_terms`; a value above 1 is no bound."""
        proved = self.reading == "printed" or (self.B > 0 and self.epsilon0 > 0)
        return math.fsum(self.failure_terms.values()) if proved else math.inf

    @property
    def excess(self) -> float:
        """Theorem 2's bound on D(T_i, P_i) - D(mean(S_i), P_i), if nothing fails."""
        if self.B <= 0:
            return math.inf
        return 5 / self.w_min * math.exp(-self._ncB / 4) * self.n * self.q

    @property
    def _ncB(self) -> float:
        return self.n * self.c * self.B

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""
        derived = (
            "B", "E", "E_terms", "epsilon0", "hypotheses", "failure_terms", "failure_probability",
            "excess", "holds",
        )  # fmt: skip
        return {
            **asdict(self),
            **{name: getattr(self, name) for name in derived},
            "conditions": {name: asdict(each) for name, each in self.conditions.items()},
        }

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
        l as used; by default the real number of condition 1.
    reading : {"corrected", "printed"}
        Whether errors of the paper are corrected or kept.

    Examples
    --------
    >>> from bitmix.theory import guarantee
    >>> g = guarantee(10_000, 300, 2, q=0.1, c=1.0, w_min=0.5)
    >>> g.holds, round(g.failure_probability, 4)
    (True, 0.0502)
    >>> printed = guarantee(10_000, 300, 2, q=0.1, c=1.0, w_min=0.5, reading="printed")
    >>> printed.holds, round(printed.failure_probability, 2)
    (True, 6.84)
    """
    n, m, k = count(n, "n"), count(m, "m"), count(k, "k")
    q, c = positive(q, "q", 0.5), positive(c, "c", 1.0, closed=True)
    w_min, delta = positive(w_min, "w_min", 1.0, closed=True), positive(delta, "delta", 1.0)
    epsilon = positive(epsilon, "epsilon", 1.0)
    if w_min * k > 1 + 1e-9:
        raise InputError(f"w_min·k must be at most 1, got {w_min:g}·{k}: weights sum to 1")
    if reading not in READINGS:
        raise InputError(f"reading must be one of {', '.join(READINGS)}, got {reading!r}")
    l = float(seeds_needed(w_min, delta) if n_seeds is None else count(n_seeds, "n_seeds"))
    return Guarantee(n, m, k, q, c, w_min, delta, epsilon, l, reading)


def seeds_needed(w_min: float, delta: float) -> Decimal:
    """Condition 1: l = (4/w_min)·ln(2/(δ·w_min)), exact enough that ⌈l⌉ is the same everywhere."""
    with localcontext(Context(prec=40, traps=[])):
        w = Decimal(w_min)
        return 4 / w * (2 / (Decimal(delta) * w)).ln()


def _above(name: str, needs: float, has: float, says: str) -> Condition:
    return Condition(name, needs, has, has > needs, says)
