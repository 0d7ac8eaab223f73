"""One fit of `TemplateMixture`: choose a noise model, search in a sample, EM on all rows."""

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from bitmix.em import predict
from bitmix.em.noise import Noise
from bitmix.em.search import (
    ENOUGH,
    FIRST_HEAT,
    Fit,
    Search,
    Settings,
    Start,
    converge,
    evaluate,
    number_of_seeds,
    plan_starts,
    search,
)
from bitmix.em.step import expect
from bitmix.kernels.fixed import Ints
from bitmix.models.mixture import NOISE_MODELS, Floats, Mixture, NoiseModel
from bitmix.models.tree import Tree
from bitmix.rows import Rows
from bitmix.support.randomness import draw_without_replacement, stream

WIDE, MAX_COLUMNS_SEARCH = 1 << 18, 1 << 16
"""A table of more than 262,144 columns is searched in its 65,536 columns with most ones."""
FOLDS = 4
MIN_ROWS_SEARCH, ROWS_PER_SEED = 4096, 8
_MIN_ROWS_TO_COMPARE = 2 * FOLDS
MAX_ROWS_HELD_OUT, _HELD_OUT_TOL, _HELD_OUT_PRIOR = 10_000, 1e-5, 0.1
_FEW_STARTS = 3  # of the search that the models are compared from
_LOG_20 = 2.995732273553991  # nats; not from the platform, as it decides a result
_STEPS = 2  # EM steps of each model after its first M step
_ENOUGH_HELD_OUT = 1024  # rows on which noise models are compared, if there are as many


@dataclass(frozen=True)
class HeldOut:
    """How well a noise model predicts rows that it was not fitted to."""

    log_likelihood: float
    """Mean per row, in nats."""
    behind: float
    """Mean per row by which it is behind the best model."""
    standard_error: float
    """Of `behind`, from the differences row by row."""


@dataclass(frozen=True, eq=False)
class Result:
    """A fit to all rows, and how it was found."""

    fit: Fit
    found: Search
    n_rows_searched: int
    noise_model_scores: dict[NoiseModel, HeldOut]
    """Empty if the noise model was given."""
    tree: Tree | None = None
    """The tree of the components, if the fit was made by levels."""


def fit_mixture(
    rows: Rows,
    k: int,
    settings: Settings,
    *,
    compare_models: bool,
    seed: int,
    max_rows: int | None = None,
    start: Mixture | None = None,
) -> Result:
    """Search in at most `max_rows` rows and `MAX_COLUMNS_SEARCH` columns, those with most ones; if
    there are more, EM on all rows and columns follows.

    By default, `max_rows` is 8 rows per seed, condition 2 of Theorem 1, and at least 4,096; twice
    as many rows are searched whole. A `start` takes the place of the search.
    """
    m = rows.shape[0]
    if max_rows is None:
        n_seeds = number_of_seeds(settings, k, int(rows.total_weight))
        max_rows = max(MIN_ROWS_SEARCH, ROWS_PER_SEED * n_seeds)
        max_rows = m if m <= 2 * max_rows else max_rows
    if m > max_rows:
        drawn = draw_without_replacement(m, max_rows, stream(seed, "sample"))
        sample = rows.subset(drawn)
    else:
        sample = rows.subset(np.arange(m)) if rows.remote else rows
    n_searched = sample.shape[0]
    sample = sample.distinct()
    columns = None
    if rows.shape[1] > WIDE and start is None and settings.noise.items is None:
        counts = sample.column_counts()
        columns = np.sort(np.argsort(-counts, kind="stable")[:MAX_COLUMNS_SEARCH])
        sample = sample.with_columns(columns)
    scores: dict[NoiseModel, HeldOut] = {}
    found = None
    if compare_models and sample.repeated().shape[0] >= _MIN_ROWS_TO_COMPARE:
        if start is not None:
            begun = [start]
        else:
            found, begun = _first_fits(sample, k, settings, seed)
        scores = compare(sample, begun, settings.noise, seed)
        noise = replace(settings.noise, model=choose(scores, sample.total_weight))
        settings = replace(settings, noise=noise)
    if start is not None:
        fit = converge(rows, _fit_from(rows, start, settings.noise), settings)
        starts = (Start(fit.nats, len(fit.objectives), finished=True),)
        return Result(fit, Search(fit, starts, 1, 1), m, scores)
    _, n_enough, _ = plan_starts(settings, k, rows.shape[1])
    if found is None or settings.noise.model != "shared" or found.n_agreeing < n_enough:
        found = search(sample, k, settings, stream(seed, "seeds"))
    fit = found.fit
    if columns is not None:
        wide = partial(_widened, fit.mixture, columns, counts)
        fit = converge(rows, _fit_from(rows, wide(), settings.noise), settings)
    elif m > max_rows:
        fit = converge(rows, evaluate(rows, fit.mixture, settings.noise), settings)
    else:
        fit = converge(sample, fit, settings)
    return Result(fit, found, n_searched, scores)


def _widened(mixture: Mixture, columns: NDArray[np.int64], counts: Ints) -> Mixture:
    """The mixture of some columns as one of all columns. All components have the same probability
    in each of the others, so that these tell no components apart, whatever it is.
    """
    shares = np.tile((counts + 0.5) / (counts.max() + 1), (mixture.n_components, 1))
    shares[:, columns] = mixture.probabilities
    return Mixture(shares, mixture.weights, None)


def _first_fits(rows: Rows, k: int, settings: Settings, seed: int) -> tuple[Search, list[Mixture]]:
    """A short search with one flip rate, and the mixtures that noise models are compared from.

    Unless its starts agree, there may be no such templates, as in sparse text: then a start with a
    probability per cell, from some of the rows, is another one to compare from.
    """
    few = replace(settings, n_init=min(_FEW_STARTS, settings.n_init or _FEW_STARTS))
    found = search(rows, k, few, stream(seed, "seeds"))
    begun = [found.fit.mixture]
    if found.n_agreeing < ENOUGH:
        noise = replace(settings.noise, model="cell")
        cell = replace(settings, n_init=1, max_iter=min(FIRST_HEAT, settings.max_iter), noise=noise)
        rng, n_rows = stream(seed, "seeds"), max(MIN_ROWS_SEARCH, 2 * k)
        if rows.shape[0] > n_rows and not rows.layout.weight_one:
            rows = rows.subset(rows.draw(n_rows, rng))
        begun.append(search(rows, k, cell, rng).fit.mixture)
    return found, begun


def choose(scores: dict[NoiseModel, HeldOut], n_rows: float) -> NoiseModel:
    """The simplest model within two standard errors of the best, or within odds of 20 to 1.

    The odds matter if all rows speak for a model by the same small amount.
    """
    least = _LOG_20 / n_rows
    return next(
        model
        for model, score in scores.items()
        if score.behind <= max(2 * score.standard_error, least)
    )


def compare(
    rows: Rows, starts: list[Mixture], noise: Noise, seed: int
) -> dict[NoiseModel, HeldOut]:
    """Fit each model to all folds but one, and take the log-likelihood of that one, in turn, until
    enough rows were held out.

    All models start from the responsibilities of a mixture, and make a few EM steps. Of several
    mixtures, each model has the one from which it ends best.
    """
    rows = rows.repeated()
    m = rows.shape[0]
    fold_of = stream(seed, "folds").permutation(m) % FOLDS
    n_folds = min(FOLDS, -(-FOLDS * _ENOUGH_HELD_OUT // m))
    folds = [np.flatnonzero(fold_of == fold) for fold in range(n_folds)]
    of_starts = [_held_out(rows, start, noise, folds) for start in starts]
    weights = rows.weights[np.concatenate(folds)]
    values = {
        model: max((each[model] for each in of_starts), key=partial(_mean, weights=weights))
        for model in of_starts[0]
    }
    return _paired(values, weights)


def held_out(rows: Rows, fitted: Mixture, settings: Settings, seed: int) -> float:
    """The mean log-likelihood per row of rows that a mixture was not fitted to, in four folds.

    EM goes on from the mixture on the other folds. There is a prior, so that no answer is
    impossible because it is in one fold only. Of many rows, it is that of a random sample. NaN if
    rows are too few, or on a cluster.
    """
    if rows.remote:
        return math.nan
    rows = rows.repeated()
    m = rows.shape[0]
    if m > MAX_ROWS_HELD_OUT:
        rows = rows.subset(draw_without_replacement(m, MAX_ROWS_HELD_OUT, stream(seed, "folds", 1)))
    if rows.shape[0] < _MIN_ROWS_TO_COMPARE:
        return math.nan
    noise = replace(settings.noise, prior=max(settings.noise.prior, _HELD_OUT_PRIOR))
    settings = replace(settings, noise=noise, tol=max(settings.tol, _HELD_OUT_TOL))
    fold_of = stream(seed, "folds").permutation(rows.shape[0]) % FOLDS
    values = np.empty(len(fold_of))
    for fold in range(FOLDS):
        inside = np.flatnonzero(fold_of == fold)
        train = rows.subset(np.flatnonzero(fold_of != fold))
        mixture = converge(train, _fit_from(train, fitted, noise), settings).mixture
        values[inside] = predict.log_likelihoods(rows.subset(inside), mixture.density())
    return _mean(values, rows.weights)


def _held_out(
    rows: Rows, start: Mixture, noise: Noise, folds: list[NDArray[np.intp]]
) -> dict[NoiseModel, Floats]:
    """The log-likelihood of each row of the folds under each model, fitted to all other rows."""
    models = [model for model in NOISE_MODELS if model != "updown" or noise.items is None]
    values: dict[NoiseModel, list[Floats]] = {model: [] for model in models}
    for held_out in folds:
        train = rows.subset(np.setdiff1d(np.arange(rows.shape[0]), held_out, assume_unique=True))
        test, statistics = rows.subset(held_out), expect(train, start)
        for model in models:
            model_noise = replace(noise, model=model)
            fitted = model_noise.maximise(statistics, start)
            for _ in range(_STEPS):
                fitted = model_noise.maximise(expect(train, fitted), fitted)
            values[model].append(predict.log_likelihoods(test, fitted))
    return {model: np.concatenate(values[model]) for model in models}


def _fit_from(rows: Rows, start: Mixture, noise: Noise) -> Fit:
    """The fit after one EM step from a mixture that may have another noise model."""
    mixture = noise.maximise(expect(rows, start), start)
    del start  # it may be large
    return evaluate(rows, mixture, noise)


def _mean(values: Floats, weights: Floats) -> float:
    return math.fsum(weights * values) / math.fsum(weights)


def _paired(values: dict[NoiseModel, Floats], weights: Floats) -> dict[NoiseModel, HeldOut]:
    total = math.fsum(weights)
    means = {model: _mean(value, weights) for model, value in values.items()}
    best = max(means, key=lambda model: means[model])
    scores = {}
    for model, value in values.items():
        apart = values[best] - value
        behind = _mean(apart, weights)
        variance = math.fsum(weights * (apart - behind) ** 2) / max(total - 1, 1)
        scores[model] = HeldOut(means[model], behind, math.sqrt(variance / total))
    return scores
