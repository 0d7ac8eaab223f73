"""Limits that no method can exceed, to compare with what is certified."""

import itertools
import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from bitmix.theory import checks
from bitmix.theory.tails import Floats, coarse, log_choose, window

_LONGEST_SUM = 5_000_000


@dataclass(frozen=True)
class Limit:
    """The least error and the best recovery, whatever the method."""

    label_error: float
    """Bayes error of labels if templates, q and w are known; see `label_error_is_exact`."""
    recovery_uniform: float
    """Largest probability of finding all templates if every label is known and templates are
    independent and uniform: that of a majority vote in each cluster (for k > 2 a bound on it)."""
    recovery_masks: float
    """Largest probability of finding all templates if labels **and** the columns in which templates
    differ are known: that of one majority vote over all rows. This is the limit for
    given distances, where pooling clusters can beat `recovery_uniform`."""
    label_error_is_exact: bool
    """True for k ≤ 3 (unless the sum is too long). For more templates, distances do not determine
    the error; `label_error` is then the largest over pairs, a lower bound on the true one."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def limit(n: int, m: int, k: int, q: float, distances: ArrayLike, weights: ArrayLike) -> Limit:
    """Limits at one parameter point; arguments as in `certificate`.

    Examples
    --------
    >>> from bitmix.theory import limit
    >>> at = limit(45, 20, 2, 0.2, 45, [0.5, 0.5])
    >>> round(at.recovery_uniform, 3), round(at.recovery_masks, 3)
    (0.167, 0.931)
    """
    n, m, k = checks.count(n, "n"), checks.count(m, "m"), checks.count(k, "k")
    q = checks.positive(q, "q", 0.5)
    d, w = checks.distances(distances, k, n), checks.weights(weights, k)
    pairs = itertools.combinations(range(k), 2)
    label = max((pair_error(int(d[i, j]), q, w[i], w[j]) for i, j in pairs), default=0.0)
    triple = triple_error(d, q, w) if k == 3 else None
    return Limit(
        label if triple is None else triple,
        _recovery_uniform(n, m, q, w),
        math.exp(n * math.log1p(-float(vote_error(m, q)))),
        k < 3 or triple is not None,
    )


def triple_error(d: NDArray[np.int64], q: float, w: Floats) -> float | None:
    """1 - Σ_x max_i w_i f_i(x) for three templates, whose distances determine it.

    There are three kinds of columns; in each kind, one template differs from the other two. Only
    the number of flips in each kind matters. None if no templates have such distances or the sum
    is too long.
    """
    total = int(d[0, 1] + d[0, 2] + d[1, 2])
    if total % 2:
        return None
    kinds = [total // 2 - int(d[1, 2]), total // 2 - int(d[0, 2]), total // 2 - int(d[0, 1])]
    if math.prod(kind + 1 for kind in kinds) > _LONGEST_SUM:
        return None
    # ones[j]: in how many of the columns where j differs from the other two a row agrees with j
    ones = np.meshgrid(*(np.arange(kind + 1.0) for kind in kinds), indexing="ij")
    ways = sum(log_choose(kind, one) for kind, one in zip(kinds, ones, strict=True))
    step = math.log((1 - q) / q)
    best = np.full(ones[0].shape, -np.inf)
    for i in range(3):
        flips = sum(kinds[j] - ones[j] if j == i else ones[j] for j in range(3))
        best = np.maximum(best, math.log(w[i]) - step * flips)
    correct = np.exp(ways + best + sum(kinds) * math.log1p(-q)).sum()
    return max(0.0, 1.0 - float(correct))


def pair_error(d: int, q: float, w_i: float, w_j: float) -> float:
    """Σ_x min(w_i f_i(x), w_j f_j(x)): only the flips f in the d differing columns matter.

    A row of i with f flips there looks like a row of j with d - f. Below the crossing point i is
    more likely and rows of j are mislabelled; above it, rows of i are.
    """
    crossing = (
        d + math.log(w_i / w_j) / math.log((1 - q) / q)
    ) / 2  # below this f, i is more likely
    lost_i = scipy.stats.binom.sf(math.ceil(crossing) - 1, d, q) if crossing > 0 else 1.0
    lost_j = scipy.stats.binom.sf(math.floor(d - crossing), d, q) if d - crossing >= 0 else 1.0
    return float(w_i * lost_i + w_j * lost_j)


def vote_error(rows: ArrayLike, q: float) -> Floats:
    """Probability that the majority of this many rows is wrong in a column; ties by a fair coin."""
    M = np.asarray(rows, dtype=np.float64)
    half = np.floor(M / 2)
    tie = np.where(M % 2 == 0, scipy.stats.binom.pmf(half, M, q), 0.0)
    return np.asarray(scipy.stats.binom.sf(half, M, q) + tie / 2)


def _recovery_uniform(n: int, m: int, q: float, w: Floats) -> float:
    """E Π_i (1 - e(M_i))^n. For k > 2 the factors are negatively associated, so Π E bounds it."""

    def right(sizes: Floats) -> Floats:
        return np.asarray(np.exp(n * np.log1p(-vote_error(sizes, q))))

    if len(w) == 2:
        sizes, chance, missed = window(m, float(w[0]))
        return min(1.0, float(np.sum(chance * right(sizes) * right(m - sizes))) + missed)
    product = 1.0
    for weight in w if len(w) > 1 else ():
        sizes, chance, missed = coarse(*window(m, float(weight)))
        product *= min(1.0, float(np.sum(chance * right(sizes))) + missed)
    return product if len(w) > 1 else float(right(np.array([float(m)]))[0])
