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

from bitmix.em.merge import merge
from bitmix.em.noise import Noise
from bitmix.em.seeds import initial_noise
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
"""The least number of finished starts that agree before the search ends; see `plan_starts`."""

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
    """The number of starts; by default `plan_starts` decides."""
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
    def nats(self) -> float:
        """The objective of this mixture in nats."""
        return self.objectives[-1] / (self.statistics.weight_one << fixed.LIKELIHOOD_BITS)


@dataclass(frozen=True, eq=False)
class Search:
    """The result of a search."""

    fit: Fit
    starts: tuple[Start, ...]
    n_finished: int
    """How many of the starts were not given up."""
    n_agreeing: int
    """Finished starts that ended where the best one did, itself included."""


def search(rows: Rows, k: int, settings: Settings, rng: np.random.Generator) -> Search:
    """The best of several starts, which race: after `FIRST_HEAT` EM steps the better half goes on
    for as many steps again, and so on, until one is left or all are done.
    """
    n_init, n_enough, survey = plan_starts(settings, k, rows.shape[1])
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
            end: _End = (fit,)
            if survey and not _n_meeting(end, ends, loose.tol):
                fit = converge(rows, fit, replace(settings, tol=_CLOSER * settings.tol))
                end = (*end, fit)
            ends[number] = end
            if not highest or fit.objectives[-1] > highest[-1].objectives[-1]:
                highest = end
        racing[number] = fit
        starts[number] = Start(fit.nats, len(fit.objectives), fit.converged)
        if len(ends) >= n_enough and _n_meeting(highest, ends, loose.tol) == len(ends):
            mixture = highest[-1].mixture
            if mixture.noise is None or len(set(map(bytes, mixture.templates))) == k:
                break  # equal templates would be a sign of a poor end
    while heat < settings.max_iter and racing.keys() - ends.keys():
        best_first = sorted(racing, key=lambda number: -racing[number].objectives[-1])
        racing = {number: racing[number] for number in best_first[: -(-len(racing) // 2)]}
        heat = settings.max_iter if len(racing) == 1 else min(2 * heat, settings.max_iter)
        for number in racing.keys() - ends.keys():
            racing[number] = fit = converge(rows, racing[number], replace(loose, max_iter=heat))
            starts[number] = Start(fit.nats, len(fit.objectives), fit.converged)
            if fit.converged:
                ends[number] = (fit,)
    best = next(iter(racing))
    for number, fit in racing.items():  # done, or at the largest number of steps
        starts[number] = replace(starts[number], finished=True)
        ends.setdefault(number, (fit,))
        best = number if fit.objectives[-1] > racing[best].objectives[-1] else best
    n_agreeing = _n_meeting(ends[best], ends, loose.tol)
    return Search(racing[best], tuple(starts.values()), len(ends), n_agreeing)


def plan_starts(settings: Settings, k: int, n_columns: int) -> tuple[int, int, bool]:
    """The largest number of starts, how many that agree end the search, and whether this is a
    survey: a probability per cell for few columns and few cells.

    There are as many starts as asked for, or 5; with a probability per cell, 20 for a survey and 3
    for many components. More than half of them have to agree, and at least three: a user who asks
    for many starts expects a fit that few reach.
    """
    cell = settings.noise.model == "cell"
    survey = cell and n_columns <= SURVEY_COLUMNS and 1 < k <= SURVEY_CELLS // n_columns
    n_init = settings.n_init
    if n_init is None:
        few = FEW_STARTS if cell and k > FEW_COMPONENTS else STARTS
        n_init = SURVEY_STARTS if survey else few
    return n_init, max(ENOUGH, n_init // 2 + 1), survey


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

    While every row belongs to one template alone, and the templates stay as they are, so do the
    responsibilities, if weights and rates change so little that a row that was decided by 22 nats
    stays decided.
    """
    statistics, before = fit.statistics, fit.mixture
    mixture = noise.maximise(statistics, before)
    if statistics.n_undecided or statistics.known is not None:
        return mixture, None
    if before.noise is None or mixture.noise is None:  # a probability per cell
        return mixture, None
    if not np.array_equal(mixture.means, before.means):
        return mixture, None
    weights = _NEARLY * np.abs(mixture.weights - before.weights) <= before.weights
    rates = _NEARLY * np.abs(mixture.noise - before.noise) <= before.noise
    stay = np.all(weights) and np.all(rates)
    return mixture, statistics.rescored(mixture.scores()) if stay else None


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
    if jumped.objectives[-1] <= fit.objectives[-1]:
        return fit, True
    objectives = fit.objectives + jumped.objectives
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


def _seeds(rows: Rows, l: int, noise: Noise, rng: np.random.Generator) -> Mixture:
    """l random rows as components of equal weight.

    They are templates, with the noise that the closest two of them show (steps 1-2 of the paper),
    or probabilities, each halfway between the row and the share of ones of its column.
    """
    n = rows.shape[1]
    words = rows.take(rows.draw(l, rng))
    q0, _ = initial_noise(words, n)
    drawn = replace(Mixture.of_rows(words, n, q0), items=noise.items)
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


_End = tuple[Fit, ...]
"""Where a start was first compared, and where it went from there, if it did."""


def _n_meeting(end: _End, ends: dict[int, _End], tol: float) -> int:
    """How many of the ends were somewhere at the same place as this one."""
    n_meeting = 0
    for other in ends.values():
        meets = end is other
        for fit, other_fit in itertools.product(end, other):
            meets = meets or _agree(fit, other_fit, tol)
        n_meeting += meets
    return n_meeting


def _agree(fit: Fit, other: Fit, tol: float) -> bool:
    """Whether both have the same objective, up to 2·`tol`, and the same components in any order:
    equal templates, or probabilities that differ by no more than one percent."""
    apart = abs(fit.objectives[-1] - other.objectives[-1])
    if apart > int(2 * tol * (fit.statistics.n_rows << fixed.LIKELIHOOD_BITS)):
        return False
    mixture, others = fit.mixture, other.mixture
    if mixture.noise is not None:
        return sorted(map(bytes, mixture.templates)) == sorted(map(bytes, others.templates))
    percent_of_others = np.rint(100 * others.means).astype(np.int8)
    free = set(range(others.n_components))
    for percent in np.rint(100 * mixture.means).astype(np.int8):
        distances = np.abs(percent_of_others - percent).max(axis=1)
        i = int(distances.argmin())
        if distances[i] > 1 or i not in free:
            return False
        free.remove(i)
    return True
