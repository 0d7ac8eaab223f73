"""How often an estimator fails, by simulation: an exact binomial limit at one parameter point."""

import math
import warnings
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from bitmix.certify.bounds import upper_limit
from bitmix.datasets import make_templates
from bitmix.em.sampling import sample_mixture
from bitmix.errors import BitmixWarning, InputError
from bitmix.estimators.paper import TwoRoundEM
from bitmix.metrics import templates_recovered
from bitmix.support import checks
from bitmix.support.progress import hidden, progress
from bitmix.support.randomness import stream
from bitmix.theory import checks as numbers

EPSILON = 1e-4
"""The probability that a simulation is wrong about the failures of the estimator."""
LOOKS = 4
MAX_POINTS = 40
"""Points that a search for the least value may visit; each has a share of ε."""
MAX_CELLS = 20_000_000
"""Cells of one data set; larger points are not simulated."""


@dataclass(frozen=True)
class Simulation:
    """Failures of an estimator on fresh data, and the limit of their probability."""

    n: int
    m: int
    k: int
    q: float
    estimator: str
    failures: int
    runs: int
    failure_probability: float
    """Clopper–Pearson's upper limit; it is too small with probability ε at most, over the
    simulation."""
    delta: float
    epsilon: float
    templates: str
    """Which templates were simulated."""

    @property
    def holds(self) -> bool:
        """Whether the templates are recovered exactly with probability 1 - δ."""
        return self.failure_probability <= self.delta

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {**asdict(self), "holds": self.holds}

    def __str__(self) -> str:
        return (
            f"Simulation: {self.estimator} failed {self.failures} of {self.runs:,} times at "
            f"n = {self.n:,}, m = {self.m:,}, k = {self.k}, q = {self.q:g}: failure ≤ "
            f"{self.failure_probability:.4g} (δ = {self.delta:g}), wrong with probability ≤ "
            f"{self.epsilon:g}\n    {self.templates}"
        )


def simulate(
    n: int,
    m: int,
    k: int,
    q: float,
    distance: int,
    weights: Any,
    *,
    delta: float = 0.1,
    epsilon: float = EPSILON,
    estimator: Any = None,
    templates: Any = None,
    random_state: int = 0,
) -> Simulation:
    """Fit an estimator to fresh data sets until it is clear how often it fails.

    There are four looks, at ever more data sets; each may be wrong with probability ε/4. It ends
    when the upper limit is at most δ, or when more than δ failed by three standard errors.

    Parameters
    ----------
    n, m, k, q, weights
        The point, as in `bitmix.theory.certificate`.
    distance : int
        d: in how many columns templates differ. Two templates differ in d columns, three pairwise
        in 2⌊d/2⌋; that fixes the problem up to the order and the turning of columns, which are
        turned at random, as ties round to 0. More templates are drawn by
        `bitmix.datasets.make_templates` for each data set, so that the limit is an average over
        them, unless `templates` are given.
    delta : float, default=0.1
        The failure probability to undercut.
    epsilon : float, default=1e-4
        The probability that the limit is wrong.
    estimator : estimator, optional
        By default ``TwoRoundEM(k)``. `n_components` and `random_state` are set.
    templates : array of 0 and 1, shape (k, n), optional
        The templates to simulate.
    random_state : int, default=0
        Fixes the data sets.

    Examples
    --------
    >>> from bitmix.estimators.simulate import simulate
    >>> simulate(10, 300, 2, 0.1, 10, [0.5, 0.5]).holds
    True
    """
    n, m, k = numbers.count(n, "n"), numbers.count(m, "m"), numbers.count(k, "k")
    q, delta = numbers.positive(q, "q", 0.5), numbers.positive(delta, "delta", 1.0)
    epsilon = checks.between(epsilon, "epsilon", 0, 1)
    w = numbers.weights(weights, k)
    if n * m > MAX_CELLS:
        raise InputError(
            f"a simulation makes data sets of at most {MAX_CELLS:,} cells, got {m:,} × {n:,}: use "
            "method='certificate'"
        )
    given = None if templates is None else np.asarray(templates, dtype=np.uint8)
    if given is not None and given.shape != (k, n):
        raise InputError(f"templates must have shape {(k, n)}, got {given.shape}")
    estimator = TwoRoundEM() if estimator is None else estimator
    first = math.ceil(math.log(epsilon / LOOKS) / math.log1p(-delta))
    failures = runs = 0
    limit = 1.0
    for look in range(LOOKS):
        numbered = range(runs, first << look)
        for number in progress(numbered, "simulated fits", total=len(numbered)):
            rng = stream(random_state, "simulation", number)
            failures += not _recovers(estimator, n, m, k, q, distance, w, given, rng)
            if number % 16 == 15 and _hopeless(failures, number + 1, delta):
                first, runs = 0, number + 1
                break
        runs = max(runs, first << look)
        limit = min(limit, upper_limit(failures, runs, epsilon / LOOKS))
        if limit <= delta or not first:
            break
    rule = (
        "templates as given" if given is not None
        else f"templates {distance} columns apart" if k <= 3
        else f"templates drawn anew for each data set, at least {distance} columns apart"
    )  # fmt: skip
    name = type(estimator).__name__
    return Simulation(n, m, k, q, name, failures, runs, limit, delta, epsilon, rule)


def _hopeless(failures: int, runs: int, delta: float) -> bool:
    """Whether more than δ fail by three standard errors, so that no limit will be below it."""
    return failures > delta * runs + 3 * math.sqrt(delta * (1 - delta) * runs) + 1


def _recovers(
    estimator: Any, n: int, m: int, k: int, q: float, distance: int, weights: Any,
    given: NDArray[np.uint8] | None, rng: np.random.Generator,
) -> bool:  # fmt: skip
    """Whether a fit to one data set finds exactly the templates."""
    seed = int(rng.integers(1 << 31))
    truth = _templates(n, k, distance, seed) if given is None else given
    truth = truth ^ rng.integers(2, size=n, dtype=np.uint8)
    X, _ = sample_mixture(truth, weights, q, m, rng)
    fresh = clone(estimator).set_params(n_components=k, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BitmixWarning)
        try:
            with hidden():
                return templates_recovered(fresh.fit(X).templates_, truth)
        except InputError:  # such as fewer rows than templates
            return False


def _templates(n: int, k: int, distance: int, seed: int) -> NDArray[np.uint8]:
    if k > 3:
        return make_templates(k, n, separation=distance / n, random_state=seed)
    T = np.zeros((k, n), dtype=np.uint8)
    if k == 2:
        T[1, :distance] = 1
    elif k == 3:
        half = distance // 2
        for i in range(3):
            T[i, i * half : (i + 1) * half] = 1
    return T


def least(
    solve_for: str, given: dict[str, Any], k: int, q: float, weights: Any, delta: float,
    estimator: Any, templates: Any,
) -> tuple[float | None, str, int | None]:  # fmt: skip
    """The least m, n or c at which a simulation holds: by doubling, then bisection.

    A value counts if its double holds, too: with one column, two templates are 0 and 1 and cannot
    be missed, but with two columns they can. Every point that is visited has an error of ε/40, so
    that all of them are right with probability 1 - ε.
    """
    visited: dict[int, Simulation | None] = {}

    def holds(x: int) -> bool:
        at = {**given, solve_for: x / given["n"] if solve_for == "c" else x}
        d = math.floor(round(at["c"] * at["n"], 6))
        if x not in visited and len(visited) < MAX_POINTS:
            impossible = d < 1 or at["m"] < k or at["n"] * at["m"] > MAX_CELLS
            visited[x] = None if impossible else simulate(
                at["n"], at["m"], k, q, d, weights, delta=delta, epsilon=EPSILON / MAX_POINTS,
                estimator=estimator, templates=templates,
            )  # fmt: skip
        found = visited.get(x)
        return found is not None and found.holds

    largest = (
        given["n"] if solve_for == "c" else MAX_CELLS // given["m" if solve_for == "n" else "n"]
    )
    low, high = 0, 1
    while not (holds(high) and (2 * high > largest or holds(2 * high))):
        if high >= largest:
            return None, f"no simulation holds up to {largest:,}", None
        low, high = high, min(2 * high, largest)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    found = visited[high]
    assert found is not None
    value = high / given["n"] if solve_for == "c" else high
    note = (
        f"{found.estimator} failed {found.failures} of {found.runs:,} times there, failure ≤ "
        f"{found.failure_probability:.3g}; all points visited are right with probability "
        f"1 - {EPSILON:g}; not monotone for sure"
    )
    return value, note, None
