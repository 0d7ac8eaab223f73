"""Merging components, always the two whose merging loses the least likelihood.

*Templates.* Let e_is be the evidence for bit s of template i, in nats. A template is best with a 1
where its evidence is positive; merged components have the sum of their evidence. So merging i and j
loses Σ_s (|e_is| + |e_js| - |e_is + e_js|)/2 nats: where they disagree, the smaller evidence. The
flip rates are held fixed meanwhile.

*A probability per cell.* With c cells of which o are 1, a cell of a component has log-likelihood
φ(o) + φ(c - o) - φ(c), φ(x) = x·ln x, and merging adds up both. The loss of merging i and j is
computed where they are near each other. Near is measured by Ward's criterion on the coordinates √p
and √(1-p), which approximates the loss and needs no logarithm.
"""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bitmix.em.noise import evidence
from bitmix.em.step import Statistics
from bitmix.kernels import backend, fixed
from bitmix.kernels.fixed import Ints
from bitmix.models.mixture import Floats, Mixture, wide_log_rates

Joined = Callable[[int, int], Floats]
"""Merges component j into i; the losses of merging any other with the result."""

_TILE_CELLS = 1 << 20
_NEAR = 16  # components whose merging is worked out for each


def merge(statistics: Statistics, mixture: Mixture, k: int) -> Statistics:
    """The statistics of k components; `mixture` is the M step of what is merged."""
    if mixture.noise is None:
        losses, joined = _by_likelihood(statistics, mixture.means)
    else:
        losses, joined = _by_evidence(statistics, mixture)
    groups = agglomerate(losses, joined, k)

    def added(values: Ints) -> Ints:
        out = np.zeros((k, *values.shape[1:]), dtype=np.int64)
        np.add.at(out, groups, values)
        return out

    known = None if statistics.known is None else added(statistics.known)
    return replace(
        statistics, mass=added(statistics.mass), sums=added(statistics.sums), known=known
    )


def agglomerate(losses: Floats, joined: Joined, k: int) -> NDArray[np.intp]:
    """The group of each component, 0 … k-1, after the cheapest merges; the lowest index wins ties.

    `losses` is symmetric, infinite on the diagonal, and is overwritten.
    """
    l = len(losses)
    group, gone = np.arange(l), list[int]()
    nearest = losses.argmin(axis=1)
    least = losses[group, nearest]
    for _ in range(l - k):
        i = int(least.argmin())
        i, j = sorted((i, int(nearest[i])))
        row = joined(i, j)
        row[gone] = row[[i, j]] = np.inf
        gone.append(j)
        losses[i], losses[:, i] = row, row
        losses[j], losses[:, j] = np.inf, np.inf
        group[group == j] = i
        stale = np.flatnonzero((nearest == i) | (nearest == j) | (row < least))
        stale = np.union1d(stale, [i, j])
        nearest[stale] = losses[stale].argmin(axis=1)
        least[stale] = losses[stale, nearest[stale]]
    return np.unique(group, return_inverse=True)[1]


def _by_evidence(statistics: Statistics, mixture: Mixture) -> tuple[Floats, Joined]:
    values = np.ascontiguousarray(_evidence_units(statistics, mixture))
    kernels = backend(2e-9 * values.size * len(values))
    losses = kernels.disagreement(values, values).astype(np.float64)
    np.fill_diagonal(losses, np.inf)

    def joined(i: int, j: int) -> Floats:
        values[i] += values[j]
        return kernels.disagreement(values[i : i + 1], values)[0].astype(np.float64)

    return losses, joined


def _evidence_units(statistics: Statistics, mixture: Mixture) -> Ints:
    """The evidence as whole numbers, so small that sums over columns and components fit."""
    cells = np.broadcast_to(statistics.counts, statistics.sums.shape)
    values = np.asarray(evidence(statistics.sums, cells, mixture.noise), dtype=np.float64)
    if mixture.noise_model == "feature":
        rates = np.asarray(mixture.noise).ravel().tolist()
        steps = [right - wrong for right, wrong in map(wide_log_rates, rates)]
        values *= np.array(steps) / 2.0**128
    largest = max(1.0, float(np.abs(values).max())) * values.size
    return np.rint(values * 2.0 ** (60 - math.frexp(largest)[1])).astype(np.int64)


def _by_likelihood(statistics: Statistics, p: Floats) -> tuple[Floats, Joined]:
    row = float(statistics.weight_one << fixed.SHARE_BITS)
    ones = np.ascontiguousarray(statistics.sums / row)
    cells = np.ascontiguousarray(np.broadcast_to(statistics.counts / row, ones.shape))
    ones, cells = (np.append(values, np.zeros((1, len(p.T))), axis=0) for values in (ones, cells))
    nobody = np.array([len(p)])
    kernels, tables = backend(1e-6 * ones.size), fixed.tables()
    near, near_joined = _by_ward(statistics.mass / row, p)

    def likelihoods(i: int, others: NDArray[np.intp]) -> Ints:
        return kernels.merged_likelihoods(ones, cells, i, others, tables)

    alone = np.array([likelihoods(i, nobody)[0] for i in range(len(p))])

    def losses_of(i: int, others: NDArray[np.intp]) -> Floats:
        return np.asarray(alone[others] + alone[i] - likelihoods(i, others), dtype=np.float64)

    losses = np.full(near.shape, np.inf)
    for i in range(len(p)):
        others = _nearest(near[i])
        others = others[np.isinf(losses[i, others])]  # each pair once
        losses[i, others] = losses[others, i] = losses_of(i, others)

    def joined(i: int, j: int) -> Floats:
        row = near_joined(i, j)
        near[i], near[:, i] = row, row
        near[i, i] = near[j] = near[:, j] = np.inf
        ones[i] += ones[j]
        cells[i] += cells[j]
        alone[i] = likelihoods(i, nobody)[0]
        row = np.full(len(p), np.inf)
        others = _nearest(near[i])
        row[others] = losses_of(i, others)
        return row

    return losses, joined


def _nearest(near: Floats) -> NDArray[np.intp]:
    """The components that are nearest, at most `_NEAR`."""
    nearest = np.argpartition(near, _NEAR)[:_NEAR] if len(near) > _NEAR else np.arange(len(near))
    return nearest[np.isfinite(near[nearest])]


def _by_ward(mass: Floats, p: Floats) -> tuple[Floats, Joined]:
    """Ward's criterion, and its update."""
    products = _exact_products(p)
    square = np.diag(products)
    mass = np.maximum(mass, 1e-9)
    near = (square[:, None] + square - 2 * products) * (
        mass[:, None] * mass / (mass[:, None] + mass)
    )
    np.fill_diagonal(near, np.inf)

    def joined(i: int, j: int) -> Floats:
        a, b = mass[i], mass[j]
        total = (a + mass) * near[i] + (b + mass) * near[j] - mass * near[i, j]
        mass[i] = a + b
        return total / (a + b + mass)

    return near, joined


def _exact_products(p: Floats) -> Floats:
    """Inner products of the coordinates (√p, √(1-p)), rounded such that every sum is exact.

    Coordinates are whole multiples of 2^-b; the products of two rows add up to less than n·2^2b <
    2^53, so that floats hold them exactly in whatever order the linear algebra library adds.
    """
    l, n = p.shape
    scale = 2.0 ** ((51 - math.ceil(math.log2(n + 1))) // 2)
    products = np.zeros((l, l))
    width = max(1, _TILE_CELLS // l)
    for start in range(0, n, width):
        some = p[:, start : start + width]
        for part in (some, 1 - some):
            coordinates = np.rint(np.sqrt(part) * scale)
            products += coordinates @ coordinates.T
    return products / scale**2
