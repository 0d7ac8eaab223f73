"""Steps 1-2: l random rows as templates, and the noise level from the closest pair of them."""

import math
import warnings
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitmix.errors import FewRowsWarning, InputError, NoStructureWarning
from bitmix.kernels import backend, fixed
from bitmix.kernels.bits import Words
from bitmix.mixture import Mixture
from bitmix.rows import Rows, as_rows

_PAIRED = 256  # seeds that are compared with all before them at a time


def number_of_seeds(
    m: int, k: int, *, n_seeds: int | None, min_weight: float | None, delta: float
) -> int:
    """l: as asked for, or ⌈(4/w_min)·ln(2/(δ·w_min))⌉ capped at ⌈m/4⌉-1 but never below k.

    A seed that attracts nobody but itself has weight 1/m, and step 5 removes it only while
    l < m/4; with l near m every row would be its own seed and round 1 would do nothing.
    """
    if n_seeds is not None:
        if n_seeds > m:
            raise InputError(
                f"n_seeds must be at most the number of rows, n_samples={m}, got {n_seeds}"
            )
        return n_seeds
    wanted = formula(1 / k if min_weight is None else min_weight, delta)
    most = max(k, -(-m // 4) - 1)
    if wanted > most:
        warnings.warn(
            f"{m} rows are few for {wanted} seeds, so {most} are used: the paper's condition is "
            f"m ≥ 8l = {8 * wanted}. Bring more rows, or set n_seeds or a larger min_weight",
            FewRowsWarning,
            stacklevel=2,
        )
    return min(wanted, most)


def formula(min_weight: float, delta: float) -> int:
    """⌈(4/w_min)·ln(2/(δ·w_min))⌉, condition 1 of Theorem 1."""
    with fixed.exactly():
        w_min = Decimal(min_weight)
        return math.ceil(4 / w_min * fixed.ln(2 / (Decimal(delta) * w_min)))


def pick(rows: Rows, l: int, rng: np.random.Generator, noise: float | None) -> Mixture:
    """l distinct random rows as templates of equal weight, and q0 (given, or from the rows)."""
    m, n = rows.shape
    return _mixture(rows.take(indices(m, l, rng)), n, noise)


def given(
    templates: Any, shape: tuple[int, int], noise: float | None, *, name: str = "init"
) -> Mixture:
    """The user's starting templates in place of random rows: k of them, or more if `seeds`."""
    rows = as_rows(templates)
    (l, n), (k, columns) = rows.shape, shape
    if n != columns or (l != k if name == "init" else l < k):
        least = "" if name == "init" else "at least "
        raise InputError(
            f"{name} must hold one template a row, shape ({least}n_components, columns) = {shape}, "
            f"got {rows.shape}"
        )
    return _mixture(rows.take(range(l)), n, noise)


def _mixture(words: Words, n: int, noise: float | None) -> Mixture:
    return Mixture.of_rows(words, n, noise_of(words, n) if noise is None else noise)


def indices(m: int, l: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """l of m row numbers without replacement; fewer seeds are a prefix of more."""
    drawn = rng.integers(np.arange(l), m)
    moved: dict[int, int] = {}  # a Fisher–Yates shuffle of 0 … m-1, kept only where it moved
    out = np.empty(l, dtype=np.int64)
    for i, j in enumerate(drawn.tolist()):
        out[i] = moved.get(j, j)
        moved[j] = moved.get(i, i)
    return out


def noise_of(words: Words, n: int) -> float:
    """q0 ≤ ½ with q0(1-q0) = min D / 2n over pairs of seeds.

    Where the paper is silent: no bit between the closest pair (or a single seed) counts as half a
    bit, and half of all bits or more, where q0 would be ½ and nothing could be told apart, as a
    quarter of a bit less than n/2, with a warning.
    """
    closest = _closest_pair(words)
    if closest >= n / 2 and len(words) > 1:
        warnings.warn(
            f"the closest two of {len(words)} seeds differ in {closest:g} of {n} columns, no less "
            "than fair coins would: there may be no templates in these rows, or too few seeds",
            NoStructureWarning,
            stacklevel=2,
        )
    distance = min(max(closest, 0.5), n / 2 - 0.25)
    return distance / n / (1 + math.sqrt(1 - 2 * distance / n))


def _closest_pair(words: Words) -> float:
    if len(words) < 2:
        return 0.0
    kernels, closest = backend(words), math.inf
    for first in range(0, len(words), _PAIRED):
        some = words[first : first + _PAIRED]
        apart = kernels.hamming(words[: first + len(some)], some)
        earlier = np.arange(len(apart))[:, None] < first + np.arange(len(some))
        closest = min(closest, apart.min(initial=64 * words.shape[1], where=earlier))
    return float(closest)
