"""Checks of the assumptions of the certificate, each with a p-value.

The certificate assumes one noise level for all columns and clusters, columns that flip
independently, rows that are independent draws, and no further template. A check is flagged if its
p-value is below its level, 10^-4 for most, after correction for the number of comparisons.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from bitmix.certify.evidence import Evidence
from bitmix.em.fit import fit_mixture
from bitmix.em.noise import Noise
from bitmix.em.search import Settings, converge, evaluate
from bitmix.em.step import expect
from bitmix.kernels import backend
from bitmix.kernels.bits import Words, pack, unpack
from bitmix.kernels.fixed import Ints
from bitmix.models.mixture import Mixture
from bitmix.rows.packed import BitMatrix
from bitmix.theory.tails import Floats

FLAG = 1e-4
COPIES_FLAG = 1e-6
"""A lower level, because the noise level that matched rows are compared with is estimated."""
SEARCH = Settings(Noise("shared", 0.1), n_init=5, max_iter=10_000, tol=1e-7)
"""The search for templates in part of the rows, as `TemplateMixture` with one flip rate does."""
MAX_CELLS = 1 << 25
"""The largest number of cells that are checked; otherwise a random sample of rows is used."""
MAX_COLUMNS = 2_000
"""The largest number of columns whose pairs are compared; otherwise a random sample is used."""


@dataclass(frozen=True)
class ModelCheck:
    """One test of the flips, that is, of the bits in which rows differ from their template."""

    name: str
    p_value: float
    """Corrected for the number of comparisons; at most 1."""
    says: str
    level: float = FLAG

    @property
    def flagged(self) -> bool:
        return self.p_value < self.level


def model_checks(
    words: Words,
    labels: NDArray[np.int64],
    T: BitMatrix,
    rng: np.random.Generator,
    evidence: Evidence,
) -> tuple[ModelCheck, ...]:
    """Check flip rates by column, by group, by both and by row, pairs of columns, and matched
    rows, and compare k with k + 1 templates.
    """
    n = T.shape[1]
    rows = rng.permutation(len(words))[: max(2, MAX_CELLS // n)]
    words, labels = words[rows], labels[rows]
    flips = unpack(words ^ T.words[labels], n)
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
        _near_copies(evidence),
        _missing_template(words, T, np.bincount(labels, minlength=len(T)), rate, rng),
    )


def _near_copies(evidence: Evidence) -> ModelCheck:
    """Test whether matched rows agree more often than the estimated flip rate allows."""
    rate = evidence.flips / (evidence.m * evidence.n)
    expected = 2 * rate * (1 - rate)
    share = evidence.disagreements / max(evidence.compared, 1)
    return ModelCheck(
        "rows alike beyond their template",
        float(stats.binom.cdf(evidence.disagreements, evidence.compared, expected)),
        f"rows that are close on one half of the columns differ in {share:.1%} of the other half, "
        f"{expected:.1%} expected: rows may be near-copies of each other, or a template is missing",
        COPIES_FLAG,
    )


def _missing_template(
    words: Words, T: BitMatrix, sizes: Ints, rate: float, rng: np.random.Generator
) -> ModelCheck:
    """Do k + 1 templates, found in half of the rows, predict the other half better than k can?

    By universal inference: if there are k templates, the likelihood of the second half under k + 1
    templates learned from the first half, divided by its maximum over k templates, exceeds 1/ε with
    probability at most ε. The maximum is the better of two local optima, not a proven one.
    """
    name, (k, n) = "one more template", T.shape
    order = rng.permutation(len(words))
    halves = [
        BitMatrix.trusted(np.ascontiguousarray(words[part]), n)
        for part in (order[::2], order[1::2])
    ]
    first, second = halves
    if len(second) <= k + 1:
        return ModelCheck(name, 1.0, "there are too few rows to look for one more template")
    seed = int(rng.integers(1 << 32))
    more, same = (
        fit_mixture(first, count, SEARCH, compare_models=False, seed=seed).fit.mixture
        for count in (k + 1, k)
    )
    given = Mixture(T.to_dense(np.float64), (sizes + 1) / (sizes.sum() + k), rate)
    best = max(
        expect(second, fitted).log_likelihood
        for start in (given, same)
        for fitted in (
            start,
            converge(second, evaluate(second, start, SEARCH.noise), SEARCH).mixture,
        )
    )
    gain = expect(second, more).log_likelihood - best
    return ModelCheck(
        name,
        math.exp(min(0.0, -gain)),
        f"{k + 1} templates found in half of the rows predict the other half {gain:.3g} nats "
        f"better than {k} can: a template may be missing",
    )


def _columns(counts: Ints, m: int, rate: float) -> ModelCheck:
    p = _two_sided(counts, m, rate)
    worst = int(p.argmin())
    return ModelCheck(
        "flip rates by column",
        _corrected(p),
        f"column {worst} flips in {counts[worst] / m:.1%} of rows, {rate:.1%} expected: "
        "columns may differ in noise, or a template is missing",
    )


def _clusters(counts: Ints, cells: Ints, rate: float, clusters: Ints) -> ModelCheck:
    p = _two_sided(counts, cells, rate)
    worst = int(p.argmin())
    return ModelCheck(
        "flip rates by group",
        _corrected(p),
        f"group {clusters[worst]} flips in {counts[worst] / cells[worst]:.1%} of bits, {rate:.1%} "
        "expected: groups may differ in noise, or k is too small",
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
    """Test whether two columns flip in the same rows more often than independence allows."""
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
