"""Counts from the rows and the templates: matched rows, gaps between groups, equal rows, votes."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bitmix.kernels import backend
from bitmix.kernels.bits import Words, pack, unpack
from bitmix.kernels.fixed import Ints
from bitmix.rows.packed import BitMatrix
from bitmix.theory.tails import Floats, log_choose

MAX_MATCHED_ROWS = 4_000
"""The largest number of rows that are matched to bound the noise level."""
USED_MATCHES = 0.9
"""The fraction of matched pairs that is used: the closest ones."""
_CELLS_AT_ONCE = 1 << 22


@dataclass(frozen=True)
class Evidence:
    """Counts from the rows and the templates; they do not depend on α."""

    m: int
    """Rows used."""
    n: int
    disagreements: int
    """Cells in which matched rows differ, in the half of the columns not used for matching."""
    compared: int
    """Matched pairs times those columns."""
    gap: int
    """Least distance between rows of different clusters; n + 1 if there is only one cluster."""
    sizes: tuple[int, ...]
    """Number of rows in the cluster of each template: those that are nearest to it."""
    weakest_votes: tuple[int, ...]
    """For each cluster, the smallest number of rows that agree with the template in a column."""
    not_majority: int
    """Template bits that are not the strict majority of their cluster."""
    flips: int
    """Bits in which rows differ from their template."""
    duplicates: int
    """Pairs of equal rows that are unlikely to be equal by chance."""
    duplicates_expected: float
    """The expected number of such pairs under independent flips."""


def gather(
    words: Words,
    labels: NDArray[np.int64],
    T: BitMatrix,
    rng: np.random.Generator,
    *,
    all_pairs: bool = True,
) -> tuple[Evidence, Ints]:
    """Gather the evidence for the certificate, for any α, and the votes for each template bit.

    Without `all_pairs`, rows are not compared with each other, and the gap is 0.
    """
    m, (k, n) = len(words), T.shape
    disagreements, compared = matched_disagreements(words, n, rng)
    duplicates, expected = equal_rows(words, T)
    sizes = np.bincount(labels, minlength=k)
    ones = backend(6e-8 * words.size).column_sums(words, np.eye(k, dtype=np.int64)[labels], n)
    agree = np.where(T.to_dense(bool), ones, sizes[:, None] - ones)
    return Evidence(
        m=m,
        n=n,
        disagreements=disagreements,
        compared=compared,
        gap=_least_gap(words, labels, n) if all_pairs else 0,
        sizes=tuple(sizes.tolist()),
        weakest_votes=tuple(agree.min(axis=1).tolist()),
        not_majority=int((2 * agree <= sizes[:, None]).sum()),
        flips=int((sizes[:, None] - agree).sum()),
        duplicates=duplicates,
        duplicates_expected=expected,
    ), agree


def matched_disagreements(words: Words, n: int, rng: np.random.Generator) -> tuple[int, int]:
    """Match rows that are close on half of the columns; count disagreements on the other half.

    Given labels and the first half, every matched pair disagrees in each column of the second half
    with probability p2 or 1 - p2 ≥ p2, independently: the count dominates Bin(compared, p2).
    """
    if n < 2 or len(words) < 2:
        return 0, 0
    order = rng.permutation(n)
    words = words[:MAX_MATCHED_ROWS]
    first, second = (_columns(words, n, half) for half in (order[: n // 2], order[n // 2 :]))
    a, b, distance = _greedy_matching(first)
    used = np.argsort(distance, kind="stable")[: max(1, round(USED_MATCHES * len(a)))]
    differ = int(np.bitwise_count(second[a[used]] ^ second[b[used]]).sum())
    return differ, len(used) * (n - n // 2)


def _columns(words: Words, n: int, chosen: NDArray[np.int64]) -> Words:
    """The rows with these columns only, computed block by block."""
    step = max(1, _CELLS_AT_ONCE // n)
    return np.concatenate(
        [pack(unpack(words[a : a + step], n)[:, chosen]) for a in range(0, len(words), step)]
    )


def _greedy_matching(words: Words) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.int64]]:
    """Disjoint pairs of rows and their distances: each row is paired with the nearest one left."""
    left = np.arange(len(words))
    pairs, distances = [], []
    while len(left) > 1:
        to_first = backend(1e-9 * words.size).hamming(words[left[1:]], words[left[0]][None])[:, 0]
        nearest = int(to_first.argmin())
        pairs.append((left[0], left[nearest + 1]))
        distances.append(int(to_first[nearest]))
        left = np.delete(left[1:], nearest)
    a, b = np.array(pairs).T
    return a, b, np.array(distances)


def _least_gap(words: Words, labels: NDArray[np.int64], n: int) -> int:
    """Least distance between rows of different labels; n + 1 if there is only one label."""
    gap = n + 1
    for start in range(0, len(words), 256):
        distance = backend(3e-7 * words.size).hamming(words[start : start + 256], words[start:])
        same = labels[start : start + 256, None] == labels[None, start:]
        gap = min(gap, int(np.where(same, n + 1, distance).min()))
    return gap


def equal_rows(words: Words, T: BitMatrix) -> tuple[int, float]:
    """Pairs of equal rows that differ from every template, and how many to expect by chance.

    Columns in which the templates have the same pattern form a class. Given how many ones a row has
    in each class, its ones are uniform over Π C(n_c, o_c) arrangements, whichever template it comes
    from. So no label is needed: two rows with the same counts are equal with probability
    1/Π C(n_c, o_c), and such pairs are pairwise independent. If there is only one arrangement, rows
    are always equal, and such rows are not counted.
    """
    n = T.shape[1]
    _, class_of = np.unique(T.to_dense().T, axis=0, return_inverse=True)
    class_of = class_of.ravel()
    order = np.argsort(class_of, kind="stable")
    sizes = np.bincount(class_of)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    keys = np.random.default_rng(0).integers(1 << 63, size=len(sizes), dtype=np.int64)
    kinds, log_ways = [], []
    step = max(1, _CELLS_AT_ONCE // n)
    for start in range(0, len(words), step):
        bits = unpack(words[start : start + step], n)[:, order]
        ones = np.add.reduceat(bits, starts, axis=1, dtype=np.int64)
        with np.errstate(over="ignore"):
            kinds.append((ones * keys).sum(axis=1))  # rows of the same counts have the same key
        log_ways.append(log_choose(sizes, ones).sum(axis=1))
    kind, ways = np.concatenate(kinds), np.concatenate(log_ways)
    told: NDArray[np.bool_] = ways > 0.5  # one arrangement is 0, two are .69
    if not told.any():
        return 0, 0.0
    _, copies = np.unique(words[told], axis=0, return_counts=True)
    _, first, rows = np.unique(kind[told], return_index=True, return_counts=True)
    chance: Floats = np.exp(-ways[told][first])
    return int((copies * (copies - 1) // 2).sum()), float((rows * (rows - 1) / 2 * chance).sum())
