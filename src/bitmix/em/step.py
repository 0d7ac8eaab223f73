"""Steps 3-4 and 8-9: one EM step, as statistics that add over blocks of rows."""

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from bitmix.kernels import backend, fixed
from bitmix.kernels.bits import words_for
from bitmix.kernels.events import EventTable
from bitmix.kernels.fixed import Ints
from bitmix.kernels.items import Items
from bitmix.kernels.scores import CellScores, PopcountScores, Scores
from bitmix.models.mixture import Floats, Mixture
from bitmix.rows import Rows
from bitmix.rows.protocol import PLAIN, Block

_STATISTICS_BYTES = 1 << 28  # partial sums of all threads together
_CELLS_PER_EVENT = 8  # with more cells per event of a block, rows are not counted first
_EVENTS_PER_WORD = 4  # about so many; it decides the size of blocks, not a result


class Model(Protocol):
    """What an E step asks of a mixture."""

    @property
    def n_components(self) -> int: ...

    @property
    def items(self) -> Items | None: ...

    def scores(self) -> Scores: ...


@dataclass(frozen=True, eq=False)
class Statistics:
    """The result of an E step: integers, so that any order of adding gives the same bits."""

    n_rows: int
    """The number of rows, or the sum of their weights in units of the layout."""
    mass: Ints
    """Σ_x p_i(x) in units of 2^-30, shape (k,)."""
    sums: Ints
    """Σ_x p_i(x)·x in units of 2^-30, shape (k, n)."""
    likelihood_units: int
    """Σ_x ln Σ_i w_i f_i(x) in units of 2^-42 nats."""
    weight_one: int = 1
    """What a row of weight 1 adds to `n_rows`."""
    known: Ints | None = None
    """Σ_x p_i(x)·[x_s known], if cells may be missing; otherwise it is `mass` in each column."""
    n_undecided: int = 0
    """The number of rows for which several components have responsibilities."""
    items: Items | None = None
    """The columns that are values of items with several values."""
    mean_row_units: int = 0
    """Σ_i ln f_i of a row that is 1 to the share of each column, in units of 2^-32 nats, if there
    is a probability per cell."""

    def __add__(self, other: "Statistics") -> "Statistics":
        known = None
        if self.known is not None and other.known is not None:
            known = self.known + other.known
        return Statistics(
            self.n_rows + other.n_rows,
            self.mass + other.mass,
            self.sums + other.sums,
            self.likelihood_units + other.likelihood_units,
            self.weight_one,
            known,
            self.n_undecided + other.n_undecided,
        )

    @property
    def counts(self) -> Ints:
        """The denominators of the means: `known`, or `mass` as a column."""
        return self.mass[:, None] if self.known is None else self.known

    @property
    def weights(self) -> Floats:
        """w_i = Σ_x p_i(x) / m."""
        return self.mass / (self.n_rows << fixed.SHARE_BITS)

    def subset(self, components: NDArray[np.intp]) -> "Statistics":
        """The statistics of these components alone."""
        known = None if self.known is None else self.known[components]
        return replace(self, mass=self.mass[components], sums=self.sums[components], known=known)

    def grouped(self, groups: NDArray[Any], k: int) -> "Statistics":
        """The statistics of k groups of components; `groups` has the group of each component."""
        sums: dict[str, Any] = {"mass": self.mass, "sums": self.sums, "known": self.known}
        for name, values in sums.items():
            if values is not None:
                sums[name] = np.zeros((k, *values.shape[1:]), dtype=np.int64)
                for group, value in zip(groups, values, strict=True):
                    sums[name][group] += value
        return replace(self, **sums)

    def rescored(self, scores: Any) -> "Statistics":
        """The statistics if the same responsibilities came of these scores: every row has one
        component to itself, and no cell is missing.
        """
        units = scores.total(self.mass >> fixed.SHARE_BITS, self.sums >> fixed.SHARE_BITS)
        return replace(self, likelihood_units=units << (fixed.LIKELIHOOD_BITS - scores.bits))

    def means(self, otherwise: Floats) -> Floats:
        """The share of ones per component and column; `otherwise` for cells without rows."""
        empty = self.counts == 0
        if not empty.any():
            means = self.sums.astype(np.float64)
            means /= self.counts.astype(np.float64)
            return means
        return np.where(empty, otherwise, self.sums / np.where(empty, 1, self.counts))

    @cached_property
    def column_shares(self) -> Floats:
        """μ_s: the share of ones in each column over all rows, with one more cell that is half 1,
        or that has every value of its item equally.
        """
        row = float(self.weight_one << fixed.SHARE_BITS)
        half = 0.5 if self.items is None else 1 / self.items.n_values
        cells = self.mass.sum() if self.known is None else self.known.sum(axis=0)
        return (self.sums.sum(axis=0) + half * row) / (cells + row)

    @cached_property
    def log_column_shares(self) -> tuple[Ints, Ints]:
        """ln(1-μ_s), 0 for values of items, and ln μ_s, in units of 2^-32 nats."""
        shares = self.column_shares
        to_logs = backend(8e-8 * len(shares)).logs
        if_zero, if_one = to_logs(1 - shares), to_logs(shares)
        if self.items is not None:
            if_zero[self.items.is_value] = 0
        return if_zero, if_one

    @property
    def log_likelihood(self) -> float:
        """Σ_x ln Σ_i w_i f_i(x)."""
        return self.likelihood_units / (self.weight_one << fixed.LIKELIHOOD_BITS)

    def same_as(self, other: "Statistics | None") -> bool:
        """Whether both lead to the same mixture, to the last bit."""
        return (
            other is not None
            and np.array_equal(self.mass, other.mass)
            and np.array_equal(self.sums, other.sums)
            and np.array_equal(self.counts, other.counts)
        )


@dataclass(frozen=True, eq=False)
class Round:
    """One EM step as an entry of `history_`."""

    log_likelihood: float
    """Of the parameters the round started from."""
    n_templates: int
    """The number of templates: l in round 1 of Algorithm 1, k otherwise."""
    weights: Floats
    """The weights the round ended with, in the order of the seeds."""

    @classmethod
    def of(cls, statistics: Statistics) -> "Round":
        return cls(statistics.log_likelihood, len(statistics.mass), statistics.weights)

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "weights": self.weights.tolist()}

    @classmethod
    def from_dict(cls, entry: dict[str, Any]) -> "Round":
        weights = np.array(entry["weights"], dtype=np.float64)
        return cls(float(entry["log_likelihood"]), int(entry["n_templates"]), weights)


def em_step(rows: Rows, mixture: Mixture) -> tuple[Mixture, Statistics]:
    """One EM step; the statistics hold the log-likelihood of the mixture that went in.

    The M step sets w_i = Σ_x p_i(x) / m and T_i = Σ_x p_i(x)·x / (m·w_i). A component to which no
    row belongs keeps its template, and its weight is 0.
    """
    statistics = expect(rows, mixture)
    means = statistics.means(mixture.means)
    return replace(mixture, means=means, weights=statistics.weights), statistics


def expect(rows: Rows, mixture: Model) -> Statistics:
    """E step: accumulate p_i(x) = w_i f_i(x) / Σ_i' w_i' f_i'(x) over the rows."""
    return accumulate(rows, mixture.scores(), mixture.items)


def accumulate(
    rows: Rows, scores: Scores, items: Items | None = None, halvings: int = 0
) -> Statistics:
    """The statistics of the responsibilities that the scores give, divided by 2^halvings.

    If templates are binary and no row has a weight or a missing cell, scores are counted in words,
    unless rows are very sparse. Otherwise they are summed over the events of a row.
    """
    n, k = rows.shape[1], scores.n_components
    workers = max(1, _STATISTICS_BYTES // (3 * 8 * k * n))
    block_cells = min(k, 2 * words_for(n))  # scores are made for a chunk of rows at a time
    in_chunks = rows.layout != PLAIN or rows.very_sparse or halvings > 0
    if isinstance(scores, PopcountScores) and not in_chunks:
        start: Any = partial(WordSums, scores)
    else:
        table = scores.table(rows.base, rows.layout.missing).scaled_down(halvings)
        table.screen  # noqa: B018 - made here, so that threads need not wait for each other
        start, block_cells, in_chunks = partial(EventSums, table), _EVENTS_PER_WORD * k, True
    total = rows.fold(start, block_cells=block_cells, workers=workers, in_chunks=in_chunks)
    statistics: Statistics = total.statistics(n, rows.layout.weight_one or 1)
    if items is not None:
        statistics = replace(statistics, items=items)
    if isinstance(scores, CellScores):
        units = int(table.of_mean_row(statistics.column_shares).sum())
        statistics = replace(statistics, mean_row_units=units << (fixed.LOG_BITS - scores.bits))
    return statistics


class Sums:
    """Sums over rows of one thread; others can be added."""

    def __init__(self, bits: int, mass: int, sums: tuple[int, int]) -> None:
        self.bits = bits
        self.mass, self.sums = np.zeros(mass, dtype=np.int64), np.zeros(sums, dtype=np.int64)
        self.n_rows = self.tops = self.logs = self.n_undecided = 0

    def __add__(self, other: Self) -> Self:
        self.mass += other.mass
        self.sums += other.sums
        self._count(other.n_rows, other.tops, other.logs, other.n_undecided)
        return self

    def _count(self, n_rows: int, tops: int, logs: int, n_undecided: int) -> None:
        self.n_rows += n_rows
        self.tops += tops
        self.logs += logs
        self.n_undecided += n_undecided


class WordSums(Sums):
    """Sums over rows whose scores are counted in words."""

    def __init__(self, scores: PopcountScores) -> None:
        k, n_words = scores.templates.shape
        super().__init__(scores.bits, k, (k, 64 * n_words))
        self._scores = scores

    def add(self, block: Block) -> None:
        scores, bits = self._scores, block.bits
        seconds = len(bits) * len(scores.const) * (2e-9 * bits.shape[1] + 6e-8)
        counts = backend(seconds).popcount_pass(
            bits, scores.templates, scores.const, scores.per_one, scores.per_match, scores.bits,
            self.mass, self.sums,
        )  # fmt: skip
        self._count(len(bits), *counts)

    def statistics(self, n: int, weight_one: int) -> Statistics:
        ones = np.ascontiguousarray(self.sums[:, :n])
        units = likelihood(self.tops, self.logs, self.bits)
        return Statistics(self.n_rows, self.mass, ones, units, n_undecided=self.n_undecided)


class EventSums(Sums):
    """Sums over rows whose scores are summed over their events.

    If there are many, rows that one component has whole are counted first, and added at the end.
    """

    def __init__(self, table: EventTable) -> None:
        super().__init__(table.bits, len(table.at_base), table.lines.shape)
        self._table = table
        self._whole: Ints | None = None

    def add(self, block: Block) -> None:
        events, weights, table = block.events, block.weights, self._table
        n_events = int(events.starts[-1] - events.starts[0])
        if self._whole is None and n_events * _CELLS_PER_EVENT >= self.sums.size:
            self._whole = np.zeros((table.n_components, len(table.lines) + 1), dtype=np.int64)
        seconds = len(table.at_base) * (2e-9 * n_events + 6e-8 * len(events))
        counts = backend(seconds).event_pass(
            events.starts, events.cells, weights, table.at_base, table.lines, table.screen,
            table.bits, self.mass, self.sums, self._whole,
        )  # fmt: skip
        self._count(len(events) if weights is None else int(weights.sum()), *counts)

    def __add__(self, other: Self) -> Self:
        if self._whole is None or other._whole is None:
            self._whole = other._whole if self._whole is None else self._whole
        else:
            self._whole += other._whole
        return super().__add__(other)

    def statistics(self, n: int, weight_one: int) -> Statistics:
        table = self._table
        if self._whole is not None:
            add = backend(4e-9 * self._whole.size).add_whole
            self.tops += add(self._whole, table.at_base, table.lines, self.mass, self.sums)
        mass = self.mass[: table.n_components]
        ones, known = table.ones(mass, self.sums)
        units = likelihood(self.tops, self.logs, self.bits)
        return Statistics(self.n_rows, mass, ones, units, weight_one, known, self.n_undecided)


def likelihood(tops: int, logs: int, bits: int) -> int:
    """Σ_x ln Σ_i w_i f_i(x) in units of 2^-42 nats, from the sums of best scores and of the
    logarithms of what the others add.
    """
    best = tops << (fixed.LIKELIHOOD_BITS - bits)
    return best + (logs << (fixed.LIKELIHOOD_BITS - fixed.LOG_BITS))
