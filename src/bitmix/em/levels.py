"""Thousands of components by levels: split, split again, merge, EM among candidates.

Rows are split into a few groups, the rows of each into a few groups again, and so on, each time by
the seeds, EM steps and merging of `em.search.begin`. That makes more components than are wanted;
then the two whose merging loses the least likelihood are merged until k are left, wherever in the
levels they come from. Last, EM steps on all rows compare each row with its candidates.
"""

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from bitmix.em import predict
from bitmix.em.candidates import Candidates, added, expect_among
from bitmix.em.dendrogram import merged_groups, tree_of
from bitmix.em.noise import Noise
from bitmix.em.search import Fit, Settings, begin, converge, evaluate
from bitmix.em.step import Round, Statistics
from bitmix.kernels import fixed
from bitmix.kernels.bits import unpack
from bitmix.models.mixture import Mixture
from bitmix.models.tree import Tree
from bitmix.rows import Rows
from bitmix.support.progress import meter
from bitmix.support.randomness import draw_without_replacement, stream

BRANCHES = 16
"""Groups per split at most: few, so that there are many seeds for each."""
LEAVES_PER_COMPONENT = 1.5
"""Splits make this many components for each that is wanted."""
ROWS_PER_SPLIT = 4096
"""A group is split by a sample of this many rows."""
ROWS_PER_LEAF = 64
"""Rows in a sample that the levels are made of, for each component that is wanted."""
FEW = 512
"""Up to so many components, each row is compared with all of them."""
_STEPS_OF_SPLIT, _STEPS = 4, 3
_TOL = 1e-3


@dataclass(frozen=True, eq=False)
class Levels:
    """A fit by levels."""

    fit: Fit
    tree: Tree
    n_leaves: int
    """The number of components before merging."""


def fit_levels(rows: Rows, k: int, settings: Settings, seed: int) -> Levels:
    """k components of all rows, and their tree."""
    m, rng, noise = rows.shape[0], stream(seed, "seeds"), settings.noise
    sample, most = rows, max(ROWS_PER_SPLIT, ROWS_PER_LEAF * k)
    if m > most:
        sample = rows.subset(np.sort(draw_without_replacement(m, most, stream(seed, "sample"))))
    sample = sample.distinct()
    n_leaves = min(math.ceil(LEAVES_PER_COMPONENT * k), sample.shape[0]) if k > 1 else 1
    with meter("groups", n_leaves if n_leaves > FEW else 0) as show:
        parts: list[Statistics] = []
        for part in _split(sample, n_leaves, settings, rng):
            parts.append(part)
            show(sum(len(each.mass) for each in parts), "")
    leaves = _together(parts, sample, k, rng)
    merged = added(leaves, merged_groups(leaves, k), k)
    half = np.full(merged.sums.shape, 0.5)
    start = Mixture(merged.means(half), merged.weights, None, noise.items)
    mixture = noise.maximise(merged, start)
    if k <= FEW:
        short = replace(settings, tol=max(settings.tol, _TOL))
        fit = converge(rows, evaluate(rows, mixture, noise), short)
    else:
        near = Candidates.of(mixture, merged.means(half), tree_of(merged))
        fit = _converge_among(rows, mixture, near, settings)
    return Levels(fit, tree_of(fit.statistics), len(leaves.mass))


def _split(
    rows: Rows, k: int, settings: Settings, rng: np.random.Generator
) -> Iterator[Statistics]:
    """The statistics of k components, or a few less, from groups that are split in turn."""
    short = replace(settings, max_iter=_STEPS_OF_SPLIT, tol=_TOL)
    if k <= BRANCHES:
        fit = converge(rows, evaluate(rows, begin(rows, k, short, rng), settings.noise), short)
        yield fit.statistics.subset(np.flatnonzero(fit.statistics.mass))
        return
    depth = 2
    while BRANCHES**depth < k:
        depth += 1
    n_groups = next(b for b in range(2, BRANCHES + 1) if b**depth >= k)
    some = rows
    if rows.shape[0] > ROWS_PER_SPLIT:
        some = rows.subset(rows.draw(ROWS_PER_SPLIT, rng))
    fit = converge(some, evaluate(some, begin(some, n_groups, short, rng), settings.noise), short)
    labels = predict.labels(rows, fit.mixture)
    members = [np.flatnonzero(labels == g) for g in range(n_groups)]
    for which, k_group in zip(members, _allotted([len(each) for each in members], k), strict=True):
        if k_group:
            yield from _split(rows.subset(which), k_group, settings, rng)


def _allotted(sizes: list[int], k: int) -> list[int]:
    """How many of k components each group gets: by its rows, one at least, and one per row at
    most.
    """
    allotted = [min(1, size) for size in sizes]
    queue = [(-size / 2, g) for g, size in enumerate(sizes) if size > 1]
    heapq.heapify(queue)
    for _ in range(k - sum(allotted)):
        if not queue:
            break
        g = heapq.heappop(queue)[1]
        allotted[g] += 1
        if allotted[g] < sizes[g]:
            heapq.heappush(queue, (-sizes[g] / (allotted[g] + 1), g))
    return allotted


def _together(
    parts: list[Statistics], rows: Rows, k: int, rng: np.random.Generator
) -> Statistics:
    """The components of all parts; single rows are added if there are fewer than k."""
    first = parts[0]
    mass = np.concatenate([part.mass for part in parts])
    sums = np.concatenate([part.sums for part in parts])
    known = None
    if first.known is not None:
        known = np.concatenate([part.known for part in parts if part.known is not None])
    if (n_lacking := k - len(mass)) > 0:
        one = first.weight_one << fixed.SHARE_BITS
        words = rows.take(draw_without_replacement(rows.shape[0], n_lacking, rng))
        bits = unpack(words, rows.shape[1]).astype(np.int64)
        mass = np.append(mass, np.full(n_lacking, one))
        sums = np.append(sums, one * bits, axis=0)
        if known is not None:
            known = np.append(known, np.full_like(bits, one), axis=0)
    n_rows = int(mass.sum()) >> fixed.SHARE_BITS
    return replace(first, n_rows=n_rows, mass=mass, sums=sums, known=known)


def _converge_among(
    rows: Rows, mixture: Mixture, candidates: Candidates, settings: Settings
) -> Fit:
    """A few EM steps in which rows belong to their candidates."""
    noise = settings.noise
    fit = _evaluate_among(rows, mixture, candidates, noise)
    for _ in range(min(_STEPS, settings.max_iter)):
        after = _evaluate_among(
            rows, noise.maximise(fit.statistics, fit.mixture), candidates, noise
        )
        gain = after.objective - fit.objective
        objectives, history = fit.objectives + after.objectives, fit.history + after.history
        close = gain <= _TOL * (after.statistics.n_rows << fixed.LIKELIHOOD_BITS)
        fit = replace(after, objectives=objectives, history=history, converged=close)
        if close:
            break
    return fit


def _evaluate_among(rows: Rows, mixture: Mixture, candidates: Candidates, noise: Noise) -> Fit:
    statistics = expect_among(rows, mixture, candidates)
    objectives = (noise.objective(statistics, mixture),)
    return Fit(mixture, statistics, objectives, (Round.of(statistics),))
