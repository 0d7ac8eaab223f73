"""Does the model fit at all? Checks of what the certificate assumes, each with a p-value.

The certificate assumes one noise level for all columns and clusters, columns that flip
independently, and no further template. A check is flagged if its p-value is below 10^-4 after
correction for the number of comparisons.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from bitmix.kernels import backend
from bitmix.kernels.bits import Words, pack, unpack
from bitmix.kernels.fixed import Ints
from bitmix.rows.packed import BitMatrix
from bitmix.theory.tails import Floats

FLAG = 1e-4
MAX_CELLS = 1 << 25
"""Cells that are looked at; of more rows, a random sample."""
MAX_COLUMNS = 2_000
"""Columns whose pairs are compared; of more, a random sample."""


@dataclass(frozen=True)
class ModelCheck:
    """One test of the flips, the bits in which rows differ from their template."""

    name: str
    p_value: float
    """Corrected for the number of comparisons; at most 1."""
    says: str

    @property
    def flagged(self) -> bool:
        return self.p_value < FLAG


def model_checks(
    words: Words, labels: NDArray[np.int64], T: BitMatrix, rng: np.random.Generator
) -> tuple[ModelCheck, ...]:
    """Compare flip rates of columns, clusters, cells of both and rows, and pairs of columns."""
    n = T.shape[1]
    rows = rng.permutation(len(words))[: max(2, MAX_CELLS // n)]
    labels, flipped = labels[rows], words[rows] ^ T.words[labels[rows]]
    flips = unpack(flipped, n)
    rate = float(flips.mean())
    if not 0 < rate < 0.5 or len(flips) < 2:
        return ()
    clusters, sizes = np.unique(labels, return_counts=True)
    counts = np.array([flips[labels == i].sum(axis=0, dtype=np.int64) for i in clusters])
    return (
        _columns(counts.sum(axis=0), len(flips), rate),
        _clusters(counts.sum(axis=1), sizes * n, rate, clusters),
        _cells(counts, sizes, rate, clusters),
        _rows(flips.sum(axis=1, dtype=np.int64), n, rate),
        _pairs_of_columns(flips, rng),
    )


def _columns(counts: Ints, m: int, rate: float) -> ModelCheck:
    p = _two_sided(counts, m, rate)
    worst = int(p.argmin())
    return ModelCheck(
        "flip rates by column",
        _corrected(p),
        f"column {worst} flips in {counts[worst] / m:.1%} of rows, {rate:.1%} expected: "
        "columns may have noise of their own, or a template is missing",
    )


def _clusters(counts: Ints, cells: Ints, rate: float, clusters: Ints) -> ModelCheck:
    p = _two_sided(counts, cells, rate)
    worst = int(p.argmin())
    return ModelCheck(
        "flip rates by group",
        _corrected(p),
        f"group {clusters[worst]} flips in {counts[worst] / cells[worst]:.1%} of bits, {rate:.1%} "
        "expected: groups may have noise of their own, or k is too small",
    )


def _cells(counts: Ints, sizes: Ints, rate: float, clusters: Ints) -> ModelCheck:
    p = stats.binom.sf(counts - 1, sizes[:, None], rate)
    i, s = np.unravel_index(int(p.argmin()), p.shape)
    return ModelCheck(
        "flip rates by group and column",
        _corrected(p),
        f"column {s} flips in {counts[i, s] / sizes[i]:.1%} of the rows of group {clusters[i]}, "
        f"{rate:.1%} expected: that group may hold two templates",
    )


def _rows(counts: Ints, n: int, rate: float) -> ModelCheck:
    return ModelCheck(
        "rows far from every template",
        _corrected(stats.binom.sf(counts - 1, n, rate)),
        f"a row differs from its template in {counts.max()} columns, {n * rate:.1f} expected: "
        "k may be too small, or some rows may not follow this model",
    )


def _pairs_of_columns(flips: NDArray[np.uint8], rng: np.random.Generator) -> ModelCheck:
    """Pairs of columns that flip in the same rows more often than independence allows."""
    m, n = flips.shape
    chosen = np.sort(rng.permutation(n)[:MAX_COLUMNS])
    columns = pack(np.ascontiguousarray(flips[:, chosen].T))
    counts = flips[:, chosen].sum(axis=0, dtype=np.int64)
    least, worst, pairs = 1.0, (0, 0), len(chosen) * (len(chosen) - 1) / 2
    for start in range(0, len(chosen), 256):
        block = slice(start, start + 256)
        both = (counts[block, None] + counts - backend().hamming(columns[block], columns)) // 2
        chance = np.outer(counts[block] / m, counts / m)
        later = np.arange(len(chosen)) > np.arange(start, start + len(both))[:, None]
        p = np.where(later, stats.binom.sf(both - 1, m, chance), 1.0)
        if p.size and p.min() < least:
            least = float(p.min())
            i, j = np.unravel_index(int(p.argmin()), p.shape)
            worst = (int(chosen[start + i]), int(chosen[j]))
    return ModelCheck(
        "columns that flip together",
        min(1.0, least * max(pairs, 1.0)),
        f"columns {worst[0]} and {worst[1]} flip in the same rows far more often than by chance: "
        "columns may be copies of each other, or a template is missing",
    )


def _two_sided(counts: Ints, trials: Ints | int, rate: float) -> Floats:
    low, high = stats.binom.cdf(counts, trials, rate), stats.binom.sf(counts - 1, trials, rate)
    return np.asarray(np.minimum(1.0, 2 * np.minimum(low, high)))


def _corrected(p: Floats) -> float:
    """The least p-value, times the number of comparisons (Bonferroni)."""
    return min(1.0, float(p.min()) * p.size)
