"""Does the model fit at all? Checks beside the certificate, each with a p-value.

They look for what the certificate takes for granted: one noise level for all columns and clusters,
columns that flip independently, no hidden template. A check is flagged below 10^-4 after correction
for the number of places looked at.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from bitmix.kernels import backend
from bitmix.kernels.bits import Words, pack, unpack
from bitmix.rows.packed import BitMatrix

FLAG = 1e-4
MOST_CELLS = 1 << 25
MOST_COLUMNS = 2_000
"""Columns whose pairs are compared; of more, a random choice."""


@dataclass(frozen=True)
class ModelCheck:
    """One look at the residual flips."""

    name: str
    p_value: float
    """Corrected for the number of places looked at; at most 1."""
    says: str

    @property
    def flagged(self) -> bool:
        return self.p_value < FLAG


def model_checks(
    words: Words, labels: NDArray[np.int64], T: BitMatrix, rng: np.random.Generator
) -> tuple[ModelCheck, ...]:
    """Flip rates by column, by cluster and by both; rows; pairs of columns."""
    n = T.shape[1]
    rows = rng.permutation(len(words))[: max(2, MOST_CELLS // n)]  # a block of cells is enough
    labels, flipped = labels[rows], words[rows] ^ T.words[labels[rows]]
    flips = unpack(flipped, n)
    rate = float(flips.mean())
    if not 0 < rate < 0.5 or len(flips) < 2:
        return ()
    return (
        _by_column(flips, rate),
        _by_cluster(flips, labels, rate),
        _by_cell(flips, labels, rate),
        _by_row(flips, rate),
        _together(flips, rng),
    )


def _by_column(flips: NDArray[np.uint8], rate: float) -> ModelCheck:
    m, n = flips.shape
    counts = flips.sum(axis=0, dtype=np.int64)
    p = _two_sided(counts, np.full(n, m), rate)
    worst = int(p.argmin())
    return ModelCheck(
        "flip rates by column",
        min(1.0, float(p.min()) * n),
        f"column {worst} flips in {counts[worst] / m:.1%} of rows, {rate:.1%} expected: "
        "columns may have noise of their own, or a template is missing",
    )


def _by_cluster(flips: NDArray[np.uint8], labels: NDArray[np.int64], rate: float) -> ModelCheck:
    clusters = np.unique(labels)
    counts = np.array([int(flips[labels == i].sum()) for i in clusters])
    cells = np.array([np.count_nonzero(labels == i) for i in clusters]) * flips.shape[1]
    p = _two_sided(counts, cells, rate)
    worst = int(p.argmin())
    return ModelCheck(
        "flip rates by group",
        min(1.0, float(p.min()) * len(clusters)),
        f"group {clusters[worst]} flips in {counts[worst] / cells[worst]:.1%} of bits, {rate:.1%} "
        "expected: groups may have noise of their own, or k is too small",
    )


def _by_cell(flips: NDArray[np.uint8], labels: NDArray[np.int64], rate: float) -> ModelCheck:
    clusters = np.unique(labels)
    counts = np.array([flips[labels == i].sum(axis=0, dtype=np.int64) for i in clusters])
    sizes = np.array([np.count_nonzero(labels == i) for i in clusters])
    p = stats.binom.sf(counts - 1, sizes[:, None], rate)
    i, s = np.unravel_index(int(p.argmin()), p.shape)
    return ModelCheck(
        "flip rates by group and column",
        min(1.0, float(p.min()) * p.size),
        f"column {s} flips in {counts[i, s] / sizes[i]:.1%} of the rows of group {clusters[i]}, "
        f"{rate:.1%} expected: that group may hold two templates",
    )


def _by_row(flips: NDArray[np.uint8], rate: float) -> ModelCheck:
    m, n = flips.shape
    counts = flips.sum(axis=1, dtype=np.int64)
    p = stats.binom.sf(counts - 1, n, rate)
    worst = int(p.argmin())
    return ModelCheck(
        "rows far from every template",
        min(1.0, float(p.min()) * m),
        f"a row differs from its template in {counts[worst]} columns, {n * rate:.1f} expected: "
        "k may be too small, or rows may not be of this model",
    )


def _together(flips: NDArray[np.uint8], rng: np.random.Generator) -> ModelCheck:
    """Pairs of columns that flip in the same rows more often than independence allows."""
    m, n = flips.shape
    chosen = np.sort(rng.permutation(n)[:MOST_COLUMNS])
    columns = pack(np.ascontiguousarray(flips[:, chosen].T))
    counts = flips[:, chosen].sum(axis=0, dtype=np.int64)
    least, where, pairs = 1.0, (0, 0), len(chosen) * (len(chosen) - 1) / 2
    for start in range(0, len(chosen), 256):
        block = slice(start, start + 256)
        both = (counts[block, None] + counts - backend().hamming(columns[block], columns)) // 2
        chance = np.outer(counts[block] / m, counts / m)
        later = np.arange(len(chosen)) > np.arange(start, start + len(both))[:, None]
        p = np.where(later, stats.binom.sf(both - 1, m, chance), 1.0)
        if p.size and p.min() < least:
            least = float(p.min())
            i, j = np.unravel_index(int(p.argmin()), p.shape)
            where = (int(chosen[start + i]), int(chosen[j]))
    return ModelCheck(
        "columns that flip together",
        min(1.0, least * max(pairs, 1.0)),
        f"columns {where[0]} and {where[1]} flip in the same rows far more often than by chance: "
        "columns may be copies of each other, or a template is missing",
    )


def _two_sided(
    counts: NDArray[np.int64], trials: NDArray[np.int64], rate: float
) -> NDArray[np.float64]:
    low, high = stats.binom.cdf(counts, trials, rate), stats.binom.sf(counts - 1, trials, rate)
    return np.asarray(np.minimum(1.0, 2 * np.minimum(low, high)))
