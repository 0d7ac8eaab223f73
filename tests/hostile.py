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


# Scenarios outside the model: rows, and how many templates are asked for, and the true ones.


def _noisy(seed, *, n=200, m=300, k=2, q=0.1, separation=0.5):
    truth = make_templates(k, n, separation=separation, random_state=seed)
    rng = np.random.default_rng([7, seed])
    labels = rng.integers(k, size=m)
    return truth, labels, rng, np.full((m, n), q)


def _drawn(truth, labels, flips):
    return (truth[labels] ^ flips).astype(np.uint8), len(truth), truth


def _hidden(off, weight, seed):
    truth, labels, rng, rates = _noisy(seed, m=1000)
    third = truth[1].copy()
    third[rng.permutation(200)[:off]] ^= 1
    truth = np.array([*truth, third])
    labels = rng.choice(3, p=[0.5, 0.5 - weight, weight], size=1000)
    X, _, truth = _drawn(truth, labels, rng.random(rates.shape) < rates)
    return X, 2, truth


def scenario(name: str, seed: int):
    """Rows outside the model (but for the first), k to ask for, and the true templates."""
    hidden = {"hidden 6, .10": (6, 0.1), "hidden 6, .03": (6, 0.03), "hidden 10, .03": (10, 0.03),
              "hidden 20, .01": (20, 0.01), "hidden 60, .01": (60, 0.01),
              "hidden 3, .25": (3, 0.25)}  # fmt: skip
    if name in hidden:
        return _hidden(*hidden[name], seed)
    if name in ("rows twice", "rows five times"):
        truth, labels, rng, rates = _noisy(seed, m=120 // (2 if "twice" in name else 5), q=0.2)
        X, k, truth = _drawn(truth, labels, rng.random(rates.shape) < rates)
        X = np.repeat(X, 2 if "twice" in name else 5, axis=0)
        for row in range(len(X)):
            X[row, rng.permutation(200)[:2]] ^= row % (2 if "twice" in name else 5) > 0
        return X, k, truth
    if name == "chosen columns":
        rng = np.random.default_rng([7, seed])
        bits = rng.integers(2, size=(300, 3000), dtype=np.uint8)
        lead = np.linalg.eigh((bits - 0.5) @ (bits - 0.5).T)[1][:, -1]
        chosen = np.argsort(-np.abs(lead @ (bits - 0.5)))[:60]
        return bits[:, chosen], 2, np.zeros((1, 60), dtype=np.uint8)
    big = name == "groups .02/.25, k 3"
    q = 0.2 if name in ("time series", "families") else 0.1
    truth, labels, rng, rates = _noisy(seed, m=3000 if big else 300, q=q)
    m, n = rates.shape
    if big or name == "groups .02/.3":
        rates = np.array([0.02, 0.25 if big else 0.3])[labels][:, None] * np.ones((m, n))
    elif name == "columns U(0, .3)":
        rates = np.tile(rng.uniform(0, 0.3, n), (m, 1))
    elif name == "5 % of columns at .48":
        rates[:, rng.permutation(n)[: n // 20]] = 0.48
    elif name == "2 % of columns at .6":
        rates[:, rng.permutation(n)[: n // 50]] = 0.6
    elif name == "10 % of rows at .4":
        rates[rng.permutation(m)[: m // 10]] = 0.4
    elif name == "rows' noise Beta":
        rates = rng.beta(5.525, 49.725, m)[:, None] * np.ones((m, n))  # mean .1, deviation .04
    flips = rng.random((m, n)) < rates
    if name == "AR(.5) along columns":
        for s in range(1, n):
            flips[:, s] = np.where(rng.random(m) < 0.5, flips[:, s - 1], flips[:, s])
    elif name == "flips in runs of 5":
        starts = rng.random((m, n)) < 0.1 / 5
        flips = sum(np.roll(starts, j, axis=1) for j in range(5)) > 0
    elif name == "time series":
        labels = np.sort(labels)
        for row in range(1, m):
            flips[row] = np.where(rng.random(n) < 0.8, flips[row - 1], flips[row])
    elif name == "families":
        common = np.repeat(rng.random((m // 5, n)) < rates[::5], 5, axis=0)
        labels = np.repeat(labels[::5], 5)
        flips = np.where(rng.random((m, n)) < 0.5, common, flips)
    X, k, truth = _drawn(truth, labels, flips)
    return X, 3 if big else k, truth


SCENARIOS = (
    "in the model", "groups .02/.25, k 3", "groups .02/.3", "columns U(0, .3)",
    "5 % of columns at .48", "2 % of columns at .6", "10 % of rows at .4", "rows' noise Beta",
    "AR(.5) along columns", "flips in runs of 5", "rows twice", "rows five times", "time series",
    "families", "hidden 6, .10", "hidden 3, .25", "hidden 6, .03", "hidden 10, .03",
    "hidden 20, .01", "hidden 60, .01", "chosen columns",
)  # fmt: skip
HIDDEN = ("hidden 6, .03", "hidden 10, .03", "hidden 20, .01")
"""Those in which a light template is hidden well."""


# Attacks on the sorting: templates that the rows to be sorted had no part in.

ATTACKS = ("perturbed", "around a true one", "random", "one-bit twin", "merge and split",
           "one too few", "learned")  # fmt: skip


def attack(seed: int):
    """Rows of a hard problem, templates to sort by (None: to be learned), their number, truth."""
    rng = np.random.default_rng([55, seed])
    k, n, m = int(rng.integers(1, 5)), int(rng.integers(4, 60)), int(rng.integers(24, 400))
    q, how = float(rng.choice([0.02, 0.05, 0.1, 0.2, 0.3])), ATTACKS[seed % len(ATTACKS)]
    base = rng.integers(2, size=n, dtype=np.uint8)
    truth = np.array([base ^ (rng.random(n) < rng.uniform(0.05, 0.6)) for _ in range(k)], np.uint8)
    truth = np.unique(truth, axis=0)
    k = len(truth)
    labels = rng.choice(k, p=rng.dirichlet(np.full(k, 2.0)), size=m)
    X = (truth[labels] ^ (rng.random((m, n)) < q)).astype(np.uint8)
    given = truth.copy()
    if how == "perturbed":
        given ^= (rng.random(given.shape) < 0.05).astype(np.uint8)
    elif how == "around a true one":  # on both sides of a template, half of its columns each
        side = (rng.random(n) < 0.5).astype(np.uint8)
        given = np.array([*truth[1:], truth[0] ^ side, truth[0] ^ (1 - side)])
    elif how == "random":
        given = rng.integers(2, size=given.shape, dtype=np.uint8)
    elif how == "one-bit twin":
        twin = truth[0].copy()
        twin[rng.integers(n)] ^= 1
        given = np.array([*truth, twin])
    elif how == "merge and split" and k > 2:
        joint = np.where(rng.random(n) < 0.5, truth[0], truth[1])
        side = (rng.random(n) < 0.5).astype(np.uint8)
        given = np.array([joint, *truth[3:], truth[2] ^ side, truth[2] ^ (1 - side)])
    elif how == "one too few" and k > 1:  # outside the conditions: at most k templates
        given = truth[1:]
    elif how == "learned":
        return X, None, k + int(rng.integers(2)), truth
    return X, given, len(given), truth
