"""Rules for the numbers that go into the theory."""

import math
import operator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MOST = 10**15
"""Largest number of rows, columns or templates: beyond it floats no longer count."""
LEAST = 1e-15
"""Least probability or weight."""


def count(value: Any, name: str) -> int:
    """A whole number from 1."""
    try:
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} must be a whole number, got {value!r}") from None
    if not 1 <= number <= MOST:
        raise ValueError(f"{name} must lie in 1 … {MOST:,}, got {number}")
    return number


def positive(value: Any, name: str) -> float:
    """A finite number above 0."""
    return unit(value, name, math.inf)


def unit(value: Any, name: str, high: float, *, closed: bool = False) -> float:
    """A number in (0, high), or (0, high] if closed."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a number, got {value!r}") from None
    if not (0 < number < high or (closed and number == high)):
        raise ValueError(f"{name} must lie in (0, {high:g}{']' if closed else ')'}, got {value!r}")
    if number < LEAST:
        raise ValueError(f"{name} must be at least {LEAST:g}, got {value!r}")
    return number


def weights(value: Any, k: int) -> Floats:
    """k positive numbers with sum 1."""
    w = _numbers(value, "weights")
    if w.shape != (k,) or not np.all(w >= LEAST):
        raise ValueError(f"weights must be {k} positive numbers, one a template, got {value!r}")
    if abs(w.sum() - 1) > 1e-9:
        raise ValueError(f"weights must sum to 1, got {value!r} with sum {w.sum():g}")
    return np.asarray(w / w.sum())


def one_light(w_min: float, k: int) -> list[float]:
    """Weights with w_min for one template and equal shares of the rest for the others."""
    return [w_min] + [(1 - w_min) / (k - 1)] * (k - 1) if k > 1 else [1.0]


def most_apart(k: int) -> float:
    """The largest separation that k templates can all have, by Plotkin: 1, 2/3, 2/3, 3/5, …"""
    return 1.0 if k < 2 else 2 * (k // 2) * ((k + 1) // 2) / (k * (k - 1))


def distances(value: Any, k: int, n: int) -> NDArray[np.int64]:
    """d_ij as a matrix of whole numbers: one number for all pairs, or a feasible k×k matrix."""
    given = _numbers(value, "distances")
    if given.ndim == 0:
        given = np.full((k, k), float(given))
        np.fill_diagonal(given, 0.0)
    if given.shape != (k, k) or not np.all(np.isfinite(given)):
        raise ValueError(f"distances must be one number or a {k}×{k} matrix, got {value!r}")
    if not np.array_equal(given, given.T) or np.any(np.diag(given) != 0):
        raise ValueError("distances must be symmetric with zeros on the diagonal")
    rounded = np.floor(np.round(given, 6))
    off = rounded[~np.eye(k, dtype=bool)]
    if off.size and (off.min() < 1 or off.max() > n):
        bad = off.min() if off.min() < 1 else off.max()
        raise ValueError(f"distances between templates must lie in 1 … n = {n}, got {bad:g}")
    d = rounded.astype(np.int64)
    _check_metric(d, k, n)
    if k > 1 and off.mean() > n * most_apart(k) + 1e-9:
        raise ValueError(
            f"{k} templates of {n} columns are at most {most_apart(k):.4g}·n = "
            f"{n * most_apart(k):.6g} apart on average, got {off.mean():.6g}: give smaller ones"
        )
    return d


def _numbers(value: Any, name: str) -> Floats:
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be numbers, got {value!r}") from None


def _check_metric(d: NDArray[np.int64], k: int, n: int) -> None:
    """Three binary templates of n columns: each pair within the other two, all three within 2n."""
    for i in range(k):
        over = d > d[:, [i]] + d[[i], :]
        if over.any():
            a, b = np.argwhere(over)[0]
            raise ValueError(
                f"distances break the triangle inequality: d[{a},{b}] = {d[a, b]} > "
                f"d[{a},{i}] + d[{i},{b}] = {d[a, i]} + {d[i, b]}"
            )
        round_trip = d[i][:, None] + d[i][None, :] + d
        if k > 2 and round_trip.max() > 2 * n:
            a, b = np.unravel_index(int(round_trip.argmax()), round_trip.shape)
            raise ValueError(
                f"no three templates of {n} columns have distances {d[i, a]}, {d[i, b]} and "
                f"{d[a, b]}: their sum must be at most 2n = {2 * n}"
            )
