"""Measures of clusterings and templates.

Purity, entropy and excess error are those of Section 5.3 and Theorem 1 of the paper; the Tanimoto
measures are for sparse rows such as fingerprints.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bitmix.errors import InputError

_BLOCK_CELLS = 1 << 22


def conditional_purity(y_true: ArrayLike, labels: ArrayLike) -> float:
    """Σ_y p(y) max_x p(x|y): the fraction of rows in the most frequent category of their cluster.

    Examples
    --------
    >>> conditional_purity(["cat", "cat", "dog", "dog"], [0, 0, 0, 1])
    0.75
    """
    counts = _contingency(y_true, labels)
    return float(counts.max(axis=0).sum() / counts.sum())


def conditional_entropy(y_true: ArrayLike, labels: ArrayLike) -> float:
    """-Σ_y p(y) Σ_x p(x|y) ln p(x|y): the entropy of the category given the cluster, in nats.

    Examples
    --------
    >>> conditional_entropy(["cat", "cat", "dog", "dog"], [0, 0, 1, 1])
    0.0
    """
    joint = _contingency(y_true, labels)
    size = joint.sum(axis=0)
    category, cluster = np.nonzero(joint)
    count = joint[category, cluster]
    return float((count * np.log(size[cluster] / count)).sum() / joint.sum())


def templates_recovered(templates: ArrayLike, truth: ArrayLike) -> bool:
    """Whether two sets of binary templates are the same, in any order.

    Examples
    --------
    >>> templates_recovered([[1, 0], [0, 0]], [[0, 0], [1, 0]])
    True
    """
    T, P = _bits(templates, "templates"), _bits(truth, "truth")
    if T.shape[1] != P.shape[1]:
        raise InputError(f"templates must have the {P.shape[1]} columns of truth, got {T.shape[1]}")
    return sorted(map(bytes, T)) == sorted(map(bytes, P))


def excess_error(
    means: ArrayLike, truth: ArrayLike, X: Any, labels: ArrayLike
) -> NDArray[np.float64]:
    """D(T_i, P_i) - D(mean(S_i), P_i) for each true template: the left side of Theorem 1.

    `means` (T, real-valued or rounded) are matched to `truth` (P) so that the sum of distances is
    least. S_i are the rows of X with true label i; mean(S_i) is the estimate of an oracle that
    knows the labels.
    """
    from scipy.optimize import linear_sum_assignment

    T, P = np.asarray(means, dtype=np.float64), np.asarray(truth, dtype=np.float64)
    if T.shape != P.shape:
        raise InputError(f"means and truth must have one shape, got {T.shape} and {P.shape}")
    if not np.array_equal(np.unique(np.asarray(labels)), np.arange(len(P))):
        raise InputError(f"labels must name each of the templates 0 … {len(P) - 1}")
    distances = np.array([[np.abs(t - p).sum() for t in T] for p in P])
    matched = distances[linear_sum_assignment(distances)]
    oracle = np.abs(cluster_means(X, labels, len(P)) - P).sum(axis=1)
    return np.asarray(matched - oracle)


def cluster_means(X: Any, labels: ArrayLike, k: int) -> NDArray[np.float64]:
    """mean(S_i): the mean of the rows with label i, for i = 0 … k-1; zeros if there are none.

    Examples
    --------
    >>> cluster_means([[1, 0], [1, 1], [0, 0]], [0, 0, 1], 2)
    array([[1. , 0.5],
           [0. , 0. ]])
    """
    label = np.asarray(labels)
    X = X.tocsr() if hasattr(X, "tocsr") else X if hasattr(X, "shape") else np.asarray(X)
    m, n = X.shape
    if label.shape != (m,) or not np.isin(label, np.arange(k)).all():
        raise InputError(f"labels must be {m} of the numbers 0 … {k - 1}, one per row")
    sums = np.zeros((k, n))
    step = max(1, _BLOCK_CELLS // n)
    for start in range(0, m, step):
        part = X[start : start + step]
        block = part.toarray() if hasattr(part, "toarray") else np.asarray(part)
        for i in range(k):
            sums[i] += block[label[start : start + step] == i].sum(axis=0)
    return sums / np.maximum(1, np.bincount(label, minlength=k))[:, None]


def isim(X: Any, labels: ArrayLike | None = None) -> Any:
    """The mean Tanimoto similarity of all pairs of rows, as a ratio of sums (iSIM).

    It is ``Σ |x ∧ y| / Σ |x ∨ y|`` over all pairs of rows, computed from column counts without
    comparing pairs (López-Pérez, Kim & Miranda-Quintana 2024). With `labels`, the result is an
    array with one value per group of rows with the same label. It is NaN if there are fewer than
    two rows; rows without a 1 have similarity 1.

    Examples
    --------
    >>> isim([[1, 1, 0], [1, 0, 0], [1, 1, 1]])
    0.5
    """
    label = np.zeros(_n_rows(X), dtype=np.int64) if labels is None else np.asarray(labels)
    ones, sizes = _group_counts(X, label)
    values = isim_of_counts(ones, sizes)
    return float(values[0]) if labels is None else values


def isim_of_counts(ones: ArrayLike, sizes: ArrayLike) -> NDArray[np.float64]:
    """`isim` of each group from its numbers of ones per column and its number of rows."""
    c, m = np.asarray(ones, dtype=np.float64), np.asarray(sizes, dtype=np.float64)
    both = (c * (c - 1)).sum(axis=1) / 2
    either = both + (c * (m[:, None] - c)).sum(axis=1)
    alike = np.where(either > 0, both / np.where(either > 0, either, 1), 1.0)
    return np.where(m >= 2, alike, np.nan)


def tanimoto_calinski_harabasz(X: Any, labels: ArrayLike) -> float:
    """Calinski–Harabasz index with Tanimoto distance: higher is better.

    It is the ratio of Σ_i m_i·d(c_i, c)² / (k-1) between groups to Σ_x d(x, c_i)² / (m-k) within
    groups. Centres have a 1 where at least half of the rows have one. Rows with label -1 are left
    out.
    """
    ones, sizes = _group_counts(X, labels)
    k, m = len(sizes), int(sizes.sum())
    if not 2 <= k < m:
        raise InputError(
            f"labels must name at least 2 groups, and fewer than there are rows, got {k}"
        )
    centres, centre = 2 * ones >= sizes[:, None], 2 * ones.sum(axis=0) >= m
    between = (sizes * (1 - _tanimoto(centres, centre)) ** 2).sum()
    within = _spread(X, labels, centres, 2).sum()
    return float(between * (m - k) / (within * (k - 1))) if within else float("inf")


def tanimoto_davies_bouldin(X: Any, labels: ArrayLike) -> float:
    """Davies–Bouldin index with Tanimoto distance: lower is better.

    It is the mean over groups i of max_j (s_i + s_j) / d(c_i, c_j), where s_i is the mean distance
    of the rows of group i from its centre. Centres are as in `tanimoto_calinski_harabasz`. Rows
    with label -1 are left out. It is infinite if two groups have the same centre.
    """
    ones, sizes = _group_counts(X, labels)
    if len(sizes) < 2:
        raise InputError(f"labels must name 2 groups or more, got {len(sizes)}")
    centres = 2 * ones >= sizes[:, None]
    s, worst = _spread(X, labels, centres, 1) / sizes, np.zeros(len(sizes))
    for i, centre in enumerate(centres):
        apart = 1 - _tanimoto(centres, centre)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.where(s + s[i] > 0, (s + s[i]) / apart, 0.0)
        worst[i] = np.delete(ratios, i).max()
    return float(worst.mean())


def _n_rows(X: Any) -> int:
    return X.shape[0] if hasattr(X, "shape") else len(X)


def _dense_blocks(X: Any, labels: ArrayLike) -> Iterator[tuple[Any, NDArray[np.int64]]]:
    """Blocks of rows, with the group number of each row; -1 is no group."""
    X = X.tocsr() if hasattr(X, "tocsr") else X if hasattr(X, "shape") else np.asarray(X)
    label = np.asarray(labels)
    m, n = X.shape
    if label.shape != (m,):
        raise InputError(f"labels must be {m} values, one per row, got {label.size}")
    names = np.unique(label)
    if np.issubdtype(label.dtype, np.integer):
        names = names[names >= 0]  # -1 is no group
    group = np.searchsorted(names, label)
    group = np.where(names[np.minimum(group, len(names) - 1)] == label, group, -1)
    step = max(1, _BLOCK_CELLS // max(1, n))
    for start in range(0, m, step):
        part = X[start : start + step]
        block = part.toarray() if hasattr(part, "toarray") else np.asarray(part)
        yield block, group[start : start + step]


def _group_counts(X: Any, labels: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Ones per group and column, and rows per group, in the order of the labels."""
    ones, sizes = np.zeros((0, 0), dtype=np.int64), np.zeros(0, dtype=np.int64)
    for block, group in _dense_blocks(X, labels):
        if not np.isin(block, (0, 1)).all():
            raise InputError("X must hold 0 and 1")
        k = max(len(sizes), int(group.max(initial=-1)) + 1)
        ones = np.pad(ones, ((0, k - len(sizes)), (0, block.shape[1] - ones.shape[1])))
        sizes = np.pad(sizes, (0, k - len(sizes)))
        order = np.argsort(group, kind="stable")
        order = order[np.searchsorted(group[order], 0) :]
        if order.size:
            present, starts = np.unique(group[order], return_index=True)
            sizes += np.bincount(group[order], minlength=k)
            ones[present] += np.add.reduceat(block[order].astype(np.int64), starts, axis=0)
    if not sizes.any():
        raise InputError("labels must name at least one group")
    return ones, sizes


def _spread(
    X: Any, labels: ArrayLike, centres: NDArray[np.bool_], power: int
) -> NDArray[np.float64]:
    """Σ_x d(x, c_i)^power of each group."""
    sums = np.zeros(len(centres))
    for block, group in _dense_blocks(X, labels):
        mine = group >= 0
        apart = 1 - _tanimoto(block[mine] == 1, centres[group[mine]])
        sums += np.bincount(group[mine], weights=apart**power, minlength=len(sums))
    return sums


def _tanimoto(x: NDArray[np.bool_], y: NDArray[np.bool_]) -> NDArray[np.float64]:
    """|x ∧ y| / |x ∨ y| of rows; 1 if neither has a 1."""
    both, either = (x & y).sum(axis=-1), (x | y).sum(axis=-1)
    return np.where(either > 0, both / np.maximum(either, 1), 1.0)


def _bits(templates: ArrayLike, name: str) -> NDArray[np.uint8]:
    array = np.asarray(templates)
    if array.ndim != 2 or not np.all((array == 0) | (array == 1)):
        raise InputError(f"{name} must be a table of 0 and 1: round means first (means > 0.5)")
    return array.astype(np.uint8)


def _contingency(y_true: ArrayLike, labels: ArrayLike) -> NDArray[np.int64]:
    """Counts, one row per category and one column per cluster."""
    from sklearn.metrics.cluster import contingency_matrix

    true, cluster = np.asarray(y_true), np.asarray(labels)
    if true.ndim != 1 or true.shape != cluster.shape or not true.size:
        raise InputError(
            f"y_true and labels must be two lists of equal length, at least 1, "
            f"got shapes {true.shape} and {cluster.shape}"
        )
    return np.asarray(contingency_matrix(true, cluster))
