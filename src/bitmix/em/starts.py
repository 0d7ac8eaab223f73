"""Several prunings of one over-seeded round: which k of the survivors to start from."""

import math

import numpy as np
from numpy.typing import NDArray

from bitmix.kernels.fixed import Ints
from bitmix.mixture import Floats

_SCALE = 1 << 20


def distances(means: Floats, mass: Ints, row: int) -> tuple[Ints, Ints]:
    """Expected Hamming distances Σ S(1-T) + T(1-S) between templates, in whole units: debiased,
    and as they are.

    Debiased ones have taken off what the scatter within the two clusters adds: v = c/(c-1)·ΣT(1-T),
    c the rows of the cluster, `row` the mass of one. Means are rounded so coarsely that every
    product and sum is a whole number below 2^53: the matrix product is exact in any order.
    """
    bits = min(20, (52 - math.ceil(math.log2(means.shape[1] + 1))) // 2)
    one = 1 << bits
    T = np.rint(means * one)
    sums, products = T.sum(axis=1) * one, T @ T.T
    plain = sums[:, None] + sums[None, :] - 2 * products
    rows = np.maximum(mass, 2 * row)  # a lone row tells nothing of its scatter
    within = np.rint((sums - np.diag(products)) * (rows / (rows - row)))
    debiased = np.maximum(plain - within[:, None] - within[None, :], 0)
    np.fill_diagonal(plain, 0)
    np.fill_diagonal(debiased, 0)
    return debiased.astype(np.int64), plain.astype(np.int64)


def spread(apart: Ints, mass: Ints, k: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """k of the templates: the first by mass, the next by mass times squared distance to the chosen.

    Drawn with whole numbers, so that the choice is the same on every machine.
    """
    heavy = _whole(mass)
    chosen = [_draw(heavy, rng)]
    nearest = apart[chosen[0]].copy()
    while len(chosen) < k:
        far = _whole(nearest)
        odds = heavy * far // _SCALE * far // _SCALE
        odds[chosen] = 0
        if not odds.any():  # all of them equal to a chosen one
            odds = np.ones_like(odds)
            odds[chosen] = 0
        chosen.append(_draw(odds, rng))
        nearest = np.minimum(nearest, apart[chosen[-1]])
    return np.array(chosen, dtype=np.intp)


def _whole(values: Ints) -> Ints:
    """In proportion, the largest 2^20: so that products of three fit."""
    values = values >> max(0, int(values.max()).bit_length() - 40)
    found: Ints = values * _SCALE // max(1, int(values.max()))
    return found


def _draw(odds: Ints, rng: np.random.Generator) -> int:
    upto = np.cumsum(odds)
    return int(np.searchsorted(upto, rng.integers(upto[-1]), side="right"))
