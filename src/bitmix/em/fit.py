"""One fit of `TemplateMixture`: choose a noise model, search in a sample, EM on all rows."""

import math
from dataclasses import dataclass, replace

import numpy as np

from bitmix.em import predict
from bitmix.em.noise import Noise
from bitmix.em.search import (
    ENOUGH,
    Fit,
    Search,
    Settings,
    Start,
    converge,
    evaluate,
    search,
)
from bitmix.em.step import expect
from bitmix.models.mixture import NOISE_MODELS, Floats, Mixture, NoiseModel
from bitmix.rows import Rows, fetch_if_small
from bitmix.support.randomness import draw_without_replacement, stream

FOLDS = 4
_MIN_ROWS_TO_COMPARE = 2 * FOLDS
_FEW_STARTS = 3  # of the search that the models are compared from
_LOG_20 = 2.995732273553991  # nats; not from the platform, as it decides a result
_STEPS = 2  # EM steps of each model after its first M step


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


def fit_mixture(
    rows: Rows,
    k: int,
    settings: Settings,
    *,
    compare_models: bool,
    max_rows: int,
    seed: int,
    start: Mixture | None = None,
) -> Result:
    """Search in at most `max_rows` rows; if there are more, EM on all rows follows.

    A `start` takes the place of the search.
    """
    m = rows.shape[0]
    if m > max_rows:
        drawn = draw_without_replacement(m, max_rows, stream(seed, "sample"))
        sample = rows.subset(drawn)
    else:
        sample = fetch_if_small(rows, max_rows)
    sample = sample.distinct()
    scores: dict[NoiseModel, HeldOut] = {}
    found = None
    if compare_models and sample.repeated().shape[0] >= _MIN_ROWS_TO_COMPARE:
        # `settings` are for one flip rate
        if start is None:
            few = min(_FEW_STARTS, settings.n_init)
            found = search(sample, k, replace(settings, n_init=few), stream(seed, "seeds"))
        begun = start or found.fit.mixture  # type: ignore[union-attr]
        scores = compare(sample, begun, settings.noise, seed)
        noise = replace(settings.noise, model=choose(scores, sample.total_weight))
        settings = replace(settings, noise=noise)
    if start is not None:
        fit = _refit(rows, start, settings)
        starts = (Start(fit.nats, len(fit.objectives), finished=True),)
        return Result(fit, Search(fit, starts, 1), m, scores)
    if found is None or settings.noise.model != "shared" or found.n_agreeing < ENOUGH:
        found = search(sample, k, settings, stream(seed, "seeds"))
    fit = found.fit
    if m > max_rows:
        fit = converge(rows, evaluate(rows, fit.mixture, settings.noise), settings)
    return Result(fit, found, sample.shape[0], scores)


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


def compare(rows: Rows, start: Mixture, noise: Noise, seed: int) -> dict[NoiseModel, HeldOut]:
    """Fit each model to all folds but one, and take the log-likelihood of that one, in turn.

    All models start from the responsibilities of `start`, and make a few EM steps.
    """
    rows = rows.repeated()
    m = rows.shape[0]
    fold_of = stream(seed, "folds").permutation(m) % FOLDS
    models = [model for model in NOISE_MODELS if model != "updown" or noise.items is None]
    values: dict[NoiseModel, Floats] = {model: np.empty(m) for model in models}
    for fold in range(FOLDS):
        held_out = np.flatnonzero(fold_of == fold)
        test, train = rows.subset(held_out), rows.subset(np.flatnonzero(fold_of != fold))
        statistics = expect(train, start)
        for model in models:
            model_noise = replace(noise, model=model)
            fitted = model_noise.maximise(statistics, start)
            for _ in range(_STEPS):
                fitted = model_noise.maximise(expect(train, fitted), fitted)
            values[model][held_out] = predict.log_likelihoods(test, fitted)
    return _paired(values, rows.weights)


def _refit(rows: Rows, start: Mixture, settings: Settings) -> Fit:
    """EM from a mixture that may have another noise model."""
    mixture = settings.noise.maximise(expect(rows, start), start)
    return converge(rows, evaluate(rows, mixture, settings.noise), settings)


def _paired(values: dict[NoiseModel, Floats], weights: Floats) -> dict[NoiseModel, HeldOut]:
    total = math.fsum(weights)
    means = {model: math.fsum(weights * value) / total for model, value in values.items()}
    best = max(means, key=lambda model: means[model])
    scores = {}
    for model, value in values.items():
        apart = values[best] - value
        behind = math.fsum(weights * apart) / total
        variance = math.fsum(weights * (apart - behind) ** 2) / max(total - 1, 1)
        scores[model] = HeldOut(means[model], behind, math.sqrt(variance / total))
    return scores
