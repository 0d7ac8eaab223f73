"""Steps 1-2: l random rows as templates, and the noise level from the closest pair of them."""

import math
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitmix.errors import FewRowsWarning, InputError, NoStructureWarning
from bitmix.kernels import backend, fixed
from bitmix.kernels.bits import Words
from bitmix.models.mixture import Mixture
from bitmix.rows import Rows, as_rows
from bitmix.support.randomness import draw_without_replacement
from bitmix.theory.guarantee import seeds_needed

_PAIRED = 256  # seeds that are compared with all before them at a time


def number_of_seeds(
    m: int, k: int, *, n_seeds: int | None, min_weight: float | None, delta: float
) -> int:
    """l: as asked for, or ⌈(4/w_min)·ln(2/(δ·w_min))⌉ capped at ⌈m/4⌉-1 but never below k.

    A seed that attracts no row but itself has weight 1/m, and step 5 removes it only while
    l < m/4; with l near m every row would be its own seed and round 1 would do nothing.
    """
    if n_seeds is not None:
        if n_seeds > m:
            raise InputError(
                f"n_seeds must be at most the number of rows, n_samples={m}, got {n_seeds}"
            )
        return n_seeds
    wanted = math.ceil(seeds_needed(1 / k if min_weight is None else min_weight, delta))
    most = max(k, -(-m // 4) - 1)
    if wanted > most:
        warnings.warn(
            f"{m} rows are few for {wanted} seeds, so {most} are used: the paper's condition is "
            f"m ≥ 8l = {8 * wanted}. Bring more rows, or set n_seeds or a larger min_weight",
            FewRowsWarning,
            stacklevel=2,
        )
    return min(wanted, most)


def pick(rows: Rows, l: int, rng: np.random.Generator, noise: float | None) -> Mixture:
    """l distinct random rows as templates of equal weight, and q0 (given, or from the rows)."""
    m, n = rows.shape
    return _mixture(rows.take(draw_without_replacement(m, l, rng)), n, noise)


def given(
    templates: Any, shape: tuple[int, int], noise: float | None, *, name: str = "init"
) -> Mixture:
    """The user's starting templates in place of random rows: k of them, or more if `seeds`."""
    rows = as_rows(templates)
    (l, n), (k, columns) = rows.shape, shape
    if n != columns or (l != k if name == "init" else l < k):
        least = "" if name == "init" else "at least "
        raise InputError(
            f"{name} must hold one template per row, shape ({least}n_components, columns) = "
            f"{shape}, got {rows.shape}"
        )
    return _mixture(rows.take(range(l)), n, noise)


def as_dense(values: Any) -> NDArray[Any]:
    """An array, table or sparse matrix as an array."""
    try:
        array = values.toarray() if hasattr(values, "toarray") else np.asarray(values)
        return array.astype(np.float64) if array.dtype.kind == "O" else array
    except (TypeError, ValueError) as error:
        raise InputError(f"init must be a table or list of numbers: {error}") from None


def initial_mixture(init: Any, rows: Rows, k: int) -> Mixture:
    """A mixture to start from: of templates, probabilities, responsibilities or labels."""
    m, n = rows.shape
    values = as_dense(init)
    if values.dtype.kind not in "biuf" or not np.all((values >= 0) & np.isfinite(values)):
        raise InputError("init must hold numbers that are not negative, and no NaN")
    if values.shape == (k, n):
        if np.any(values > 1):
            raise InputError(f"init must hold probabilities, got {values.max()}")
        binary = np.all((values == 0) | (values == 1))
        return Mixture(values.astype(np.float64), np.full(k, 1 / k), 0.1 if binary else None)
    if values.shape == (m,) and values.dtype.kind != "f":
        if values.max() >= k:
            raise InputError(f"init must hold labels 0 … {k - 1}, got {values.max()}")
        values = values[:, None] == np.arange(k)
    if values.shape == (m,):
        raise InputError(f"init must hold labels as whole numbers, got {values.dtype}")
    if values.shape != (m, k):
        raise InputError(
            f"init must be templates or probabilities of shape {(k, n)}, responsibilities of shape "
            f"{(m, k)} or labels of shape {(m,)}, got shape {values.shape}"
        )
    return _of_responsibilities(rows, values.astype(np.float64))


def _of_responsibilities(rows: Rows, values: Any) -> Mixture:
    totals = values.sum(axis=1, keepdims=True)
    if np.any(totals == 0):
        raise InputError(f"init must give row {int(totals.argmin())} to some component")
    if rows.remote or rows.layout.weight_one:
        raise InputError("init takes responsibilities of rows in memory without weights only")
    shares = np.rint(values / totals * (1 << fixed.SHARE_BITS)).astype(np.int64)
    n, words = rows.shape[1], rows.subset(np.arange(len(shares))).words
    kernels, mass = backend(6e-8 * words.size), shares.sum(axis=0)
    bits, known = rows.layout.bits(words, n), rows.layout.known(words, n)
    sums = kernels.column_sums(np.ascontiguousarray(bits), shares, n)
    cells = mass[:, None]
    if known is not None:
        cells = kernels.column_sums(np.ascontiguousarray(known), shares, n)
    means = (sums + 0.5 * (1 << fixed.SHARE_BITS)) / (cells + (1 << fixed.SHARE_BITS))
    return Mixture(means, mass / mass.sum(), None)


def _mixture(words: Words, n: int, noise: float | None) -> Mixture:
    if noise is None:
        noise, closest = initial_noise(words, n)
        if closest >= n / 2 and len(words) > 1:
            warnings.warn(
                f"the closest two of {len(words)} seeds differ in {closest:g} of {n} columns, no "
                "less than fair coins would: there may be no templates in these rows, or too few "
                "seeds",
                NoStructureWarning,
                stacklevel=3,
            )
    return Mixture.of_rows(words, n, noise)


def initial_noise(words: Words, n: int) -> tuple[float, float]:
    """q0 ≤ ½ with q0(1-q0) = D / 2n, and D, the distance of the closest two seeds.

    The paper leaves two cases open. A distance of 0 (or a single seed) counts as half a bit. A
    distance of n/2 or more, where q0 would be ½ and templates could not be distinguished, counts as
    a quarter of a bit less than n/2.
    """
    kernels = backend(1e-9 * words.size * len(words))
    furthest = 64 * words.shape[1]
    closest = furthest if len(words) > 1 else 0
    for first in range(0, len(words), _PAIRED):
        some = words[first : first + _PAIRED]
        apart = kernels.hamming(words[: first + len(some)], some)
        earlier = np.arange(len(apart))[:, None] < first + np.arange(len(some))
        closest = min(closest, int(apart.min(initial=furthest, where=earlier)))
    p2 = min(max(closest, 0.5), n / 2 - 0.25) / n  # the probability that two rows differ in a bit
    return p2 / (1 + math.sqrt(1 - 2 * p2)), float(closest)
