"""Steps 5-6: drop the starved templates, keep k that are far apart."""

import math
import warnings
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bitmix.errors import FewSurvivorsWarning, InputError
from bitmix.kernels.fixed import Ints
from bitmix.mixture import Floats, Mixture

Pruning = Literal["l1", "hamming"]


def as_pruning(value: Any) -> Pruning:
    """The distance of step 6 by name."""
    if value in ("l1", "hamming"):
        return value  # type: ignore[no-any-return]
    raise InputError(f"pruning must be 'l1' (the paper's) or 'hamming', got {value!r}")


def survivors(mixture: Mixture, k: int) -> NDArray[np.intp]:
    """Step 5: components of weight at least w_T = 1/4l.

    Fewer than k: the heaviest of the starved fill up, the lowest index among equals.
    """
    l, weights = mixture.n_components, mixture.weights
    fed = np.flatnonzero(weights >= 1 / (4 * l))
    if len(fed) >= k:
        return fed
    warnings.warn(
        f"only {len(fed)} of {l} templates have weight 1/{4 * l} or more after round 1, fewer than "
        f"n_components={k}: the heaviest others fill up. Use fewer components or more rows",
        FewSurvivorsWarning,
        stacklevel=2,
    )
    heaviest = np.argsort(-weights, kind="stable")[:k]
    return np.sort(heaviest)


def farthest_first(
    means: Floats, k: int, rng: np.random.Generator, pruning: Pruning
) -> NDArray[np.intp]:
    """Step 6: a random first template, then always the one farthest from those chosen.

    Distances are whole numbers, so that the choice is the same on every machine; the lowest index
    wins among equals.
    """
    distances_to = _ExpectedHamming(means) if pruning == "hamming" else _L1(means)
    chosen = [int(rng.integers(len(means)))]
    nearest = distances_to(chosen[0])
    while len(chosen) < k:
        nearest[chosen] = -1
        chosen.append(int(nearest.argmax()))
        nearest = np.minimum(nearest, distances_to(chosen[-1]))
    return np.array(chosen, dtype=np.intp)


class _L1:
    """Σ_s |S_s - T_s|, the paper's D."""

    def __init__(self, means: Floats) -> None:
        self.means = _to_integers(means, 30)

    def __call__(self, i: int) -> Ints:
        return np.array([np.abs(mean - self.means[i]).sum() for mean in self.means])


class _ExpectedHamming:
    """Σ_s S_s(1-T_s) + T_s(1-S_s): the mean distance between rows of the one and of the other."""

    def __init__(self, means: Floats) -> None:
        bits = min(30, (61 - math.ceil(math.log2(means.shape[1] + 1))) // 2)
        self.means, self.one = _to_integers(means, bits), 1 << bits

    def __call__(self, i: int) -> Ints:
        S, one = self.means[i], self.one
        return np.array([(S * (one - T) + T * (one - S)).sum() for T in self.means])


def _to_integers(means: Floats, bits: int) -> Ints:
    return np.rint(means * (1 << bits)).astype(np.int64)
