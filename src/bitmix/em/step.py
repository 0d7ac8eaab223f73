"""Steps 3-4 and 8-9: one EM step, as statistics that add over blocks of rows."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from bitmix.kernels import backend, fixed
from bitmix.kernels.bits import Words
from bitmix.kernels.fixed import Ints
from bitmix.kernels.scores import Scores
from bitmix.mixture import Mixture
from bitmix.rows import Rows

_STATISTICS_BYTES = 1 << 30  # partial sums of all threads together


@dataclass(frozen=True, eq=False)
class Statistics:
    """What an E step leaves behind: integers, so that any order of adding gives the same bits."""

    n_rows: int
    mass: Ints
    """Σ_x p_i(x) in units of 2^-30, shape (k,)."""
    sums: Ints
    """Σ_x p_i(x)·x in units of 2^-30, shape (k, n)."""
    nats: int
    """Whole nats of the log-likelihood."""
    fraction: int
    """The rest of it, in units of 2^-32."""

    def __add__(self, other: "Statistics") -> "Statistics":
        return Statistics(
            self.n_rows + other.n_rows,
            self.mass + other.mass,
            self.sums + other.sums,
            self.nats + other.nats,
            self.fraction + other.fraction,
        )

    @property
    def likelihood_units(self) -> int:
        """Σ_x ln Σ_i w_i f_i(x) in units of 2^-32 nats: exact, for comparing fits."""
        return (self.nats << fixed.LOG_BITS) + self.fraction

    @property
    def log_likelihood(self) -> float:
        """Σ_x ln Σ_i w_i f_i(x)."""
        return self.likelihood_units / (1 << fixed.LOG_BITS)

    def same_as(self, other: "Statistics | None") -> bool:
        """Whether both lead to the same mixture, to the last bit."""
        return (
            other is not None
            and np.array_equal(self.mass, other.mass)
            and np.array_equal(self.sums, other.sums)
        )


def em_step(rows: Rows, mixture: Mixture) -> tuple[Mixture, Statistics]:
    """One EM step; the statistics hold the log-likelihood of the mixture that went in."""
    statistics = expect(rows, mixture)
    return maximise(mixture, statistics), statistics


def expect(rows: Rows, mixture: Mixture) -> Statistics:
    """E step: p_i(x) = w_i f_i(x) / Σ_i' w_i' f_i'(x), summed up."""
    k, n = mixture.means.shape
    of_block = partial(_of_block, scores=mixture.scores(), n_columns=n)
    workers = max(1, _STATISTICS_BYTES // (3 * 8 * k * n))
    return rows.map_reduce(of_block, block_cells=k, workers=workers)


def maximise(mixture: Mixture, statistics: Statistics) -> Mixture:
    """M step: w_i = Σ_x p_i(x) / m, T_i = Σ_x p_i(x)·x / (m·w_i).

    A component that no row gives a share to keeps its template, and its weight is 0.
    """
    mass, total = statistics.mass, statistics.n_rows << fixed.SHARE_BITS
    empty = mass == 0
    means = statistics.sums / np.where(empty, 1, mass)[:, None]
    means[empty] = mixture.means[empty]
    return replace(mixture, means=means, weights=mass / total)


def _of_block(words: Words, *, scores: Scores, n_columns: int) -> Statistics:
    kernels = backend()
    shares, nats, fraction = kernels.posteriors(scores(words), scores.bits, fixed.tables())
    return Statistics(
        n_rows=len(words),
        mass=shares.sum(axis=0),
        sums=kernels.column_sums(words, shares, n_columns),
        nats=int(nats.sum()),
        fraction=int(fraction.sum()),
    )
