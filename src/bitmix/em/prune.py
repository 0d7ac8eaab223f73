"""Steps 5-6: drop the starved templates, keep k that are far apart."""

import math
import warnings
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bitmix.errors import FewSurvivorsWarning, InputError
from bitmix.kernels.fixed import Ints
from bitmix.models.mixture import Floats

Pruning = Literal["l1", "hamming"]


def as_pruning(value: Any) -> Pruning:
    """The distance of step 6 by name."""
    if value in ("l1", "hamming"):
        return value
    raise InputError(f"pruning must be 'l1' (the paper's) or 'hamming', got {value!r}")


def survivors(weights: Floats, k: int) -> NDArray[np.intp]:
    """Step 5: components of weight at least w_T = 1/4l.

    If fewer than k survive, which a warning tells, the heaviest k do, the lowest index among
    equals.
    """
    l = len(weights)
    fed = np.flatnonzero(weights >= 1 / (4 * l))
    if len(fed) >= k:
        return fed
    warnings.warn(
        f"only {len(fed)} of {l} templates have weight 1/{4 * l} or more after round 1, fewer "
        f"than n_components={k}, so the heaviest others are added: use fewer components or "
        "more rows",
        FewSurvivorsWarning,
        stacklevel=3,
    )
    return np.sort(np.argsort(-weights, kind="stable")[:k])


def farthest_first(
    means: Floats, k: int, rng: np.random.Generator, pruning: Pruning
) -> NDArray[np.intp]:
    """Step 6: a random first template, then always the one farthest from those chosen.

    Distances are whole numbers, so that the choice is the same on every machine; the lowest index
    wins among equals.
    """
    distances_to = _ExpectedHamming(means).to if pruning == "hamming" else _L1(means).to
    chosen = [int(rng.integers(len(means)))]
    nearest = distances_to(chosen[0])
    while len(chosen) < k:
        nearest[chosen] = -1
        chosen.append(int(nearest.argmax()))
        nearest = np.minimum(nearest, distances_to(chosen[-1]))
    return np.array(chosen, dtype=np.intp)


class _L1:
    """Σ_s |S_s - T_s|, the paper's D, in units of 2^-30."""

    def __init__(self, means: Floats) -> None:
        self.means = np.rint(means * (1 << 30)).astype(np.int64)

    def to(self, i: int) -> Ints:
        """Distances from template i to all."""
        return np.array([np.abs(mean - self.means[i]).sum() for mean in self.means])


class _ExpectedHamming:
    """Σ_s S_s(1-T_s) + T_s(1-S_s): the mean distance between a row of one and a row of the other.

    Means are rounded so coarsely that every product and sum is a whole number below 2^53: it is
    exact in any order of adding.
    """

    def __init__(self, means: Floats) -> None:
        bits = min(20, (52 - math.ceil(math.log2(means.shape[1] + 1))) // 2)
        self._means = np.rint(means * (1 << bits))
        self._sums = self._means.sum(axis=1) * (1 << bits)

    def to(self, i: int) -> Ints:
        """Distances from template i to all."""
        apart = self._sums + self._sums[i] - 2 * (self._means @ self._means[i])
        distances = apart.astype(np.int64)
        distances[i] = 0
        return distances
