"""Classification of people into classes: the classification error matrix and its precision.

The three-step methods divide by D_ts, the probability that a person of class t is assigned to s. D
is itself an estimate: a mean over people of posteriors whose parameters were estimated from the
same people. `influence` is the influence of each person on D, so that standard errors of later
steps include this uncertainty (as Bakk, Oberski & Vermunt 2014, with the covariance of the steps).
Assignments are held fixed: D belongs to the rule that assigns people to classes, so another rule
changes no estimate on average.
"""

import numpy as np

from bitmix.errors import InputError
from bitmix.inference.information import FreeParameters, information, inverse, residual_blocks
from bitmix.kernels.fixed import Ints
from bitmix.models.mixture import Floats, Mixture
from bitmix.rows.packed import BitMatrix

MAX_PARAMETERS = 1_000
"""With more parameters, they are taken as known: their information would take too long."""


def classification_matrix(posterior: Floats, put_into: Ints, weights: Floats) -> Floats:
    """D_ts: the probability that a person of class t is assigned to s, shape (k, k)."""
    k = posterior.shape[1]
    sums = np.zeros((k, k))
    np.add.at(sums.T, put_into, posterior * weights[:, None])
    return sums / sums.sum(axis=1, keepdims=True)


def influence(
    rows: BitMatrix, mixture: Mixture, posterior: Floats, put_into: Ints, matrix: Floats
) -> Floats | None:
    """The influence of each person on D, shape (m, k·k).

    None for models without a probability per cell, or if the parameters are not identified.
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
