"""Thousands of components by levels: split, split again, merge, EM among candidates.

Rows are split into a few groups, the rows of each into a few groups again, and so on, each time by
the seeds, EM steps and merging of `em.search.begin`. That makes more components than are wanted.
After an EM step among all of them, the two whose merging loses the least likelihood are merged
until k are left, wherever in the levels they come from. Last, EM steps on all rows compare each row
with its candidates; templates, whose scores are counted in words, with all.
"""

import heapq
import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from bitmix.em import predict
from bitmix.em.candidates import (
    ENOUGH,
    Candidates,
    expect_among,
    log_likelihoods_among,
    recall,
)
from bitmix.em.dendrogram import merged_groups, tree_of
from bitmix.em.fit import HeldOut, Result, fit_mixture
from bitmix.em.noise import Noise
from bitmix.em.search import Fit, Search, Settings, Start, begin, converge, evaluate
from bitmix.em.step import Round, Statistics, expect
from bitmix.kernels import fixed
from bitmix.kernels.bits import unpack
from bitmix.kernels.scores import PopcountScores
from bitmix.models.mixture import Floats, Mixture, NoiseModel
from bitmix.rows import Rows
from bitmix.support.progress import meter
from bitmix.support.randomness import draw_without_replacement, stream

BRANCHES = 16
"""Groups per split at most: few, so that there are many seeds for each."""
LEAVES_PER_COMPONENT = 1.5
"""Splits make this many components for each that is wanted."""
ROWS_PER_SPLIT = 1 << 14
"""A group is split by a sample of this many rows."""
ROWS_PER_LEAF = 64
"""Rows in a sample that the levels are made of, for each component that is wanted."""
FEW = 512
"""Up to so many components, each row is compared with all of them."""
WORST, LOOKS = 16, 2
"""One row in 16, those that are explained worst, gets components of its own once more; twice with
many components."""
SETTLING_STEPS = 1
"""EM steps among all components of the splits before they are merged."""
_STEPS, _REFILLS = 3, 3
_TOL = 1e-3


def fit_levels(
    rows: Rows, k: int, settings: Settings, *, compare_models: bool, seed: int
) -> Result:
    """k components of all rows, and their tree."""
    m, rng = rows.shape[0], stream(seed, "seeds")
    sample, most = rows, max(ROWS_PER_SPLIT, ROWS_PER_LEAF * k)
    if m > most:
        sample = rows.subset(np.sort(draw_without_replacement(m, most, stream(seed, "sample"))))
    sample, n_searched = sample.distinct(), sample.shape[0]
    scores: dict[NoiseModel, HeldOut] = {}
    if compare_models:
        settings, scores = _compared(sample, k, settings, seed)
    noise = settings.noise
    n_leaves = min(math.ceil(LEAVES_PER_COMPONENT * k), sample.shape[0]) if k > 1 else 1
    with meter("groups", n_leaves if n_leaves > FEW else 0) as show:
        parts: list[Statistics] = []
        for part in _split(sample, n_leaves, settings, rng):
            parts.append(part)
            show(sum(len(each.mass) for each in parts), "")
    leaves = _settled(_together(parts, sample, k, rng), k, sample, settings)
    mixture, near, merged = _merged(leaves, k, sample, settings)
    for _ in range(min(LOOKS, 1 + (k > FEW)) if k > BRANCHES else 0):
        again = _second_look(sample, mixture, near, settings, rng)
        leaves = _settled(_joined([merged, *again]), k, sample, settings)
        mixture, near, merged = _merged(leaves, k, sample, settings)
    short = replace(settings, tol=max(settings.tol, _TOL))
    if k > FEW:
        short = replace(short, max_iter=min(_STEPS, settings.max_iter))
    fit = _converge(rows, mixture, near, short)
    for _ in range(_REFILLS):
        if fit.statistics.mass.all():
            break
        mixture = _refilled(sample, fit, near, noise)
        fit = _converge(rows, mixture, near, replace(short, max_iter=1))
    found = Search(fit, (Start(fit.nats, len(fit.objectives), finished=True),), 1, 1)
    return Result(fit, found, n_searched, scores, tree_of(fit.statistics))


def _compared(
    rows: Rows, k: int, settings: Settings, seed: int
) -> tuple[Settings, dict[NoiseModel, HeldOut]]:
    """The settings with the noise model that is chosen in one of the smallest groups: among few
    components for many groups, each noise model is as wrong as the others. If columns need rates of
    their own there, each cell gets a probability, which takes more rows than these to show.
    """
    rng = stream(seed, "folds", 1)
    while k > BRANCHES:
        groups = _parted(rows, k, settings, rng)
        rows, k = max(groups, key=lambda group: group[0].shape[0])
    one = replace(settings, n_init=1)
    result = fit_mixture(rows, k, one, compare_models=True, seed=seed)
    model = result.fit.mixture.noise_model
    noise = replace(settings.noise, model="cell" if model == "feature" else model)
    return replace(settings, noise=noise), result.noise_model_scores


def _merged(
    leaves: Statistics, k: int, rows: Rows, settings: Settings
) -> tuple[Mixture, Candidates | None, Statistics]:
    """The mixture of k components after the cheapest merges, and the candidates of its rows, if
    there are many components and they have levels. Binary templates need none: of 3,000, a pass
    over all took a third of the time of one among candidates.
    """
    merged = leaves.grouped(merged_groups(leaves, k), k)
    means = merged.means(np.full(merged.sums.shape, 0.5))
    start = Mixture(means, merged.weights, None, settings.noise.items)
    mixture = settings.noise.maximise(merged, start)
    if k <= FEW or isinstance(mixture.scores(), PopcountScores):
        return mixture, None, merged
    near = Candidates.of(mixture, means, tree_of(merged))
    return mixture, near if recall(rows, mixture, near) >= ENOUGH else None, merged


def _settled(leaves: Statistics, k: int, rows: Rows, settings: Settings) -> Statistics:
    """The components after EM steps among all of them: rows that a split put into a group without
    their template find it in another group.
    """
    for _ in range(SETTLING_STEPS):
        means = leaves.means(np.full(leaves.sums.shape, 0.5))
        start = Mixture(means, leaves.weights, None, settings.noise.items)
        after = expect(rows, settings.noise.maximise(leaves, start))
        after = after.subset(np.flatnonzero(after.mass))
        if len(after.mass) < k:
            break
        leaves = after
    return leaves


def _second_look(
    rows: Rows, mixture: Mixture, near: Candidates | None, settings: Settings,
    rng: np.random.Generator,
) -> list[Statistics]:  # fmt: skip
    """More components for the rows that the mixture explains worst."""
    values = _log_likelihoods(rows, mixture, near)
    n_worst = max(1, rows.shape[0] // WORST)
    worst = np.sort(np.argsort(values, kind="stable")[:n_worst])
    k = min(-(-mixture.n_components * 2 // WORST), n_worst)
    return list(_split(rows.subset(worst), k, settings, rng))


def _log_likelihoods(rows: Rows, mixture: Mixture, near: Candidates | None) -> Floats:
    if near is None:
        return predict.log_likelihoods(rows, mixture)
    return log_likelihoods_among(rows, mixture, near)


def _refilled(rows: Rows, fit: Fit, near: Candidates | None, noise: Noise) -> Mixture:
    """The mixture with the rows that it explains worst in place of components without rows."""
    statistics, mixture = fit.statistics, noise.maximise(fit.statistics, fit.mixture)
    empty = np.flatnonzero(statistics.mass == 0)
    worst = np.argsort(_log_likelihoods(rows, fit.mixture, near), kind="stable")[: len(empty)]
    bits = unpack(rows.take(worst), rows.shape[1]).astype(np.float64)
    if mixture.noise is None:
        bits = (bits + statistics.column_shares) / 2
    means, weights = mixture.means.copy(), mixture.weights.copy()
    means[empty[: len(bits)]] = bits
    weights[empty] = statistics.weight_one / statistics.n_rows
    return replace(mixture, means=means, weights=weights / math.fsum(weights))


def _split(
    rows: Rows, k: int, settings: Settings, rng: np.random.Generator
) -> Iterator[Statistics]:
    """The statistics of k components, or a few less, from groups that are split in turn."""
    short = replace(settings, max_iter=1)
    if k <= BRANCHES:
        fit = converge(rows, evaluate(rows, begin(rows, k, short, rng), settings.noise), short)
        yield fit.statistics.subset(np.flatnonzero(fit.statistics.mass))
        return
    for group, k_group in _parted(rows, k, settings, rng):
        yield from _split(group, k_group, settings, rng)


def _parted(
    rows: Rows, k: int, settings: Settings, rng: np.random.Generator
) -> list[tuple[Rows, int]]:
    """Rows in a few groups, and how many of k components each group gets."""
    short = replace(settings, max_iter=1)
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
    allotted = _allotted([len(each) for each in members], k)
    pairs = zip(members, allotted, strict=True)
    return [(rows.subset(which), k_group) for which, k_group in pairs if k_group]


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


def _together(parts: list[Statistics], rows: Rows, k: int, rng: np.random.Generator) -> Statistics:
    """The components of all parts; single rows are added if there are fewer than k."""
    leaves = _joined(parts)
    n_lacking = k - len(leaves.mass)
    if n_lacking <= 0:
        return leaves
    one = leaves.weight_one << fixed.SHARE_BITS
    words = rows.take(draw_without_replacement(rows.shape[0], n_lacking, rng))
    sums = one * unpack(words, rows.shape[1]).astype(np.int64)
    known = None if leaves.known is None else np.full_like(sums, one)
    single = replace(leaves, n_rows=n_lacking, mass=np.full(n_lacking, one), sums=sums, known=known)
    return _joined([leaves, single])


def _joined(parts: list[Statistics]) -> Statistics:
    """The statistics of the components of all parts."""
    known = None
    if parts[0].known is not None:
        known = np.concatenate([part.known for part in parts if part.known is not None])
    return replace(
        parts[0],
        n_rows=sum(part.n_rows for part in parts),
        mass=np.concatenate([part.mass for part in parts]),
        sums=np.concatenate([part.sums for part in parts]),
        known=known,
    )


def _converge(rows: Rows, mixture: Mixture, near: Candidates | None, settings: Settings) -> Fit:
    """EM steps, in which rows belong to their candidates if there are any."""
    if near is None:
        return converge(rows, evaluate(rows, mixture, settings.noise), settings)
    fit = _evaluate_among(rows, mixture, near, settings.noise)
    for _ in range(settings.max_iter):
        mixture = settings.noise.maximise(fit.statistics, fit.mixture)
        after = _evaluate_among(rows, mixture, near, settings.noise)
        gain = after.objectives[-1] - fit.objectives[-1]
        objectives, history = fit.objectives + after.objectives, fit.history + after.history
        close = gain <= settings.tol * (after.statistics.n_rows << fixed.LIKELIHOOD_BITS)
        fit = replace(after, objectives=objectives, history=history, converged=close)
        if close:
            break
    return fit


def _evaluate_among(rows: Rows, mixture: Mixture, candidates: Candidates, noise: Noise) -> Fit:
    statistics = expect_among(rows, mixture, candidates)
    objectives = (noise.objective(statistics, mixture),)
    return Fit(mixture, statistics, objectives, (Round.of(statistics),))
