"""Several prunings of one over-seeded round: which k of the survivors to start from."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from bitmix.kernels.fixed import Ints
from bitmix.mixture import Floats

_SCALE = 1 << 20


class Distances:
    """Expected Hamming distances Σ S(1-T) + T(1-S) between templates, in whole units.

    Debiased ones have taken off what the scatter within the two clusters adds: v = c/(c-1)·ΣT(1-T),
    c the rows of the cluster, `row` the mass of one. Means are rounded so coarsely that every
    product and sum is a whole number below 2^53: it is exact in any order of adding.
    """

    def __init__(self, means: Floats, mass: Ints, row: int) -> None:
        bits = min(20, (52 - math.ceil(math.log2(means.shape[1] + 1))) // 2)
        one = 1 << bits
        self._T = means * one
        np.rint(self._T, out=self._T)
        self._sums = self._T.sum(axis=1) * one
        rows = np.maximum(mass, 2 * row)  # a lone row tells nothing of its scatter
        squares = np.einsum("is,is->i", self._T, self._T)
        self._within = np.rint((self._sums - squares) * (rows / (rows - row)))
        self._known: dict[int, Floats] = {}

    def of(self, i: int, *, debiased: bool) -> Ints:
        """From template i to all. Few are ever asked for, so each is computed when it is."""
        if i not in self._known:
            self._known[i] = self._sums + self._sums[i] - 2 * (self._T @ self._T[i])
        apart = self._known[i]
        if debiased:
            apart = np.maximum(apart - self._within - self._within[i], 0)
        found: Ints = apart.astype(np.int64)
        found[i] = 0
        return found


def spread(
    apart: Callable[[int], Ints], mass: Ints, k: int, rng: np.random.Generator
) -> NDArray[np.intp]:
    """k of the templates: the first by mass, the next by mass times squared distance to the chosen.

    Drawn with whole numbers, so that the choice is the same on every machine.
    """
    heavy = _whole(mass)
    chosen = [_draw(heavy, rng)]
    nearest = np.full_like(mass, np.iinfo(np.int64).max)
    while len(chosen) < k:
        nearest = np.minimum(nearest, apart(chosen[-1]))
        far = _whole(nearest)
        odds = heavy * far // _SCALE * far // _SCALE
        odds[chosen] = 0
        if not odds.any():  # all of them equal to a chosen one
            odds = np.ones_like(odds)
            odds[chosen] = 0
        chosen.append(_draw(odds, rng))
    return np.array(chosen, dtype=np.intp)


def _whole(values: Ints) -> Ints:
    """In proportion, the largest 2^20: so that products of three fit."""
    values = values >> max(0, int(values.max()).bit_length() - 40)
    found: Ints = values * _SCALE // max(1, int(values.max()))
    return found


def _draw(odds: Ints, rng: np.random.Generator) -> int:
    upto = np.cumsum(odds)
    return int(np.searchsorted(upto, rng.integers(upto[-1]), side="right"))
