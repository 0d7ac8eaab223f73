"""A sharper certificate: a bound on the probability that Algorithm 1 finds the true templates."""

import html
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache, partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from bitmix.errors import InputError
from bitmix.theory import checks, events
from bitmix.theory.events import Point
from bitmix.theory.guarantee import seeds_needed

_WRONG_MASS_FRACTIONS = (0.4, 0.2, 0.1, 0.03, 0.01, 1e-3, 1e-5, 1e-8)
_EXCEPTIONS = (0, 1, 2, 4, 8)
_LARGEST_SUBSET = 64  # any t up to the largest that the proof allows is valid
_LARGEST_SQUARE = 40  # t up to which the law of a pair of means is tabulated
_UNDERFLOW = 1e-250  # an expectation that is computed as 0 is below this
_ROUNDING = 1 + 1e-9  # errors of sums and special functions are far smaller
_Choice = tuple[dict[str, float], dict[str, float]]  # terms and constants


@dataclass(frozen=True)
class Certificate:
    """An upper bound on the probability that Algorithm 1 misses the exact templates."""

    n: int
    m: int
    k: int
    q: float
    n_seeds: int
    pruning: str
    delta: float
    failure_terms: Mapping[str, float]
    """One bound per event; their sum is the failure probability."""
    failure_probability: float
    """At most 1."""
    constants: Mapping[str, float]
    """The free constants of the proof, as chosen: U0, r, t, h, Dmax."""
    notes: tuple[str, ...]
    """Where a bound is used instead of an exact law, and other remarks."""

    @property
    def holds(self) -> bool:
        """Whether exact recovery is certified with probability 1 - δ."""
        return self.failure_probability <= self.delta

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""
        return {**asdict(self), "holds": self.holds}

    def __str__(self) -> str:
        verdict = "certified" if self.holds else "not certified"
        lines = [
            f"Exact recovery {verdict}: failure ≤ {self.failure_probability:.4g} "
            f"(δ = {self.delta:g}) "
            f"at n = {self.n:,}, m = {self.m:,}, k = {self.k}, q = {self.q:g}, "
            f"for TwoRoundEM(n_seeds={self.n_seeds}), pruning {self.pruning}"
        ]
        lines += [f"    {value:10.3g}  {name}" for name, value in self.failure_terms.items()]
        lines += [f"    note: {note}" for note in self.notes]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def certificate(
    n: int,
    m: int,
    k: int,
    q: float,
    distances: ArrayLike,
    weights: ArrayLike,
    *,
    delta: float = 0.1,
    n_seeds: int | Literal["best"] | None = None,
    pruning: Literal["l1", "hamming"] = "l1",
) -> Certificate:
    """Bound the probability that Algorithm 1 does not return exactly the true templates.

    Parameters
    ----------
    n, m, k : int
        Columns, rows, templates (k ≥ 2).
    q : float
        Noise level, in (0, ½).
    distances : number or array, shape (k, k)
        d_ij between the templates, in columns. Fractions are rounded down.
    weights : array, shape (k,)
        w_i, sum 1.
    delta : float
        δ: determines `holds` and, with the least weight, the paper's number of seeds.
    n_seeds : int or "best", optional
        l. By default the paper's ⌈l⌉; "best" searches for the l with the least bound.
    pruning : {"l1", "hamming"}
        The distance of step 6, as in `TwoRoundEM`.

    Notes
    -----
    The bound is for this parameter point. It need not fall with m or rise with q; to cover a range,
    evaluate a grid. The free constants of the proof are searched on a fixed grid, not on data.

    Examples
    --------
    >>> from bitmix.theory import certificate
    >>> certificate(45, 300, 2, 0.1, 45, [0.5, 0.5]).holds
    True
    """
    n, m, k = checks.count(n, "n"), checks.count(m, "m"), checks.count(k, "k")
    if k < 2:
        raise InputError(f"k must be at least 2: one template needs no certificate, got {k}")
    q, delta = checks.positive(q, "q", 0.5), checks.positive(delta, "delta", 1.0)
    if pruning not in ("l1", "hamming"):
        raise InputError(f"pruning must be 'l1' or 'hamming', got {pruning!r}")
    d, w = checks.distances(distances, k, n), checks.weights(weights, k)
    paper = math.ceil(seeds_needed(float(w.min()), delta))
    if n_seeds == "best":
        tries = sorted({int(l) for l in np.geomspace(k + 2, max(k + 3, min(m, 4 * paper)), 24)})
    else:
        tries = [paper if n_seeds is None else checks.count(n_seeds, "n_seeds")]
    certificates = (_at(Point(n, m, q, d, w, l), delta, pruning) for l in tries)
    return min(certificates, key=lambda each: each.failure_probability)


def _at(point: Point, delta: float, pruning: str) -> Certificate:
    """The best bound over the free constants of the proof."""
    choices = _choices(point, delta, pruning)
    nothing: _Choice = {"no valid choice of constants": 1.0}, {}
    terms, constants = min(
        choices, key=lambda choice: math.fsum(choice[0].values()), default=nothing
    )
    notes = []
    most = max(point.k, -(-point.m // 4) - 1)
    default = min(math.ceil(seeds_needed(1 / point.k, delta)), most)
    if default != point.l:
        notes.append(
            f"by default TwoRoundEM({point.k}) uses {default} seeds, which this does not cover: "
            f"pass n_seeds={point.l}"
        )
    if point.n > events.LONGEST_EXACT_LAW:
        notes.append(f"n > {events.LONGEST_EXACT_LAW:,}: round 1 by Chernoff's bound")
    if not constants:
        notes.append("too few rows or seeds for the proof: nothing is certified")
    failure = min(1.0, math.fsum(terms.values()) * _ROUNDING)
    return Certificate(
        point.n, point.m, point.k, point.q, point.l, pruning, delta, terms, failure, constants,
        tuple(notes),
    )  # fmt: skip


def _choices(point: Point, delta: float, pruning: str) -> Iterator[_Choice]:
    """The bounds on all events for every choice of constants on the grid; h is the best one."""
    if point.l > point.m or point.m < 3:
        return
    coverage = events.missed_cluster(point)
    Dmax, far = events.farthest_pair(point, delta * 1e-4)
    rounding = {h: events.wrong_bit(point, h) for h in _EXCEPTIONS}
    starved = cache(partial(events.starved_cluster, point))
    stray_rows = cache(partial(events.stray_rows, point))
    selection = cache(partial(_wrong_selection, point, pruning))
    implied = pruning == "hamming" and point.k == 2  # E4 implies a right selection
    for U0, noise, lam, wrong_mass, r, t in _constants(point, delta):
        s = _up(r / point.W * Dmax)
        decided = math.log(2 * point.m * (point.k - 1)) / lam
        stray = stray_rows(t, _up(max(decided, 2 * s) + s if implied else decided + s))
        mixed = 0.0 if implied else selection(t, s)
        if not math.isfinite(stray + mixed):
            continue
        allowed = (0,) if implied else _EXCEPTIONS
        h = min(allowed, key=lambda h: stray / (h + 1) + rounding[h])
        terms = {
            "E0 a cluster without a seed": coverage,
            "E1 noise estimate too high": noise,
            "E2 wrong mass in round 1": wrong_mass,
            "two rows too far apart": far,
            "E3 a cluster starves": starved(_up(r), t),
            "E4 rows astray in round 2": stray / (h + 1),
            "E5 two templates of one cluster kept": mixed,
            "E6 a bit outvoted by flips": rounding[h],
        }
        yield terms, {"U0": U0, "r": r, "t": t, "h": h, "Dmax": Dmax}


def _constants(point: Point, delta: float) -> Iterator[tuple[int, float, float, float, float, int]]:
    """U0 with the bound on E1 and λ0, then r with the bound on E2, then t."""
    for U0, noise in events.noise_candidates(point, delta):
        lam = events.log_odds(U0, point.n)
        expected = max(events.expected_wrong_mass(point, lam), _UNDERFLOW)
        for fraction in _WRONG_MASS_FRACTIONS:
            r = expected / (fraction * delta)
            if r < point.W / 2:
                for t in _subset_sizes(point.W - r):
                    yield U0, noise, lam, fraction * delta, r, t


def _wrong_selection(point: Point, pruning: str, t: int, s: float) -> float:
    if pruning == "l1":
        return events.wrong_selection(point, t, s)
    return events.wrong_hamming_selection(point, min(t, _LARGEST_SQUARE), s)


def _up(x: float) -> float:
    """Round up to three digits: larger values are safe, and equal ones are computed once."""
    if x < 1e-9:
        return 1e-9
    unit = 10.0 ** (math.floor(math.log10(x)) - 2)
    return math.ceil(x / unit) * unit


def _subset_sizes(most: float) -> list[int]:
    """Values of t: the largest that the proof allows, and some smaller ones."""
    top = max(1, min(math.floor(most), _LARGEST_SUBSET))
    return sorted({1, 2, 3, max(1, top // 4), max(1, top // 2), top} & set(range(1, top + 1)))
