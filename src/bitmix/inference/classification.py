"""How people are put into classes: the table of errors, and how exactly it is known.

The three-step methods divide by D_ts, the probability that a person of class t is put into s. D is
an estimate, too: a mean over people, of posteriors whose parameters were estimated from the same
people. `influence` says how much each person moves D, so that the standard errors of what follows
count that as well (as Bakk, Oberski & Vermunt 2014, with the covariance of the steps). The class
that a person is put into stays as it is: D belongs to whatever rule puts people into classes, so
another rule changes no estimate on average.
"""

import numpy as np

from bitmix.errors import InputError
from bitmix.inference.information import FreeParameters, information, inverse, residual_blocks
from bitmix.kernels.fixed import Ints
from bitmix.models.mixture import Floats, Mixture
from bitmix.rows.packed import BitMatrix

MAX_PARAMETERS = 1_000
"""With more parameters, they are taken for known: their information would take long."""


def classification_matrix(posterior: Floats, put_into: Ints, weights: Floats) -> Floats:
    """D_ts: the probability that a person of class t is put into s, shape (k, k)."""
    k = posterior.shape[1]
    sums = np.zeros((k, k))
    np.add.at(sums.T, put_into, posterior * weights[:, None])
    return sums / sums.sum(axis=1, keepdims=True)


def influence(
    rows: BitMatrix, mixture: Mixture, posterior: Floats, put_into: Ints, matrix: Floats
) -> Floats | None:
    """How much each person moves D, shape (m, k·k).

    None without a probability per cell, or if its parameters are not identified.
    """
    if mixture.noise is not None:
        return None
    k, weights = len(matrix), rows.weights
    free = FreeParameters(mixture, rows.total_weight)
    if free.n > MAX_PARAMETERS:
        return None
    try:
        covariance = inverse(information(rows, mixture, free))
    except InputError:
        return None
    apart = (put_into[:, None] == np.arange(k))[:, None, :] - matrix
    apart /= (weights @ posterior)[:, None]  # shape (m, k, k)
    # a posterior p_t changes with a logit of class c by p_t·(δ_tc - p_c)·d, d = 1 for a class share
    classes = np.concatenate([np.arange(k - 1), free.classes])
    slopes = np.zeros((k, k, len(classes)))
    for at, p, d, _ in residual_blocks(rows, mixture, free):
        d, of_class = np.hstack([np.ones((len(d), k - 1)), d]), p[:, classes]
        for t in range(k):
            change = (weights[at] * p[:, t])[:, None] * ((classes == t) - of_class) * d
            slopes[t] += apart[at, t].T @ change
    moves = posterior[:, :, None] * apart
    towards = covariance @ slopes.reshape(k * k, -1).T
    for at, p, d, _ in residual_blocks(rows, mixture, free):
        scores = np.hstack([p[:, : k - 1] - mixture.weights[: k - 1], p[:, free.classes] * d])
        moves[at] += (scores @ towards).reshape(-1, k, k)
    return moves.reshape(-1, k * k)
