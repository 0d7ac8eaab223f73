"""Merging many components, always the two near ones whose merging loses the least likelihood.

The loss is that of `em.merge` with a probability per cell, whatever the noise model is: a group of
templates is no template. It is worked out for the 16 components nearest to each, by Ward's
criterion, which are looked up again whenever half of the components are left. So nothing but a
matrix product grows with the square of their number.
"""

import heapq
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitmix.em.step import Statistics
from bitmix.kernels import backend, fixed
from bitmix.kernels.fixed import Ints
from bitmix.models.mixture import Floats
from bitmix.models.tree import Tree

NEAR = 16
"""Components whose merging is worked out for each."""
_TILE_CELLS = 1 << 22
_UNITS = 2.0**16  # of `merged_likelihoods` per nat


def tree_of(statistics: Statistics) -> Tree:
    """The tree of all components."""
    merging = Merging.of(statistics)
    merging.down_to(1)
    total = float(statistics.n_rows) / statistics.weight_one
    merges = np.array(merging.merges, dtype=np.int64).reshape(-1, 2)
    losses = np.array(merging.losses, dtype=np.float64) / (_UNITS * total)
    return Tree(merges, losses, statistics.weights)


def merged_groups(statistics: Statistics, k: int) -> NDArray[np.intp]:
    """The group of each component, 0 … k-1, after the cheapest merges."""
    merging = Merging.of(statistics)
    merging.down_to(k)
    l = len(statistics.mass)
    group = np.arange(2 * l)
    for t in reversed(range(len(merging.merges))):
        group[list(merging.merges[t])] = group[l + t]
    return np.unique(group[:l], return_inverse=True)[1]


@dataclass(eq=False)
class Merging:
    """Components that are merged step by step."""

    ones: Floats
    """Rows with a 1 per component and column; the last line belongs to nobody and is 0."""
    cells: Floats
    """Rows whose cell is known; one column if that is the same number in all columns."""
    mass: Floats
    node: list[int]
    """The node of the tree that each component is by now; -1 once it is part of another."""
    merges: list[tuple[int, int]]
    losses: list[int]

    @classmethod
    def of(cls, statistics: Statistics) -> "Merging":
        row = float(statistics.weight_one << fixed.SHARE_BITS)
        l, n = statistics.sums.shape
        ones, cells = np.zeros((l + 1, n)), np.zeros((l + 1, statistics.counts.shape[1]))
        ones[:l], cells[:l] = statistics.sums / row, statistics.counts / row
        return cls(ones, cells, np.append(statistics.mass / row, 0.0), list(range(l)), [], [])

    def down_to(self, k: int) -> None:
        """Merge until k components are left."""
        while (left := len(alive := [i for i, node in enumerate(self.node) if node >= 0])) > k:
            near = self._nearest(np.array(alive))
            self._merge_near(near, left - max(k, left // 2 if left > 2 * NEAR else k))

    def _likelihoods(self, i: int, others: Ints) -> Ints:
        kernels = backend(1e-7 * self.ones.shape[1] * len(others))
        return kernels.merged_likelihoods(self.ones, self.cells, np.full(len(others), i), others)

    def _nearest(self, alive: NDArray[np.intp]) -> dict[int, set[int]]:
        """The components nearest to each by Ward's criterion on the coordinate √p - √(1-p), which
        goes with the angle of (√p, √(1-p)) and halves the matrix product.

        Coordinates are whole multiples of a power of two, so that a product is exact in whatever
        order the linear algebra library adds. The lowest index wins ties.
        """
        ones, cells = self.ones[alive], self.cells[alive]
        p = np.divide(ones, cells, out=np.full(ones.shape, 0.5), where=cells > 0)
        scale = 2.0 ** ((51 - math.ceil(math.log2(p.shape[1] + 1))) // 2)
        parts = np.rint((np.sqrt(p) - np.sqrt(1 - p)) * scale)
        squares = np.einsum("is,is->i", parts, parts)
        mass = np.maximum(self.mass[alive], 1e-9)
        near: dict[int, set[int]] = {int(i): set() for i in alive}
        height = max(1, _TILE_CELLS // len(alive))
        for start in range(0, len(alive), height):
            some = slice(start, min(start + height, len(alive)))
            apart = squares[some, None] + squares - 2 * (parts[some] @ parts.T)
            apart *= mass[some, None] * mass / (mass[some, None] + mass)
            apart[np.arange(len(apart)), start + np.arange(len(apart))] = np.inf
            nearest = best_columns(-apart, min(NEAR, len(alive) - 1))
            for i, chosen in zip(alive[some].tolist(), nearest, strict=True):
                for j in alive[chosen].tolist():
                    near[i].add(j)
                    near[j].add(i)
        return near

    def _merge_near(self, near: dict[int, set[int]], n_merges: int) -> None:
        """At most so many merges among near components."""
        nobody, stamp = np.array([len(self.node)]), dict.fromkeys(near, 0)
        alone = {i: int(self._likelihoods(i, nobody)[0]) for i in near}
        queue: list[tuple[int, int, int, int, int]] = []

        def consider(i: int, others: list[int]) -> list[tuple[int, int]]:
            values = self._likelihoods(i, np.array(others, dtype=np.int64)).tolist()
            return [(alone[i] + alone[j] - v, j) for j, v in zip(others, values, strict=True)]

        for i, others in near.items():
            for loss, j in consider(i, sorted(j for j in others if j > i)):
                queue.append((loss, i, j, 0, 0))
        heapq.heapify(queue)
        while n_merges and queue:
            loss, i, j, stamp_i, stamp_j = heapq.heappop(queue)
            if (stamp.get(i), stamp.get(j)) != (stamp_i, stamp_j):
                continue
            n_merges -= 1
            self._join(i, j, loss)
            del stamp[j]
            stamp[i] += 1
            alone[i] = int(self._likelihoods(i, nobody)[0])
            around = (near[i] | near.pop(j)) - {i, j}
            for other in around:
                near[other].discard(j)
                near[other].discard(i)
            kept = sorted(consider(i, sorted(around)))[: 2 * NEAR]
            near[i] = {other for _, other in kept}
            for loss, other in kept:
                near[other].add(i)
                a, b = min(i, other), max(i, other)
                heapq.heappush(queue, (loss, a, b, stamp[a], stamp[b]))

    def _join(self, i: int, j: int, loss: int) -> None:
        """Component j becomes part of i."""
        self.merges.append((self.node[i], self.node[j]))
        self.losses.append(loss)
        self.node[i], self.node[j] = len(self.node) + len(self.merges) - 1, -1
        self.ones[i] += self.ones[j]
        self.cells[i] += self.cells[j]
        self.mass[i] += self.mass[j]


def best_columns(values: NDArray[Any], n: int) -> Ints:
    """The n columns with the largest values of each row, in rising order; the lowest wins ties."""
    if values.shape[1] <= n:
        return np.tile(np.arange(values.shape[1]), (len(values), 1))
    limit = np.partition(values, -n, axis=1)[:, -n, None]
    chosen, ties = values > limit, values == limit
    lacking = n - chosen.sum(axis=1, keepdims=True)
    if int(ties.sum()) > int(lacking.sum()):
        ties &= np.cumsum(ties, axis=1) <= lacking
    return np.nonzero(chosen | ties)[1].reshape(len(values), n)
