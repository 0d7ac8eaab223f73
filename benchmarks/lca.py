"""Numbers for a paper, measured: do intervals hold the truth, do tests keep their level?

    python -m benchmarks.lca coverage [--first 0] [--n 100] [--overlap]
    python -m benchmarks.lca criteria [--first 0] [--n 40] [--overlap]
    python -m benchmarks.lca blrt-size [--first 0] [--n 300]
    python -m benchmarks.lca blrt-power [--first 0] [--n 100]
    python -m benchmarks.lca blrt-power-stepmix [--first 0] [--n 100]
    python -m benchmarks.lca relate [--first 0] [--n 200]
    BITMIX_TABLES=folder python -m benchmarks.lca starts [--first 0] [--n 20]
    python -m benchmarks.lca times
    python -m benchmarks.lca items

Each simulated survey has the number of its seed, so runs of a part can be added up. StepMix is
asked as well where it is installed. Every result is one line of benchmarks/results/lca.csv: a
total, and the number of cases that it is the total of; `python -m benchmarks.lca report` adds up.
"""

import argparse
import contextlib
import io
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import bitmix
from benchmarks.results_file import ResultsFile
from bitmix import TemplateMixture
from bitmix.inference.matching import match
from bitmix.inference.ratio_test import ratio_test
from bitmix.models.mixture import Mixture

HEADER = ("part", "first", "n", "measure", "total", "of")
Result = tuple[str, float, int]
"""What was measured, the total, and the number of cases."""
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


def coverage(seeds: range, overlap: bool) -> Iterator[Result]:
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
        yield name, np.sum(values), np.size(values)
    yield "no intervals or no match", refused, len(seeds)


def criteria(seeds: range, overlap: bool) -> Iterator[Result]:
    """Which of 1 to 5 classes each criterion chooses where there are 3: 10 items, 500 people."""
    names = ("aic", "sabic", "bic", "caic", "icl")
    chosen: dict[str, list[int]] = {name: [] for name in names}
    for seed in seeds:
        X, _ = survey(500, seed, OVERLAP if overlap else CLEAR, SHARES)
        fits = [bitmix.fit_statistics(latent_classes(X, k), X) for k in range(1, 6)]
        for name in names:
            chosen[name].append(1 + int(np.argmin([getattr(fit, name) for fit in fits])))
    for name, numbers in chosen.items():
        for k in range(1, 6):
            yield f"{name} chooses {k}", numbers.count(k), len(numbers)


def blrt_size(seeds: range) -> Iterator[Result]:
    """How often 3 classes are preferred to 2 at the level of .05, if there are 2 (300 × 6).

    With 19 replicates, the test rejects if none of them is as large, so it may end at the first.
    """
    p, rejected = CLEAR[:2, 2:8], 0
    for seed in seeds:
        X, _ = survey(300, seed, p, np.array([0.6, 0.4]))
        rejected += _p_value(X, 3, seed) <= 0.05
    yield "rejected", rejected, len(seeds)


def blrt_power(seeds: range) -> Iterator[Result]:
    """How often 3 classes are preferred to 2 at the level of .05, if there are 3 (300 × 10)."""
    rejected = 0
    for seed in seeds:
        X, _ = survey(300, seed, OVERLAP, SHARES)
        rejected += _p_value(X, 3, seed) <= 0.05
    yield "rejected", rejected, len(seeds)


def blrt_power_stepmix(seeds: range) -> Iterator[Result]:
    """The same surveys, by StepMix, with as many replicates and one start."""
    from stepmix.bootstrap import blrt
    from stepmix.stepmix import StepMix

    options: dict[str, Any] = {"abs_tol": 1e-6, "random_state": 0, "verbose": 0, "progress_bar": 0}
    for seed in seeds:
        X, _ = survey(300, seed, OVERLAP, SHARES)
        pair = StepMix(2, **options), StepMix(3, **options)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            p_value = blrt(*pair, X, n_repetitions=19, random_state=seed)
        yield "rejected", int(p_value <= 0.05), 1


def _p_value(X: Any, k: int, seed: int) -> float:
    small = latent_classes(X, k - 1)
    rows, settings = small.rows_like_fit(X), small.settings_like_fit()
    return ratio_test(rows, small.mixture_, settings, n=19, seed=seed, enough=1).p_value


def relate(seeds: range, peer_replicates: int) -> Iterator[Result]:
    """Means of a normal outcome by class, -1, 0 and 1: six items of probabilities .8 and .2 as in
    Vermunt (2010), 1,000 people. Bias, and how often ± 1.96 standard errors hold the truth.
    """
    p = np.array([[0.8] * 6, [0.8] * 3 + [0.2] * 3, [0.2] * 6])
    means, shares = np.array([-1.0, 0.0, 1.0]), np.full(3, 1 / 3)
    truth = Mixture(p, shares, None)
    found: dict[str, list[Any]] = defaultdict(list)
    for seed in seeds:
        X, classes = survey(1000, seed, p, shares)
        y = np.random.default_rng(10_000 + seed).normal(means[classes])
        model = latent_classes(X, 3)
        order = match(truth, model.mixture_)
        if order is not None:
            for method in ("bch", "ml"):
                result = bitmix.relate(model, X, y, method=method)
                pair = result.estimates[order] - means, result.standard_errors[order]
                found[method].append(pair)
            labels = model.predict(X)
            plain = np.array([y[labels == i].mean() for i in order]) - means
            found["modal"].append((plain, np.zeros(3)))
        if (peer := _stepmix_bch(X, y, peer_replicates)) is not None:
            mixture, outcome, errors = peer
            order = match(truth, mixture)
            if order is not None:
                found["StepMix bch"].append((outcome[order] - means, errors[order]))
    for method, pairs in found.items():
        error, standard = (np.array(each) for each in zip(*pairs, strict=True))
        for t in range(3):
            yield f"{method} error of class {t}", error[:, t].sum(), len(error)
        yield f"{method} squared error", (error**2).sum(), error.size
        if standard.any():
            yield f"{method} held", int((np.abs(error) <= 1.96 * standard).sum()), error.size


def _stepmix_bch(X: Any, y: Any, n_replicates: int) -> Any:
    """The mixture, outcome means and standard errors of StepMix, which come from its bootstrap (0
    without one); None if it is not installed."""
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
    p = np.asarray(parameters["measurement"]["pis"]).reshape(3, -1)
    outcome = np.asarray(parameters["structural"]["means"])[:, 0]
    errors = np.zeros(3)
    if n_replicates:
        model.set_params(n_init=1)
        with contextlib.redirect_stdout(io.StringIO()):
            samples, _ = model.bootstrap(
                X, y[:, None], n_repetitions=n_replicates, progress_bar=False, random_state=0
            )
        of_means = samples.xs("structural").xs("means", level="param")
        errors = of_means.groupby("class_no")["value"].std().to_numpy()
    return Mixture(p, model.weights_, None), outcome, errors


BEST = {
    ("carcinoma", 4): -289.286, ("carcinoma", 5): -286.884, ("gss82", 3): -2754.545,
    ("gss82", 4): -2746.621, ("election", 3): -16714.66, ("election", 4): -16350.589,
    ("election", 5): -16047.828,
}  # fmt: skip
"""The highest ln L that is known: published, or the best of some hundred starts."""


def starts(seeds: range) -> Iterator[Result]:
    """How many seeds reach the best ln L within .01, beside a plain EM: five starts from random
    memberships, each to its end."""
    for (name, k), best in BEST.items():
        X, groups = survey_table(name)
        options: dict[str, Any] = {"noise_model": "cell", "prior": 0}
        ours, plain = 0, 0
        for seed in seeds:
            model = TemplateMixture(k, random_state=seed, **options)
            ours += model.fit(X, items=groups).history_[-1].log_likelihood > best - 0.01
            ends = []
            for start in range(5):
                memberships = np.random.default_rng([seed, start]).dirichlet(np.ones(k), len(X))
                model = TemplateMixture(k, init=memberships, **options).fit(X, items=groups)
                ends.append(model.history_[-1].log_likelihood)
            plain += max(ends) > best - 0.01
        yield f"{name} k={k}, default", ours, len(seeds)
        yield f"{name} k={k}, 5 starts of plain EM", plain, len(seeds)


def survey_table(name: str) -> tuple[Any, list[list[int]]]:
    """Complete rows of a table of poLCA: a column per value, and the columns of each item."""
    import pandas as pd

    table = pd.read_csv(Path(os.environ["BITMIX_TABLES"]) / "lca" / f"{name}.csv", index_col=0)
    table = table.iloc[:, :12].dropna()
    answers = [pd.get_dummies(table[column]).to_numpy(dtype=np.uint8) for column in table]
    ends = np.cumsum([part.shape[1] for part in answers]).tolist()
    groups = [list(range(a, b)) for a, b in zip([0, *ends], ends, strict=False)]
    return np.hstack(answers), groups


def times() -> Iterator[Result]:
    """Seconds of a bootstrap and of the BLRT for k = 2 … 6, beside StepMix."""
    p = np.where(np.random.default_rng(0).random((4, 20)) < 0.5, 0.85, 0.15)
    X, _ = survey(2000, 0, p[:3, :12], SHARES)
    Y, _ = survey(1000, 1, p, np.full(4, 0.25))
    model = latent_classes(X, 3)
    yield "bootstrap of 200, 2,000 × 12, k = 3", _seconds(lambda: bitmix.bootstrap(model, X)), 1
    total = 0.0
    for k in range(2, 7):
        total += _seconds(lambda k=k: bitmix.blrt(Y, k))  # type: ignore[misc]
    yield "BLRT of 99, 1,000 × 20, k = 2 … 6", total, 1
    try:
        from stepmix.bootstrap import blrt
        from stepmix.stepmix import StepMix
    except ModuleNotFoundError:
        return
    options: dict[str, Any] = {"verbose": 0, "progress_bar": 0, "random_state": 0}
    peer = StepMix(3, measurement="binary", **options).fit(X)
    seconds = _seconds(lambda: peer.bootstrap(X, n_repetitions=20, progress_bar=False))
    yield "StepMix, bootstrap of 200, from 20", 10 * seconds, 1
    total = 0.0
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        for k in range(2, 7):
            pair = StepMix(k - 1, **options), StepMix(k, **options)
            total += _seconds(
                lambda pair=pair: blrt(*pair, Y, n_repetitions=5)  # type: ignore[misc]
            )
    yield "StepMix, BLRT of 99, from 5, n_init=1", 99 / 5 * total, 1


def items() -> Iterator[Result]:
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
        yield name, _seconds(lambda model=model: model.fit(X, items=groups)), 1  # type: ignore[misc]
        yield f"{name}: ln L", model.history_[-1].log_likelihood, 1
    try:
        from stepmix.stepmix import StepMix
    except ModuleNotFoundError:
        return
    peer = StepMix(k, measurement="categorical", random_state=0, verbose=0, progress_bar=0)
    yield "StepMix", _seconds(lambda: peer.fit(answers)), 1
    yield "StepMix: ln L", m * peer.score(answers), 1


def _seconds(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def report(results: ResultsFile) -> None:
    """Print each measure of all runs together."""
    sums: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0])
    for row in results.rows():
        pair = sums[row["part"], row["measure"]]
        pair[0] += float(row["total"])
        pair[1] += int(row["of"])
    for (part, measure), (total, of) in sums.items():
        print(f"{part}: {measure}: {total:.10g} of {of}, {total / of:.4f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parts = (
        "coverage", "criteria", "blrt-size", "blrt-power", "blrt-power-stepmix", "relate", "starts",
        "times",
        "items", "report",
    )  # fmt: skip
    parser.add_argument("part", choices=parts)
    parser.add_argument("--first", type=int, default=0, help="seed of the first survey")
    parser.add_argument("--n", type=int, default=100, help="number of surveys")
    parser.add_argument("--overlap", action="store_true", help="classes that overlap")
    parser.add_argument("--peer-replicates", type=int, default=0, help="of StepMix, for relate")
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results/lca.csv"))
    options = parser.parse_args()
    results = ResultsFile(options.results, HEADER)
    if options.part == "report":
        report(results)
        return
    seeds = range(options.first, options.first + options.n)
    found = {
        "coverage": lambda: coverage(seeds, options.overlap),
        "criteria": lambda: criteria(seeds, options.overlap),
        "blrt-size": lambda: blrt_size(seeds),
        "blrt-power": lambda: blrt_power(seeds),
        "blrt-power-stepmix": lambda: blrt_power_stepmix(seeds),
        "relate": lambda: relate(seeds, options.peer_replicates),
        "starts": lambda: starts(seeds),
        "times": times,
        "items": items,
    }[options.part]()
    part = f"{options.part}, overlap" if options.overlap else options.part
    for measure, total, of in found:
        print(f"{part} {options.first}+{options.n}: {measure}: {total:.10g} of {of}", flush=True)
        results.append(part, options.first, options.n, measure, f"{total:.10g}", of)


if __name__ == "__main__":
    main()
