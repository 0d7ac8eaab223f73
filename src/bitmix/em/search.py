"""The search of `TemplateMixture`: over-seed, merge, EM; the best of several starts.

A start draws l random rows as seeds, more than the k components asked for. A few EM steps turn them
into small components. Then the two components whose merging loses the least likelihood are merged,
until k are left, and EM goes on from there. Starts race: the worse half of them is given up, again
and again. No more starts are made once more than half of those asked for agree.
"""

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bitmix.em import seeds
from bitmix.em.merge import merge
from bitmix.em.noise import Noise
from bitmix.em.step import Round, Statistics, accumulate, expect
from bitmix.kernels import backend, fixed
from bitmix.models.mixture import Mixture
from bitmix.rows import Rows

# What decides results; `benchmarks/ablation.py` leaves each out in turn.
SEEDS_PER_COMPONENT, MIN_SEEDS = 2.0, 64
"""l is 2k, but at least 64, because a light component beside a heavy one needs a seed, too."""
CELL_SEEDS_PER_COMPONENT, MIN_CELL_SEEDS = 1.5, 32
"""With a probability per cell, which takes more rows to learn than a template."""
STARTS, FEW_STARTS, FEW_COMPONENTS = 5, 3, 32
"""The number of starts if none is asked for: 5, or 3 with a probability per cell for more than 32
components, where most of the time goes into making starts."""
SURVEY_STARTS, SURVEY_COLUMNS, SURVEY_CELLS = 20, 64, 512
"""A survey has 20 starts: a probability per cell for at most 64 columns and 512 cells. There starts
from many seeds often end at the same place, and seldom at the best, so every second start has k
seeds only, which are not merged. Likelihoods are flat there: a start that seems to be done may gain
30 nats more, so none is given up. Elsewhere starts from many seeds are better; those after the
fifth have k."""
ROWS_PER_SEED = 32
"""Templates are merged after they have seen this many rows; probabilities need all rows."""
PLAIN_STEPS = 2
"""EM steps of the seeds after the first and after cooling, before they are merged."""
FIRST_HEAT = 6
"""EM steps after which the worse half of the starts is given up; twice as many for the next half,
and so on (successive halving). Six steps tell good starts from bad ones as well as all steps do."""
ENOUGH = 3
"""The least number of finished starts that agree before the search ends; see `enough`."""

_LOOSER, _CLOSER = 1000, 10
"""Starts are done when they are 1,000 times `tol` from their limit. In a survey, those that are
elsewhere than the ones before go on until they are 10 times `tol` from it."""
_COOLING_ROWS, _MAX_HALVINGS = 256, 12
_PATH_CELLS = 1 << 22  # more are too many to keep for an extrapolation
_NEARLY = 20  # weights and rates change by 1/20 at most, so that 22 nats stay at least 20


@dataclass(frozen=True)
class Settings:
    """How to fit."""

    noise: Noise
    n_init: int | None
    """The number of starts; by default `number_of_starts` decides."""
    max_iter: int
    tol: float
    """How far below its optimum a fit may end, in nats per row."""
    n_seeds: int | None = None
    """l in the paper; by default `number_of_seeds` decides."""


@dataclass(frozen=True)
class Start:
    """The outcome of one start."""

    objective: float
    """ln L + ln of the prior where it ended, in nats, on the rows that were searched."""
    n_steps: int
    finished: bool
    """Whether it converged, or made `max_iter` steps; otherwise it was given up."""

    @classmethod
    def of(cls, fit: "Fit") -> "Start":
        return cls(fit.nats, len(fit.objectives), fit.converged)


@dataclass(frozen=True, eq=False)
class Fit:
    """A mixture, and an E step from it."""

    mixture: Mixture
    statistics: Statistics
    objectives: tuple[int, ...]
    """ln L + ln of the prior of this mixture and of those before it, as `Noise.objective`."""
    history: tuple[Round, ...]
    converged: bool = False

    @property
    def objective(self) -> int:
        return self.objectives[-1]

    @property
    def nats(self) -> float:
        """The objective in nats."""
        return self.objective / (self.statistics.weight_one << fixed.LIKELIHOOD_BITS)


@dataclass(frozen=True, eq=False)
class Search:
    """The result of a search."""

    fit: Fit
    starts: tuple[Start, ...]
    n_agreeing: int
    """Finished starts that ended where the best one did, itself included."""


def search(rows: Rows, k: int, settings: Settings, rng: np.random.Generator) -> Search:
    """The best of several starts, which race: after `FIRST_HEAT` EM steps the better half goes on
    for as many steps again, and so on, until one is left or all are done.
    """
    survey = is_survey(settings, k, rows.shape[1])
    n_init = number_of_starts(settings, k, rows.shape[1])
    loose = replace(settings, tol=_LOOSER * settings.tol)
    heat = settings.max_iter if survey else min(FIRST_HEAT, settings.max_iter)
    racing: dict[int, Fit] = {}
    starts: dict[int, Start] = {}
    ends: dict[int, _End] = {}  # of the finished starts
    highest: _End = ()
    for number in range(n_init):
        few_seeds = number % 2 == 1 if survey else number >= STARTS
        begun = begin(rows, k, settings, rng, few_seeds=few_seeds)
        fit = converge(rows, evaluate(rows, begun, settings.noise), replace(loose, max_iter=heat))
        if fit.converged:
            end: _End = (_Place.of(fit, loose.tol),)
            if survey and not _n_meeting(end, ends):
                fit = converge(rows, fit, replace(settings, tol=_CLOSER * settings.tol))
                end = (*end, _Place.of(fit, loose.tol))
            ends[number] = end
            highest = end if not highest or end[-1].objective > highest[-1].objective else highest
        racing[number], starts[number] = fit, Start.of(fit)
        all_agree = len(ends) >= enough(n_init) and _n_meeting(highest, ends) == len(ends)
        if all_agree and highest[-1].all_differ:
            break
    while heat < settings.max_iter:
        unfinished = [number for number, fit in racing.items() if not fit.converged]
        if not unfinished:
            break
        best_first = sorted(racing, key=lambda number: -racing[number].objective)
        racing = {number: racing[number] for number in best_first[: -(-len(racing) // 2)]}
        heat = settings.max_iter if len(racing) == 1 else min(2 * heat, settings.max_iter)
        for number in racing.keys() & unfinished:
            racing[number] = fit = converge(rows, racing[number], replace(loose, max_iter=heat))
            starts[number] = Start.of(fit)
            if fit.converged:
                ends[number] = (_Place.of(fit, loose.tol),)
    best = next(iter(racing))
    for number, fit in racing.items():  # done, or at the largest number of steps
        starts[number] = replace(starts[number], finished=True)
        ends.setdefault(number, (_Place.of(fit, loose.tol),))
        best = number if fit.objective > racing[best].objective else best
    return Search(racing[best], tuple(starts.values()), _n_meeting(ends[best], ends))


def is_survey(settings: Settings, k: int, n_columns: int) -> bool:
    """Whether there is a probability per cell, for few columns and few cells."""
    few = n_columns <= SURVEY_COLUMNS and 1 < k <= SURVEY_CELLS // n_columns
    return settings.noise.model == "cell" and few


def number_of_starts(settings: Settings, k: int, n_columns: int) -> int:
    """As many as asked for, or 5; with a probability per cell, 20 for a survey and 3 for many
    components."""
    if settings.n_init is not None:
        return settings.n_init
    if is_survey(settings, k, n_columns):
        return SURVEY_STARTS
    return FEW_STARTS if settings.noise.model == "cell" and k > FEW_COMPONENTS else STARTS


def enough(n_init: int) -> int:
    """The number of finished starts that agree which ends a search: more than half of all starts,
    and at least three. A user who asks for many starts expects a fit that few reach.
    """
    return max(ENOUGH, n_init // 2 + 1)


def number_of_seeds(settings: Settings, k: int, n_rows: int, *, few: bool = False) -> int:
    """l: as asked for, or 2 per component and at least 64; with a probability per cell, 1.5 per
    component and at least 32, or k if `few`.

    No more than a quarter of the rows, where a seed that has only itself starves, unless that is
    fewer than 2 or 1.5 per component; and no more than there are rows.
    """
    least, per_component = MIN_SEEDS, math.ceil(SEEDS_PER_COMPONENT * k)
    if settings.noise.model == "cell":
        if few and not settings.n_seeds:
            return k
        least, per_component = MIN_CELL_SEEDS, math.ceil(CELL_SEEDS_PER_COMPONENT * k)
    wanted = min(max(per_component, least), max(per_component, -(-n_rows // 4) - 1))
    return min(max(k, settings.n_seeds or wanted), max(k, n_rows))


def begin(
    rows: Rows, k: int, settings: Settings, rng: np.random.Generator, *, few_seeds: bool = False
) -> Mixture:
    """Seeds, a few EM steps, and merging: k components to start EM from."""
    noise = settings.noise
    if noise.model in ("component", "feature"):  # rates of their own only once there are k
        noise = replace(noise, model="shared")
    l = number_of_seeds(settings, k, int(rows.total_weight), few=few_seeds)
    few = ROWS_PER_SEED * l
    if noise.model != "cell" and few < int(rows.total_weight):
        each_once = rows.repeated()
        if not each_once.layout.weight_one:
            rows = each_once.subset(each_once.draw(few, rng))
    mixture = _seeds(rows, l, noise, rng)
    halvings = _halvings(rows, mixture, rng) if noise.model == "cell" else 0
    for cooler in [*range(halvings, 0, -1), *[0] * (1 + PLAIN_STEPS)]:
        statistics = accumulate(rows, mixture.scores(), noise.items, cooler)
        mixture = noise.maximise(statistics, mixture)
    if l > k:
        statistics = merge(statistics, mixture, k, noise.prior)
        mixture = mixture.reordered(np.arange(k))  # the M step sets their weights
    return settings.noise.maximise(statistics, mixture)


def evaluate(
    rows: Rows,
    mixture: Mixture,
    noise: Noise,
    statistics: Statistics | None = None,
    objectives: tuple[int, ...] = (),
    history: tuple[Round, ...] = (),
) -> Fit:
    """The E step of a mixture, after the steps that `objectives` and `history` tell of.

    It makes no pass over the rows if its `statistics` are given.
    """
    if statistics is None:
        statistics = expect(rows, mixture)
    objectives = (*objectives, noise.objective(statistics, mixture))
    return Fit(mixture, statistics, objectives, (*history, Round.of(statistics)))


def m_step(fit: Fit, noise: Noise) -> tuple[Mixture, Statistics | None]:
    """The best mixture given the responsibilities, and its E step if that needs no pass over the
    rows.

    While every row belongs to one template alone and the templates stay as they are, so do the
    responsibilities.
    """
    before = fit.statistics
    mixture = noise.maximise(before, fit.mixture)
    if before.n_undecided == 0 and before.known is None and _nearly_same(mixture, fit.mixture):
        return mixture, before.rescored(mixture.scores())
    return mixture, None


def converge(rows: Rows, fit: Fit, settings: Settings) -> Fit:
    """EM steps until the objective is within `tol` of its limit, or `max_iter` steps were made.

    With a probability per cell, EM may be slow: after any two steps, the path is extrapolated, and
    where that raises the objective, EM goes on from there.
    """
    jumps = settings.noise.model == "cell" and fit.mixture.means.size <= _PATH_CELLS
    path, may_stop = [fit.mixture] if jumps else [], True
    while not (converged := may_stop and _is_close(fit, settings.tol)):
        if len(fit.objectives) > settings.max_iter:
            break
        if len(path) == 3:
            fit, may_stop = _jump(rows, fit, path, settings.noise)
            path = [fit.mixture]
            continue
        mixture, statistics = m_step(fit, settings.noise)
        objectives, history = fit.objectives, fit.history
        del fit  # its statistics are large, and no longer needed
        fit = evaluate(rows, mixture, settings.noise, statistics, objectives, history)
        if jumps:
            path.append(fit.mixture)
            may_stop = may_stop or len(path) == 3  # gains are not compared across a jump
    return replace(fit, converged=converged)


def _jump(rows: Rows, fit: Fit, path: list[Mixture], noise: Noise) -> tuple[Fit, bool]:
    """The fit at an extrapolated mixture, if that is better, and False; otherwise the fit as it is,
    and True."""
    further = extrapolate(*path)
    if further is None:
        return fit, True
    jumped = evaluate(rows, further, noise)
    if jumped.objective <= fit.objective:
        return fit, True
    objectives = (*fit.objectives, jumped.objective)
    return replace(jumped, objectives=objectives, history=fit.history + jumped.history), False


def extrapolate(first: Mixture, second: Mixture, third: Mixture) -> Mixture | None:
    """Where the path of two EM steps leads: first + 2·α·r + α²·v, with r the first step, v the
    second less the first, and α = |r|/|v| (squared extrapolation, Varadhan & Roland 2008).

    None if that is no further than the path itself. The norms are sums of whole numbers, so that
    they are the same on every machine.
    """
    path = (first, second, third)
    kernels = backend(4e-8 * third.means.size)
    p, p2, p3 = (np.ascontiguousarray(mixture.means.T) for mixture in path)
    w, w2, w3 = (mixture.weights[None] for mixture in path)
    of_means, of_weights = kernels.path_squares(p, p2, p3), kernels.path_squares(w, w2, w3)
    r, v = of_means[0] + of_weights[0], of_means[1] + of_weights[1]
    if v == 0 or r <= v:
        return None
    alpha = math.sqrt(r / v)
    means, weights = (
        kernels.path_further(p, p2, p3, alpha).T,
        kernels.path_further(w, w2, w3, alpha),
    )
    if third.items is not None:
        means = np.where(third.items.is_value, means / third.items.pooled(means), means)
    return replace(third, means=means, weights=weights[0] / math.fsum(weights[0]))


def _is_close(fit: Fit, tol: float) -> bool:
    """Whether all gains to come are small, by two forecasts from the last gain g: g·r/(1-r) if
    gains go on shrinking by the factor r that the last two show, and g·t after t steps if gains
    fall as 1/t², which is how slow ends of EM look.
    """
    if len(fit.objectives) < 3:
        return False
    first, second, third = fit.objectives[-3:]
    before, gain = second - first, third - second
    limit = tol * (fit.statistics.n_rows << fixed.LIKELIHOOD_BITS)
    falls = gain < before and gain * gain <= limit * (before - gain)
    return gain <= 0 or (gain * len(fit.objectives) <= limit and falls)


def _nearly_same(a: Mixture, b: Mixture) -> bool:
    """The same templates, and so nearly the same weights and rates that a row that was decided by
    22 nats stays decided."""
    if a.noise is None or b.noise is None or not np.array_equal(a.means, b.means):
        return False
    weights = _NEARLY * np.abs(a.weights - b.weights) <= b.weights
    rates = _NEARLY * np.abs(a.noise - b.noise) <= b.noise
    return bool(np.all(weights) and np.all(rates))


def _seeds(rows: Rows, l: int, noise: Noise, rng: np.random.Generator) -> Mixture:
    """l random rows as components of equal weight.

    They are templates, with the noise that the closest two of them show (steps 1-2 of the paper),
    or probabilities, each halfway between the row and the share of ones of its column.
    """
    n = rows.shape[1]
    words = rows.take(rows.draw(l, rng))
    drawn = Mixture.of_rows(words, n, seeds.noise_at(seeds.closest_pair(words), n))
    drawn = replace(drawn, items=noise.items)
    if noise.model == "cell":
        everything = Mixture(np.full((1, n), 0.5), np.ones(1), None, noise.items)
        shares = expect(rows, everything).column_shares
        return replace(drawn, means=(drawn.means + shares) / 2, noise=None)
    if noise.model == "updown":
        pair = [drawn.noise if rate is None else rate for rate in noise.given or (None, None)]
        return replace(drawn, noise=np.array(pair))
    return replace(drawn, noise=noise.given[0]) if noise.given else drawn


def _halvings(rows: Rows, mixture: Mixture, rng: np.random.Generator) -> int:
    """How often to halve the scores so that a row is shared by about √l of the l components.

    Components that are hardly more than one row each are far too sure of the rows they take. The
    shares of a row that is shared evenly by r components have 1/r as the sum of their squares.
    """
    l = mixture.n_components
    some = rows.subset(rows.draw(max(1, min(int(rows.total_weight), _COOLING_ROWS)), rng))
    scores = mixture.scores()
    values = some.map_rows(scores, block_cells=l)
    for halvings in range(_MAX_HALVINGS):
        shares, _, _ = backend(6e-8 * values.size).posteriors(values >> halvings, scores.bits)
        squares = int(((shares >> 15) ** 2).sum())
        if squares**2 * l <= (len(values) << 30) ** 2:
            return halvings
    return _MAX_HALVINGS


@dataclass(frozen=True, eq=False)
class _Place:
    """A fit as far as is needed to see whether another one is at the same place."""

    objective: int
    close: int
    """Objectives that differ by no more than this may be the same."""
    templates: list[bytes] | None
    """In sorted order; None with a probability per cell."""
    percent: NDArray[np.int8] | None
    """The probabilities of the cells in percent."""
    all_differ: bool = True
    """Whether no two components have the same template; equal ones are a sign of a poor end."""

    @classmethod
    def of(cls, fit: Fit, tol: float) -> "_Place":
        close = int(2 * tol * (fit.statistics.n_rows << fixed.LIKELIHOOD_BITS))
        if fit.mixture.noise is None:
            percent = np.rint(100 * fit.mixture.means).astype(np.int8)
            return cls(fit.objective, close, None, percent)
        templates = sorted(map(bytes, fit.mixture.templates))
        return cls(fit.objective, close, templates, None, len(set(templates)) == len(templates))

    def agrees(self, other: "_Place") -> bool:
        """Whether both have the same objective and the same components in any order: equal
        templates, or probabilities that differ by no more than one percent."""
        if abs(self.objective - other.objective) > self.close:
            return False
        if self.percent is None or other.percent is None:
            return self.templates == other.templates
        free = set(range(len(other.percent)))
        for percent in self.percent:
            apart = np.abs(other.percent - percent).max(axis=1)
            i = int(apart.argmin())
            if apart[i] > 1 or i not in free:
                return False
            free.remove(i)
        return True


_End = tuple[_Place, ...]
"""Where a start was first compared, and where it went from there, if it did."""


def _n_meeting(end: _End, ends: dict[int, _End]) -> int:
    """How many of the ends were somewhere at the same place as this one."""
    n_meeting = 0
    for other in ends.values():
        meets = end is other
        for place, others in itertools.product(end, other):
            meets = meets or place.agrees(others)
        n_meeting += meets
    return n_meeting
