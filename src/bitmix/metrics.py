"""How good a clustering is and how close templates are: Section 5.3 and Theorem 1 of the paper."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bitmix.errors import InputError

_BLOCK_CELLS = 1 << 22


def conditional_purity(y_true: ArrayLike, labels: ArrayLike) -> float:
    """Σ_y p(y) max_x p(x|y): the fraction of rows that are of the main category of their cluster.

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
    """Whether both are the same binary templates, in any order.

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
    least. S_i are the rows of X with true label i; mean(S_i) is what an oracle that knows the
    labels would estimate.
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
