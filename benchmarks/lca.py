"""Numbers for a paper, measured: do intervals hold the truth, do tests keep their level?

    python -m benchmarks.lca coverage [--first 0] [--n 100] [--overlap]
    python -m benchmarks.lca criteria [--first 0] [--n 40] [--overlap]
    python -m benchmarks.lca blrt-size [--first 0] [--n 300]
    python -m benchmarks.lca blrt-power [--first 0] [--n 100]
    python -m benchmarks.lca relate [--first 0] [--n 200]
    python -m benchmarks.lca times
    python -m benchmarks.lca items

Each simulated survey has the number of its seed, so runs of a part can be added up. StepMix is
asked as well where it is installed. Each line that is printed is one result.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import bitmix
from bitmix import TemplateMixture
from bitmix.inference.matching import match
from bitmix.inference.ratio_test import ratio_test
from bitmix.models.mixture import Mixture

SHARES = np.array([0.5, 0.3, 0.2])
CLEAR = np.array([[0.9] * 5 + [0.1] * 5, [0.15] * 10, [0.8] * 10])
OVERLAP = np.array([[0.7] * 5 + [0.3] * 5, [0.3] * 10, [0.7] * 10])


def survey(m: int, seed: int, p: Any, shares: Any) -> tuple[Any, Any]:
    """Answers of m people, and their classes."""
    rng = np.random.default_rng(seed)
    classes = rng.choice(len(shares), size=m, p=shares)
    return (rng.random((m, p.shape[1])) < p[classes]).astype(np.uint8), classes


def latent_classes(X: Any, k: int) -> TemplateMixture:
    return TemplateMixture(k, noise_model="cell", prior=0, random_state=0).fit(X)


def coverage(seeds: range, overlap: bool) -> Iterator[str]:
    """How often 95 % intervals hold the truth: 3 classes, 10 items, 500 people."""
    p = OVERLAP if overlap else CLEAR
    truth = Mixture(p, SHARES, None)
    held: dict[str, list[Any]] = {}
    refused = 0
    for seed in seeds:
        X, _ = survey(500, seed, p, SHARES)
        model = latent_classes(X, 3)
        order = match(truth, model.mixture_)
        try:
            results = {
                "bootstrap": bitmix.bootstrap(model, X, n=100, random_state=seed).intervals,
                "analytic": bitmix.analytic_standard_errors(model, X).intervals,
            }
        except ValueError:
            refused += 1
            continue
        if order is None:
            refused += 1
            continue
        for method, ends in results.items():
            for name, true in (("weights", SHARES), ("probabilities", p)):
                low, high = np.moveaxis(getattr(ends, name)[order], -1, 0)
                held.setdefault(f"{method} {name}", []).append((low <= true) & (true <= high))
    for name, values in held.items():
        yield f"{name}: {np.sum(values)} of {np.size(values)} held, {np.mean(values):.4f}"
    yield f"no intervals or no match in {refused} of {len(seeds)}"


def criteria(seeds: range, overlap: bool) -> Iterator[str]:
    """Which of 1 to 5 classes each criterion chooses where there are 3: 10 items, 500 people."""
    names = ("aic", "sabic", "bic", "caic", "icl")
    chosen: dict[str, list[int]] = {name: [] for name in names}
    for seed in seeds:
        X, _ = survey(500, seed, OVERLAP if overlap else CLEAR, SHARES)
        fits = [bitmix.fit_statistics(latent_classes(X, k), X) for k in range(1, 6)]
        for name in names:
            chosen[name].append(1 + int(np.argmin([getattr(fit, name) for fit in fits])))
    for name, numbers in chosen.items():
        counts = np.bincount(numbers, minlength=6)[1:]
        yield f"{name}: 1 to 5 classes chosen {', '.join(map(str, counts))} times"


def blrt_size(seeds: range) -> Iterator[str]:
    """How often 3 classes are preferred to 2 at the level of .05, if there are 2 (300 × 6).

    With 19 replicates, the test rejects if none of them is as large, so it may end at the first.
    """
    p, rejected = CLEAR[:2, 2:8], 0
    for seed in seeds:
        X, _ = survey(300, seed, p, np.array([0.6, 0.4]))
        rejected += _p_value(X, 3, seed) <= 0.05
    yield f"rejected {rejected} of {len(seeds)}, {rejected / len(seeds):.4f}"


def blrt_power(seeds: range) -> Iterator[str]:
    """How often 3 classes are preferred to 2 at the level of .05, if there are 3 (300 × 10)."""
    rejected = 0
    for seed in seeds:
        X, _ = survey(300, seed, OVERLAP, SHARES)
        rejected += _p_value(X, 3, seed) <= 0.05
    yield f"rejected {rejected} of {len(seeds)}, {rejected / len(seeds):.4f}"


def _p_value(X: Any, k: int, seed: int) -> float:
    small = latent_classes(X, k - 1)
    rows, settings = small.rows_like_fit(X), small.settings_like_fit()
    return ratio_test(rows, small.mixture_, settings, n=19, seed=seed, enough=1).p_value


def relate(seeds: range) -> Iterator[str]:
    """Means of a normal outcome by class, -1, 0 and 1: six items of probabilities .8 and .2 as in
    Vermunt (2010), 1,000 people. Bias, and how often ± 1.96 standard errors hold the truth.
    """
    p = np.array([[0.8] * 6, [0.8] * 3 + [0.2] * 3, [0.2] * 6])
    means, shares = np.array([-1.0, 0.0, 1.0]), np.full(3, 1 / 3)
    found: dict[str, list[Any]] = {}
    for seed in seeds:
        X, classes = survey(1000, seed, p, shares)
        y = np.random.default_rng(10_000 + seed).normal(means[classes])
        model = latent_classes(X, 3)
        order = match(Mixture(p, shares, None), model.mixture_)
        if order is None:
            continue
        for method in ("bch", "ml"):
            result = bitmix.relate(model, X, y, method=method)
            pair = result.estimates[order] - means, result.standard_errors[order]
            found.setdefault(method, []).append(pair)
        labels = model.predict(X)
        plain = np.array([y[labels == i].mean() for i in order]) - means
        found.setdefault("modal", []).append((plain, np.ones(3)))
        if (peer := _stepmix_bch(X, y)) is not None:
            weights, probabilities, outcome = peer
            order = match(Mixture(p, shares, None), Mixture(probabilities, weights, None))
            if order is not None:
                found.setdefault("StepMix bch", []).append((outcome[order] - means, np.ones(3)))
    for method, pairs in found.items():
        error, standard = (np.array(each) for each in zip(*pairs, strict=True))
        text = (
            f"{method}: bias {error.mean(axis=0).round(3)}, rmse {np.sqrt((error**2).mean()):.4f}"
        )
        if method in ("bch", "ml"):
            text += f", coverage {(np.abs(error) <= 1.96 * standard).mean():.4f}"
        yield f"{text} ({len(error)} surveys)"


def _stepmix_bch(X: Any, y: Any) -> Any:
    """Shares, item probabilities and outcome means of StepMix; None if it is not installed."""
    try:
        from stepmix.stepmix import StepMix
    except ModuleNotFoundError:
        return None
    model = StepMix(
        3, measurement="binary", structural="gaussian_unit", n_steps=3, correction="BCH",
        assignment="modal", n_init=5, random_state=0, verbose=0, progress_bar=0,
    )  # fmt: skip
    model.fit(X, y[:, None])
    parameters = model.get_parameters()
    p = parameters["measurement"]["pis"]
    outcome = parameters["structural"]["means"][:, 0]
    return model.weights_, np.asarray(p).reshape(3, -1), np.asarray(outcome)


def times() -> Iterator[str]:
    """Seconds of a bootstrap and of the BLRT for k = 2 … 6, beside StepMix."""
    p = np.where(np.random.default_rng(0).random((4, 20)) < 0.5, 0.85, 0.15)
    X, _ = survey(2000, 0, p[:3, :12], SHARES)
    Y, _ = survey(1000, 1, p, np.full(4, 0.25))
    model = latent_classes(X, 3)
    seconds = _seconds(lambda: bitmix.bootstrap(model, X))
    yield f"bootstrap of 200, 2,000 × 12, k = 3: {seconds:.1f} s"
    total = 0.0
    for k in range(2, 7):
        total += _seconds(lambda k=k: bitmix.blrt(Y, k))  # type: ignore[misc]
    yield f"BLRT of 99, 1,000 × 20, k = 2 … 6: {total:.1f} s"
    try:
        from stepmix.bootstrap import blrt
        from stepmix.stepmix import StepMix
    except ModuleNotFoundError:
        return
    options: dict[str, Any] = {"verbose": 0, "progress_bar": 0, "random_state": 0}
    peer = StepMix(3, measurement="binary", **options).fit(X)
    seconds = _seconds(lambda: peer.bootstrap(X, n_repetitions=20, progress_bar=False))
    yield f"StepMix, bootstrap of 200, from 20: {10 * seconds:.1f} s"
    total = 0.0
    for k in range(2, 7):
        pair = StepMix(k - 1, **options), StepMix(k, **options)
        total += _seconds(lambda pair=pair: blrt(*pair, Y, n_repetitions=5))  # type: ignore[misc]
    yield f"StepMix, BLRT of 99, from 5, n_init=1: {99 / 5 * total:.1f} s"


def items() -> Iterator[str]:
    """Seconds of one start: 100,000 people, 100 items of 4 values, k = 5, beside StepMix."""
    m, n, values, k = 100_000, 100, 4, 5
    rng = np.random.default_rng(0)
    p = 0.5 * rng.dirichlet(np.ones(values), size=(k, n)) + 0.5 / values
    classes, answers = rng.integers(k, size=m), np.empty((m, n), dtype=np.int64)
    for i in range(k):
        members = np.flatnonzero(classes == i)
        drawn = rng.random((len(members), n, 1))
        answers[members] = (drawn > np.cumsum(p[i], axis=1)[:, :-1]).sum(axis=2)
    X = np.zeros((m, n * values), dtype=np.uint8)
    X[np.arange(m)[:, None], np.arange(n) * values + answers] = 1
    groups = [list(range(s * values, (s + 1) * values)) for s in range(n)]
    options: dict[str, Any] = {"noise_model": "cell", "prior": 0, "n_init": 1, "random_state": 0}
    TemplateMixture(2, **options).fit(X[:5000], items=groups)  # loads the compiled kernels
    for name, max_rows in (("a sample, then all rows", None), ("all rows", m)):
        model = TemplateMixture(k, max_rows_search=max_rows, **options)
        seconds = _seconds(lambda model=model: model.fit(X, items=groups))  # type: ignore[misc]
        yield f"{name}: {seconds:.2f} s, ln L {model.history_[-1].log_likelihood:.2f}"
    try:
        from stepmix.stepmix import StepMix
    except ModuleNotFoundError:
        return
    peer = StepMix(k, measurement="categorical", random_state=0, verbose=0, progress_bar=0)
    seconds = _seconds(lambda: peer.fit(answers))
    yield f"StepMix: {seconds:.2f} s, ln L {m * peer.score(answers):.2f}"


def _seconds(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parts = ("coverage", "criteria", "blrt-size", "blrt-power", "relate", "times", "items")
    parser.add_argument("part", choices=parts)
    parser.add_argument("--first", type=int, default=0, help="seed of the first survey")
    parser.add_argument("--n", type=int, default=100, help="number of surveys")
    parser.add_argument("--overlap", action="store_true", help="classes that overlap")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.n)
    lines = {
        "coverage": lambda: coverage(seeds, options.overlap),
        "criteria": lambda: criteria(seeds, options.overlap),
        "blrt-size": lambda: blrt_size(seeds),
        "blrt-power": lambda: blrt_power(seeds),
        "relate": lambda: relate(seeds),
        "times": times,
        "items": items,
    }[options.part]()
    for line in lines:
        print(f"{options.part} {options.first}+{options.n}: {line}", flush=True)


if __name__ == "__main__":
    main()
