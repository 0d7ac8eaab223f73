"""How many rows or columns, how much separation: the least for which a guarantee holds."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from bitmix.theory import checks
from bitmix.theory.certificate import certificate
from bitmix.theory.guarantee import Guarantee, Reading, guarantee

Unknown = Literal["m", "n", "c"]
Method = Literal["theorem", "certificate"]
_LARGEST = 10**9


@dataclass(frozen=True)
class Plan:
    """The least value found, and how."""

    solve_for: Unknown
    method: Method
    value: float | None
    """The least m, n or c for which it holds; None where there is none."""
    note: str
    """How it was found, and what else limits it."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        value = "none" if self.value is None else f"{self.value:,.6g}"
        return f"least {self.solve_for} by the {self.method}: {value} ({self.note})"


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
) -> Plan:
    """The least m, n or c for which Theorem 1 or the certificate holds, the others given.

    The theorem's conditions hold from some value on (m and n also up to one: condition 2 caps n at
    e^(m/16), condition 4 caps m), so its answer is exact: it holds there and not one below. The
    certificate need not be monotone: the answer is the first found on a grid, then bisected.

    Weights are taken as w_min for one template and the rest shared equally by the others; all
    templates are ⌊c·n⌋ apart. By default c is the largest possible: 1 for two, 2/3 for three.

    Examples
    --------
    >>> from bitmix.theory import plan
    >>> plan("n", q=0.1, method="theorem").value
    5193
    """
    if solve_for not in ("m", "n", "c"):
        raise ValueError(f"solve_for must be 'm', 'n' or 'c', got {solve_for!r}")
    if method not in ("theorem", "certificate"):
        raise ValueError(f"method must be 'theorem' or 'certificate', got {method!r}")
    if method == "certificate" and checks.count(k, "k") < 2:
        raise ValueError(f"k must be at least 2: one template needs no certificate, got {k}")
    c = checks.most_apart(checks.count(k, "k")) if c is None else c
    known = {"n": n, "m": m, "c": c}
    missing = [name for name, value in known.items() if value is None and name != solve_for]
    if missing:
        raise ValueError(f"to solve for {solve_for} give {' and '.join(missing)}")
    at_one: dict[str, Any] = {
        "n": 1,
        "m": 1,
        "c": 1.0,
        **{x: v for x, v in known.items() if x != solve_for},
    }
    guarantee(at_one["n"], at_one["m"], k, q, at_one["c"], w_min, delta, epsilon, reading=reading)
    if solve_for != "c" and c > checks.most_apart(k) + 1e-9:
        raise ValueError(f"c must be at most {checks.most_apart(k):.4g} for k = {k}, got {c!r}")

    def theorem(x: float) -> Guarantee:
        at: dict[str, Any] = {**known, solve_for: x}
        return guarantee(at["n"], at["m"], k, q, at["c"], w_min, delta, epsilon, reading=reading)

    def certified(x: float) -> bool:
        at: dict[str, Any] = {**known, solve_for: x}
        d = math.floor(round(at["c"] * at["n"], 6))
        if d < 1 or d > at["n"] * checks.most_apart(k):
            return False  # no such templates
        weights = checks.one_light(w_min, k)
        return certificate(at["n"], at["m"], k, q, d, weights, delta=delta, pruning=pruning).holds

    if method == "certificate":
        return _on_a_grid(certified, solve_for, method, n)
    if solve_for == "m" and reading == "kl":  # its union over subsets jumps with m
        return _on_a_grid(lambda x: theorem(x).holds, solve_for, method, n)
    return _by_theorem(theorem, solve_for)


def _by_theorem(at: Callable[[float], Guarantee], name: Unknown) -> Plan:
    """What bounds the unknown from below holds from some value on; then look at the caps."""
    caps = {"m": ("4", "C1", "C3"), "n": ("2", "C2"), "c": ()}[name]

    def enough(x: float) -> bool:
        g = at(x)
        needed = ("1", "2", "3", "4") if g.reading != "kl" else ("1", "C1", "C2", "C3")
        open_ones = [g.conditions[other].holds for other in needed if other not in caps]
        return all(open_ones) and (name == "m" or all(g.hypotheses.values()))

    value = _least_real(enough) if name == "c" else _least_whole(enough)
    if value is None:
        return Plan(name, "theorem", None, "its conditions hold for no value")
    g = at(value)
    if not g.holds:
        failed = [c for c in g.conditions.values() if not c.holds]
        failed_names = [c.name for c in failed] + [h for h, ok in g.hypotheses.items() if not ok]
        return Plan(
            name, "theorem", None,
            f"{name} must be at least {value:,.6g}, where {', '.join(failed_names)} fails",
        )  # fmt: skip
    if name == "c":
        return Plan(name, "theorem", value, "by root finding: holds from here on, not below")
    top = _most_whole(lambda x: at(x).holds, int(value))
    upto = "on" if top is None else f"up to {top:,}"
    return Plan(name, "theorem", value, f"by root finding: holds from here {upto}, not below")


def _most_whole(holds: Callable[[int], bool], start: int) -> int | None:
    """The last number up to which it holds; None where that is beyond 10^9."""
    low, high = start, start
    while holds(high):
        if high >= _LARGEST:
            return None
        low, high = high, min(2 * high, _LARGEST)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _on_a_grid(
    holds: Callable[[float], bool], name: Unknown, method: Method, n: int | None
) -> Plan:
    """The first point of a grid that holds, then bisection towards the one before it."""
    if name == "c":
        assert n is not None
        scale, top = 1 / n, n  # whole distances d, c = d/n
    else:
        scale, top = 1, _LARGEST
    grid = sorted({int(x) for x in np.geomspace(1, top, 60)})

    def at(x: int) -> bool:
        return holds(x * scale)

    first = next((i for i, x in enumerate(grid) if at(x)), None)
    if first is None:
        return Plan(name, method, None, f"holds nowhere on a grid up to {top * scale:,.6g}")
    low, high = grid[first - 1] if first else 0, grid[first]
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if at(middle) else (middle, high)
    return Plan(name, method, high * scale, "first found on a grid, then bisected: not monotone")


def _least_whole(enough: Callable[[int], bool]) -> int | None:
    """Gallop, then bisect: `enough` holds from some number on."""
    high = 1
    while not enough(high):
        if high >= _LARGEST:
            return None
        high = min(2 * high, _LARGEST)
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _least_real(enough: Callable[[float], bool]) -> float | None:
    """Bisect in (0, 1] down to neighbouring numbers."""
    if not enough(1.0):
        return None
    low, high = 0.0, 1.0
    while low < (middle := (low + high) / 2) < high:
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
