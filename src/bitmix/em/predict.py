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
from bitmix.models.mixture import Floats
from bitmix.rows import Rows
from bitmix.rows.protocol import Block

ENTROPY_BITS = 24
_TALLY_BYTES = 1 << 30  # partial counts of all threads together


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


def entropies(rows: Rows, mixture: Model) -> Floats:
    """-Σ_i p_i(x)·ln p_i(x) of each row."""
    return _map(rows, mixture, _entropies)


def row_values(rows: Rows, mixture: Model) -> Floats:
    """Label, margin, log-likelihood, number of known cells and runner-up of each row, in one pass.

    The runner-up is the component with the second largest score, -1 if there is only one.
    """
    return np.asarray(_map(rows, mixture, _row_values))


@dataclass(frozen=True, eq=False)
class Tally:
    """Counts over all rows, each row counted for its most likely component. Tallies add."""

    sizes: Ints
    """Rows per component, shape (k,)."""
    ones: Ints
    """Ones per component and column, shape (k, n)."""
    known: Ints | None
    """Known cells per component and column, if cells may be missing."""
    likelihood_units: int
    """Σ_x ln Σ_i w_i f_i(x) in units of 2^-42 nats."""

    def __add__(self, other: "Tally") -> "Tally":
        known = None if self.known is None or other.known is None else self.known + other.known
        return Tally(
            self.sizes + other.sizes,
            self.ones + other.ones,
            known,
            self.likelihood_units + other.likelihood_units,
        )

    @property
    def cells(self) -> Ints:
        """Known cells per component and column, shape (k, n)."""
        if self.known is not None:
            return self.known
        return np.broadcast_to(self.sizes[:, None], self.ones.shape)

    @property
    def density(self) -> float:
        """The share of ones among the known cells."""
        return int(self.ones.sum()) / max(int(self.cells.sum()), 1)

    @property
    def log_likelihood(self) -> float:
        """Σ_x ln Σ_i w_i f_i(x)."""
        return self.likelihood_units / (1 << fixed.LIKELIHOOD_BITS)


def tally(rows: Rows, mixture: Model) -> Tally:
    """Count the rows in one pass that stores nothing per row. Weights of rows are not used."""
    k, n = mixture.n_components, rows.shape[1]
    scores = mixture.scores()
    of_block = partial(_tally, scores=scores)
    return rows.map_reduce(of_block, block_cells=k, workers=max(1, _TALLY_BYTES // (24 * k * n)))


def _tally(block: Block, *, scores: Scores) -> Tally:
    bits, known, k, n = block.bits, block.known, scores.n_components, block.n_columns
    kernels = backend(6e-8 * k * len(bits))
    shares, tops, logs = _posteriors(scores(block), scores.bits)
    owner = shares.argmax(axis=1)

    def counted(words: Words) -> Ints:
        return kernels.owned_sums(words, owner, k, n) >> fixed.SHARE_BITS

    return Tally(
        np.bincount(owner, minlength=k),
        counted(bits),
        None if known is None else counted(np.ascontiguousarray(known)),
        likelihood(fixed.total(tops), fixed.total(logs), scores.bits),
    )


@dataclass(frozen=True, eq=False)
class Classification:
    """The posterior probabilities of all rows, added up by likeliest component. They add."""

    sizes: Ints
    """Rows per likeliest component, in units of the layout's weights, shape (k,)."""
    shares: Ints
    """Σ_x p_j(x) over the rows whose likeliest component is i, in units of 2^-30: shape (k, k)."""
    entropy_units: int
    """-Σ_x Σ_i p_i(x)·ln p_i(x) in units of 2^-24 nats."""
    likelihood_units: int
    """Σ_x ln Σ_i w_i f_i(x) in units of 2^-42 nats."""

    def __add__(self, other: "Classification") -> "Classification":
        return Classification(
            self.sizes + other.sizes,
            self.shares + other.shares,
            self.entropy_units + other.entropy_units,
            self.likelihood_units + other.likelihood_units,
        )


def classify(rows: Rows, mixture: Model) -> Classification:
    """Add up posterior probabilities by likeliest component, in one pass; weights of rows count."""
    k = mixture.n_components
    workers = max(1, _TALLY_BYTES // (16 * k * k))
    of_block = partial(_classify, scores=mixture.scores())
    return rows.map_reduce(of_block, block_cells=k, workers=workers)


def _classify(block: Block, *, scores: Scores) -> Classification:
    k, weights = scores.n_components, block.weights
    shares, tops, logs = _posteriors(scores(block), scores.bits)
    counts = np.ones(len(shares), dtype=np.int64) if weights is None else weights
    owner = shares.argmax(axis=1)
    order = np.argsort(owner, kind="stable")
    owners, starts = np.unique(owner[order], return_index=True)
    sizes, sums = np.zeros(k, dtype=np.int64), np.zeros((k, k), dtype=np.int64)
    sizes[owners] = np.add.reduceat(counts[order], starts)
    sums[owners] = np.add.reduceat((shares * counts[:, None])[order], starts)
    entropies = np.rint(_entropies_of(shares / 2.0**fixed.SHARE_BITS) * 2.0**ENTROPY_BITS)
    return Classification(
        sizes,
        sums,
        fixed.total(entropies.astype(np.int64), counts),
        likelihood(fixed.total(tops, counts), fixed.total(logs, counts), scores.bits),
    )


def _map(rows: Rows, mixture: Model, function: Any) -> NDArray[Any]:
    return rows.map_rows(
        partial(function, scores=mixture.scores()),
        block_cells=mixture.n_components,
    )


def _posteriors(values: Ints, bits: int) -> tuple[Ints, Ints, Ints]:
    return backend(6e-8 * values.size).posteriors(values, bits)


def _labels(block: Block, *, scores: Scores) -> NDArray[np.int64]:
    shares, _, _ = _posteriors(scores(block), scores.bits)
    return shares.argmax(axis=1)


def _probabilities(block: Block, *, scores: Scores) -> Floats:
    shares, _, _ = _posteriors(scores(block), scores.bits)
    return shares / float(1 << fixed.SHARE_BITS)


def _entropies(block: Block, *, scores: Scores) -> Floats:
    return _entropies_of(_probabilities(block, scores=scores))


def _entropies_of(p: Floats) -> Floats:
    logs = backend(4e-8 * p.size).logs(np.where(p > 0, p, 1.0)) / 2.0**fixed.LOG_BITS
    total = np.zeros(len(p))
    for i in range(p.shape[1]):  # one after the other, so that any machine adds in this order
        total -= p[:, i] * logs[:, i]
    return total


def _log_likelihoods(block: Block, *, scores: Scores) -> Floats:
    _, tops, logs = _posteriors(scores(block), scores.bits)
    return _to_nats(tops, logs, scores.bits)


def _to_nats(tops: Ints, logs: Ints, bits: int) -> Floats:
    return tops / float(1 << bits) + logs / float(1 << fixed.LOG_BITS)


def _margins(block: Block, *, scores: Scores) -> Floats:
    return _margins_of(scores(block), scores.bits)


def _margins_of(scores: Ints, bits: int) -> Floats:
    ranked = np.sort(scores, axis=1)
    if ranked.shape[1] == 1:
        return np.full(len(scores), np.inf)
    return (ranked[:, -1] - ranked[:, -2]) / float(1 << bits)


def _row_values(block: Block, *, scores: Scores) -> Floats:
    values, known = scores(block), block.known
    n_known = block.n_columns if known is None else np.bitwise_count(known).sum(axis=1)
    shares, tops, logs = _posteriors(values, scores.bits)
    best = shares.argmax(axis=1)
    others = values.copy()
    others[np.arange(len(values)), best] = np.iinfo(np.int64).min
    runner_up = others.argmax(axis=1) if values.shape[1] > 1 else np.full(len(values), -1)
    return np.column_stack(
        [
            best,
            _margins_of(values, scores.bits),
            _to_nats(tops, logs, scores.bits),
            np.broadcast_to(n_known, len(values)),
            runner_up,
        ]
    )
