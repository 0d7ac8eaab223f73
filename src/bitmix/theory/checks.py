"""Checks of the arguments of the theory, and of which distances templates can have."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitmix.errors import InputError
from bitmix.support import checks

Floats = NDArray[np.float64]

LARGEST = 10**15
"""Largest number of rows, columns or templates: floats represent all integers up to it."""
SMALLEST = 1e-15
"""Probabilities and weights must be larger, so that their products do not underflow."""


def count(value: Any, name: str) -> int:
    """Check a number of rows, columns, templates or seeds."""
    return checks.whole(value, name, least=1, most=LARGEST)


def positive(value: Any, name: str, high: float = math.inf, *, closed: bool = False) -> float:
    """Check for a positive number below `high`; `closed` also allows `high`."""
    return checks.between(value, name, SMALLEST, high, closed=closed)


def weights(value: Any, k: int) -> Floats:
    """Check for k positive weights with sum 1."""
    w = checks.weights(value, k, least=SMALLEST)
    return np.asarray(w / w.sum())


def weights_with_least(w_min: float, k: int) -> list[float]:
    """Weights: w_min for one template, and equal weights for the others."""
    return [w_min] + [(1 - w_min) / (k - 1)] * (k - 1) if k > 1 else [1.0]


def largest_separation(k: int) -> float:
    """The largest possible separation of k templates, by Plotkin: 1, 1, 2/3, 2/3, 3/5, …"""
    return 1.0 if k < 2 else 2 * (k // 2) * ((k + 1) // 2) / (k * (k - 1))


def distances(value: Any, k: int, n: int) -> NDArray[np.int64]:
    """d_ij as a k×k matrix of whole numbers, from a matrix or from one number for all pairs."""
    given = _numbers(value)
    if given.ndim == 0:
        given = np.full((k, k), float(given))
        np.fill_diagonal(given, 0.0)
    if given.shape != (k, k) or not np.all(np.isfinite(given)):
        raise InputError(f"distances must be one number or a {k}×{k} matrix, got {value!r}")
    if not np.array_equal(given, given.T) or np.any(np.diag(given) != 0):
        raise InputError("distances must be symmetric with zeros on the diagonal")
    rounded = np.floor(np.round(given, 6))
    off = rounded[~np.eye(k, dtype=bool)]
    if off.size and (off.min() < 1 or off.max() > n):
        wrong = off.min() if off.min() < 1 else off.max()
        raise InputError(f"distances between templates must lie in 1 … n = {n}, got {wrong:g}")
    d = rounded.astype(np.int64)
    _check_triples(d, k, n)
    most = n * largest_separation(k)
    if k > 1 and off.mean() > most + 1e-9:
        raise InputError(
            f"{k} templates of {n} columns are at most {largest_separation(k):.4g}·n = {most:.6g} "
            f"apart on average, got {off.mean():.6g}: give smaller distances"
        )
    return d


def _numbers(value: Any) -> Floats:
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"distances must be numbers, got {value!r}") from None


def _check_triples(d: NDArray[np.int64], k: int, n: int) -> None:
    """Check, for any three templates, the triangle inequality and that distances sum to ≤ 2n."""
    for i in range(k):
        over = d > d[:, [i]] + d[[i], :]
        if over.any():
            a, b = np.argwhere(over)[0]
            raise InputError(
                f"distances break the triangle inequality: d[{a},{b}] = {d[a, b]} > "
                f"d[{a},{i}] + d[{i},{b}] = {d[a, i]} + {d[i, b]}"
            )
        total = d[i][:, None] + d[i][None, :] + d
        if k > 2 and total.max() > 2 * n:
            a, b = np.unravel_index(int(total.argmax()), total.shape)
            raise InputError(
                f"no three templates of {n} columns have distances {d[i, a]}, {d[i, b]} and "
                f"{d[a, b]}: their sum must be at most 2n = {2 * n}"
            )
