"""The E step row by row: labels, posterior probabilities, log-likelihoods."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitmix.em.step import Model, likelihood
from bitmix.kernels import backend, fixed
from bitmix.kernels.bits import Words
from bitmix.kernels.fixed import Ints
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


@dataclass(frozen=True, eq=False)
class Tally:
    """How many rows go to each component, how likely all are, how many bits are 1."""

    members: Ints
    likelihood_units: int
    ones: int

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            self.members + other.members,
            self.likelihood_units + other.likelihood_units,
            self.ones + other.ones,
        )

    @property
    def log_likelihood(self) -> float:
        return self.likelihood_units / (1 << fixed.LIKELIHOOD_BITS)


def tally(rows: Rows, mixture: Model) -> Tally:
    """All of it in one pass, with nothing kept for each row. For rows without weights or gaps."""
    return rows.map_reduce(
        partial(_tally, scores=mixture.scores()), block_cells=mixture.n_components, workers=1 << 16
    )


def _tally(words: Words, *, scores: Scores) -> Tally:
    shares, tops, logs = backend(words).posteriors(scores(words), scores.bits, fixed.tables())
    members = np.bincount(shares.argmax(axis=1), minlength=len(scores.const))
    ones = int(np.bitwise_count(words).sum(dtype=np.int64))
    return Tally(members, likelihood(tops, logs, scores.bits), ones)


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
