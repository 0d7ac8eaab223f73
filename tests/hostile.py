"""Fits that ought not to be certified, and data outside the model, for tests and benchmarks."""

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage

from bitmix import ClassicEM, TwoRoundEM
from bitmix.datasets import make_templates, paper_pair, sample_mixture

METHODS = ("two-round", "original EM", "single linkage", "one bit turned", "true clusters")


def majority(X: np.ndarray, labels: np.ndarray, k: int) -> np.ndarray:
    means = [
        X[labels == i].mean(axis=0) if (labels == i).any() else np.zeros(X.shape[1])
        for i in range(k)
    ]
    return (np.array(means) > 0.5).astype(np.uint8)


def hard_fit(seed: int):
    """Rows of a random hard problem, templates by an honest or hostile method, the truth."""
    rng = np.random.default_rng([99, seed])
    k, n, m = int(rng.integers(1, 4)), int(rng.integers(20, 120)), int(rng.integers(12, 160))
    q = float(rng.uniform(0.02, 0.25))
    truth = make_templates(k, n, separation=float(rng.uniform(0.15, 0.6)), random_state=seed)
    rows, labels = sample_mixture(truth, rng.dirichlet(np.full(k, 3.0)), q, m, seed)
    X, method = rows.to_dense(), METHODS[seed % len(METHODS)]
    if method == "two-round":
        found = TwoRoundEM(k, random_state=seed).fit(rows).templates_
    elif method == "original EM":
        found = ClassicEM(k, max_iter=5, random_state=seed).fit(rows).templates_
    elif method == "single linkage":
        found = majority(X, fcluster(linkage(X, "single", metric="hamming"), k, "maxclust") - 1, k)
    elif method == "one bit turned":  # the one that the data speak for least
        means = np.array(
            [X[labels == i].mean(axis=0) if (labels == i).any() else truth[i] for i in range(k)]
        )
        i, s = np.unravel_index(np.abs(means - 0.5).argmin(), means.shape)
        found = truth.copy()
        found[i, s] ^= 1
    else:  # wrong just where the data mislead
        found = majority(X, labels, k)
    return rows, found, truth


def missing_template(seed):
    """k too small by one: a third template, 30 of 1,000 columns from the second."""
    truth = make_templates(2, 1000, separation=0.5, random_state=seed)
    third = truth[1].copy()
    third[:30] ^= 1
    X, _ = sample_mixture([*truth, third], [0.5, 0.25, 0.25], 0.05, 300, seed)
    return X, truth


def copied_rows(seed):
    """Every row twice."""
    truth = paper_pair(50, 1.0)
    X, _ = sample_mixture(truth, [0.5, 0.5], 0.1, 150, seed)
    return X[np.repeat(np.arange(150), 2)], truth


def noisy_columns(seed):
    """Ten of 1,000 columns at q = .45."""
    truth = make_templates(2, 1000, separation=0.5, random_state=seed)
    X, labels = sample_mixture(truth, [0.5, 0.5], 0.05, 300, seed)
    bits = X.to_dense()
    coins = np.random.default_rng(seed).random((300, 10)) < 0.45
    bits[:, :10] = truth[labels][:, :10] ^ coins
    return bits, truth


def joint_columns(seed):
    """Twenty of 400 columns flip together."""
    truth = make_templates(2, 400, separation=0.5, random_state=seed)
    X, labels = sample_mixture(truth, [0.5, 0.5], 0.05, 300, seed)
    flips = X.to_dense() ^ truth[labels]
    flips[:, 1:20] = flips[:, [0]]
    return flips ^ truth[labels], truth


OUTSIDE = (missing_template, copied_rows, noisy_columns, joint_columns)
