"""What a worker does with a cell. Numbers in, numbers out; a seed fixes everything."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitmix import theory
from bitmix.certify import certify_fit
from bitmix.datasets import make_templates, paper_pair, sample_mixture, sketch_dogs
from bitmix.estimators import ClassicEM, TwoRoundEM
from bitmix.experiments.cells import Cell, Result
from bitmix.experiments.methods import KNOWN
from bitmix.metrics import conditional_entropy, conditional_purity, templates_recovered
from bitmix.mixture import Mixture
from bitmix.rows.packed import BitMatrix
from bitmix.select import select_components
from bitmix.template_mixture import TemplateMixture

Estimator = TwoRoundEM | ClassicEM | TemplateMixture

_ESTIMATORS: dict[str, type[Estimator]] = {
    "TwoRoundEM": TwoRoundEM,
    "ClassicEM": ClassicEM,
    "TemplateMixture": TemplateMixture,
}


def run(cell: Cell) -> Result:
    return _TASKS[cell.task](cell)


def planted(cell: Cell) -> Result:
    """Sample from known templates, fit; were they found, to the last bit?"""
    at = cell.setting
    truth = _truth(at)
    weights = at["weights"] if "weights" in at else [1 - at["w_min"], at["w_min"]]
    X, labels = sample_mixture(truth, weights, at["q"], at["m"], random_state=cell.seed)
    if cell.method["estimator"] == "oracle":
        found = (_cluster_means(X, labels, len(truth)) > 0.5).astype(np.uint8)
    else:
        told = {"noise": at["q"], "min_weight": min(weights)}
        found = _estimator(cell, len(truth), told).fit(X).templates_
    return {"recovered": templates_recovered(found, truth)}


def chosen(cell: Cell) -> Result:
    """Sample from known templates, or toss fair coins; how many templates are chosen?"""
    at = cell.setting
    if at["templates"] == "coins":
        bits = np.random.default_rng(cell.seed).integers(2, size=(at["m"], at["n"]), dtype=np.uint8)
        X = BitMatrix.from_dense(bits)
    else:
        X, _ = sample_mixture(_truth(at), at["weights"], at["q"], at["m"], random_state=cell.seed)
    found = select_components(X, range(1, at["most"] + 1), random_state=cell.seed, **cell.method)
    return {"n_components": found.n_components}


def clusters(cell: Cell) -> Result:
    """Cluster sketches; how do the clusters compare with the classes?"""
    X, labels = _sketches(cell.inputs)
    k = len(set(labels))
    if cell.method["estimator"] == "oracle":
        found, likelihood = _by_class_means(X, labels)
    else:
        model = _estimator(cell, k, {}).fit(X)
        found, likelihood = model.predict(X), model.score(X) * len(X)
    return {
        "purity": conditional_purity(labels, found),
        "entropy": conditional_entropy(labels, found),
        "log_likelihood": float(likelihood),
    }


def certified(cell: Cell) -> Result:
    """Is the fit certificate issued for clusters of sketches?"""
    X, labels = _sketches(cell.inputs)
    model = _estimator(cell, len(set(labels)), {}).fit(X)
    certificate = certify_fit(X, model.templates_)
    refused = [f"{part.name}: {part.says}" for part in certificate.parts if not part.holds]
    return {"issued": certificate.issued, "refused": [*refused, *certificate.objections]}


def least(cell: Cell) -> Result:
    """The least n or c for which a guarantee holds."""
    found = theory.plan(**cell.setting, **cell.method)
    return {"value": found.value}


def failure(cell: Cell) -> Result:
    """The certificate's bound on the probability of failure at one point."""
    at = cell.setting
    weights = [1 - at["w_min"], at["w_min"]]
    bound = theory.certificate(
        at["n"], at["m"], 2, at["q"], at["d"], weights, delta=at["delta"], **cell.method
    )
    return {"failure": bound.failure_probability}


_TASKS: dict[str, Callable[[Cell], Result]] = {
    "planted": planted,
    "chosen": chosen,
    "clusters": clusters,
    "certified": certified,
    "least": least,
    "failure": failure,
}


def _truth(at: Any) -> NDArray[np.uint8]:
    if at["templates"] == "dogs":
        return sketch_dogs()
    if at["templates"] == "random":
        return make_templates(
            len(at["weights"]), at["n"], separation=at["c"], random_state=at["templates_seed"]
        )
    return paper_pair(at["n"], at["d"] / at["n"])


def _estimator(cell: Cell, k: int, told: dict[str, float]) -> Estimator:
    """The method's estimator; parameters that say `KNOWN` are told the truth."""
    params: dict[str, Any] = {
        name: told[name] if value == KNOWN else value for name, value in cell.method.items()
    }
    return _ESTIMATORS[params.pop("estimator")](k, random_state=cell.seed, **params)


def _cluster_means(X: BitMatrix, labels: Any, k: int) -> NDArray[np.float64]:
    """mean(S_i); all zero for a cluster without rows."""
    bits = X.to_dense(np.float64)
    return np.array([bits[labels == i].sum(axis=0) / max(1, (labels == i).sum()) for i in range(k)])


def _by_class_means(X: BitMatrix, labels: tuple[str, ...]) -> tuple[NDArray[np.int64], float]:
    """Labels known: one template a class, its mean; the rows' likeliest template, and ln L."""
    from bitmix.em import predict

    names, index = np.unique(labels, return_inverse=True)
    means = _cluster_means(X, index, len(names))
    noise = float(np.abs(X.to_dense(np.float64) - means[index]).mean())
    noise = max(noise, 0.5 / (X.shape[0] * X.shape[1]))  # equal images: as half a bit
    mixture = Mixture(means, np.bincount(index) / len(index), noise)
    return predict.labels(X, mixture), float(predict.log_likelihoods(X, mixture).sum())


@cache
def _sketches(path: str) -> tuple[BitMatrix, tuple[str, ...]]:
    with np.load(path, allow_pickle=False) as arrays:
        X = BitMatrix(arrays["words"], int(arrays["n_columns"]))
        return X, tuple(str(label) for label in arrays["labels"])
