"""The E step row by row: labels, posterior probabilities, log-likelihoods."""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitmix.em.step import Model
from bitmix.kernels import backend, fixed
from bitmix.kernels.bits import Words
from bitmix.kernels.scores import Scores
from bitmix.mixture import Floats
from bitmix.rows import Rows


def labels(rows: Rows, mixture: Model) -> NDArray[np.int64]:
    """The component with the largest share of each row, the lowest index among equals."""
    return _map(rows, mixture, _labels)


def probabilities(rows: Rows, mixture: Model) -> Floats:
    """p_i(x), shape (m, k); every row sums to exactly 1."""
    return _map(rows, mixture, _probabilities)


def log_likelihoods(rows: Rows, mixture: Model) -> Floats:
    """ln Σ_i w_i f_i(x) of each row."""
    return _map(rows, mixture, _log_likelihoods)


def margins(rows: Rows, mixture: Model) -> Floats:
    """ln of the odds of the best component against the second, of each row; infinite for one."""
    return _map(rows, mixture, _margins)


def _map(rows: Rows, mixture: Model, function: Any) -> NDArray[Any]:
    return rows.map_rows(
        partial(function, scores=mixture.scores(missing=rows.layout.missing)),
        block_cells=mixture.n_components,
    )


def _labels(words: Words, *, scores: Scores) -> NDArray[np.int64]:
    shares, _, _ = backend(words).posteriors(scores(words), scores.bits, fixed.tables())
    best: NDArray[np.int64] = shares.argmax(axis=1)
    return best


def _probabilities(words: Words, *, scores: Scores) -> Floats:
    shares, _, _ = backend(words).posteriors(scores(words), scores.bits, fixed.tables())
    p: Floats = shares / float(1 << fixed.SHARE_BITS)
    return p


def _log_likelihoods(words: Words, *, scores: Scores) -> Floats:
    _, tops, logs = backend(words).posteriors(scores(words), scores.bits, fixed.tables())
    total: Floats = tops / float(1 << scores.bits) + logs / float(1 << fixed.LOG_BITS)
    return total


def _margins(words: Words, *, scores: Scores) -> Floats:
    ranked = np.sort(scores(words), axis=1)
    if ranked.shape[1] == 1:
        return np.full(len(words), np.inf)
    margin: Floats = (ranked[:, -1] - ranked[:, -2]) / float(1 << scores.bits)
    return margin
