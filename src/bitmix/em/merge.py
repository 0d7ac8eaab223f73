"""Merging components, always the two whose merging loses the least likelihood.

*Templates.* Let e_is be the evidence of the rows for bit s of template i, in nats, and g_s that of
the prior. A template is best with a 1 where their sum a_is is positive; merged components add up
the evidence of their rows. So merging i and j loses Σ_s (|a_is| + |a_js| - |a_is + a_js - g_s|)/2
nats, up to a constant that all pairs share. The flip rates are held fixed meanwhile.

*A probability per cell.* With c cells of which o are 1, a cell of a component has log-likelihood
φ(o) + φ(c - o) - φ(c), φ(x) = x·ln x, and merging adds up both.

The loss of merging i and j is computed where they are near each other. Near is measured by Ward's
criterion on the coordinates √p and √(1-p), p the shares of ones, which is a matrix product.
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
from bitmix.models.mixture import Floats, Mixture

Joined = Callable[[int, int], Floats]
"""Merges component j into i; the losses of merging any other with the result."""

_TILE_CELLS = 1 << 20
_NEAR, _NEAR_TEMPLATES = 16, 64
"""Components whose merging is worked out for each; with templates, losses take no logarithms."""


def merge(statistics: Statistics, mixture: Mixture, k: int, prior: float) -> Statistics:
    """The statistics of k components; `mixture` is the M step of what is merged."""
    return statistics.grouped(agglomerate(*losses_among(statistics, mixture, prior), k), k)


def losses_among(statistics: Statistics, mixture: Mixture, prior: float) -> tuple[Floats, Joined]:
    """What merging any two loses, infinite where they are not near, and how to merge two."""
    if mixture.noise is None:
        n_near, (losses_of, join) = _NEAR, _by_likelihood(statistics)
    else:
        n_near, (losses_of, join) = _NEAR_TEMPLATES, _by_evidence(statistics, mixture, prior)
    l = len(statistics.mass)
    are_near = np.ones((l, l), dtype=np.bool_)
    if l > n_near:
        p = mixture.means if mixture.noise is None else statistics.means(mixture.means)
        mass = statistics.mass / (statistics.weight_one << fixed.SHARE_BITS)
        near, near_joined = _by_ward(mass, p)
        for i in range(l):
            are_near[i] = False
            are_near[i, _nearest(near[i], n_near)] = True
    firsts, seconds = np.array(np.nonzero(np.triu(are_near | are_near.T, 1)))
    losses = np.full((l, l), np.inf)
    losses[firsts, seconds] = losses[seconds, firsts] = losses_of(firsts, seconds)

    def joined(i: int, j: int) -> Floats:
        join(i, j)
        row, others = np.full(l, np.inf), np.delete(np.arange(l), [i, j])
        if l > n_near:
            near[i] = near[:, i] = near_joined(i, j)
            near[i, i] = near[j] = near[:, j] = np.inf
            others = _nearest(near[i], n_near)
        row[others] = losses_of(np.full(len(others), i), others)
        return row

    return losses, joined


def agglomerate(losses: Floats, joined: Joined, k: int) -> NDArray[np.intp]:
    """The group of each component, 0 … k-1, after the cheapest merges; the lowest index wins ties.

    `losses` is symmetric, infinite on the diagonal, and is overwritten. If the nearest component of
    another one is merged, its least loss is a lower bound until it is the least of all.
    """
    l = len(losses)
    group, gone = np.arange(l), list[int]()
    nearest, is_bound = losses.argmin(axis=1), np.zeros(l, dtype=np.bool_)
    least = losses[group, nearest]
    for _ in range(l - k):
        while is_bound[i := int(least.argmin())]:
            nearest[i] = losses[i].argmin()
            least[i], is_bound[i] = losses[i, nearest[i]], False
        i, j = sorted((i, int(nearest[i])))
        row = joined(i, j)
        row[gone] = row[[i, j]] = np.inf
        gone.append(j)
        losses[i], losses[:, i] = row, row
        losses[j], losses[:, j] = np.inf, np.inf
        group[group == j] = i
        ties = (row == least) & (i < nearest) & ~is_bound & np.isfinite(row)
        closer = (row < least) | ties
        is_bound |= (nearest == j) | ((nearest == i) & (row > least))
        nearest[closer], least[closer], is_bound[closer] = i, row[closer], False
        nearest[i], least[[i, j]] = row.argmin(), (row.min(), np.inf)
        is_bound[[i, j]] = False
    return np.unique(group, return_inverse=True)[1]


def _by_evidence(
    statistics: Statistics, mixture: Mixture, prior: float
) -> tuple[Callable[[Ints, Ints], Floats], Callable[[int, int], None]]:
    """The losses of pairs of templates, and how to merge two."""
    values, shift = _evidence_units(statistics, mixture, prior)
    kernels = backend(2e-7 * values.size)

    def losses_of(firsts: Ints, seconds: Ints) -> Floats:
        return kernels.disagreement(values, firsts, seconds, shift).astype(np.float64)

    def join(i: int, j: int) -> None:
        values[i] += values[j] - shift

    return losses_of, join


def _evidence_units(statistics: Statistics, mixture: Mixture, prior: float) -> tuple[Ints, Ints]:
    """The evidence, with that of the prior, and the prior's part of it, as whole numbers that are
    so small that sums over columns and components fit.
    """
    statistics = replace(statistics, items=None)  # values are merged as if they were binary
    values = evidence(statistics, mixture.noise, prior > 0)
    shift = np.zeros(values.shape[1])
    if prior > 0:
        if_zero, if_one = statistics.log_column_shares
        shift = (if_one - if_zero) / 2.0**fixed.LOG_BITS
    largest = max(1.0, float(np.abs(values).max()), float(np.abs(shift).max())) * 2 * values.size
    scale = 2.0 ** (60 - math.frexp(largest)[1])
    in_units = np.ascontiguousarray(np.rint(values * scale).astype(np.int64))
    return in_units, np.rint(shift * scale).astype(np.int64)


def _by_likelihood(
    statistics: Statistics,
) -> tuple[Callable[[Ints, Ints], Floats], Callable[[int, int], None]]:
    """The losses of pairs of components with a probability per cell, and how to merge two."""
    row = float(statistics.weight_one << fixed.SHARE_BITS)
    ones, cells = (
        np.append(np.ascontiguousarray(x / row), np.zeros((1, x.shape[1])), axis=0)
        for x in (statistics.sums, statistics.counts)
    )
    kernels, l = backend(1e-6 * ones.size), len(ones) - 1
    alone = kernels.merged_likelihoods(ones, cells, np.arange(l), np.full(l, l))

    def losses_of(firsts: Ints, seconds: Ints) -> Floats:
        both = kernels.merged_likelihoods(ones, cells, firsts, seconds)
        return np.asarray(alone[firsts] + alone[seconds] - both, dtype=np.float64)

    def join(i: int, j: int) -> None:
        ones[i] += ones[j]
        cells[i] += cells[j]
        alone[i] = kernels.merged_likelihoods(ones, cells, np.array([i]), np.array([l]))[0]

    return losses_of, join


def _nearest(near: Floats, n: int) -> NDArray[np.intp]:
    """The n components that are nearest; the lowest index wins ties."""
    limit = np.partition(near, n - 1)[n - 1]
    nearest = np.flatnonzero(near <= limit)
    nearest = nearest[np.argsort(near[nearest], kind="stable")[:n]]
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
