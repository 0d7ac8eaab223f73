"""Steps 3-4 and 8-9: one EM step, as statistics that add over blocks of rows."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np

from bitmix.kernels import backend, fixed
from bitmix.kernels.bits import Words, words_for
from bitmix.kernels.fixed import Ints
from bitmix.kernels.scores import Bounds, Scores
from bitmix.mixture import Floats, Mixture
from bitmix.rows import Rows
from bitmix.rows.protocol import PLAIN, Layout

_STATISTICS_BYTES = 1 << 30  # partial sums of all threads together

# Screening pays where there are rows enough to make its tables for, and one popcount a component
# costs little beside the rest; with many components most rows are undecided anyway.
_SCREENED_ROWS, _SCREENED_COMPONENTS, _SCREENED_CELLS = 4096, 64, 1 << 21
_PROBE = 64
_CHUNK_CELLS = 1 << 18  # scores at once: 2 MiB, to stay in the second-level cache


class Model(Protocol):
    """What an E step asks of a mixture."""

    @property
    def n_components(self) -> int: ...

    @property
    def n_features(self) -> int: ...

    def scores(self, *, missing: bool = False) -> Scores: ...


@dataclass(frozen=True, eq=False)
class Statistics:
    """What an E step leaves behind: integers, so that any order of adding gives the same bits."""

    n_rows: int
    """Rows, or their weights in the units of the layout."""
    mass: Ints
    """Σ_x p_i(x) in units of 2^-30, shape (k,)."""
    sums: Ints
    """Σ_x p_i(x)·x in units of 2^-30, shape (k, n)."""
    likelihood_units: int
    """Σ_x ln Σ_i w_i f_i(x) in units of 2^-42 nats."""
    weight_one: int = 1
    """What a row of weight 1 adds to `n_rows`."""
    known: Ints | None = None
    """Σ_x p_i(x)·[x_s known], where cells may be missing; otherwise it is `mass` in each column."""

    def __add__(self, other: "Statistics") -> "Statistics":
        return Statistics(
            self.n_rows + other.n_rows,
            self.mass + other.mass,
            self.sums + other.sums,
            self.likelihood_units + other.likelihood_units,
            self.weight_one,
            None if self.known is other.known is None else self._known + other._known,
        )

    @property
    def _known(self) -> Ints:
        return np.broadcast_to(self.counts, self.sums.shape)

    @property
    def counts(self) -> Ints:
        """Of what the sums are shares: `known`, or `mass` as a column."""
        return self.mass[:, None] if self.known is None else self.known

    def means(self, otherwise: Floats) -> Floats:
        """Share of ones of each component and column; `otherwise` where there are no rows."""
        empty = self.counts == 0
        if not empty.any():
            return self.sums.astype(np.float64) / self.counts.astype(np.float64)
        return np.where(empty, otherwise, self.sums / np.where(empty, 1, self.counts))

    @property
    def log_likelihood(self) -> float:
        """Σ_x ln Σ_i w_i f_i(x)."""
        return self.likelihood_units / (self.weight_one << fixed.LIKELIHOOD_BITS)

    def fits(self, k: int, n: int) -> bool:
        """Whether a pass over rows of n columns can have given this for k components."""
        return (
            isinstance(self.n_rows, int)
            and isinstance(self.likelihood_units, int)
            and isinstance(self.weight_one, int)
            and self.weight_one > 0
            and _is_shaped(self.mass, (k,))
            and _is_shaped(self.sums, (k, n))
            and (self.known is None or _is_shaped(self.known, (k, n)))
            and 0 < sum(self.mass.tolist()) == self.n_rows << fixed.SHARE_BITS
            and bool(np.all(self.mass >= 0) and np.all(self.counts <= self.mass[:, None]))
            and bool(np.all((self.sums >= 0) & (self.sums <= self.counts)))
        )

    def same_as(self, other: "Statistics | None") -> bool:
        """Whether both lead to the same mixture, to the last bit."""
        return (
            other is not None
            and np.array_equal(self.mass, other.mass)
            and np.array_equal(self.sums, other.sums)
            and np.array_equal(self.counts, other.counts)
        )


def em_step(rows: Rows, mixture: Mixture) -> tuple[Mixture, Statistics]:
    """One EM step; the statistics hold the log-likelihood of the mixture that went in."""
    statistics = expect(rows, mixture)
    return maximise(mixture, statistics), statistics


def expect(rows: Rows, mixture: Model) -> Statistics:
    """E step: p_i(x) = w_i f_i(x) / Σ_i' w_i' f_i'(x), summed up."""
    return summed(rows, mixture.scores(missing=rows.layout.missing))


def summed(rows: Rows, scores: Scores) -> Statistics:
    """The statistics of the shares that scores give."""
    (m, n), k = rows.shape, len(scores.const)
    workers = max(1, _STATISTICS_BYTES // (3 * 8 * k * n))
    cells = min(k, 2 * words_for(n))  # of a row at once: scores are made a chunk of rows at a time
    share = partial(rows.map_reduce, block_cells=cells, workers=workers)
    if rows.layout != PLAIN:
        return share(partial(_of_layout, scores=scores, n_columns=n, layout=rows.layout))
    if m < _SCREENED_ROWS or k > _SCREENED_COMPONENTS or k * n > _SCREENED_CELLS:
        return share(partial(_of_block, scores=scores, n_columns=n))
    screened = share(partial(_screen, scores=scores, bounds=scores.bounds(), n_columns=n))
    return screened.statistics(scores)


def mean_scores(rows: Rows, scores: Scores) -> Ints:
    """The mean score of each component over all rows, cut to a whole unit."""
    count = partial(_count, layout=rows.layout)
    counted = rows.map_reduce(count, block_cells=1, workers=1 << 16)
    return scores.mean(int(counted[0]), counted[1:])


def leads(rows: Rows, scores: Scores) -> Ints:
    """For each component, whole nats by which it leads the second best, over the rows it leads.

    About what the log-likelihood would lose without it.
    """
    k = len(scores.const)
    lead = partial(_leads_of_block, scores=scores, layout=rows.layout)
    return rows.map_reduce(lead, block_cells=k, workers=1 << 16)


def maximise(mixture: Mixture, statistics: Statistics) -> Mixture:
    """M step: w_i = Σ_x p_i(x) / m, T_i = Σ_x p_i(x)·x / (m·w_i).

    A component that no row gives a share to keeps its template, and its weight is 0.
    """
    total = statistics.n_rows << fixed.SHARE_BITS
    means = statistics.means(mixture.means)
    return replace(mixture, means=means, weights=statistics.mass / total)


def _of_block(words: Words, *, scores: Scores, n_columns: int) -> Statistics:
    mass, sums, units = _of_words(words, scores)
    return Statistics(len(words), mass, np.ascontiguousarray(sums[:, :n_columns]), units)


def _of_words(words: Words, scores: Scores, counts: Ints | None = None) -> tuple[Ints, Ints, int]:
    """Masses, sums over all bits of the words, and the likelihood; rows count so often each."""
    kernels, k = backend(words), len(scores.const)
    mass, units = np.zeros(k, dtype=np.int64), 0
    sums: Ints = np.zeros((k, 64 * words.shape[1]), dtype=np.int64)
    step = max(_PROBE, _CHUNK_CELLS // k)
    for start in range(0, len(words), step):
        chunk = words[start : start + step]
        shares, tops, logs = kernels.posteriors(scores(chunk), scores.bits, fixed.tables())
        often: Ints | int = 1
        if counts is not None:
            often = counts[start : start + step]
            shares *= often[:, None]
        mass += np.ascontiguousarray(shares.T).sum(axis=1)  # a third of the time it takes unturned
        kernels.add_column_sums(chunk, shares, sums)
        units += likelihood(tops, logs, scores.bits, often)
    return mass, sums, units


@dataclass(frozen=True, eq=False)
class _Screened:
    """Rows that a popcount decides are counted, only the others are scored; the same statistics."""

    counted: Ints
    """Rows decided for each component."""
    sums: Ints
    """Their bits, as in `Statistics`."""
    scored: Statistics | None

    def __add__(self, other: "_Screened") -> "_Screened":
        parts = [part.scored for part in (self, other) if part.scored is not None]
        scored = parts[0] + parts[1] if len(parts) == 2 else next(iter(parts), None)
        return _Screened(self.counted + other.counted, self.sums + other.sums, scored)

    def fits(self, k: int, n: int) -> bool:
        """As that of `Statistics`."""
        return (
            _is_shaped(self.counted, (k,))
            and _is_shaped(self.sums, (k, n))
            and bool(np.all((self.counted >= 0) & (self.counted <= fixed.MAX_ROWS)))
            and bool(np.all(self.sums >= 0))
            and bool(np.all(self.sums >> fixed.SHARE_BITS <= self.counted[:, None]))
            and (self.scored is None or self.scored.fits(k, n))
        )

    def statistics(self, scores: Scores) -> Statistics:
        likelihood = scores.total(self.counted, self.sums >> fixed.SHARE_BITS)
        likelihood <<= fixed.LIKELIHOOD_BITS - scores.bits
        mass = self.counted << fixed.SHARE_BITS
        found = Statistics(int(self.counted.sum()), mass, self.sums, likelihood)
        return found if self.scored is None else found + self.scored


def _is_shaped(value: Any, shape: tuple[int, ...]) -> bool:
    return isinstance(value, np.ndarray) and value.shape == shape


PASSES = {"Statistics": Statistics, "_Screened": _Screened}
"""What a pass over the rows may give beside whole numbers, by name."""


def _screen(words: Words, *, scores: Scores, bounds: Bounds, n_columns: int) -> _Screened:
    """A few rows of the block tell whether screening is worth the trouble."""
    kernels, k, cut = backend(words), len(scores.const), fixed.CUT_NATS << scores.bits
    decided = partial(
        kernels.decided, templates=bounds.templates, lower=bounds.lower, upper=bounds.upper, cut=cut
    )
    if 2 * int((decided(words[:_PROBE]) < 0).sum()) > min(_PROBE, len(words)):
        owner = np.full(len(words), -1)
    else:
        owner = decided(words)
    counted = np.bincount(owner + 1, minlength=k + 1)
    sums = kernels.owned_sums(words, owner, k, n_columns)
    if not counted[0]:
        return _Screened(counted[1:], sums, None)
    rest = words if counted[0] == len(words) else words[owner < 0]
    return _Screened(counted[1:], sums, _of_block(rest, scores=scores, n_columns=n_columns))


def _of_layout(words: Words, *, scores: Scores, n_columns: int, layout: Layout) -> Statistics:
    """Rows with weights, or with cells missing."""
    words, counts = _split(words, layout)
    mass, sums, units = _of_words(words, scores, counts)
    half = 64 * words_for(n_columns)
    return Statistics(
        n_rows=int(counts.sum()),
        mass=mass,
        sums=np.ascontiguousarray(sums[:, :n_columns]),
        likelihood_units=units,
        weight_one=layout.weight_one or 1,
        known=np.ascontiguousarray(sums[:, half : half + n_columns]) if layout.missing else None,
    )


def likelihood(tops: Ints, logs: Ints, bits: int, counts: Ints | int = 1) -> int:
    """Σ_x ln Σ_i w_i f_i(x) in units of 2^-42 nats, from what `posteriors` gives."""
    best = fixed.total(tops, counts) << (fixed.LIKELIHOOD_BITS - bits)
    return best + (fixed.total(logs, counts) << (fixed.LIKELIHOOD_BITS - fixed.LOG_BITS))


def _split(words: Words, layout: Layout) -> tuple[Words, Ints]:
    """The words that are scored, and how often each row counts."""
    if not layout.weight_one:
        return words, np.ones(len(words), dtype=np.int64)
    return np.ascontiguousarray(words[:, :-1]), words[:, -1].astype(np.int64)


def _leads_of_block(words: Words, *, scores: Scores, layout: Layout) -> Ints:
    words, counts = _split(words, layout)
    found, each = scores(words), np.arange(len(words))
    best = found.argmax(axis=1)
    top = found[each, best]
    found[each, best] = np.iinfo(np.int64).min
    ahead = (top - found.max(axis=1)) >> scores.bits
    out: Ints = np.zeros(len(scores.const), dtype=np.int64)
    np.add.at(out, best, ahead * counts)
    return out


def _count(words: Words, *, layout: Layout) -> Ints:
    """How many rows there are, and how many have a 1 in each column."""
    kernels = backend(words)
    words, counts = _split(words, layout)
    ones = kernels.column_sums(words, counts[:, None] << fixed.SHARE_BITS, 64 * words.shape[1])
    return np.append(counts.sum(), ones[0] >> fixed.SHARE_BITS)
