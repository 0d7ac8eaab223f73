"""Real tables of bits: TemplateMixture(noise_model="cell") beside what people use. Prints tables.

scikit-learn's digits (values above half range are 1) and, if a path to it is given, semeion.
StepMix and k-modes take part where they are installed (pip install stepmix kmodes).
``--results benchmarks/results/tables.csv`` writes the numbers that README and documentation repeat.
"""

import argparse
import csv
import importlib.util
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits

from bitmix import TemplateMixture
from bitmix.metrics import conditional_entropy, conditional_purity

Bits = NDArray[np.uint8]
Found = tuple[NDArray[Any], float]
"""Labels, and the mean log-likelihood of a row (NaN where the method has none)."""
HEADER = ("table", "method", "purity", "entropy", "log_likelihood_per_row", "seconds")


def ours(X: Bits, k: int, seed: int) -> Found:
    model = TemplateMixture(k, noise_model="cell", random_state=seed).fit(X)
    return model.predict(X), model.score(X)


def k_means(X: Bits, k: int, seed: int) -> Found:
    return KMeans(k, n_init=10, random_state=seed).fit_predict(X.astype(np.float64)), np.nan


def step_mix(X: Bits, k: int, seed: int) -> Found:
    from stepmix.stepmix import StepMix

    model = StepMix(
        k, measurement="binary", n_init=10, random_state=seed, verbose=0, progress_bar=0
    )
    model.fit(X)
    return model.predict(X), float(model.score(X))


def k_modes(X: Bits, k: int, seed: int) -> Found:
    from kmodes.kmodes import KModes

    return KModes(k, n_init=10, random_state=seed).fit_predict(X), np.nan


def compare(name: str, X: Bits, y: NDArray[Any], seeds: int) -> list[tuple[str, ...]]:
    """Print the means over the seeds of every method that is installed; one tuple per method."""
    methods: dict[str, Callable[[Bits, int, int], Found]] = {
        'TemplateMixture(10, noise_model="cell")': ours, "KMeans(10, n_init=10)": k_means,
    }  # fmt: skip
    if importlib.util.find_spec("stepmix"):
        methods["StepMix(10, n_init=10)"] = step_mix
    if importlib.util.find_spec("kmodes"):
        methods["KModes(10, n_init=10)"] = k_modes
    print(f"\n{name}: {X.shape[0]} × {X.shape[1]}, k = 10, mean of seeds 0-{seeds - 1}")
    print(f"{'':<40}{'purity':>8}{'entropy':>9}{'ln L per row':>14}{'seconds':>9}")
    results: list[tuple[str, ...]] = []
    ours(X, 10, 0)  # warm
    for label, method in methods.items():
        rows = []
        for seed in range(seeds):
            start = time.perf_counter()
            found, likelihood = method(X, 10, seed)
            seconds = time.perf_counter() - start
            scores = (conditional_purity(y, found), conditional_entropy(y, found))
            rows.append((*scores, likelihood, seconds))
        purity, entropy, likelihood, seconds = np.mean(rows, axis=0)
        print(
            f"{label:<40}{purity:>8.4f}{entropy:>9.4f}{likelihood:>14.4f}{seconds:>9.2f}",
            flush=True,
        )
        given = "" if np.isnan(likelihood) else f"{likelihood:.6g}"
        results.append((name, label, f"{purity:.4f}", f"{entropy:.4f}", given, f"{seconds:.2f}"))
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("semeion", type=Path, nargs="?", help="semeion.data")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--results", type=Path, help="write the numbers to this CSV file, too")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    digits = load_digits()
    results = compare("digits", (digits.data > 8).astype(np.uint8), digits.target, args.seeds)
    if args.semeion:
        table = np.loadtxt(args.semeion)
        bits, labels = table[:, :256].astype(np.uint8), table[:, 256:].argmax(axis=1)
        results += compare("semeion", bits, labels, args.seeds)
    if args.results is not None:
        with args.results.open("w", newline="") as file:
            csv.writer(file).writerows([HEADER, *results])


if __name__ == "__main__":
    main()
