"""Metrics against cases worked by hand."""

import numpy as np
import pytest
import scipy.sparse

from bitmix import BitMatrix
from bitmix.errors import InputError
from bitmix.metrics import (
    cluster_means,
    conditional_entropy,
    conditional_purity,
    excess_error,
    templates_recovered,
)

TRUE = list("aaaabbbbcc")
FOUND = [0, 0, 0, 1, 1, 1, 1, 1, 2, 0]
# cluster 0: a a a c -> 3 of 4; cluster 1: a b b b b -> 4 of 5; cluster 2: c -> 1 of 1


def test_purity_by_hand():
    assert conditional_purity(TRUE, FOUND) == (3 + 4 + 1) / 10
    assert conditional_purity(TRUE, TRUE) == 1
    assert conditional_purity(TRUE, [0] * 10) == 0.4


def test_entropy_by_hand():
    first = 0.4 * -(3 / 4 * np.log(3 / 4) + 1 / 4 * np.log(1 / 4))
    second = 0.5 * -(1 / 5 * np.log(1 / 5) + 4 / 5 * np.log(4 / 5))
    assert conditional_entropy(TRUE, FOUND) == pytest.approx(first + second, rel=1e-14)
    assert conditional_entropy(TRUE, TRUE) == 0


def test_names_of_clusters_do_not_matter():
    names = np.array(["x", "y", "z"])[FOUND]
    assert conditional_purity(TRUE, names) == conditional_purity(TRUE, FOUND)
    assert conditional_entropy(TRUE, names) == conditional_entropy(TRUE, FOUND)


def test_recovery_is_exact_and_up_to_order():
    P = [[0, 0, 1], [1, 1, 0], [1, 1, 0]]
    assert templates_recovered([[1, 1, 0], [0, 0, 1], [1, 1, 0]], P)
    assert not templates_recovered([[1, 1, 0], [0, 0, 1], [0, 0, 1]], P)
    assert not templates_recovered([[1, 1, 0], [0, 0, 1]], P)


def test_cluster_means_by_hand():
    rows = np.array([[1, 0, 1], [1, 1, 0], [0, 0, 1]], dtype=np.uint8)
    means = [[1, 0.5, 0.5], [0, 0, 0], [0, 0, 1]]  # no row has label 1
    for same in (rows, rows.tolist(), scipy.sparse.csr_array(rows), BitMatrix.from_dense(rows)):
        assert cluster_means(same, [0, 0, 2], 3).tolist() == means
    for labels in ([0, 0], [0, 0, 3], [0, -1, 0]):
        with pytest.raises(InputError, match="labels must be 3 of the numbers 0 … 2"):
            cluster_means(rows, labels, 3)


def test_excess_error_by_hand():
    X = BitMatrix.from_dense([[0, 0, 0, 0], [0, 0, 0, 1], [1, 1, 1, 1], [1, 1, 1, 1]])
    labels = [0, 0, 1, 1]
    P = [[0, 0, 0, 0], [1, 1, 1, 1]]
    means = [[1, 1, 1, 0.75], [0, 0, 0.25, 0.5]]  # in the other order
    # oracle: [0, 0, 0, .5] and all ones, at distances .5 and 0
    assert excess_error(means, P, X, labels).tolist() == [0.25, 0.25]
    oracle = [[0, 0, 0, 0.5], [1, 1, 1, 1]]
    for same in (np.asarray(X), X.to_dense().tolist(), scipy.sparse.csr_array(X.to_dense())):
        assert excess_error(oracle, P, same, labels).tolist() == [0, 0]


def test_bad_input_is_named():
    with pytest.raises(InputError, match="equal length"):
        conditional_purity([1, 2], [1])
    with pytest.raises(InputError, match="at least 1"):
        conditional_entropy([], [])
    with pytest.raises(InputError, match="round means first"):
        templates_recovered([[0.9, 0.1]], [[1, 0]])
    with pytest.raises(InputError, match="0 and 1"):
        templates_recovered([[256, 0]], [[0, 0]])
    with pytest.raises(InputError, match="must have the 3 columns of truth, got 2"):
        templates_recovered([[1, 0]], [[1, 0, 1]])
    with pytest.raises(InputError, match="one shape"):
        excess_error([[1, 0]], [[1, 0], [0, 1]], np.eye(2), [0, 1])
    with pytest.raises(InputError, match="each of the templates"):
        excess_error(np.eye(2), np.eye(2), np.eye(2), [0, 0])
