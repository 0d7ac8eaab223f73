"""The rows that represent a group: those with the least mean distance from its rows.

By Hamming distance, the sum of the distances from all rows of a group is affine in the bits of a
row, with the column counts of the group as coefficients. So every row is compared with every other
one of its group in one pass, exactly.

By Tanimoto distance, 1 - |x ∧ y| / |x ∨ y|, it is not, and pairs of rows have to be looked at. All
pairs of a group are, smallest groups first, as long as they are at most `MAX_PAIRS` or k·m in all.
In the groups that are left, only the `N_CANDIDATES` rows are compared with all rows of the group
that are best by Σ_y |x ∧ y| / Σ_y |x ∨ y|, which column counts give.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitmix.errors import InputError
from bitmix.kernels import backend
from bitmix.kernels.bits import WORD, Words, pack, words_for
from bitmix.kernels.fixed import SHARE_BITS, Ints
from bitmix.models.mixture import Floats
from bitmix.rows import Rows
from bitmix.rows.protocol import Block

MAX_PAIRS = 1 << 27
"""Pairs of rows that are looked at in a second or two."""
N_CANDIDATES = 64
SPARSE = 0.1
"""Below this share of ones, two rows that have nothing in common differ in few cells of many: rows
are then compared by Tanimoto distance unless the user says otherwise."""
METRICS = ("auto", "hamming", "tanimoto")
_PAIRS_AT_ONCE = 1 << 20


@dataclass(frozen=True, eq=False)
class Medoids:
    """The row of each group that is closest to all rows of the group on average."""

    rows: Ints
    """The number of the row, the lowest among equals; -1 for a group without rows."""
    distances: Floats
    """Its mean distance from the rows of its group, itself among them: the number of cells that
    differ, or 1 - Tanimoto similarity. NaN for a group without rows."""
    sizes: Floats
    """Rows of each group, counted by weight."""
    metric: str
    exact: NDArray[np.bool_]
    """Whether all rows of the group were compared, rather than the best candidates."""
    ids: tuple[str, ...] | None = None
    """The id of each row, if there are ids; empty for a group without rows."""


@dataclass(frozen=True, eq=False)
class Counts:
    """Column counts of each group, in units of the weights of rows. Counts add."""

    sizes: Ints
    ones: Ints
    known: Ints | None

    def __add__(self, other: "Counts") -> "Counts":
        known = None if self.known is None or other.known is None else self.known + other.known
        return Counts(self.sizes + other.sizes, self.ones + other.ones, known)

    @property
    def cells(self) -> Ints:
        if self.known is not None:
            return self.known
        return np.broadcast_to(self.sizes[:, None], self.ones.shape)


@dataclass(frozen=True, eq=False)
class Members:
    """Rows with the group of each, -1 for none, and the column counts of the groups."""

    rows: Rows
    labels: Ints
    counts: Counts

    @classmethod
    def of(cls, rows: Rows, labels: Ints, k: int) -> "Members":
        if rows.remote:
            raise InputError(
                "representatives are looked for in rows in memory or in a file, got rows on a "
                "cluster: take some of them, or convert them to a .bits file"
            )
        labels = np.ascontiguousarray(labels, dtype=np.int64)
        n_sums = k * rows.shape[1]
        counts = rows.map_reduce(
            lambda block: _count(block, labels, k), block_cells=1,
            workers=max(1, (1 << 28) // (24 * n_sums)),
        )  # fmt: skip
        return cls(rows, labels, counts)

    @property
    def k(self) -> int:
        return len(self.counts.sizes)

    def metric(self, wanted: str) -> str:
        """The metric, chosen by the share of ones if that is wanted."""
        if wanted not in METRICS:
            raise InputError(f"metric must be one of {', '.join(METRICS)}, got {wanted!r}")
        if wanted != "auto":
            return wanted
        ones, cells = self.counts.ones.sum(), self.counts.cells.sum()
        return "tanimoto" if ones <= SPARSE * cells else "hamming"

    def distances(self, metric: str) -> Any:
        """A number per row by which the rows of a group are ranked, lowest first.

        By Hamming distance, it is the sum of the distances from the rows of its group; a cell that
        is missing in the row differs from every known cell. By Tanimoto distance, it is
        1 - Σ_y |x ∧ y| / Σ_y |x ∨ y|.
        """
        ones, sizes = self.counts.ones, self.counts.sizes
        zeros = self.counts.cells - ones
        nothing = np.zeros((self.k, words_for(ones.shape[1])), WORD)
        if metric == "hamming":
            base, lines = pack(ones > zeros), _planes(np.abs(ones - zeros))
            least = np.minimum(ones, zeros).sum(axis=1)
            of_unknown = None if self.counts.known is None else _planes(zeros)

            def hamming(block: Block, owner: Ints) -> Ints:
                out = least[owner] + _score(block.bits, owner, base, lines)
                if of_unknown is not None and block.known is not None:
                    unknown = ~block.known & pack(np.ones((1, block.n_columns), dtype=np.uint8))
                    out += _score(unknown, owner, nothing, of_unknown)
                return out

            return self._map(hamming)
        lines, total = _planes(ones), ones.sum(axis=1)

        def tanimoto(block: Block, owner: Ints) -> Floats:
            bits = block.bits
            common = _score(bits, owner, nothing, lines)
            n_ones = np.bitwise_count(bits).sum(axis=1, dtype=np.int64)
            union = sizes[owner] * n_ones + total[owner] - common
            return np.where(union == 0, 0.0, 1 - common / np.maximum(union, 1))

        return self._map(tanimoto)

    def _map(self, function: Any) -> Any:
        labels = self.labels

        def of_block(block: Block) -> NDArray[Any]:
            owner = labels[block.start : block.start + len(block.words)]
            return np.asarray(function(block, owner))

        return self.rows.map_rows(of_block, block_cells=1)

    def similarities(self, candidates: Ints, members: Ints) -> Floats:
        """The mean Tanimoto similarity of each candidate with the members, by weight.

        Similarities are added in units of 2^-30, so that the order of adding does not matter.
        """
        some = self.rows.subset(candidates)
        words = some.layout.bits(some.words, some.shape[1])
        sizes = np.bitwise_count(words).sum(axis=1, dtype=np.int64)
        total, weight = np.zeros(len(candidates), dtype=np.int64), 0
        step = 1 + _PAIRS_AT_ONCE // max(1, len(candidates))
        for at in range(0, len(members), step):
            others = self.rows.subset(members[at : at + step])
            other_words = np.ascontiguousarray(others.layout.bits(others.words, others.shape[1]))
            apart = backend(2e-9 * words.size * len(other_words)).hamming(other_words, words)
            both = sizes + np.bitwise_count(other_words).sum(axis=1, dtype=np.int64)[:, None]
            union = both + apart  # twice, as is what they have in common
            shares = np.where(union == 0, 1.0, (both - apart) / np.maximum(union, 1))
            units = np.rint(shares * 2.0**SHARE_BITS).astype(np.int64)
            weights = others.layout.weights(others.words)
            total += units.sum(axis=0) if weights is None else weights @ units
            weight += len(other_words) if weights is None else int(weights.sum())
        return total / (2.0**SHARE_BITS * weight)

    def nearest(self, i: int, n: int, metric: str, *, farthest: bool = False) -> Ints:
        """The n rows of group i with the least mean distance from it, or the largest."""
        members, values = np.flatnonzero(self.labels == i), self.distances(metric)
        values = -values[members] if farthest else values[members]
        if metric == "tanimoto":
            if len(members) ** 2 > max(MAX_PAIRS, self.k * len(self.labels)):
                members = members[np.argsort(values, kind="stable")[: max(N_CANDIDATES, 2 * n)]]
                members.sort()
            everyone = np.flatnonzero(self.labels == i)
            values = self.similarities(members, everyone) * (1 if farthest else -1)
        return members[np.argsort(values, kind="stable")[:n]]


def medoids(members: Members, metric: str = "auto") -> Medoids:
    """The medoid of each group."""
    metric = members.metric(metric)
    values, labels, counts, k = members.distances(metric), members.labels, members.counts, members.k
    lengths = np.bincount(labels[labels >= 0], minlength=k)
    there = lengths > 0
    rows, distances = np.full(k, -1, dtype=np.int64), np.full(k, np.nan)
    exact = np.ones(k, dtype=bool)
    one = members.rows.layout.weight_one or 1
    if metric == "hamming":
        grouped = labels >= 0
        least = np.full(k, np.iinfo(np.int64).max)
        np.minimum.at(least, labels[grouped], values[grouped])
        best = np.flatnonzero((values == least[labels]) & grouped)[::-1]
        rows[labels[best]] = best  # the lowest is written last
        distances[there] = least[there] / counts.sizes[there]
        return Medoids(rows, distances, counts.sizes / one, metric, exact)
    order = np.argsort(labels, kind="stable")
    starts = len(order) - np.cumsum(lengths[::-1])[::-1]  # after rows of no group
    left = max(MAX_PAIRS, k * len(labels))
    for i in np.argsort(lengths, kind="stable").tolist():
        if not there[i]:
            continue
        mine = order[starts[i] : starts[i] + lengths[i]]
        left -= len(mine) ** 2
        exact[i] = left >= 0 or len(mine) <= N_CANDIDATES
        candidates = mine
        if not exact[i]:
            best_first = np.argsort(values[mine], kind="stable")
            candidates = np.sort(mine[best_first[:N_CANDIDATES]])
        shares = members.similarities(candidates, mine)
        rows[i], distances[i] = candidates[shares.argmax()], 1 - shares.max()
    return Medoids(rows, distances, counts.sizes / one, metric, exact)


def _count(block: Block, labels: Ints, k: int) -> Counts:
    bits, known, weights, n = block.bits, block.known, block.weights, block.n_columns
    owner = labels[block.start : block.start + len(bits)]

    def counted(words: Words) -> Ints:
        kernels = backend(6e-8 * k * len(words))
        if weights is None:
            return kernels.owned_sums(words, owner, k, n) >> SHARE_BITS
        out = np.zeros((k, n), dtype=np.int64)
        for i in np.unique(owner[owner >= 0]).tolist():
            mine = owner == i
            out[i] = kernels.column_sums(words[mine], weights[mine][:, None], n)[0]
        return out

    sizes = np.zeros(k, dtype=np.int64)
    np.add.at(sizes, owner[owner >= 0], 1 if weights is None else weights[owner >= 0])
    return Counts(
        sizes, counted(bits), None if known is None else counted(np.ascontiguousarray(known))
    )


def _planes(values: Ints) -> Words:
    """The binary digits of whole numbers, (k, n), packed by digit: (k, digits, words)."""
    digits = max(1, int(values.max(initial=0)).bit_length())
    planes = [pack((values >> p & 1).astype(np.uint8)) for p in range(digits)]
    return np.stack(planes, axis=1).copy()


def _score(words: Words, owner: Ints, base: Words, planes: Words) -> Ints:
    return backend(2e-9 * words.size * planes.shape[1]).owned_scores(words, owner, base, planes)
