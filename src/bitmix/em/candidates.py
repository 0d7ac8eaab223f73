"""The E step among candidates: a row is scored by the components of the groups that it is near to.

Components are grouped by a cut of their tree, and each group has one coarse component. A row is
scored by all coarse components; its candidates are the components of the groups that score best.
Scores of candidates are the same integers as those of a pass over all components.
"""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitmix.em import predict
from bitmix.em.dendrogram import best_columns
from bitmix.em.noise import Noise
from bitmix.em.step import Statistics, likelihood
from bitmix.kernels import backend, fixed
from bitmix.kernels.fixed import Ints
from bitmix.kernels.scores import CellScores, Scores
from bitmix.kernels.threads import available, run_in_threads
from bitmix.models.mixture import Floats, Mixture, NoiseModel
from bitmix.models.tree import Tree
from bitmix.rows import Rows
from bitmix.rows.convert import spans

GROUP_SIZE, MAX_GROUP_SIZE, N_GROUPS = 16, 64, 8
"""Components per group, on average and at most, and the groups whose components are the candidates
of a row."""
ENOUGH = 0.999
"""The share of rows whose best component has to be a candidate; with less, groups have no levels,
and rows are compared with all components."""
_TRIED_ROWS = 4096
_CHUNK_ROWS = 1 << 14
_BELOW_ALL = -(1 << 61)  # no score is
_NOMINAL_ROWS = 1 << 20  # of a model whose number of rows is not known


@dataclass(frozen=True, eq=False)
class Candidates:
    """Groups of components, each with a coarse component."""

    coarse: Mixture
    members: tuple[Ints, ...]
    """The components of each group."""

    @classmethod
    def of(cls, mixture: Mixture, means: Floats, tree: Tree) -> "Candidates":
        """Groups of about `GROUP_SIZE` components by a cut of the tree. Groups of templates have
        the bits of most of their rows, so that scores are counted in words.
        """
        k, members = mixture.n_components, list[Ints]()
        group = np.empty(k, dtype=np.int64)
        nodes = tree.groups(max(1, -(-k // GROUP_SIZE))).tolist()
        while nodes:
            node = nodes.pop()
            below = tree.members(node)
            if len(below) > MAX_GROUP_SIZE:
                nodes += tree.merges[node - k].tolist()
                continue
            group[below] = len(members)
            members.append(below)
        n_groups = len(members)
        grouped = nominal_statistics(means, mixture.weights).grouped(group, n_groups)
        model: NoiseModel = "shared"
        if mixture.noise is None or mixture.items is not None:
            model = "cell"
        noise = Noise(model, 0.1, items=mixture.items)
        before = Mixture(grouped.means(np.full(grouped.sums.shape, 0.5)), grouped.weights, None)
        return cls(noise.maximise(grouped, replace(before, items=mixture.items)), tuple(members))


def nominal_statistics(means: Floats, weights: Floats) -> Statistics:
    """Statistics of a nominal number of rows that have these means and weights."""
    mass = np.rint(weights * (_NOMINAL_ROWS << fixed.SHARE_BITS)).astype(np.int64)
    return Statistics(_NOMINAL_ROWS, mass, np.rint(means * mass[:, None]).astype(np.int64), 0)


def labels_among(rows: Rows, mixture: Mixture, candidates: Candidates) -> Ints:
    """The best candidate of each row, the lowest index among equals."""
    out = np.empty(rows.shape[0], dtype=np.int64)

    def label(chunk: "_Chunk") -> None:
        best = chunk.scores == chunk.scores.max(axis=1, keepdims=True)
        numbers = np.where(best, chunk.numbers, mixture.n_components)
        out[chunk.start : chunk.start + len(numbers)] = numbers.min(axis=1)

    _for_chunks(rows, mixture, candidates, label)
    return out


def log_likelihoods_among(rows: Rows, mixture: Mixture, candidates: Candidates) -> Floats:
    """ln Σ w_i f_i(x) over the candidates of each row."""
    out = np.empty(rows.shape[0])

    def score(chunk: "_Chunk") -> None:
        kernels = backend(6e-8 * chunk.scores.size)
        _, tops, logs = kernels.posteriors(chunk.scores, chunk.bits)
        nats = tops / 2.0**chunk.bits + logs / 2.0**fixed.LOG_BITS
        out[chunk.start : chunk.start + len(nats)] = nats

    _for_chunks(rows, mixture, candidates, score)
    return out


def recall(rows: Rows, mixture: Mixture, candidates: Candidates) -> float:
    """The share of rows whose best component is a candidate, of some evenly spaced rows."""
    step = -(-rows.shape[0] // _TRIED_ROWS)
    some = rows.subset(np.arange(0, rows.shape[0], step))
    best = predict.labels(some, mixture) == labels_among(some, mixture, candidates)
    return float(best.mean())


def expect_among(rows: Rows, mixture: Mixture, candidates: Candidates) -> Statistics:
    """The E step of `em.step.expect` where a row belongs to its candidates alone."""
    k, n = mixture.means.shape
    mass, sums = np.zeros(k, dtype=np.int64), np.zeros((k, n), dtype=np.int64)
    known = np.zeros((k, n), dtype=np.int64) if rows.layout.missing else None
    totals, lock = [0, 0, 0, 0], threading.Lock()

    def add(chunk: "_Chunk") -> None:
        kernels = backend(6e-8 * chunk.scores.size)
        shares, tops, logs = kernels.posteriors(chunk.scores, chunk.bits)
        weights = chunk.weights
        counts: Any = 1 if weights is None else weights
        n_rows = len(shares) if weights is None else int(weights.sum())
        counted = (n_rows, fixed.total(tops, counts), fixed.total(logs, counts))
        with lock:
            for place, value in enumerate((*counted, int((logs != 0).sum()))):
                totals[place] += value
        if weights is not None:
            shares *= weights[:, None]
        for g, which, places in chunk.groups():
            members = candidates.members[g]
            of_group = shares[which[:, None], places[:, None] + np.arange(len(members))]
            some = np.flatnonzero(of_group.any(axis=1))
            if not some.size:
                continue
            of_group, words = np.ascontiguousarray(of_group[some]), chunk.words[which[some]]
            bits, cells = (part(words, n) for part in (rows.layout.bits, rows.layout.known))
            ones = kernels.column_sums(np.ascontiguousarray(bits), of_group, n)
            given = of_group.sum(axis=0)
            filled = ones
            if cells is not None:
                filled = kernels.column_sums(np.ascontiguousarray(cells), of_group, n)
            with lock:
                mass[members] += given
                sums[members] += ones
                if known is not None:
                    known[members] += filled

    scores = _for_chunks(rows, mixture, candidates, add)
    n_rows, tops, logs, n_undecided = totals
    units = likelihood(tops, logs, scores.bits)
    weight_one = rows.layout.weight_one or 1
    statistics = Statistics(
        n_rows, mass, sums, units, weight_one, known, n_undecided, mixture.items
    )
    if isinstance(scores, CellScores):
        shares, total = statistics.column_shares, 0
        for members in candidates.members:
            table = some_scores(scores, members).table(rows.base, False)
            total += int(table.of_mean_row(shares).sum())
        statistics = replace(statistics, mean_row_units=total << (fixed.LOG_BITS - scores.bits))
    return statistics


@dataclass(frozen=True, eq=False)
class _Chunk:
    """The scores of some rows for their candidates."""

    start: int
    words: NDArray[np.uint64]
    weights: Ints | None
    bits: int
    scores: Ints
    """Shape (rows, places); places that a row does not need are below all scores."""
    numbers: Ints
    """The component at each place."""
    groups: Callable[[], Iterator[tuple[int, Ints, Ints]]]
    """The number of each group, the rows that have it, and their first place for it."""


def _for_chunks(
    rows: Rows, mixture: Mixture, candidates: Candidates, function: Callable[[_Chunk], None]
) -> Scores:
    """Call the function for chunks of rows, in several threads; the scores of all components."""
    scores, coarse = mixture.scores(), candidates.coarse.scores()
    of_group = [some_scores(scores, members) for members in candidates.members]
    sizes = np.array([len(members) for members in candidates.members])
    chunks, stop, lock = spans(rows.shape[0], _CHUNK_ROWS), threading.Event(), threading.Lock()

    def work() -> None:
        while not stop.is_set():
            with lock:
                span = next(chunks, None)
            if span is None:
                return
            function(chunk_of(*span))

    def chunk_of(start: int, end: int) -> _Chunk:
        some = rows.subset(np.arange(start, end))
        chosen = best_columns(some.map_rows(coarse, block_cells=len(sizes)), N_GROUPS)
        first = np.cumsum(sizes[chosen], axis=1) - sizes[chosen]
        order = np.argsort(chosen, axis=None, kind="stable")
        ends = np.searchsorted(chosen.ravel()[order], np.arange(len(sizes) + 1))

        def groups() -> Iterator[tuple[int, Ints, Ints]]:
            for g in np.flatnonzero(np.diff(ends)):
                pairs = order[ends[g] : ends[g + 1]]
                which = pairs // chosen.shape[1]
                yield int(g), which, first.ravel()[pairs]

        width = int((first[:, -1] + sizes[chosen[:, -1]]).max())
        values = np.full((len(chosen), width), _BELOW_ALL)
        numbers = np.full((len(chosen), width), mixture.n_components)
        for g, which, places in groups():
            at = which[:, None], places[:, None] + np.arange(sizes[g])
            values[at] = some.subset(which).map_rows(of_group[g], block_cells=int(sizes[g]))
            numbers[at] = candidates.members[g]
        weights = rows.layout.weights(some.words)
        return _Chunk(start, some.words, weights, scores.bits, values, numbers, groups)

    run_in_threads(work, min(available(), -(-rows.shape[0] // _CHUNK_ROWS)), stop)
    return scores


def some_scores(scores: Any, components: Ints) -> Any:
    """The scores of these components alone, the same integers."""
    k, changed = scores.n_components, {}

    def taken(value: Any) -> Any:
        return np.ascontiguousarray(value[components]) if len(value) == k else value

    for field in fields(scores):
        value = getattr(scores, field.name)
        if isinstance(value, tuple):
            changed[field.name] = tuple(taken(each) for each in value)
        elif field.name != "value_columns" and isinstance(value, np.ndarray):
            changed[field.name] = taken(value)
    return replace(scores, **changed)
