"""How good is a clustering, how close are the templates. Section 5.3 and Theorem 1 of the paper."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bitmix.errors import InputError

_BLOCK_CELLS = 1 << 22


def conditional_purity(y_true: ArrayLike, labels: ArrayLike) -> float:
    """Σ_y p(y) max_x p(x|y): the share of rows in the main category of their cluster.

    Examples
    --------
    >>> conditional_purity(["cat", "cat", "dog", "dog"], [0, 0, 0, 1])
    0.75
    """
    counts = _contingency(y_true, labels)
    return float(counts.max(axis=0).sum() / counts.sum())


def conditional_entropy(y_true: ArrayLike, labels: ArrayLike) -> float:
    """-Σ_y p(y) Σ_x p(x|y) ln p(x|y), in nats: what is left to say of the category, cluster known.

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
    """Whether both hold the same binary templates, in any order.

    Examples
    --------
    >>> templates_recovered([[1, 0], [0, 0]], [[0, 0], [1, 0]])
    True
    """
    found, true = _bits(templates, "templates"), _bits(truth, "truth")
    if found.shape[1] != true.shape[1]:
        raise InputError(f"templates must have the columns of {true.shape}, got {found.shape}")
    return sorted(map(bytes, found)) == sorted(map(bytes, true))


def excess_error(
    means: ArrayLike, truth: ArrayLike, X: Any, labels: ArrayLike
) -> NDArray[np.float64]:
    """D(T_i, P_i) - D(mean(S_i), P_i) for each true template: the left side of Theorem 1.

    `means` (T, real-valued or rounded) are matched to `truth` (P) so that the sum of distances is
    least. S_i are the rows of X with true label i, so mean(S_i) is the oracle that knows them.
    """
    from scipy.optimize import linear_sum_assignment

    T, P = np.asarray(means, dtype=np.float64), np.asarray(truth, dtype=np.float64)
    if T.shape != P.shape:
        raise InputError(f"means and truth must have one shape, got {T.shape} and {P.shape}")
    distances = np.array([[np.abs(t - p).sum() for t in T] for p in P])
    true, found = linear_sum_assignment(distances)
    oracle = np.abs(_cluster_means(X, labels, len(P)) - P).sum(axis=1)
    excess: NDArray[np.float64] = distances[true, found] - oracle
    return excess


def _bits(templates: ArrayLike, name: str) -> NDArray[np.uint8]:
    array = np.asarray(templates)
    if array.ndim != 2 or not np.all((array == 0) | (array == 1)):
        raise InputError(f"{name} must be a table of 0 and 1: round means first (means > 0.5)")
    return array.astype(np.uint8)


def _contingency(y_true: ArrayLike, labels: ArrayLike) -> NDArray[np.int64]:
    """Counts, one row a category, one column a cluster."""
    true, found = np.asarray(y_true), np.asarray(labels)
    if true.ndim != 1 or true.shape != found.shape or not true.size:
        raise InputError(
            f"y_true and labels must be two lists of equal length, at least 1, "
            f"got shapes {true.shape} and {found.shape}"
        )
    _, category = np.unique(true, return_inverse=True)
    _, cluster = np.unique(found, return_inverse=True)
    counts = np.zeros((category.max() + 1, cluster.max() + 1), dtype=np.int64)
    np.add.at(counts, (category, cluster), 1)
    return counts


def _cluster_means(X: Any, labels: ArrayLike, k: int) -> NDArray[np.float64]:
    """mean(S_i) for i = 0 … k-1, a block of rows at a time."""
    label = np.asarray(labels)
    X = X.tocsr() if hasattr(X, "tocsr") else X if hasattr(X, "shape") else np.asarray(X)
    m, n = X.shape
    if label.shape != (m,) or not np.array_equal(np.unique(label), np.arange(k)):
        raise InputError(f"labels must name each of the templates 0 … {k - 1} for {m} rows")
    sums = np.zeros((k, n))
    step = max(1, _BLOCK_CELLS // n)
    for start in range(0, m, step):
        part = X[start : start + step]
        block = part.toarray() if hasattr(part, "toarray") else np.asarray(part)
        for i in range(k):
            sums[i] += block[label[start : start + step] == i].sum(axis=0)
    return sums / np.bincount(label, minlength=k)[:, None]
