"""The least number of rows or columns, or the least separation, for which a guarantee holds."""

import importlib
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from bitmix.errors import InputError
from bitmix.theory import checks
from bitmix.theory.certificate import certificate
from bitmix.theory.guarantee import THEOREM_1, Guarantee, Reading, guarantee
from bitmix.theory.tails import bisect

Unknown = Literal["m", "n", "c"]
Method = Literal["theorem", "certificate", "simulate"]
_LARGEST = 10**9
_CAPS = {"m": ("4",), "n": ("2",), "c": ()}
"""Conditions that bound the unknown from above: 4 holds only up to some m, 2 up to some n."""


@dataclass(frozen=True)
class Plan:
    """The least value for which a guarantee holds, and how it was computed."""

    solve_for: Unknown
    method: Method
    value: float | None
    """The least m, n or c; None if there is none."""
    note: str
    """How the value was computed, and what else limits it."""
    n_seeds: int | None = None
    """l at this value, for which the certificate holds: pass it to `TwoRoundEM`."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        value = "none" if self.value is None else f"{self.value:,.6g}"
        by = "by simulation" if self.method == "simulate" else f"by the {self.method}"
        return f"least {self.solve_for} {by}: {value} ({self.note})"


def plan(
    solve_for: Unknown,
    *,
    k: int = 2,
    q: float,
    n: int | None = None,
    m: int | None = 300,
    c: float | None = None,
    w_min: float = 0.5,
    delta: float = 0.1,
    epsilon: float = 0.1,
    method: Method = "certificate",
    reading: Reading = "corrected",
    pruning: Literal["l1", "hamming"] = "l1",
    n_seeds: int | Literal["best"] | None = None,
    estimator: Any = None,
    templates: Any = None,
) -> Plan:
    """The least m, n or c for which Theorem 1, the certificate or a simulation holds.

    The theorem's conditions hold from some value on (for m and n also only up to one: condition 2
    limits n to e^(m/16), condition 4 limits m), so its answer is exact: they hold there, and not at
    the value below. The certificate need not be monotone: the answer is the first point of a grid
    at which it holds, refined by bisection.

    One template has the weight w_min and the others share the rest equally; all templates are
    ⌊c·n⌋ apart. By default c is the largest possible: 1 for two templates, 2/3 for three.

    Parameters
    ----------
    solve_for : {"m", "n", "c"}
        The unknown.
    k, q, n, m, c, w_min, delta, epsilon, reading
        As in `guarantee`.
    method : {"certificate", "theorem", "simulate"}
        What has to hold. "simulate" fits the estimator to new data at each point and computes an
        exact binomial limit of its failures; see `bitmix.estimators.simulate.simulate`.
    n_seeds : int or "best", optional
        As in `certificate`; pass the `n_seeds` of the plan to `TwoRoundEM`.
    estimator : estimator, optional
        The estimator to simulate; by default ``TwoRoundEM(k)``.
    templates : array of 0 and 1, shape (k, n), optional
        The templates of a simulation, to solve for m. By default, two or three templates are
        equally far apart; more are drawn again for each data set.
    pruning : {"l1", "hamming"}
        As in `certificate`.

    Examples
    --------
    >>> from bitmix.theory import plan
    >>> plan("n", q=0.1, method="theorem").value
    5193
    """
    if solve_for not in ("m", "n", "c"):
        raise InputError(f"solve_for must be 'm', 'n' or 'c', got {solve_for!r}")
    if method not in ("theorem", "certificate", "simulate"):
        raise InputError(f"method must be 'theorem', 'certificate' or 'simulate', got {method!r}")
    if method == "certificate" and checks.count(k, "k") < 2:
        raise InputError(f"k must be at least 2: one template needs no certificate, got {k}")
    c = checks.largest_separation(checks.count(k, "k")) if c is None else c
    given = {"n": n, "m": m, "c": c}
    missing = [name for name, value in given.items() if value is None and name != solve_for]
    if missing:
        raise InputError(f"to solve for {solve_for} give {' and '.join(missing)}")

    def theorem(x: float) -> Guarantee:
        at: dict[str, Any] = {**given, solve_for: x}
        return guarantee(at["n"], at["m"], k, q, at["c"], w_min, delta, epsilon, reading=reading)

    seeds: dict[float, int] = {}

    def certified(x: float) -> bool:
        at: dict[str, Any] = {**given, solve_for: x}
        d = math.floor(round(at["c"] * at["n"], 6))
        if d < 1 or d > at["n"] * checks.largest_separation(k):
            return False  # no such templates
        weights = checks.weights_with_least(w_min, k)
        found = certificate(
            at["n"], at["m"], k, q, d, weights, delta=delta, pruning=pruning, n_seeds=n_seeds
        )
        seeds[x] = found.n_seeds
        return found.holds

    theorem(1)  # checks the parameters
    most = checks.largest_separation(k)
    if solve_for != "c" and c > most + 1e-9:
        raise InputError(f"c must be at most {most:.4g} for k = {k}, got {c!r}")
    if method == "theorem":
        return _by_theorem(theorem, solve_for)
    if method == "simulate":
        # imported by name, because estimators are in a higher layer, which uses this one
        module = importlib.import_module("bitmix.estimators.simulate")
        weights = checks.weights_with_least(w_min, k)
        found = module.least(solve_for, given, k, q, weights, delta, estimator, templates)
        return Plan(solve_for, method, *found)
    if solve_for == "c":
        assert n is not None
        found = _on_a_grid(certified, solve_for, n, 1 / n)  # whole distances d, c = d/n
    else:
        found = _on_a_grid(certified, solve_for, _LARGEST, 1)
    return found if found.value is None else replace(found, n_seeds=seeds[found.value])


def _by_theorem(at: Callable[[float], Guarantee], unknown: Unknown) -> Plan:
    """Find the value from which all conditions but upper limits hold, then check the limits."""

    def enough(x: float) -> bool:
        conditions = at(x).conditions
        needed = all(conditions[name].holds for name in THEOREM_1 if name not in _CAPS[unknown])
        return needed and (unknown == "m" or all(at(x).hypotheses.values()))

    value = _least_real(enough) if unknown == "c" else _least_whole(enough)
    if value is None:
        return Plan(unknown, "theorem", None, "its conditions hold for no value")
    g = at(value)
    if not g.holds:
        failing = [f"condition {name}" for name in THEOREM_1 if not g.conditions[name].holds]
        failing += [name for name, true in g.hypotheses.items() if not true]
        where = f"{unknown} must be at least {value:,.6g}, where {', '.join(failing)} fails"
        return Plan(unknown, "theorem", None, where)
    reach = "on"
    if unknown != "c":
        beyond = _least_whole(lambda x: not at(x).holds, int(value))
        reach = "on" if beyond is None else f"up to {beyond - 1:,}"
    return Plan(unknown, "theorem", value, f"by root finding: holds from here {reach}, not below")


def _on_a_grid(
    holds: Callable[[float], bool], unknown: Unknown, largest: int, scale: float
) -> Plan:
    """The first point of a grid at which it holds, then bisection towards the one before it."""
    grid = sorted({int(x) for x in np.geomspace(1, largest, 60)})
    first = next((i for i, x in enumerate(grid) if holds(x * scale)), None)
    if first is None:
        note = f"holds nowhere on a grid up to {largest * scale:,.6g}"
        return Plan(unknown, "certificate", None, note)
    low = grid[first - 1] if first else 0
    value = bisect(lambda x: holds(x * scale), low, grid[first]) * scale
    note = "first point of a grid, then bisected: not monotone"
    return Plan(unknown, "certificate", value, note)


def _least_whole(enough: Callable[[int], bool], start: int = 1) -> int | None:
    """The least number from `start` on, if `enough` holds from some number on up to 10^9."""
    low, high = start - 1, start
    while not enough(high):
        if high >= _LARGEST:
            return None
        low, high = high, min(2 * high, _LARGEST)
    return bisect(enough, low, high)


def _least_real(enough: Callable[[float], bool]) -> float | None:
    """The least number in (0, 1], if `enough` holds from some number on."""
    if not enough(1.0):
        return None
    low, high = 0.0, 1.0
    while low < (middle := (low + high) / 2) < high:
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
