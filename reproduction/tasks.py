"""The functions that execute a run: numbers in, numbers out, with everything fixed by the seed.

The benchmarks of quality use them too.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitmix import ClassicEM, TemplateMixture, TwoRoundEM, certify_fit, select_components, theory
from bitmix.datasets import make_templates, paper_pair, sample_mixture, sketch_dogs
from bitmix.em import predict
from bitmix.metrics import (
    cluster_means,
    conditional_entropy,
    conditional_purity,
    templates_recovered,
)
from bitmix.models.mixture import Mixture
from bitmix.rows.packed import BitMatrix
from reproduction.methods import KNOWN
from reproduction.runs import Result, Run

Estimator = TwoRoundEM | ClassicEM | TemplateMixture

_ESTIMATORS: dict[str, type[Estimator]] = {
    "TwoRoundEM": TwoRoundEM,
    "ClassicEM": ClassicEM,
    "TemplateMixture": TemplateMixture,
}


def execute(run: Run) -> Result:
    return _TASKS[run.task](run)


def planted(run: Run) -> Result:
    """Sample from known templates and fit: are they recovered to the last bit?"""
    at = run.setting
    truth = _truth(at)
    weights = at["weights"] if "weights" in at else [1 - at["w_min"], at["w_min"]]
    X, labels = sample_mixture(truth, weights, at["q"], at["m"], random_state=run.seed)
    model: Any = None
    if run.method["estimator"] == "oracle":
        templates = (cluster_means(X, labels, len(truth)) > 0.5).astype(np.uint8)
    else:
        known = {"noise": at["q"], "min_weight": min(weights)}
        model = _estimator(run, len(truth), known).fit(X)
        templates = model.templates_
    chosen = {"noise_model": model.noise_model_} if hasattr(model, "noise_model_") else {}
    return {"recovered": templates_recovered(templates, truth), **chosen}


def chosen(run: Run) -> Result:
    """Sample from known templates, or toss fair coins: how many templates are chosen?"""
    at = run.setting
    if at["templates"] == "coins":
        bits = np.random.default_rng(run.seed).integers(2, size=(at["m"], at["n"]), dtype=np.uint8)
        X = BitMatrix.from_dense(bits)
    else:
        X, _ = sample_mixture(_truth(at), at["weights"], at["q"], at["m"], random_state=run.seed)
    selection = select_components(X, range(1, at["most"] + 1), random_state=run.seed, **run.method)
    return {"n_components": selection.n_components}


def clusters(run: Run) -> Result:
    """Cluster sketches: how do the clusters compare with the classes?"""
    X, classes = _sketches(run.inputs)
    if run.method["estimator"] == "oracle":
        labels, log_likelihood = _cluster_by_class_means(X, classes)
    else:
        model = _estimator(run, len(set(classes))).fit(X)
        labels, log_likelihood = model.predict(X), model.score(X) * len(X)
    return {
        "purity": conditional_purity(classes, labels),
        "entropy": conditional_entropy(classes, labels),
        "log_likelihood": float(log_likelihood),
    }


def certified(run: Run) -> Result:
    """Cluster sketches: is the fit certified?"""
    X, classes = _sketches(run.inputs)
    model = _estimator(run, len(set(classes))).fit(X)
    certificate = certify_fit(X, model.templates_)
    refused = [f"{part.name}: {part.says}" for part in certificate.parts if not part.holds]
    return {"issued": certificate.issued, "refused": [*refused, *certificate.objections]}


def least(run: Run) -> Result:
    """The least n or c for which a guarantee holds."""
    return {"value": theory.plan(**run.setting, **run.method).value}


def failure(run: Run) -> Result:
    """The certificate's bound on the probability of failure at one point."""
    at = run.setting
    weights = [1 - at["w_min"], at["w_min"]]
    bound = theory.certificate(
        at["n"], at["m"], 2, at["q"], at["d"], weights, delta=at["delta"], **run.method
    )
    return {"failure": bound.failure_probability}


_TASKS: dict[str, Callable[[Run], Result]] = {
    "planted": planted,
    "chosen": chosen,
    "clusters": clusters,
    "certified": certified,
    "least": least,
    "failure": failure,
}


def _truth(at: Any) -> NDArray[np.uint8]:
    """The templates of a setting."""
    if at["templates"] == "dogs":
        return sketch_dogs()
    if at["templates"] == "random":
        return make_templates(
            len(at["weights"]), at["n"], separation=at["c"], random_state=at["templates_seed"]
        )
    return paper_pair(at["n"], at["d"] / at["n"])


def _estimator(run: Run, k: int, known: dict[str, float] | None = None) -> Estimator:
    """The estimator of a run's method; parameters marked `KNOWN` get their true values."""
    params: dict[str, Any] = {
        name: (known or {})[name] if value == KNOWN else value for name, value in run.method.items()
    }
    return _ESTIMATORS[params.pop("estimator")](k, random_state=run.seed, **params)


def _cluster_by_class_means(
    X: BitMatrix, classes: tuple[str, ...]
) -> tuple[NDArray[np.int64], float]:
    """The likeliest class of each row and ln L, with the mean of each class as its template."""
    names, index = np.unique(classes, return_inverse=True)
    means = cluster_means(X, index, len(names))
    noise = float(np.abs(X.to_dense(np.float64) - means[index]).mean())
    noise = max(noise, 0.5 / (X.shape[0] * X.shape[1]))  # equal images: half a bit, not 0
    mixture = Mixture(means, np.bincount(index) / len(index), noise)
    return predict.labels(X, mixture), float(predict.log_likelihoods(X, mixture).sum())


@cache
def _sketches(path: str) -> tuple[BitMatrix, tuple[str, ...]]:
    """Packed rows and the class of each, as `images` wrote them."""
    with np.load(path, allow_pickle=False) as arrays:
        X = BitMatrix(arrays["words"], int(arrays["n_columns"]))
        return X, tuple(str(label) for label in arrays["labels"])
