"""The fit behind `TemplateMixture`: one over-seeded round, several prunings, the likeliest end."""

import math
from collections import Counter
from collections.abc import Callable, Container
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitmix import checks
from bitmix.em import noise, prune, seeds, starts
from bitmix.em.result import Round
from bitmix.em.step import Statistics, em_step, expect, leads, maximise, mean_scores, summed
from bitmix.kernels import fixed
from bitmix.mixture import Mixture
from bitmix.noisy import NoiseModel, NoisyTemplates, as_noise_model
from bitmix.rows import Rows

_LEAST_ROWS = 3
_COOLINGS = ((4, 4, 3, 3, 2, 2, 1, 1), (2, 1))
_COOLED_COLUMNS = 64  # with fewer, rows are unsure anyway, and cooling would make all clusters one
_VERY_LOOSE, _LOOSE = 2e-2, 1e-3
_FINALISTS = 4
_AT_ONCE = 2  # steps
_FIRST_STARTS = 3
# Starts that agree on the best end, so that more of them are not needed: where none was in doubt,
# where some were, and where the later ones began with more components than k.
_ENOUGH_SURE, _ENOUGH, _ENOUGH_WIDE = 3, 5, 2


def likelihood(fit: "TemplateFit") -> float:
    """Which one of two fits is better, if nothing else is said."""
    return fit.statistics.likelihood_units


@dataclass(frozen=True)
class Settings:
    """How to fit."""

    noise_model: NoiseModel
    n_init: int
    max_iter: int
    tol: float
    soft_steps: int = 10
    """EM steps on real-valued means before the first rounding, at most."""
    worth: "Callable[[TemplateFit], float]" = likelihood
    """Of where the starts ended, the one with the most of this is kept."""

    @classmethod
    def checked(cls, noise_model: Any, n_init: Any, max_iter: Any, tol: Any) -> "Settings":
        """From what a user gave."""
        return cls(
            noise_model=as_noise_model(noise_model),
            n_init=checks.whole(n_init, "n_init", least=1),
            max_iter=checks.whole(max_iter, "max_iter", least=1),
            tol=checks.between(tol, "tol", -math.ulp(0.0), math.inf),
        )


@dataclass(frozen=True, eq=False)
class TemplateFit:
    """Where the likeliest start ended."""

    mixture: NoisyTemplates
    statistics: Statistics
    """Those the mixture was made from."""
    history: tuple[Round, ...]
    converged: bool
    n_agreeing: int
    """How many starts ended with the same templates."""
    n_starts: int
    """How many distinct starts were run."""

    @property
    def n_iter(self) -> int:
        return len(self.history) - 1


@dataclass(frozen=True, eq=False)
class SeededRound:
    """Steps 1-4: l seeds and one EM step. It serves any number of prunings, and any k up to l."""

    mixture: Mixture
    statistics: Statistics

    @classmethod
    def of(cls, rows: Rows, n_seeds: int, rng: np.random.Generator) -> "SeededRound":
        """A seed with few flips of its own is close to every row and would take them all. So each
        seed's scores are measured against their mean over all rows.
        """
        seeded = seeds.pick(rows, n_seeds, rng, None)
        scores = seeded.scores(missing=rows.layout.missing)
        fair = replace(scores, const=scores.const - mean_scores(rows, scores))
        statistics = summed(rows, fair)
        return cls(maximise(seeded, statistics), statistics)


def fit_templates(
    rows: Rows, k: int, seeded: SeededRound, settings: Settings, rng: np.random.Generator
) -> TemplateFit:
    """Step 5; then for each of several prunings EM steps to the end; the likeliest end.

    Where a start did not stand at once, templates are hard to find. Later ones then start from half
    as many components again, and leave out the least missed: a light template is seldom lost so. Of
    two templates neither is easily lost: there the first starts have to disagree as well.
    """
    if settings.noise_model == "cell":
        return _fit_cells(rows, k, seeded, settings, rng)
    first = Round.of(seeded.mixture, seeded.statistics)
    best: TemplateFit | None = None
    ends: dict[bytes, TemplateFit] = {}
    agreeing: Counter[bytes] = Counter()
    prunings = _Prunings(seeded, k, rng)
    many, sure = k > 2, True
    for number in range(settings.n_init):
        wide = not sure and (many or (len(agreeing) > 1 and agreeing.total() >= _FIRST_STARTS))
        debiased = number % 2 == 0 or (many and sure)
        chosen = prunings.draw(k + (k + 1) // 2 if wide else k, debiased=debiased)
        if chosen is None:
            continue
        start, n_steps = _softened(rows, seeded.mixture.kept(chosen), k, settings.soft_steps, ends)
        end = ends.get(_key(start))
        if end is None:
            mixture = _with_noise(rows, start, settings.noise_model)
            if wide:
                mixture = _with_fewer(rows, mixture, k, settings.noise_model)
            end = _converged(rows, mixture, settings, (first,), ends)
        agreeing[_key(end.mixture)] += 1
        sure = sure and n_steps <= _AT_ONCE and len(agreeing) == 1
        best = end if best is None else better(best, end, settings)
        enough = _ENOUGH_SURE if sure else _ENOUGH_WIDE if wide else _ENOUGH
        if agreeing[_key(best.mixture)] >= enough:
            break
    assert best is not None
    return replace(best, n_agreeing=agreeing[_key(best.mixture)], n_starts=agreeing.total())


def _fit_cells(
    rows: Rows, k: int, seeded: SeededRound, settings: Settings, rng: np.random.Generator
) -> TemplateFit:
    """A free probability for each cell takes many steps: most starts are given up on the way.

    There are twice `n_init` starts, cooled slowly and quickly in turn: either way finds ends that
    the other misses. All go as far as a very loose tolerance, the likelier two thirds to a loose
    one, and the likeliest few of these to the end.
    """
    first = Round.of(seeded.mixture, seeded.statistics)
    worth = partial(_worth, settings=settings)
    prunings = _Prunings(seeded, k, rng)
    coolings = _COOLINGS if rows.shape[1] >= _COOLED_COLUMNS else ((), ())
    drawn = [
        (prunings.draw(k, debiased=number % 2 == 0), cooling)
        for number, cooling in enumerate(coolings * settings.n_init)
    ]

    def begun(chosen: NDArray[np.intp], cooling: tuple[int, ...]) -> TemplateFit:
        mixture, _ = _softened(rows, seeded.mixture.kept(chosen), k, settings.soft_steps, ())
        cooled = _cooled(rows, _with_noise(rows, mixture, "cell"), cooling)
        return converged(cooled, (first,), _VERY_LOOSE)

    def converged(mixture: NoisyTemplates, history: tuple[Round, ...], tol: float) -> TemplateFit:
        return _converged(rows, mixture, replace(settings, tol=max(settings.tol, tol)), history)

    def further(fits: list[TemplateFit], most: int, tol: float) -> list[TemplateFit]:
        likeliest = sorted(fits, key=worth, reverse=True)[:most]
        return [converged(fit.mixture, fit.history, tol) for fit in likeliest]

    begins = [begun(chosen, cooling) for chosen, cooling in drawn if chosen is not None]
    halfway = further(begins, -(-2 * len(begins) // 3), _LOOSE)
    halfway.sort(key=worth, reverse=True)
    finals = further(halfway, _FINALISTS, 0.0)
    likeliest = max(finals, key=worth)
    met = _key(halfway[finals.index(likeliest)].mixture)
    n_agreeing = sum(_key(fit.mixture) == met for fit in halfway)
    return replace(likeliest, n_agreeing=n_agreeing, n_starts=len(begins))


def _worth(fit: TemplateFit, settings: Settings) -> tuple[int, float]:
    """What the settings say, but first that no component lives on one or two rows: such a template
    copies its rows, flips and all, and gains likelihood for nothing.
    """
    statistics = fit.statistics
    least = (_LEAST_ROWS * statistics.weight_one) << fixed.SHARE_BITS
    return int((statistics.mass >= least).sum()), settings.worth(fit)


def fewer(rows: Rows, fit: TemplateFit, k: int, settings: Settings) -> TemplateFit:
    """EM steps to the end from a fit, less the components that are missed least."""
    mixture = _with_fewer(rows, fit.mixture, k, settings.noise_model)
    return _converged(rows, mixture, settings, fit.history[:1])


def _with_fewer(rows: Rows, mixture: NoisyTemplates, k: int, model: NoiseModel) -> NoisyTemplates:
    """Leave out the component that is missed least, and make a step, until there are k.

    Too many components have found the true ones, and parts of some twice.
    """
    while mixture.n_components > k:
        missed = leads(rows, mixture.scores(missing=rows.layout.missing))
        kept = mixture.kept(np.flatnonzero(np.arange(len(missed)) != missed.argmin()))
        even = replace(kept, weights=np.full(kept.n_components, 1 / kept.n_components))
        mixture = noise.maximise(expect(rows, even), model, even.templates)
    return mixture


def better(a: TemplateFit, b: TemplateFit, settings: Settings) -> TemplateFit:
    """One of two fits with as many components; the first if they are worth the same."""
    return a if _worth(a, settings) >= _worth(b, settings) else b


def merged(a: TemplateFit, b: TemplateFit, settings: Settings) -> TemplateFit:
    """The better one of two fits; how many starts it took in all."""
    best = better(a, b, settings)
    agreeing = [fit.n_agreeing for fit in (a, b) if _key(fit.mixture) == _key(best.mixture)]
    return replace(best, n_agreeing=sum(agreeing), n_starts=a.n_starts + b.n_starts)


def on_all_rows(rows: Rows, fit: TemplateFit, model: NoiseModel) -> TemplateFit:
    """One EM step on all rows after a fit of a sample, and one more if a template bit changed."""
    for _ in range(2):
        before = fit.mixture
        statistics = expect(rows, before)
        mixture = noise.maximise(statistics, model, before.templates)
        step = Round(statistics.log_likelihood, mixture.n_components, mixture.weights)
        fit = replace(fit, mixture=mixture, statistics=statistics, history=(*fit.history, step))
        if np.array_equal(mixture.templates, before.templates):
            break
    return fit


class _Prunings:
    """Some of the survivors, time and again."""

    def __init__(self, seeded: SeededRound, k: int, rng: np.random.Generator) -> None:
        self._alive = prune.survivors(seeded.mixture, k)
        self._mass, self._rng = seeded.statistics.mass[self._alive], rng
        row = seeded.statistics.weight_one << fixed.SHARE_BITS
        self._distances = starts.Distances(seeded.mixture.means[self._alive], self._mass, row)
        self._seen: set[tuple[int, ...]] = set()

    def draw(self, k: int, *, debiased: bool) -> NDArray[np.intp] | None:
        """k of them, or nothing where these were drawn before."""
        k = min(k, len(self._alive))
        apart = partial(self._distances.of, debiased=debiased)
        chosen = starts.spread(apart, self._mass, k, self._rng)
        key = tuple(sorted(chosen.tolist()))
        if key in self._seen:
            return None
        self._seen.add(key)
        return self._alive[chosen]


def _softened(
    rows: Rows, mixture: Mixture, k: int, most: int, known: Container[bytes]
) -> tuple[Mixture, int]:
    """EM steps on real-valued means, the noise re-estimated, until the templates stand; how many.

    Rounded too early, two means that have hardly parted become one template for good. So go on
    until their roundings are k distinct templates or more and stay the same, or are known from
    another start.
    """
    before, n_steps = mixture.templates, 0
    while n_steps < most:
        n_steps += 1
        mixture, _ = em_step(rows, mixture)
        mixture = replace(mixture, noise=_noise_of(mixture))
        templates = mixture.templates
        stand = np.array_equal(templates, before)
        distinct = len({template.tobytes() for template in templates})
        if distinct >= k and (stand or _key(mixture) in known):
            break
        before = templates
    return mixture, n_steps


def _noise_of(mixture: Mixture) -> float:
    """Σ w_i·min(T_i, 1-T_i) / n in whole numbers, kept off 0 and ½."""
    bits = min(30, 61 - math.ceil(math.log2(mixture.means.size + 1)))
    share = np.minimum(mixture.means, 1 - mixture.means) * mixture.weights[:, None]
    total = int(np.rint(share * (1 << bits)).astype(np.int64).sum())
    return min(max(total / (mixture.n_features << bits), 1e-6), 0.49)


def _with_noise(rows: Rows, start: Mixture, model: NoiseModel) -> NoisyTemplates:
    """Binary templates and the noise of a model, after one step."""
    return noise.maximise(expect(rows, start), model, start.templates)


def _converged(
    rows: Rows, mixture: NoisyTemplates, settings: Settings, history: tuple[Round, ...],
    ends: dict[bytes, TemplateFit] | None = None,
) -> TemplateFit:  # fmt: skip
    """EM steps until the likelihood rises by less than `tol` a row, or a known path is met.

    Two starts that pass through the same templates end in the same place: the second one stops.
    """
    k, model = mixture.n_components, settings.noise_model
    steps, converged, before = list(history), False, None
    most = max(1, settings.max_iter - len(history) + 1)
    path: list[bytes] = []
    for _ in range(most):
        if ends is not None:
            key = _key(mixture)
            if key in ends:
                return ends[key]
            path.append(key)
        statistics = expect(rows, mixture)
        mixture = noise.maximise(statistics, model, mixture.templates)
        steps.append(Round(statistics.log_likelihood, k, mixture.weights))
        likelihood = statistics.likelihood_units
        if before is not None:
            rise = settings.tol * (statistics.n_rows << fixed.LIKELIHOOD_BITS)
            converged = likelihood - before <= rise
            if converged:
                break
        before = likelihood
    end = TemplateFit(mixture, statistics, tuple(steps), converged, 1, 1)
    if ends is not None:
        ends.update(dict.fromkeys(path, end))
    return end


def _cooled(rows: Rows, mixture: NoisyTemplates, cooling: tuple[int, ...]) -> NoisyTemplates:
    """EM steps with scores scaled down, less and less: memberships that do not decide too early.

    With a probability for each cell a few hundred columns make every row sure of its first cluster.
    """
    for halvings in cooling:
        hot = mixture.scores(missing=rows.layout.missing)
        cool = hot.scaled_down(halvings)
        alive = mixture.weights > 0  # what has no weight stays below all others
        scores = replace(cool, const=np.where(alive, cool.const, hot.const))
        mixture = noise.maximise(summed(rows, scores), "cell", mixture.templates)
    return mixture


def _key(mixture: Mixture | NoisyTemplates) -> bytes:
    """The templates in any order."""
    return b"".join(
        sorted(template.tobytes() for template in np.packbits(mixture.templates, axis=1))
    )
